package iceberg_test

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

// loadFloor is above the changes that a workload makes first.
const loadFloor = 1_000_000

func (w *workload) note(rows int) sink.LoadNote {
	w.t.Helper()
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	position, err := cdc.LoadPosition(0, cdc.Body{Lo: loadFloor}, since, cdc.Origin{})
	if err != nil {
		w.t.Fatal(err)
	}
	return sink.LoadNote{Position: position, Since: since, Rows: int64(rows)}
}

// loadRows yields lake rows with the ids from first up to, but without, last.
// The next row has the place of the one before.
func (w *workload) loadRows(first, last int) iter.Seq2[[][]byte, error] {
	position := w.note(0).Position
	return func(yield func([][]byte, error) bool) {
		var row [][]byte
		for id := first; id < last; id++ {
			row = append(row[:0], fmt.Appendf(nil, "%d.50", id), []byte{byte('a' + id%3)}, fmt.Appendf(nil, "loaded-%d", id), []byte(position), nil)
			if w.def.Mode == catalog.Changelog {
				row = append(row, []byte("load"), nil, nil)
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// expectLoad says what a mirror has after a load of the ids below rows.
func (w *workload) expectLoad(rows int) {
	w.current = make(map[string]string)
	for id := range rows {
		w.current[fmt.Sprintf("%d.50/%c", id, 'a'+id%3)] = fmt.Sprintf("loaded-%d", id)
	}
}

// load loads the ids below rows, in parts that are written side by side.
func (w *workload) load(rows int, replace bool) error {
	w.t.Helper()
	load, err := w.store.BeginLoad(w.t.Context(), w.def, replace)
	if err != nil {
		return err
	}
	const parts = 3
	var errs [parts]error
	var group sync.WaitGroup
	for i := range parts {
		group.Go(func() { errs[i] = load.Write(w.t.Context(), w.loadRows(rows*i/parts, rows*(i+1)/parts)) })
	}
	group.Wait()
	if err = errors.Join(errs[:]...); err == nil {
		err = load.Commit(w.t.Context(), w.note(rows))
	}
	if err != nil {
		err = errors.Join(err, load.Discard(w.t.Context()))
	}
	return err
}

// Changes from before a load lose to it, whether it has a row of their key or
// not; those from its floor on win.
func TestLoad(t *testing.T) {
	t.Parallel()
	for _, partition := range []string{"", `"bucket(3, id)"`} {
		w := newWorkload(t, "mirror", partition, "")
		if err := w.load(1000, false); err != nil {
			t.Fatal(err)
		}
		w.expectLoad(1000)
		w.check("after the load")
		w.open()
		want := w.current
		w.deliver(7, cdc.Update)    // is loaded
		w.deliver(5000, cdc.Update) // was deleted before the load
		w.deliver(8, cdc.Delete)
		w.flush()
		w.expectLoad(1000)
		w.check("after changes from before the load")
		if s := w.sink.Stats()[0]; s.Superseded != 3 || s.Rejected != 0 {
			t.Errorf("%+v", s)
		}
		w.n, w.current = loadFloor-1, want
		w.expectLoad(1000)
		for _, id := range []int{7, 5001, 9} { // the first is at the floor itself
			w.deliver(id, cdc.Update)
		}
		w.deliver(8, cdc.Delete)
		w.flush()
		w.check("after changes from the floor on")
	}
}

func TestLoadReplaces(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "mirror", "", "")
	for range 5 {
		w.commit(20, 50)
	}
	if err := w.load(30, false); !errors.Is(err, iceberg.ErrNotEmpty) {
		t.Fatalf("load of a mirror that has rows: %v", err)
	}
	before := w.sink
	if err := w.load(30, true); err != nil {
		t.Fatal(err)
	}
	w.expectLoad(30)
	w.check("after the load")
	// The sink that was open knows nothing of it, and must not go on.
	w.sink = before
	w.deliverRaw(31, cdc.Update)
	if err := w.sink.Flush(t.Context()); !errors.Is(err, sink.ErrFenced) {
		t.Errorf("a sink goes on beside a load: %v", err)
	}
	w.open()
	w.expectLoad(30)
	w.check("after a restart")
	if err := w.load(0, true); err != nil {
		t.Fatal(err)
	}
	w.expectLoad(0)
	w.check("after the load of an empty table")
}

// deliverRaw delivers a change without expecting anything of it.
func (w *workload) deliverRaw(id int, o cdc.Operation) {
	w.t.Helper()
	current := w.current
	w.current = make(map[string]string)
	w.deliver(id, o)
	w.current = current
}

func TestLoadOfChangelog(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "changelog", "", "")
	w.commit(20, 50)
	if _, err := w.store.BeginLoad(t.Context(), w.def, true); err == nil || !strings.Contains(err.Error(), "only a mirror is replaced") {
		t.Errorf("replace a changelog: %v", err)
	}
	if err := w.load(30, false); err != nil {
		t.Fatal(err)
	}
	for id := range 30 {
		w.history = append(w.history, fmt.Sprintf("%d.50/%c=loaded-%d", id, 'a'+id%3, id))
	}
	w.check("after the load")
}

// Whatever fails, the table is as it was, and nothing is left of the load that
// could be removed.
func TestLoadInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "mirror", "", "")
	w.commit(20, 50)
	w.check("before")
	parquet := func() int {
		return len(slices.DeleteFunc(w.files(), func(path string) bool { return !strings.HasSuffix(path, ".parquet") }))
	}
	before, failed := parquet(), 0
	for allowed := 0; ; allowed++ {
		var mu sync.Mutex
		calls := 0
		w.store.SetSync(func(*os.File) error {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls > allowed {
				return errors.New("the disk has failed")
			}
			return nil
		})
		err := w.load(300, true)
		w.store.SetSync(func(*os.File) error { return nil })
		if err == nil {
			break
		}
		failed++
		w.check("after a failure of write " + strconv.Itoa(allowed))
		if left := parquet() - before; left > 3 || allowed > 100 {
			t.Fatalf("%d files are left after a failure of write %d", left, allowed)
		}
		before = parquet()
	}
	if failed < 4 {
		t.Errorf("only %d writes failed", failed)
	}
	w.expectLoad(300)
	w.check("after the load")
}

// A table that somebody wrote meanwhile is not loaded.
func TestLoadBesideWriter(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "mirror", "", "")
	load, err := w.store.BeginLoad(t.Context(), w.def, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := load.Write(t.Context(), w.loadRows(0, 10)); err != nil {
		t.Fatal(err)
	}
	w.commit(5, 20)
	if err := load.Commit(t.Context(), w.note(10)); !errors.Is(err, sink.ErrConflict) {
		t.Errorf("commit of a load after a sink's: %v", err)
	}
	if err := load.Discard(t.Context()); err != nil {
		t.Error(err)
	}
	w.check("after the load was given up")
	w.commit(5, 20)
	w.check("after the sink went on")
	table, err := w.store.OpenTable(t.Context(), w.def)
	if err != nil {
		t.Fatal(err)
	}
	state, err := table.Load(t.Context())
	if _, ok, noteErr := sink.ParseLoadNote(state.Properties[sink.PropertyLoad]); ok || err != nil || noteErr != nil {
		t.Errorf("the table tells of a load: %t %v %v", ok, err, noteErr)
	}
	if rows := sinktest.Contents(t.Context(), t, table, w.def); len(rows) != len(w.current) {
		t.Errorf("%d rows, want %d", len(rows), len(w.current))
	}
}

// A load whose floor is below what the sink has brought would lose what came in
// between, since nobody reads that again, and bring back what was deleted then.
// It is refused, whoever asks and whatever knows of the newest change; with
// rewind it is taken, and the same stream makes the table whole again.
func TestLoadBelow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		changes []cdc.Operation // of the keys 1, 2, ...: their first change is an update
		replace bool
	}{
		{"a row is the newest", []cdc.Operation{cdc.Delete, cdc.Update}, true},
		{"a deleted key is the newest", []cdc.Operation{cdc.Update, cdc.Delete}, true},
		{"an emptied mirror", []cdc.Operation{cdc.Delete, cdc.Delete}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, "mirror", "", "")
			stream := func() {
				w.t.Helper()
				w.n = 0
				for i := range test.changes {
					w.deliver(1+i, cdc.Update)
				}
				for i, o := range test.changes {
					w.deliver(1+i, o)
				}
				w.flush()
			}
			stream()
			w.check("before")
			at := func(floor uint64) sink.LoadNote {
				note := w.note(10)
				position, err := cdc.LoadPosition(0, cdc.Body{Lo: floor}, note.Since, cdc.Origin{})
				if err != nil {
					t.Fatal(err)
				}
				note.Position = position
				return note
			}
			begin := func() *iceberg.Load {
				t.Helper()
				load, err := w.store.BeginLoad(t.Context(), w.def, test.replace)
				if err != nil {
					t.Fatal(err)
				}
				return load
			}
			low := at(3) // the last change is at 4
			load := begin()
			if err := load.Admit(t.Context(), low.Position, false); !errors.Is(err, iceberg.ErrBelow) {
				t.Errorf("admitted: %v", err)
			}
			if err := load.Write(t.Context(), w.loadRows(0, 10)); err != nil {
				t.Fatal(err)
			}
			if err := load.Commit(t.Context(), low); !errors.Is(err, iceberg.ErrBelow) {
				t.Errorf("committed: %v", err)
			}
			if err := load.Discard(t.Context()); err != nil {
				t.Error(err)
			}
			w.check("after a load that was refused")
			load = begin()
			if err := load.Admit(t.Context(), at(5).Position, false); err != nil {
				t.Errorf("above everything: %v", err)
			}

			load = begin()
			if err := load.Admit(t.Context(), low.Position, true); err != nil {
				t.Fatal(err)
			}
			rows := func(yield func([][]byte, error) bool) {
				for row, err := range w.loadRows(1, 3) {
					row[3] = []byte(low.Position)
					if !yield(row, err) {
						return
					}
				}
			}
			if err := errors.Join(load.Write(t.Context(), rows), load.Commit(t.Context(), low)); err != nil {
				t.Fatal(err)
			}
			w.open()
			if handled := w.sink.Handled(); len(handled) > 0 {
				t.Errorf("handled %v after a load with rewind", handled)
			}
			stream()
			w.check("after the stream was read once more")
		})
	}
}
