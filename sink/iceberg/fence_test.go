package iceberg_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

// TestRivalNotes: a commit of notes alone, which comes while another sink writes
// the files of its own, fences that one off as any other does: the notes stay,
// and with them the deleted keys that they tell of.
func TestRivalNotes(t *testing.T) {
	t.Parallel()
	for _, reader := range []string{"spark", "duckdb"} {
		for _, rows := range []bool{true, false} { // whether the table has a snapshot before
			t.Run(fmt.Sprintf("%s rows %t", reader, rows), func(t *testing.T) {
				t.Parallel()
				var interrupt func()
				store, err := iceberg.Open(t.Context(), t.TempDir(), iceberg.Options{SyncAtOnce: true, Sync: func(f *os.File) error {
					if then := interrupt; then != nil && strings.HasSuffix(f.Name(), ".parquet") {
						interrupt = nil
						then()
					}
					return nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { closeStore(t, store) })
				p := sinktest.Pipeline(t, errorPipeline(reader, ""))
				begin := func() *sink.Sink {
					t.Helper()
					s, err := sink.Open(t.Context(), p, store, sink.Options{})
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
				n := uint64(0)
				deliver := func(s *sink.Sink, o cdc.Operation, id, position uint64) {
					t.Helper()
					data := fmt.Appendf(nil, `{"id":%d,"v":"x","cdc_position":"%s","cdc_committed_at":null}`, id, cdc.ChangePosition(0, cdc.Body{Lo: position}, 0))
					d := sink.Delivery{
						Offset: sink.Offset{Shard: "s", Ordinal: n}, Row: &sink.Row{Database: "lake", Table: "item", Operation: o, Data: data},
					}
					n++
					if err := s.Deliver(t.Context(), []sink.Delivery{d}); err != nil {
						t.Fatal(err)
					}
				}
				first := begin()
				if rows {
					deliver(first, cdc.Update, 1, 1)
					if err := first.Flush(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				deliver(first, cdc.Delete, 10, 110) // of no row: notes alone
				if err := first.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				second := begin()
				deliver(second, cdc.Update, 2, 2)
				deliver(first, cdc.Delete, 11, 111) // its file takes that of the one before in
				interrupted := false
				interrupt = func() {
					interrupted = true
					if err := first.Flush(t.Context()); err != nil {
						t.Errorf("the rival: %v", err)
					}
				}
				if err := second.Flush(t.Context()); !errors.Is(err, sink.ErrFenced) {
					t.Errorf("a commit that was built before the rival's: %v", err)
				}
				if !interrupted {
					t.Fatal("nothing came in between")
				}
				third := begin()
				for id := uint64(10); id < 12; id++ {
					deliver(third, cdc.Update, id, 50)
				}
				if err := third.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := third.Stats()[0].Superseded; got != 2 {
					t.Errorf("%d late changes of deleted keys are superseded, want 2", got)
				}
			})
		}
	}
}

// TestManyNotes: a table that gets notes and no row for a long time is maintained
// as any other.
func TestManyNotes(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "mirror", "", "")
	table, err := w.store.OpenTable(t.Context(), w.def)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 70 {
		b := &sink.Batch{ID: fmt.Sprint("note-", i), Properties: map[string]string{sink.PropertyCommit: fmt.Sprint("note-", i)}}
		if i > 0 {
			b.Parent = fmt.Sprint("note-", i-1)
		}
		if err := table.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	w.maintain(iceberg.Maintenance{})
	w.open()
	w.commit(5, 20)
	w.maintain(iceberg.Maintenance{})
	w.check("after maintenance")
}

// TestFilesAreWrittenOnce: a commit that others come before, again and again, is
// made with the files of its first attempt.
func TestFilesAreWrittenOnce(t *testing.T) {
	t.Parallel()
	for _, partition := range []string{"", `"bucket(3, id)"`} {
		w := newWorkload(t, "mirror", partition, "")
		w.commit(20, 50)
		parquet := func() int {
			return len(slices.DeleteFunc(w.files(), func(path string) bool { return !strings.HasSuffix(path, ".parquet") }))
		}
		before, left := parquet(), 0
		w.store.SetSync(func(f *os.File) error {
			// What a commit writes last but the catalog is its metadata.
			if left == 0 || !strings.HasSuffix(f.Name(), ".metadata.json") {
				return nil
			}
			left--
			return sink.ErrConflict
		})
		w.commit(20, 50)
		once := parquet() - before
		before, left = parquet(), 5
		w.commit(20, 50)
		if left > 0 {
			t.Fatal("nothing was tried again")
		}
		if again := parquet() - before; again > once+2 {
			t.Errorf("partition %q: %d files after six attempts, %d after one", partition, again, once)
		}
		w.check("after commits that were made again")
	}
}
