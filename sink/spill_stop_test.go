package sink_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/sink"
)

// TestMergeEndsWithContext: who waits for a merge that is far from done does not
// when the command is to end, and the merge ends too.
func TestMergeEndsWithContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	room := sink.NewRoom(sink.Options{IndexDir: dir})
	g := room.Guard()
	cancelled := make(chan struct{})
	for n := range uint64(4) { // as many as are merged
		for key := range uint64(100) {
			g.Change(benchKey(100*n+key), at(t, 100*n+key), false)
		}
		if n == 3 {
			room.StallFiles(cancelled)
		}
		if err := g.Spill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	g.OnCancel(sync.OnceFunc(func() { close(cancelled) }))
	why := errors.New("terminated")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := g.Restored(ctx); !errors.Is(err, why) {
		t.Fatalf("waited for the merge: %v", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 4 || len(g.Files()) != 4 {
		t.Errorf("%d files in the folder, %d of the index: %v", len(files), len(g.Files()), err)
	}
	room.HealFiles()
	if err := g.Restored(t.Context()); err != nil || len(g.Files()) != 1 {
		t.Errorf("later: %d files, %v", len(g.Files()), err)
	}
}

// TestTemporaryIndexHasNoNames: without a folder of its own an index has no file
// with a name, so that nothing is left of it when the process is killed.
func TestTemporaryIndexHasNoNames(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	room := sink.NewRoom(sink.Options{})
	g := room.Guard()
	for n := range uint64(4) {
		for key := range uint64(100) {
			g.Change(benchKey(100*n+key), at(t, 100*n+key), false)
		}
		if err := g.Spill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Merged(t.Context()); err != nil || len(g.Files()) != 1 {
		t.Fatalf("%d files: %v", len(g.Files()), err)
	}
	if files, err := os.ReadDir(temp); err != nil || len(files) > 0 {
		t.Errorf("in the folder: %v, %v", files, err)
	}
	for key := range uint64(400) {
		if v, live, err := g.Judge(benchKey(key), at(t, key), false, 1); v != "superseded" || !live || err != nil {
			t.Fatalf("key %d: %s, row %t, %v", key, v, live, err)
		}
	}
	if err := room.Abandon(); err != nil {
		t.Fatal(err)
	}
}

// TestOthersFilesStay: of what is in the folder of its index a sink removes only
// what is of its own tables, or of an index that no note speaks of.
func TestOthersFilesStay(t *testing.T) {
	t.Parallel()
	dir := savedIndex(t) // of a table of another pipeline
	names := func() (names []string) {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			names = append(names, f.Name())
		}
		return names
	}
	want := names()
	note := sink.NoteName("lake.item")
	kept := []string{
		"index-template.json", "index-template.json.new", "index-1.run", "index-0123456789abcdef.json", "index-0123456789ABCDEF.run",
		"index-0123456789abcdef.running", "old-index-0123456789abcdef.run", "index-.run", "0123456789abcdef.run",
	}
	for _, name := range append([]string{note, note + ".new", "index-0123456789abcdef.run"}, kept...) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want = append(want, kept...)
	slices.Sort(want)
	r := newRig(t, sink.Options{IndexDir: dir, IndexMemory: 1})
	if diff := cmp.Diff(want, names()); diff != "" {
		t.Errorf("after the start (-want +got):\n%s", diff)
	}
	var s source
	r.flush(s.upsert(1, 1, "a"))
	r.flush(s.upsert(2, 2, "b"))
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := names(); len(got) <= len(want) {
		t.Errorf("no index was left: %v", got)
	}
	r.reopen()
	for _, name := range want {
		if !slices.Contains(names(), name) {
			t.Errorf("%s was removed", name)
		}
	}
	if ok, err := sink.NewRoom(sink.Options{IndexDir: dir}).Guard().Adopt("commit"); !ok || err != nil {
		t.Errorf("the other index: taken over %t, %v", ok, err)
	}
}

// TestVoidIndexIsRemoved: an index that must not be taken over goes before another
// takes its place on the disk.
func TestVoidIndexIsRemoved(t *testing.T) {
	t.Parallel()
	dir := savedIndex(t)
	if ok, err := sink.NewRoom(sink.Options{IndexDir: dir}).Guard().Refuse("commit"); ok || err != nil {
		t.Errorf("taken over %t: %v", ok, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("left in the folder: %v %v", files, err)
	}
}

// TestDamagedIndexIsNotTriedAgain: what no second look makes better ends the
// commit at once, and says that it is damaged.
func TestDamagedIndexIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	waits := 0
	r := newRig(t, sink.Options{IndexMemory: 1, IndexDir: dir, RetryFor: time.Minute, Wait: func(context.Context, time.Duration) error {
		waits++
		return nil
	}})
	var s source
	r.flush(s.upsert(1, 1, "a"), s.upsert(2, 2, "b"))
	r.flush(s.remove(3, 2))
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.reopen()
	r.deliver(s.remove(4, 1))
	if err := sink.NewRoom(sink.Options{IndexDir: dir}).Damage(".run", 0.01); err != nil {
		t.Fatal(err)
	}
	if err := r.Flush(t.Context()); !errors.Is(err, sink.ErrIndexDamaged) || waits > 0 {
		t.Errorf("after %d waits: %v", waits, err)
	}
	if err := r.Abandon(); err != nil {
		t.Fatal(err)
	}
	r.reopen()
	r.flush(s.remove(4, 1))
	if got := r.stats("item"); got.Rows != 0 || got.Applied != 1 {
		t.Errorf("after the restart: %+v", got)
	}
}
