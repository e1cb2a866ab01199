package iceberg_test

import (
	"path/filepath"
	"strings"
	"testing"

	iceberglib "github.com/apache/iceberg-go"

	"icehose/sink"
	"icehose/sink/iceberg"
)

// openFirst opens a table in which the batch "first" is committed.
func openFirst(t *testing.T) (dir string, r *recorder, store *iceberg.Store, opened sink.Table) {
	t.Helper()
	dir, r = t.TempDir(), &recorder{}
	store = openRecorded(t, dir, r)
	opened = openTable(t, store)
	if err := opened.Commit(t.Context(), batchOf("", "first")); err != nil {
		t.Fatal(err)
	}
	return dir, r, store, opened
}

// stage writes the files of a batch ahead and returns them.
func stage(t *testing.T, dir string, opened sink.Table, b *sink.Batch) (written []string) {
	t.Helper()
	before := parquets(t, dir)
	stager, ok := opened.(sink.Stager)
	if !ok {
		t.Fatal("the table cannot write ahead")
	}
	// Only the rows and the id are known by then.
	if err := stager.Stage(t.Context(), &sink.Batch{ID: b.ID, Inserts: b.Inserts, Deletes: b.Deletes}); err != nil {
		t.Fatal(err)
	}
	for name := range parquets(t, dir) {
		if !before[name] {
			written = append(written, name)
		}
	}
	return written
}

func parquets(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, name := range listing(t, dir) {
		if filepath.Ext(name) == ".parquet" {
			names[name] = true
		}
	}
	return names
}

// named returns how many of the files the catalog names.
func named(t *testing.T, dir string, files []string) (n int) {
	t.Helper()
	all := strings.Join(committed(t, dir), "\n") + "\n"
	for _, name := range files {
		if strings.Contains(all, name+"\n") {
			n++
		}
	}
	return n
}

// A commit names the files that were written for it ahead, and writes no others,
// also when those of the next one were written before it began.
func TestCommitTakesFilesWrittenAhead(t *testing.T) {
	t.Parallel()
	dir, _, store, opened := openFirst(t)
	second := batchOf("first", "second")
	files := stage(t, dir, opened, second)
	if len(files) != 2 || named(t, dir, files) != 0 {
		t.Fatalf("written ahead: %v, %d of them named", files, named(t, dir, files))
	}
	third := batchOf("second", "third")
	next := stage(t, dir, opened, third)
	before := len(parquets(t, dir))
	for _, b := range []*sink.Batch{second, third} {
		if err := opened.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if named(t, dir, files) != 2 || len(parquets(t, dir)) != before {
			t.Errorf("%d of %v are named, %d files before the commit and %d after it", named(t, dir, files), files, before, len(parquets(t, dir)))
		}
		if got := values(t, store, item(t), 0); len(got) != 1 || got[0] != b.ID {
			t.Errorf("rows: %v, want %s", got, b.ID)
		}
		files = next
	}
}

// Files written ahead that could not be forced to the disk are not named: the
// next attempt has others.
func TestFilesWrittenAheadNeedTheDisk(t *testing.T) {
	t.Parallel()
	dir, r, store, opened := openFirst(t)
	r.setRefuse(".parquet")
	second := batchOf("first", "second")
	files := stage(t, dir, opened, second)
	if err := opened.Commit(t.Context(), second); err == nil {
		t.Error("a commit succeeded that names files which are not on the disk")
	}
	r.setRefuse("")
	if err := opened.Commit(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if n := named(t, dir, files); n != 0 {
		t.Errorf("%d files are named that could not be forced", n)
	}
	if got := values(t, store, item(t), 0); len(got) != 1 || got[0] != "second" {
		t.Errorf("rows: %v", got)
	}
}

// Files written ahead of a commit that never comes are in the way of no other,
// and those of other columns than the table has by then are written anew.
func TestFilesWrittenAheadInVain(t *testing.T) {
	t.Parallel()
	dir, _, store, opened := openFirst(t)
	vain := stage(t, dir, opened, batchOf("first", "never"))
	if err := opened.Commit(t.Context(), batchOf("first", "second")); err != nil {
		t.Fatal(err)
	}
	if n := named(t, dir, vain); n != 0 {
		t.Errorf("%d files of a batch that was not committed are named", n)
	}
	third := batchOf("second", "third")
	old := stage(t, dir, opened, third)
	current := loadTable(t, store, item(t))
	tx := current.NewTransaction()
	if err := tx.UpdateSchema(true, false).AddColumn([]string{"more"}, iceberglib.PrimitiveTypes.String, "", false, nil).Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := opened.Commit(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	if n := named(t, dir, old); n != 0 {
		t.Errorf("%d files of other columns are named", n)
	}
	if got := values(t, store, item(t), 0); len(got) != 1 || got[0] != "third" {
		t.Errorf("rows: %v", got)
	}
}
