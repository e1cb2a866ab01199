package merge_test

import (
	"slices"
	"strings"
	"testing"

	icecatalog "github.com/apache/iceberg-go/catalog"

	"icehose/catalog"
	"icehose/sink/iceberg"
	"icehose/sink/merge/mergetest"
)

// Rows that come again, and files that compaction wrote, change nothing: no file
// is written. What compaction took in before it was merged is read.
func TestNothingChanges(t *testing.T) {
	t.Parallel()
	def := pipeline(t, strings.Replace(mergetest.Pipeline, "    partition: [day(cdc_committed_at)]\n", "", 1)).ByTarget("d", "plain")
	store := open(t, t.TempDir())
	var log [][][]byte
	for _, trap := range mergetest.Traps() {
		for _, step := range trap.Steps {
			for _, row := range step.Rows {
				log = append(log, row.Lake())
			}
		}
	}
	half := len(log) / 2
	for _, row := range log[:half] {
		appendRows(t, store, def, row)
	}
	run(t, store, def)
	before := files(t, store, def.Current())
	appendRows(t, store, def, log[:half]...)
	if result := run(t, store, def); result.Read != int64(half) || result.Changed+result.Deleted != 0 || !slices.Equal(before, files(t, store, def.Current())) {
		t.Errorf("rows that come again: %+v, want %d read and no file", result, half)
	}
	compact(t, store, def)
	if result := run(t, store, def); result.Read != 0 || !slices.Equal(before, files(t, store, def.Current())) {
		t.Errorf("after a compaction: %+v, want nothing read and no file", result)
	}
	for _, row := range log[half:] {
		appendRows(t, store, def, row)
	}
	compact(t, store, def)
	if result := run(t, store, def); result.Read < int64(len(log)-half) {
		t.Errorf("after a compaction of new files: %+v, want their rows read", result)
	}
	want, err := mergetest.Fold(def, log)
	if err != nil {
		t.Fatal(err)
	}
	if diff := mergetest.Diff(want, current(t, store, def), true, names(def)); diff != "" {
		t.Error(diff)
	}
}

// files are the data files of a table's newest snapshot, and their delete files.
func files(t testing.TB, store *iceberg.Store, def *catalog.Table) []string {
	t.Helper()
	table, err := store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier(def.Database(), def.Name()))
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := table.Scan().PlanFiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, task := range tasks {
		paths = append(paths, task.File.FilePath())
		for _, d := range slices.Concat(task.DeleteFiles, task.EqualityDeleteFiles) {
			paths = append(paths, d.FilePath())
		}
	}
	slices.Sort(paths)
	return paths
}

// compact rewrites the files of a table, which must change them.
func compact(t testing.TB, store *iceberg.Store, def *catalog.Table) {
	t.Helper()
	before := newest(t, store, def)
	if _, err := store.Maintain(t.Context(), def, iceberg.Maintenance{MinFiles: 2, SkipExpire: true}); err != nil {
		t.Fatal(err)
	}
	if newest(t, store, def) == before {
		t.Fatal("nothing was compacted")
	}
}
