package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/transform"
)

// described is a table of the given columns, each {name: ...}.
func described(t *testing.T, columns ...string) *catalog.Pipeline {
	t.Helper()
	text := "version: 1\ndatabase: shop\nsource: {engine: postgresql, position: none, nulls: omitted}\n" +
		"tables:\n  - source: public.t\n    mode: changelog\n    columns:\n"
	for _, c := range columns {
		text += "      - {" + c + ", type: int}\n"
	}
	p, err := catalog.Parse("pipeline.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlaceColumns(t *testing.T) {
	t.Parallel()
	const twoSpellings = "column id: the source has it in two spellings: a source: in the pipeline file says which"
	spelled := []string{"name: id", "name: name, source: Name", "name: other, source: ID"}
	taken := []string{"name: name_b, source: name", "name: name"}
	left := []string{"name: old, source: name, exclude: true", "name: name", "name: gone, exclude: true"}
	for _, test := range []struct {
		columns, names []string
		want           []int
		err            string
	}{
		{columns: spelled, names: []string{"more", "Name", "id", "ID"}, want: []int{2, 1, 3}},
		{columns: spelled, names: []string{"Name", "Id", "ID"}, want: []int{1, 0, 2}},
		{columns: spelled, names: []string{"name", "id", "ID"}, err: "the source has no column name"},
		{columns: spelled, names: []string{"Name", "ID"}, err: "the source has no column id"},
		{columns: spelled, names: []string{"Name", "id", "Id", "ID"}, err: twoSpellings},
		{columns: spelled, names: []string{"id", "Name", "ID", "Name"}, err: "column name: the source has it twice"},
		{columns: taken, names: []string{"Name", "name"}, want: []int{1, 0}},
		{columns: taken, names: []string{"name", "NAME"}, want: []int{0, 1}},
		{columns: taken, names: []string{"name"}, err: "the source has no column name"},
		{columns: left, names: []string{"name", "Name"}, want: []int{1}},
		{columns: left, names: []string{"Gone", "gone", "NAME"}, want: []int{2}},
	} {
		got, err := described(t, test.columns...).Tables[0].PlaceColumns(test.names)
		if fmt.Sprint(err) != test.err && (err != nil || test.err != "") || !cmp.Equal(got, test.want) {
			t.Errorf("%q in %q: got %v, %v, want %v, %q", test.columns, test.names, got, err, test.want, test.err)
		}
	}
}

// A name is for the column in which the transform puts the value of a record's
// field of that name.
func TestSourceNamesAreTheTransforms(t *testing.T) {
	t.Parallel()
	names := []string{"name", "Name", "NAME", "nAmE", "name_b", "Name_B", "na", "\u212a", "k", "K", "É", "é", "İd", "id"}
	for _, columns := range [][]string{
		{"name: name"},
		{"name: name_b, source: name", "name: name"},
		{"name: name, source: NAME", "name: name_b, source: Name", "name: k"},
		{"name: name_b, source: name, exclude: true", "name: name"},
		{"name: name, exclude: true", "name: name_b, source: nAmE"},
		{"name: k", "name: e, source: É", "name: kelvin, source: \"\u212a\""},
		{"name: k", "name: id"},
	} {
		p := described(t, columns...)
		transformer, err := transform.New(p, transform.Options{})
		if err != nil {
			t.Fatal(err)
		}
		source := p.Tables[0].SourceNames()
		for _, name := range names {
			data := fmt.Sprintf(`{"data":{%q:7},"metadata":{"timestamp":"2026-01-02T03:04:05.000000Z","record-type":"data","operation":"insert",`+
				`"schema-name":"public","table-name":"t"}}`, name)
			result := transformer.Batch([]transform.Record{{ID: "1", Data: []byte(data)}})[0]
			if result.Outcome != transform.Ok {
				t.Fatalf("%q: %+v", name, result)
			}
			want := -1
			for i, c := range p.Tables[0].Columns {
				if strings.Contains(string(result.Row.Data), fmt.Sprintf(`%q:7`, c.Name)) {
					want = i
				}
			}
			got := source.Find(name)
			if got >= 0 && p.Tables[0].Columns[got].Exclude {
				got = -1 // the row does not tell this from a column that is not in the file
			}
			if got != want {
				t.Errorf("%q: a field %q is column %d's, want %d's: %s", columns, name, got, want, result.Row.Data)
			}
		}
	}
}
