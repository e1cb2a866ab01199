package iceberg_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

// A recorder notes what was forced to the disk, and refuses what it is told to.
type recorder struct {
	mu      sync.Mutex
	synced  map[string]int64 // path -> size at that time
	last    []string
	refused map[string]bool
	refuse  string // part of the names that are refused
	hits    int
}

var errSync = errors.New("disk says no")

func (r *recorder) sync(f *os.File) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != "" && strings.Contains(filepath.Base(f.Name()), r.refuse) {
		r.hits++
		if r.refused == nil {
			r.refused = make(map[string]bool)
		}
		r.refused[f.Name()] = true
		return errSync
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if r.synced == nil {
		r.synced = make(map[string]int64)
	}
	r.synced[f.Name()] = info.Size()
	delete(r.refused, f.Name())
	r.last = append(r.last, f.Name())
	return nil
}

// at is when a path was last forced, -1 for never.
func (r *recorder) at(path string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, last := range slices.Backward(r.last) {
		if last == path {
			return i
		}
	}
	return -1
}

func (r *recorder) setRefuse(part string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse, r.hits = part, 0
}

func openRecorded(t *testing.T, dir string, r *recorder) *iceberg.Store {
	t.Helper()
	store, err := iceberg.Open(context.WithoutCancel(t.Context()), dir, iceberg.Options{Sync: r.sync})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, store) })
	return store
}

// committed returns every file that the catalog names, directly or not.
func committed(t *testing.T, dir string) []string {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	var location string
	if err := db.QueryRowContext(t.Context(), "SELECT metadata_location FROM iceberg_tables").Scan(&location); err != nil {
		t.Fatal(err)
	}
	opened, err := table.NewFromLocation(t.Context(), table.Identifier{"lake", "item"}, location, iceio.LoadFSFunc(nil, location), nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := opened.FS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := []string{location}
	for older := range opened.Metadata().PreviousFiles() {
		names = append(names, older.MetadataFile)
	}
	for _, s := range opened.Metadata().Snapshots() {
		names = append(names, s.ManifestList)
		manifests, err := s.Manifests(files)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range manifests {
			names = append(names, m.FilePath())
			for e, err := range m.Entries(files, false) {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, e.DataFile().FilePath())
			}
		}
	}
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], "file://")
	}
	return names
}

func batchOf(parent, id string) *sink.Batch {
	b := &sink.Batch{Parent: parent, ID: id, Properties: map[string]string{sink.PropertyCommit: id}}
	b.Files = []sink.File{{Name: "cdc-tombstones-" + id + ".bin", Data: []byte("tombstones")}}
	if parent != "" {
		b.Drop = []string{"cdc-tombstones-" + parent + ".bin"}
	}
	b.Inserts = sink.NewRows(sinktest.Row("1", id, "p", "NULL"))
	b.Deletes = sink.NewRows(sinktest.Row("1"))
	return b
}

// Whatever a commit names was forced to the disk in full, and its folder after it.
func TestCommitIsOnTheDisk(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), &recorder{}
	lake := filepath.Join(dir, "deep", "lake")
	opened := openTable(t, openRecorded(t, lake, r))
	parent := ""
	for _, id := range []string{"first", "second", "third"} {
		if err := opened.Commit(t.Context(), batchOf(parent, id)); err != nil {
			t.Fatal(err)
		}
		parent = id
		names := committed(t, lake)
		tombstones, err := filepath.Glob(filepath.Join(lake, "warehouse", "lake", "item", "data", "cdc-tombstones-*"))
		if err != nil || len(tombstones) == 0 {
			t.Fatalf("%v, %v", tombstones, err)
		}
		kinds := make(map[string]int)
		for _, name := range append(names, tombstones...) {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if size, ok := r.synced[name]; !ok || size != info.Size() {
				t.Errorf("%s: forced at %d of %d bytes (%t)", name, size, info.Size(), ok)
			}
			if folder := filepath.Dir(name); r.at(folder) < r.at(name) {
				t.Errorf("%s: folder not forced after it", name)
			}
			kinds[filepath.Ext(name)]++
		}
		// Delete files are Parquet too.
		if kinds[".parquet"] < 2 || kinds[".avro"] < 2 || kinds[".json"] < 2 || kinds[".bin"] < 1 {
			t.Errorf("files of a commit: %v", kinds)
		}
	}
	for at := filepath.Join(lake, "warehouse", "lake", "item"); at != dir; at = filepath.Dir(at) {
		if r.at(filepath.Dir(at)) < 0 {
			t.Errorf("folder %s: its entry was not forced", at)
		}
	}
}

// What cannot be forced to the disk is not committed, and the next try is. Only
// then goes what the commit makes useless.
func TestCommitNeedsTheDisk(t *testing.T) {
	t.Parallel()
	for _, part := range []string{".parquet", "cdc-tombstones", "-m", "snap-", ".metadata.json", "data", "metadata"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			dir, r := t.TempDir(), &recorder{}
			opened := openTable(t, openRecorded(t, dir, r))
			if err := opened.Commit(t.Context(), batchOf("", "first")); err != nil {
				t.Fatal(err)
			}
			before := committed(t, dir)
			r.setRefuse(part)
			err := opened.Commit(t.Context(), batchOf("first", "second"))
			if !errors.Is(err, errSync) || errors.Is(err, sink.ErrConflict) || r.hits == 0 {
				t.Errorf("commit: %v, refused %d times", err, r.hits)
			}
			if after := committed(t, dir); after[0] != before[0] {
				t.Errorf("committed %s although it was not on the disk", after[0])
			}
			r.setRefuse("")
			state, err := opened.Load(t.Context())
			if err != nil || state.Properties[sink.PropertyCommit] != "first" {
				t.Fatalf("%v, %v", state, err)
			}
			if _, err := opened.ReadFile(t.Context(), "cdc-tombstones-first.bin"); err != nil {
				t.Errorf("after a commit that has failed: %v", err)
			}
			if err := opened.Commit(t.Context(), batchOf("first", "second")); err != nil {
				t.Error(err)
			}
			if _, err := opened.ReadFile(t.Context(), "cdc-tombstones-first.bin"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after the commit: %v", err)
			}
			// A system says of a file that it once could not force that all is well.
			for _, name := range committed(t, dir) {
				if r.refused[name] {
					t.Errorf("%s: named although it could not be forced", name)
				}
			}
		})
	}
}

// Files are forced beside what is written next, and a table's row in the catalog
// waits for them, also for those that another table of the store will name.
func TestCommitWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	dir, r, blocked, listed := t.TempDir(), &recorder{}, make(chan struct{}), make(chan struct{})
	release, list := sync.OnceFunc(func() { close(blocked) }), sync.OnceFunc(func() { close(listed) })
	store, err := iceberg.Open(context.WithoutCancel(t.Context()), dir, iceberg.Options{Sync: func(f *os.File) error {
		switch name := filepath.Base(f.Name()); {
		case strings.HasSuffix(name, ".parquet"):
			<-blocked
		case strings.HasPrefix(name, "snap-"):
			list()
		}
		return r.sync(f)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, store) })
	t.Cleanup(release)
	opened := openTable(t, store)
	before := committed(t, dir)[0]
	done := make(chan error)
	go func() { done <- opened.Commit(context.WithoutCancel(t.Context()), batchOf("", "first")) }()
	<-listed // by a manifest list, which is written last
	select {
	case err := <-done:
		t.Errorf("commit ended before its files were on the disk: %v", err)
	case <-time.After(50 * time.Millisecond):
		if now := committed(t, dir)[0]; now != before {
			t.Errorf("%s was named before its files were on the disk", now)
		}
		release()
		err = <-done
	}
	if err != nil {
		t.Fatal(err)
	}
	if now := committed(t, dir)[0]; now == before {
		t.Error("nothing was committed")
	}
}

// What a load has written is not named once some of it could not be forced,
// however often that is asked.
func TestLoadNeedsTheDisk(t *testing.T) {
	t.Parallel()
	w, r, written := newWorkload(t, "mirror", "", ""), &recorder{refuse: ".parquet"}, make(chan struct{})
	load, err := w.store.BeginLoad(t.Context(), w.def, false)
	if err != nil {
		t.Fatal(err)
	}
	w.store.SetSync(func(f *os.File) error {
		if strings.HasSuffix(f.Name(), ".parquet") {
			<-written
		}
		return r.sync(f)
	})
	if err := load.Write(t.Context(), w.loadRows(0, 100)); err != nil {
		t.Error(err)
	}
	close(written)
	for range 2 {
		if err := load.Commit(t.Context(), w.note(100)); !errors.Is(err, errSync) {
			t.Errorf("commit: %v", err)
		}
		r.setRefuse("")
	}
	w.check("after a load that failed")
	if err := load.Write(t.Context(), w.loadRows(0, 100)); err != nil {
		t.Error(err)
	}
	if err := load.Discard(t.Context()); err != nil {
		t.Error(err)
	}
	if err := w.load(100, false); err != nil {
		t.Fatal(err)
	}
	w.expectLoad(100)
	w.check("after the load")
}

// A lake cannot be made where its folders cannot be forced.
func TestOpenNeedsTheDisk(t *testing.T) {
	t.Parallel()
	r := &recorder{refuse: "lake"}
	_, err := iceberg.Open(t.Context(), filepath.Join(t.TempDir(), "lake"), iceberg.Options{Sync: r.sync})
	if !errors.Is(err, errSync) {
		t.Errorf("open: %v", err)
	}
}

// item is the definition of the test's table.
func item(t *testing.T) *catalog.Table {
	t.Helper()
	return sinktest.Pipeline(t, tables).ByTarget("lake", "item")
}

func openTable(t *testing.T, store *iceberg.Store) sink.Table {
	t.Helper()
	opened, err := store.OpenTable(t.Context(), item(t))
	if err != nil {
		t.Fatal(err)
	}
	return opened
}
