package sweep_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/apache/iceberg-go/table"
	"github.com/google/go-cmp/cmp"

	lake "icehose/catalog/iceberg"
	"icehose/sink/iceberg"
	"icehose/sink/sweep"
)

// A sweep of a table whose list of manifests, or a manifest, was cut behind its
// header would take rows for ghosts, or lose the others: it does nothing until the
// file is restored.
func TestSweepDamaged(t *testing.T) {
	p := pipeline(t)
	for _, def := range p.Tables[:2] {
		for _, manifest := range []bool{false, true} {
			store, err := iceberg.Open(t.Context(), t.TempDir(), iceberg.Options{Sync: func(*os.File) error { return nil }})
			if err != nil {
				t.Fatal(err)
			}
			f := &feed{store: store, p: p}
			f.deliver(t, def, "insert 1 "+change(10), "insert 2 "+change(20), "insert 3 "+change(30))
			f.deliver(t, def, "load 1 "+loaded(t, 0), "load 2 "+loaded(t, 0))
			path := newestFile(t, store, def.Name(), manifest)
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			marker := whole[len(whole)-16:]
			if err := os.WriteFile(path, whole[:bytes.Index(whole, marker)+len(marker)], 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := sweep.Run(t.Context(), store, p, def, load, sweep.Options{}); !errors.Is(err, lake.ErrDamaged) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s, manifest %t: %v", def.Mode, manifest, err)
			}
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := sweep.Run(t.Context(), store, p, def, load, sweep.Options{}); err != nil || got.Ghosts != 1 {
				t.Errorf("%s, restored: %+v, %v", def.Mode, got, err)
			}
			if diff := cmp.Diff([]string{"1", "2"}, current(t, store, def)); diff != "" {
				t.Errorf("%s, rows (-want +got):\n%s", def.Mode, diff)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// newestFile returns where the list of manifests of the newest snapshot is, or
// its first manifest.
func newestFile(t *testing.T, store *iceberg.Store, name string, manifest bool) string {
	t.Helper()
	current, err := store.Tables().Tables.LoadTable(t.Context(), table.Identifier{"lake", name})
	if err != nil {
		t.Fatal(err)
	}
	path := current.CurrentSnapshot().ManifestList
	if manifest {
		files, err := current.FS(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		manifests, err := current.CurrentSnapshot().Manifests(files)
		if err != nil {
			t.Fatal(err)
		}
		path = manifests[0].FilePath()
	}
	return strings.TrimPrefix(path, "file://")
}
