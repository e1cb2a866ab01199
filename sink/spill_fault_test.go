package sink_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"icehose/sink"
)

var errNoSpace = errors.New("no space left on device")

// TestIndexFullDisk: what does not fit on the disk is told of, nothing is lost,
// and with room it goes on.
func TestIndexFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	room := sink.NewRoom(sink.Options{IndexDir: dir, IndexMemory: 1})
	g := room.Guard()
	fill := func(from uint64) {
		t.Helper()
		for key := range uint64(500) {
			g.Change(benchKey(from+key), at(t, from+key), key%5 == 0)
		}
	}
	fill(0)
	if err := g.MakeRoom(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	full := 0
	for n := uint64(1); full < 40; n++ {
		fill(500 * n)
		for room.FailFiles(int(n*9_999%70_000), errNoSpace); full < 40; full++ {
			err := g.MakeRoom(t.Context(), 1)
			if err == nil {
				if err = g.Merged(t.Context()); err == nil {
					break
				}
			} else if !strings.Contains(err.Error(), dir) {
				t.Fatalf("error does not say where: %v", err)
			}
			if !errors.Is(err, errNoSpace) {
				t.Fatal(err)
			}
			room.FailFiles(int(n*9_999%70_000)*(full+2), errNoSpace)
		}
		for key := range 500 * (n + 1) {
			v, _, err := g.Judge(benchKey(key), at(t, key), false, 1)
			if err != nil || v != "superseded" {
				t.Fatalf("key %d: %s %v", key, v, err)
			}
		}
	}
	room.HealFiles()
	if err := errors.Join(g.MakeRoom(t.Context(), 1), g.Merged(t.Context())); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != len(g.Files()) {
		t.Errorf("%d files in the folder, %d of the index: %v", len(files), len(g.Files()), err)
	}
}

// savedIndex leaves an index of 400 keys in a folder, of which every fifth is deleted.
func savedIndex(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	room := sink.NewRoom(sink.Options{IndexDir: dir})
	g := room.Guard()
	for key := range uint64(400) {
		g.Change(benchKey(key), at(t, key), key%5 == 0)
	}
	if err := errors.Join(g.Spill(t.Context()), room.Close(t.Context(), g, "commit")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestDamagedIndex: no changed byte of a file is trusted, neither when an index
// is taken over nor when it is asked, and then it is not taken over again.
func TestDamagedIndex(t *testing.T) {
	t.Parallel()
	noticed := 0
	for n := range 120 {
		dir := savedIndex(t)
		suffix := [...]string{".json", ".run"}[n%2]
		room := sink.NewRoom(sink.Options{IndexDir: dir})
		if err := room.Damage(suffix, float64(n)/119); err != nil {
			t.Fatal(err)
		}
		g := room.Guard()
		ok, err := g.Adopt("commit")
		if err != nil || ok && suffix == ".json" {
			t.Fatalf("a damaged note: taken over %t, %v", ok, err)
		}
		damaged := false
		for key := uint64(0); ok && key < 400; key++ {
			v, live, err := g.Judge(benchKey(key), at(t, key), false, 1)
			switch {
			case errors.Is(err, sink.ErrIndexDamaged):
				damaged = true
			case err != nil || v != "superseded" || live != (key%5 > 0):
				t.Fatalf("byte %d of 119: key %d: %s, row %t, %v", n, key, v, live, err)
			}
		}
		if err := room.Abandon(); err != nil {
			t.Fatal(err)
		}
		if damaged {
			noticed++
			if ok, err := sink.NewRoom(sink.Options{IndexDir: dir}).Guard().Adopt("commit"); ok || err != nil {
				t.Fatalf("taken over again: %t, %v", ok, err)
			}
		}
	}
	if noticed < 10 {
		t.Errorf("pages were damaged %d times, the test tests little", noticed)
	}
}

// TestForeignIndex: files of another index, short ones and none at all are not
// taken over, and others' files are left alone.
func TestForeignIndex(t *testing.T) {
	t.Parallel()
	run := func(dir string) string {
		files, err := filepath.Glob(filepath.Join(dir, "index-*.run"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%d files: %v", len(files), err)
		}
		return files[0]
	}
	for name, spoil := range map[string]func(path string) error{
		"of another index": func(path string) error { return os.Rename(run(savedIndex(t)), path) },
		"missing":          os.Remove,
		"empty":            func(path string) error { return os.Truncate(path, 0) },
		"short":            func(path string) error { return os.Truncate(path, 4096) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := savedIndex(t)
			others := filepath.Join(dir, "others.run")
			if err := errors.Join(os.WriteFile(others, nil, 0o600), spoil(run(dir))); err != nil {
				t.Fatal(err)
			}
			if ok, err := sink.NewRoom(sink.Options{IndexDir: dir}).Guard().Adopt("commit"); ok || err != nil {
				t.Errorf("taken over %t: %v", ok, err)
			}
			files, err := os.ReadDir(dir)
			if err != nil || len(files) != 1 || files[0].Name() != "others.run" {
				t.Errorf("left in the folder: %v %v", files, err)
			}
		})
	}
}

// TestSinkOnDisk: a key that cannot be looked up is told of, its record counts
// as not delivered, and a restart builds the index anew.
func TestSinkOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRig(t, sink.Options{IndexMemory: 1, IndexDir: dir})
	var s source
	r.flush(s.upsert(1, 1, "a"), s.upsert(2, 2, "b"), s.remove(3, 3))
	r.flush(s.upsert(4, 4, "d"))
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.reopen()
	if got := r.stats("item"); got.IndexDisk == 0 || got.Rows != 3 {
		t.Fatalf("taken over: %+v", got)
	}
	room := sink.NewRoom(sink.Options{IndexDir: dir})
	if err := room.Damage(".run", 0.01); err != nil {
		t.Fatal(err)
	}
	late := s.upsert(1, 2, "late")
	for range 2 {
		if err := r.Deliver(t.Context(), []sink.Delivery{late}); !errors.Is(err, sink.ErrIndexDamaged) {
			t.Fatalf("deliver with a damaged index: %v", err)
		}
	}
	if got := r.stats("item"); got.Delivered != 0 {
		t.Errorf("a record that must come again was counted: %+v", got)
	}
	if err := r.Abandon(); err != nil {
		t.Fatal(err)
	}
	r.reopen()
	r.flush(late, s.upsert(5, 3, "again"))
	if got := r.stats("item"); got.Superseded != 1 || got.Applied != 1 || got.Rows != 4 {
		t.Errorf("after the restart: %+v", got)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.reopen()
	r.flush(s.remove(6, 1))
	if got := r.stats("item"); got.Applied != 1 || got.Rows != 3 {
		t.Errorf("after the index was taken over: %+v", got)
	}
}

// TestTemporaryIndexLeavesNothing: without a folder of its own a sink leaves no file.
func TestTemporaryIndexLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for name, end := range map[string]func(*rig) error{
		"closed":    func(r *rig) error { return r.Close(t.Context()) },
		"abandoned": func(r *rig) error { return r.Abandon() },
	} {
		r := newRig(t, sink.Options{IndexMemory: 1})
		var s source
		r.flush(s.upsert(1, 1, "a"))
		r.flush(s.upsert(2, 1, "b"))
		if got := r.stats("item"); got.IndexDisk == 0 {
			t.Fatalf("%s: the test tests nothing: %+v", name, got)
		}
		if err := end(r); err != nil {
			t.Fatal(err)
		}
		if files, err := os.ReadDir(temp); err != nil || len(files) > 0 {
			t.Errorf("%s: left %v, %v", name, files, err)
		}
	}
}
