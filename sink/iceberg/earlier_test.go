package iceberg_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/internal/canon/canonarrow"
	"icehose/sink"
)

// An earlier snapshot is read with the columns that the table has now, however
// many commits lie between: what it had not yet is null, and a column that was
// renamed since has its present name.
func TestScanEarlierWithPresentColumns(t *testing.T) {
	t.Parallel()
	store := openUnsynced(t, t.TempDir())
	defer closeStore(t, store)
	before, after := evolving(t, "spark", "long", columnsBefore), evolving(t, "spark", "long", columnsAfter)
	commitRow(t, store, before, "", "one", nil, []string{"1", "7", "1.5", "8.25", "x", "p", "NULL"})
	snapshot, _, err := store.Snapshot(t.Context(), before)
	if err != nil {
		t.Fatal(err)
	}
	columns, _ := after.LakeColumns()
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	for n := range 3 {
		var got []string
		reader := canonarrow.NewRowReader(columns)
		for batch, err := range store.Scan(t.Context(), after, snapshot, names) {
			if err != nil {
				t.Fatalf("%d commits later: %v", n, err)
			}
			for row, err := range reader.Rows(batch) {
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range row {
					if v == nil {
						v = []byte("NULL")
					}
					got = append(got, string(v))
				}
			}
		}
		if diff := cmp.Diff([]string{"1", "NULL", "7", "1.5", "8.25", "x", "p", "NULL"}, got); diff != "" {
			t.Errorf("%d commits later (-want +got):\n%s", n, diff)
		}
		parent := []string{"one", "later0", "later1"}[n]
		if n == 1 { // the columns alone have changed
			opened, err := store.OpenTable(t.Context(), after)
			if err != nil {
				t.Fatal(err)
			}
			id := fmt.Sprint("later", n)
			if err := opened.Commit(t.Context(), &sink.Batch{Parent: parent, ID: id, Properties: map[string]string{sink.PropertyCommit: id}}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		commitRow(t, store, after, parent, fmt.Sprint("later", n), nil, []string{fmt.Sprint(n + 2), "new", "9", "2.5", "9.25", "z", "q", "NULL"})
	}
}
