package merge_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	lake "icehose/catalog/iceberg"
	"icehose/sink/iceberg"
	"icehose/sink/merge"
	"icehose/sink/merge/mergetest"
)

// An untagged is a lake whose catalog refuses some tags.
type untagged struct {
	*iceberg.Store
	refuse int
	rival  func() // comes before a tag, once
}

type untaggedTables struct {
	lake.Tables
	store *untagged
}

func (u *untagged) Tables() *lake.Lake {
	l := *u.Store.Tables()
	l.Tables = &untaggedTables{l.Tables, u}
	return &l
}

func (u *untaggedTables) CommitTable(ctx context.Context, id table.Identifier, requirements []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	if rival := u.store.rival; rival != nil {
		u.store.rival = nil
		rival()
	}
	if u.store.refuse > 0 {
		u.store.refuse--
		return nil, "", errors.New("somebody else was first")
	}
	tables, ok := u.Tables.(icecatalog.Catalog)
	if !ok {
		return nil, "", fmt.Errorf("%T takes no changes of metadata", u.Tables)
	}
	return tables.CommitTable(ctx, id, requirements, updates)
}

// That the tag cannot be set is tried again, and no reason to say that the merge
// failed.
func TestTagFails(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	for refuse, warnings := range map[int]int{2: 0, 9: 1} {
		store := &untagged{Store: open(t, t.TempDir()), refuse: refuse}
		appendRows(t, store.Store, def, mergetest.Traps()[0].Steps[0].Rows[0].Lake())
		result, err := merge.Local(t.Context(), store, def, merge.Options{})
		if err != nil || result.Changed != 1 || len(result.Warnings) != warnings {
			t.Errorf("%d refused: %+v, %v; want a row changed and %d warnings", refuse, result, err, warnings)
		}
		log, err := store.Store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier("d", "plain"))
		if err != nil {
			t.Fatal(err)
		}
		if tagged := log.SnapshotByName(merge.Tag) != nil; tagged != (warnings == 0) {
			t.Errorf("%d refused: tagged %t", refuse, tagged)
		}
	}
}

// A tag that could not be set is set by the next run, though nothing is new: else
// expiry would spare what the tag names still, such as rows that were erased.
func TestTagIsSetLater(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	for _, engine := range []string{"local", "athena"} {
		store := &untagged{Store: open(t, t.TempDir())}
		q := &queries{store: store.Store, def: def}
		one := func() *merge.Result {
			t.Helper()
			var result *merge.Result
			var err error
			if engine == "athena" {
				result, err = merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{})
			} else {
				result, err = merge.Local(t.Context(), store, def, merge.Options{})
			}
			if err != nil {
				t.Fatal(err)
			}
			return result
		}
		rows := mergetest.Traps()[0].Steps[0].Rows
		appendRows(t, store.Store, def, rows[0].Lake())
		one()
		appendRows(t, store.Store, def, rows[1].Lake())
		store.refuse = 3
		if result := one(); len(result.Warnings) != 1 {
			t.Fatalf("%s: %+v, want a warning", engine, result)
		}
		if result := one(); result.Read != 0 || len(result.Warnings) != 0 {
			t.Errorf("%s: %+v, want nothing new", engine, result)
		}
		log, err := store.Store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier("d", "plain"))
		if err != nil {
			t.Fatal(err)
		}
		if at := log.SnapshotByName(merge.Tag); at == nil || at.SnapshotID != newest(t, store.Store, def) {
			t.Errorf("%s: the tag is on %v, want it on the newest snapshot", engine, at)
		}
	}
}

// A tag that another run has set meanwhile, on a newer snapshot, stays there.
func TestTagDoesNotGoBack(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	store := &untagged{Store: open(t, t.TempDir())}
	rows := mergetest.Traps()[0].Steps[0].Rows
	appendRows(t, store.Store, def, rows[0].Lake())
	store.rival = func() {
		appendRows(t, store.Store, def, rows[1].Lake())
		run(t, store.Store, def)
	}
	if result, err := merge.Local(t.Context(), store, def, merge.Options{}); err != nil || len(result.Warnings) != 0 {
		t.Fatalf("%+v, %v; want no warning", result, err)
	}
	log, err := store.Store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier("d", "plain"))
	if err != nil {
		t.Fatal(err)
	}
	if at, head := log.SnapshotByName(merge.Tag).SnapshotID, newest(t, store.Store, def); at != head {
		t.Errorf("tagged %d, want %d", at, head)
	}
}
