package iceberg_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/sink"
	"icehose/sink/iceberg"
)

// Whatever write fails, the table has its rows, and what was written in vain
// is found as an orphan.
func TestMaintainInterrupted(t *testing.T) {
	t.Parallel()
	for name, base := range map[string]int{"whole": 0, "fold": baseRows} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, "mirror", "", "")
			w.interrupt(base, func(fails func() bool) {
				w.store.SetSync(func(*os.File) error {
					if fails != nil && fails() {
						return errors.New("the disk has failed")
					}
					return nil
				})
			})
			w.age(24 * time.Hour * 10)
			if report := w.maintain(small); len(report.Orphans) == 0 {
				t.Error("the files of the failed runs are not found")
			}
			w.check("after the orphans were removed")
			w.open()
			w.check("after a restart")
		})
	}
}

// interrupt maintains a table again and again: at first no write succeeds, then
// one, and so on until all do. faulty lets those writes fail that a function
// says, none for nil.
func (w *workload) interrupt(base int, faulty func(fails func() bool)) {
	w.t.Helper()
	w.base(0, base)
	for range 9 {
		w.commit(10, 50)
	}
	failed := 0
	for allowed := int64(0); ; allowed++ {
		var calls atomic.Int64
		faulty(func() bool { return calls.Add(1) > allowed })
		_, err := w.store.Maintain(w.t.Context(), w.def, small)
		faulty(nil)
		w.check(fmt.Sprintf("after a failure of write %d", allowed))
		if err == nil {
			break
		}
		failed++
		if oneLine(w.t, err); allowed > 200 {
			w.t.Fatal("maintenance never comes through")
		}
	}
	if failed < 4 {
		w.t.Errorf("only %d writes failed", failed)
	}
	w.commit(10, 50)
	w.check("after the sink went on")
}

// age makes every file of the table as old as d.
func (w *workload) age(d time.Duration) {
	w.t.Helper()
	then := clock().Add(-d)
	for _, path := range w.files() {
		if err := os.Chtimes(path, then, then); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *workload) files() []string {
	w.t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(w.store.Dir(), "warehouse"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return files
}

// Files that nothing speaks of go once they are old; tombstones stay, and so
// does whatever is young.
func TestMaintainOrphans(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "mirror", "", "")
	for range 5 {
		w.commit(10, 20)
	}
	folder := filepath.Join(w.store.Dir(), "warehouse", "lake", "item", "data")
	old, young := filepath.Join(folder, "lost.parquet"), filepath.Join(folder, "new.parquet")
	if err := os.WriteFile(old, []byte("lost"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.age(100 * time.Hour)
	if err := os.WriteFile(young, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tombstones := slices.ContainsFunc(w.files(), func(path string) bool { return strings.Contains(path, "cdc-tombstones-") })
	settings := iceberg.Maintenance{SkipCompact: true, SkipExpire: true, Plan: true}
	want := []iceberg.Leftover{{Path: old, Bytes: 4}}
	before := w.files()
	if report := w.maintain(settings); !cmp.Equal(report.Orphans, want) || report.After != nil {
		t.Errorf("planned %+v, want %+v", report.Orphans, want)
	}
	if diff := cmp.Diff(before, w.files()); diff != "" || !tombstones {
		t.Fatalf("tombstones %t, a plan changed files:\n%s", tombstones, diff)
	}
	settings.Plan = false
	if report := w.maintain(settings); !cmp.Equal(report.Orphans, want) {
		t.Errorf("removed %+v, want %+v", report.Orphans, want)
	}
	left := slices.DeleteFunc(before, func(path string) bool { return path == old })
	if diff := cmp.Diff(left, w.files()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	w.open() // reads the tombstones
	w.check("after the orphans were removed")
}

// A load writes its files long before its commit names them: what it has named
// when the orphans are known is spared, and files that went before that are
// noticed by its commit, which leaves the table as it was.
func TestMaintainOrphansBesideLoad(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"commits in time": false, "commits too late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, "mirror", "", "")
			load, err := w.store.BeginLoad(t.Context(), w.def, false)
			if err != nil {
				t.Fatal(err)
			}
			if err := load.Write(t.Context(), w.loadRows(0, 500)); err != nil {
				t.Fatal(err)
			}
			w.age(100 * time.Hour)
			settings := iceberg.Maintenance{SkipCompact: true, SkipExpire: true}
			planned := 0
			settings.SetPlanned(func() {
				if planned++; !late {
					err = load.Commit(t.Context(), w.note(500))
				}
			})
			report := w.maintain(settings)
			if late {
				err = load.Commit(t.Context(), w.note(500))
			}
			if planned != 1 || (len(report.Orphans) > 0) != late || (err != nil) != late {
				t.Fatalf("orphans looked for %d times, removed %v, load %v", planned, report.Orphans, err)
			}
			if late {
				if oneLine(t, err); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "commit load: a file that was written is gone") {
					t.Errorf("load: %v", err)
				}
				if err := load.Discard(t.Context()); err != nil {
					t.Errorf("discard: %v", err)
				}
			} else {
				w.expectLoad(500)
			}
			w.check("after the load")
			w.open()
		})
	}
}

// A sink that commits while files are rewritten is neither lost nor fenced.
func TestMaintainBesideWriter(t *testing.T) {
	t.Parallel()
	for name, base := range map[string]int{"whole": 0, "fold": baseRows} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newWorkload(t, "mirror", "", "").maintainBeside(base)
		})
	}
}

// maintainBeside maintains a table while its sink commits.
func (w *workload) maintainBeside(base int) {
	w.t.Helper()
	w.base(0, base)
	for range 9 {
		w.commit(10, 40)
	}
	settings, commits := small, 0
	settings.Progress = func(int, int64) {
		if commits++; commits <= 2 {
			w.commit(10, 40)
		}
	}
	report := w.maintain(settings)
	if commits == 0 || len(report.Rewrites) == 0 {
		w.t.Fatalf("%d commits beside %+v", commits, report.Rewrites)
	}
	w.check("after a rewrite beside a writer")
	w.commit(10, 40)
	w.check("after the sink went on")

	settings.Progress = func(int, int64) { w.commit(10, 40) } // always faster
	_, err := w.store.Maintain(w.t.Context(), w.def, settings)
	for range 9 {
		w.commit(10, 40)
	}
	if _, again := w.store.Maintain(w.t.Context(), w.def, settings); base > 0 && !errors.Is(errors.Join(err, again), sink.ErrConflict) {
		w.t.Errorf("against a writer that is always faster: %v, %v", err, again)
	}
	w.check("after maintenance gave up")
}
