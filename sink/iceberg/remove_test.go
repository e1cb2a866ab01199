package iceberg_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"icehose/sink/iceberg"
)

// A lake in use is not removed; one that is not goes, and what is not the
// lake's stays.
func TestRemove(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(other, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := iceberg.Open(t.Context(), dir, iceberg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := iceberg.Remove(t.Context(), dir); !errors.Is(err, iceberg.ErrLocked) {
		t.Errorf("remove a lake in use: got %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := iceberg.Remove(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string]bool{"notes.txt": true, "catalog.db": false, "warehouse": false} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != there {
			t.Errorf("%s: %v, want it there: %v", name, err, there)
		}
	}
	if _, err := iceberg.Open(t.Context(), dir, iceberg.Options{ReadOnly: true}); !errors.Is(err, iceberg.ErrNoLake) {
		t.Errorf("open what was removed: got %v", err)
	}
}
