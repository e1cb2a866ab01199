package dmslint_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/dmslint"
)

// An endpoint that leaves nulls out is told of whatever the pipeline file says,
// above all when it says nothing: omitted is its default.
func TestNulls(t *testing.T) {
	const (
		on      = `{"EndpointType": "target", "EngineName": "kinesis", "KinesisSettings": {"IncludeNullAndEmpty": true}}`
		off     = `{"EndpointType": "target", "EngineName": "kinesis", "KinesisSettings": {"IncludeNullAndEmpty": false}}`
		missing = `{"EndpointType": "target", "EngineName": "kinesis", "KinesisSettings": {}}`
	)
	file := func(source, table string) *catalog.Pipeline {
		p, err := catalog.Parse("p.yaml", []byte("version: 1\ndatabase: d\nsource: {engine: postgresql, position: postgres"+source+"}\n"+
			"tables:\n  - {source: s.one, mode: changelog, columns: [{name: id, type: long}]}\n"+
			"  - {source: s.two, mode: changelog"+table+", columns: [{name: id, type: long}]}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const omitted, differ, lost = "nulls-omitted risk", "nulls-differ wrong", "nulls-differ risk"
	tests := []struct {
		name     string
		p        *catalog.Pipeline
		endpoint string
		want     []string
	}{
		{"no file, off", nil, off, []string{omitted}},
		{"no file, on", nil, on, nil},
		{"nothing said, off", file("", ""), off, []string{omitted}},
		{"nothing said, not set", file("", ""), missing, []string{omitted}},
		{"nothing said, on", file("", ""), on, []string{lost}},
		{"omitted, off", file(", nulls: omitted", ""), off, []string{omitted}},
		{"included, off", file(", nulls: included", ""), off, []string{differ}},
		{"included, on", file(", nulls: included", ""), on, nil},
		{"one table omitted, off", file(", nulls: included", ", nulls: omitted"), off, []string{differ, omitted}},
		{"one table omitted, on", file(", nulls: included", ", nulls: omitted"), on, []string{lost}},
		{"one table included, off", file("", ", nulls: included"), off, []string{differ, omitted}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, f := range lint(t, dmslint.Options{Pipeline: test.p}, test.endpoint) {
				if f.ID == "nulls-omitted" || f.ID == "nulls-differ" {
					got = append(got, f.ID+" "+string(f.Severity))
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
