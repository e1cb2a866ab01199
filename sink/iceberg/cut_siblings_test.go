package iceberg_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	lake "icehose/catalog/iceberg"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

// wantDamaged demands an error that names a file.
func (w *workload) wantDamaged(err error, path, when string) {
	w.t.Helper()
	if !errors.Is(err, lake.ErrDamaged) || !strings.Contains(err.Error(), path) {
		w.t.Errorf("%s: %v, want one of %s", when, err, path)
	}
}

// inBlocks returns a list of manifests that has a block for each, as the lists of
// other engines may have.
func inBlocks(t *testing.T, s *table.Snapshot, manifests []iceberglib.ManifestFile) (list []byte) {
	t.Helper()
	for _, m := range manifests {
		var one bytes.Buffer
		if err := iceberglib.WriteManifestList(2, &one, s.SnapshotID, s.ParentSnapshotID, &s.SequenceNumber, 0, []iceberglib.ManifestFile{m}); err != nil {
			t.Fatal(err)
		}
		b := one.Bytes()
		marker := b[len(b)-16:]
		header := bytes.Index(b, marker) + len(marker)
		if list == nil {
			list = append(list, b[:header]...)
		}
		list = append(append(list, b[header:len(b)-16]...), list[len(list)-16:]...)
	}
	return list
}

// A list that has lost some of its blocks is found as one that has lost all.
func TestCutListOfBlocks(t *testing.T) {
	t.Parallel()
	for name, pipeline := range cutTables() {
		l := &cutLake{dir: t.TempDir(), pipeline: pipeline}
		for n := 10; n <= 30; n += 5 {
			if err := l.run(t.Context(), t, n); err != nil {
				t.Fatal(err)
			}
		}
		store := open(t, l.dir)
		current, manifests := (&workload{t: t, store: store}).manifests()
		closeStore(t, store)
		path, list := onDisk(current.CurrentSnapshot().ManifestList), inBlocks(t, current.CurrentSnapshot(), manifests)
		cuts := boundaries(t, list)
		for _, at := range cuts {
			for _, running := range []bool{false, true} {
				if err := os.WriteFile(path, list, 0o600); err != nil {
					t.Fatal(err)
				}
				_, err := l.cutOnce(t, path, list[:at], 30, running)
				if err == nil && at != cuts[0] && name == "copy on write" {
					l.check(t, 35) // the manifest that was lost names what was removed, and nothing else
					continue
				}
				if !errors.Is(err, lake.ErrDamaged) || !strings.Contains(err.Error(), path) {
					t.Errorf("%s, %d manifests, cut at %d of %v: %v", name, len(manifests), at, cuts, err)
				}
			}
		}
		if err := os.WriteFile(path, list, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := l.run(t.Context(), t, 35); err != nil {
			t.Fatal(err)
		}
		l.check(t, 35)
	}
}

// A load is not committed on top of a list, or a manifest, that has lost what it
// named, whether before the load began or while it ran.
func TestLoadDamaged(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"mirror", "changelog"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, mode, "", "")
			for range 3 {
				w.commit(10, 40)
			}
			lists, data, _ := w.named()
			for _, path := range []string{lists[len(lists)-1], data} {
				load, err := w.store.BeginLoad(t.Context(), w.def, mode == "mirror")
				if err != nil {
					t.Fatal(err)
				}
				if err := load.Write(t.Context(), w.loadRows(0, 5)); err != nil {
					t.Fatal(err)
				}
				whole := w.cut(path)
				w.wantDamaged(load.Commit(t.Context(), w.note(5)), path, "cut while it ran")
				w.wantDamaged(w.load(5, mode == "mirror"), path, "cut before")
				w.write(path, whole)
				if err := load.Discard(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			w.check("restored")
			if err := w.load(5, mode == "mirror"); err != nil {
				t.Fatal(err)
			}
			if w.expectLoad(5); mode == "changelog" {
				for id := range 5 {
					w.history = append(w.history, fmt.Sprintf("%d.50/%c=loaded-%d", id, 'a'+id%3, id))
				}
			}
			w.check("loaded")
		})
	}
}

// A schema commit carries the list on as it is: what is restored is there again.
// Other partitions depend on what the list names, and are refused.
func TestApplyDamaged(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "mirror", "", "")
	for range 3 {
		w.commit(10, 40)
	}
	lists, _, _ := w.named()
	list := lists[len(lists)-1]
	whole := w.cut(list)
	text := fmt.Sprintf(maintainTables, "mirror", "part", "")
	_, err := w.store.Tables().Apply(t.Context(), sinktest.Pipeline(t, text))
	w.wantDamaged(err, list, "other partitions")
	text = fmt.Sprintf(maintainTables, "mirror", "", "") + "  - {name: more, type: string}\n"
	if _, err := w.store.Tables().Apply(t.Context(), sinktest.Pipeline(t, text)); err != nil {
		t.Fatal(err)
	}
	_, err = sink.Open(t.Context(), sinktest.Pipeline(t, text), w.store, sink.Options{})
	w.wantDamaged(err, list, "opened")
	w.write(list, whole)
	w.p = sinktest.Pipeline(t, text)
	w.def = w.p.ByTarget("lake", "item")
	w.check("restored")
}

// Files that were written ahead of a commit that is refused are of use to the
// next sink's, or to nobody; what they were written for is not lost.
func TestWrittenAheadDamaged(t *testing.T) {
	t.Parallel()
	for name, pipeline := range cutTables() {
		l := &cutLake{dir: t.TempDir(), pipeline: pipeline}
		if err := l.run(t.Context(), t, 20); err != nil {
			t.Fatal(err)
		}
		list, _ := l.newest(t)
		store, err := iceberg.Open(t.Context(), l.dir, iceberg.Options{Sync: unsynced})
		if err != nil {
			t.Fatal(err)
		}
		s, err := sink.Open(t.Context(), sinktest.Pipeline(t, pipeline), store, sink.Options{Background: true, FlushRows: 10})
		if err != nil {
			t.Fatal(err)
		}
		w := &workload{t: t, store: store}
		whole := w.cut(list)
		err = l.deliver(t.Context(), s, 80)
		w.wantDamaged(err, list, name)
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(list, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := l.run(t.Context(), t, 80); err != nil {
			t.Fatal(err)
		}
		l.check(t, 80)
	}
}

// Totals that another engine has written too high are no damage, to commits
// neither: of a sink that runs and of a new one, as long as nothing lacks more.
func TestCommitAfterWrongTotals(t *testing.T) {
	t.Parallel()
	for _, reader := range []string{"", "pyiceberg"} {
		w := newWorkload(t, "mirror", "", reader)
		for range 2 {
			w.commit(10, 40)
		}
		w.wrongTotals(7)
		w.commit(10, 40)
		w.open()
		w.commit(10, 40)
		lists, _, _ := w.named()
		whole := w.cut(lists[len(lists)-1])
		w.deliver(1, cdc.Update)
		w.wantDamaged(w.sink.Flush(t.Context()), lists[len(lists)-1], "a list was cut")
		w.write(lists[len(lists)-1], whole)
		w.open()
		w.deliver(1, cdc.Update)
		w.commit(10, 40)
		w.check("restored")
	}
}
