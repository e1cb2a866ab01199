package merge_test

import (
	"testing"

	icecatalog "github.com/apache/iceberg-go/catalog"

	"icehose/sink/merge"
	"icehose/sink/merge/mergetest"
)

// What Athena would read follows from the sizes of columns in the files' metadata.
func TestAthenaScan(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	store := open(t, t.TempDir())
	tables := store.Tables().Tables
	scan := func() int64 {
		t.Helper()
		n, err := merge.AthenaScan(t.Context(), tables, def)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	rows := mergetest.Traps()[0].Steps[0].Rows
	appendRows(t, store, def, rows[0].Lake())
	// Of a first merge everything is new: per file and column as often as the
	// statements name it. Of the current table there is none.
	log, err := tables.LoadTable(t.Context(), icecatalog.ToIdentifier("d", "plain"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := log.Scan().PlanFiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want int64
	for name, times := range map[string]int64{"id": 4 + 1 + 2 + 2, "v": 1, "cdc_position": 1 + 1 + 2 + 2, "cdc_committed_at": 1 + 1, "cdc_operation": 4 + 1 + 2 + 2, "cdc_old_key": 4 + 2} {
		field, _ := log.Schema().FindFieldByName(name)
		size := files[0].File.ColumnSizes()[field.ID]
		if size == 0 {
			t.Fatalf("column %s has no size", name)
		}
		want += times * size
	}
	first := scan()
	if first != want {
		t.Errorf("first merge: %d bytes, want %d", first, want)
	}
	run(t, store, def)
	if n := scan(); n != 0 {
		t.Errorf("nothing is new: %d bytes, want 0", n)
	}
	appendRows(t, store, def, rows[1].Lake())
	// If the names of new files do not fit, the columns of every file are read.
	fits, err := merge.AthenaScanOf(t.Context(), store, def, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	every, err := merge.AthenaScanOf(t.Context(), store, def, 1)
	if err != nil {
		t.Fatal(err)
	}
	var old int64 // the columns that are read of new rows, of the file that is not new
	for name, times := range map[string]int64{"id": 4, "cdc_position": 1, "cdc_committed_at": 1, "cdc_operation": 4, "cdc_old_key": 4} {
		field, _ := log.Schema().FindFieldByName(name)
		old += times * files[0].File.ColumnSizes()[field.ID]
	}
	if fits != scan() || every != fits+old {
		t.Errorf("%d bytes where names fit, %d where not; want %d and %d", fits, every, scan(), fits+old)
	}
	if n := scan(); n <= first {
		t.Errorf("second merge: %d bytes, want more than %d, since the changelog has grown and the current table is read", n, first)
	}
}
