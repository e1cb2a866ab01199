package redrive_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/transform"
	"icehose/transform/redrive"
)

// A key is found under the name that the transform takes it from, in whatever
// order a record has a column of nearly the same name.
func TestKeyOfTwoSpellings(t *testing.T) {
	t.Parallel()
	p, err := catalog.Parse("pipeline.yaml", []byte(`version: 1
database: shop
source: {engine: postgresql, position: postgres}
tables:
  - source: public.t
    mode: mirror
    key: [id]
    columns:
      - {name: id_b, source: id, type: int}
      - {name: id, type: int}
`))
	if err != nil {
		t.Fatal(err)
	}
	tr, err := transform.New(p, transform.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{`{"ID":1,"id":2}`, `{"id":2,"ID":1}`} {
		item := redrive.NewPlanner(p, tr).Decide(redrive.Failure{Kind: redrive.ProcessingFailed, Raw: []byte(original("update", "public", "t", data))})
		want := []redrive.Key{{Table: "public.t", Columns: []string{"id"}, Key: []string{"1"}}}
		if diff := cmp.Diff(want, item.Keys); diff != "" || item.Action != redrive.Reconcile {
			t.Errorf("%s: %s, keys (-want +got):\n%s", data, item.Action, diff)
		}
	}
}
