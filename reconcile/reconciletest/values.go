package reconciletest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/reconcile"
)

// testValues checks the values that the view of a source yields for a repair:
// all rows, and those of one key.
func testValues(t *testing.T, open Open, rows []Row) {
	p := Pipeline(t)
	table := Table(t, p, Typed)
	view, err := open(t, p, Tables{Typed: rows}).Open(t.Context(), table, false)
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close() //nolint:errcheck // it only read
	values, ok := view.(reconcile.ValueView)
	if !ok {
		return // of a lake nobody wants them
	}
	one, err := reconcile.NewKeys(table, [][]string{{"0"}, {"77"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		part reconcile.Part
		want []Row
	}{
		"all":     {reconcile.Part{Buckets: 1}, rows},
		"one key": {reconcile.Part{Buckets: 1, Keys: one}, []Row{rows[2]}},
	} {
		var got []Row
		for texts, err := range values.Values(t.Context(), test.part) {
			if err != nil {
				t.Fatal(err)
			}
			row := make(Row, len(texts))
			for i, text := range texts {
				row[i] = Value{Text: string(text), Null: text == nil}
			}
			got = append(got, row)
		}
		byKey := func(rows []Row) []Row {
			return slices.SortedFunc(slices.Values(rows), func(a, b Row) int { return slices.Compare([]byte(a[0].Text), []byte(b[0].Text)) })
		}
		if diff := cmp.Diff(byKey(test.want), byKey(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
