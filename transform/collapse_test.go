package transform_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/transform"
)

// A sizedRoom has room for rows by their length.
type sizedRoom struct{ limit int }

func (r sizedRoom) Limit() int                        { return r.limit }
func (r sizedRoom) Echo(int) int                      { return 10 }
func (r sizedRoom) Row(_ int, row *transform.Row) int { return len(row.Data) }

// A newer change that does not fit leaves the older one where it was.
func TestCollapseLeavesWhatFits(t *testing.T) {
	long := fmt.Sprintf(`{"id":7,"note":%q,"total":1}`, strings.Repeat("n", 500))
	batch := records(change("update", "orders", row, 1), change("update", "orders", long, 2))
	var got []string
	for _, r := range newTransformer(t, pipelineText, transform.Options{}).BatchWithin(batch, sizedRoom{limit: 400}) {
		got = append(got, summary(&r))
	}
	if diff := cmp.Diff([]string{"Ok - - update", "ProcessingFailed response_too_large - -"}, got); diff != "" {
		t.Errorf("outcomes differ (-want +got):\n%s", diff)
	}
}

// Of so many keys that some share a bucket, each has its newest row alone.
func TestCollapseOfManyKeys(t *testing.T) {
	const keys, versions = 1500, 3
	var texts []string
	for version := range versions {
		for key := range keys {
			texts = append(texts, change("update", "orders", fmt.Sprintf(`{"id":%d,"note":"n","total":1}`, key), version*keys+key+1))
		}
	}
	for i, r := range newTransformer(t, pipelineText, transform.Options{}).Batch(records(texts...)) {
		want := "Dropped superseded - -"
		if i >= keys*(versions-1) {
			want = "Ok - - update"
		}
		if got := summary(&r); got != want {
			t.Fatalf("version %d of key %d: got %s, want %s", i/keys, i%keys, got, want)
		}
	}
}

const compositeText = `version: 1
database: shop
source: {engine: postgresql, position: postgres, nulls: included, unchanged: absent}
tables:
  - source: public.lines
    mode: mirror
    key: [a, b]
    columns: [{name: a, type: string}, {name: b, type: string}]
  - source: public.notes
    mode: changelog
    columns:
      - {name: a, type: string, may_be_unchanged: true}
      - {name: b, type: string, may_be_unchanged: true}
`

// Keys whose parts read the same one after another are different keys,
// whatever stands in the parts.
func TestCollapseTellsCompositeKeysApart(t *testing.T) {
	tests := []struct{ name, first, second string }{
		{"the border moves", `{"a":"1","b":"11"}`, `{"a":"11","b":"1"}`},
		{"a part is empty", `{"a":"","b":"1"}`, `{"a":"1","b":""}`},
		{"parts look like borders", `{"a":"x0:","b":"y"}`, `{"a":"x","b":"0:y"}`},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			batch := records(change("update", "lines", c.first, 1), change("update", "lines", c.second, 2))
			for i, r := range newTransformer(t, compositeText, transform.Options{}).Batch(batch) {
				if got, want := summary(&r), "Ok - - update"; got != want {
					t.Errorf("record %d: got %s, want %s", i, got, want)
				}
			}
		})
	}
}

// cdc_absent lists names with a comma between them.
func TestAbsentColumnsAreAList(t *testing.T) {
	r := newTransformer(t, compositeText, transform.Options{}).Batch(records(change("update", "notes", `{}`, 1)))[0]
	if want := `"cdc_absent":"a,b"}`; !strings.HasSuffix(string(r.Row.Data), want) {
		t.Errorf("row %s (%s) does not end in %s", r.Row.Data, r.Reason, want)
	}
}
