package iceberg_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"icehose/sink/iceberg"
)

// A lake in a folder that was copied is refused: what writes it would change the
// original. One under another name of its folder is the same lake.
func TestCopiedLake(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lake, twin, name, moved := filepath.Join(dir, "lake"), filepath.Join(dir, "copy"), filepath.Join(dir, "name"), filepath.Join(dir, "moved")
	store, err := iceberg.Open(t.Context(), lake, iceberg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := openTable(t, store).Commit(t.Context(), batchOf("", "first")); err != nil {
		t.Fatal(err)
	}
	closeStore(t, store)
	if err := os.CopyFS(twin, os.DirFS(lake)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(lake, name); err != nil {
		t.Skip(err)
	}
	open := func(folder string) error {
		store, err := iceberg.Open(context.WithoutCancel(t.Context()), folder, iceberg.Options{})
		if err != nil {
			return err
		}
		defer closeStore(t, store)
		opened, err := store.OpenTable(t.Context(), item(t))
		if err != nil {
			return err
		}
		_, err = opened.Load(t.Context())
		return err
	}
	if err := open(name); err != nil {
		t.Errorf("another name of the folder: %v", err)
	}
	if err := open(twin); err == nil || !strings.Contains(err.Error(), "was copied or moved") {
		t.Errorf("copy: %v", err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(lake, moved); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{twin, moved} {
		if err := open(folder); err == nil || !strings.Contains(err.Error(), "moved") {
			t.Errorf("%s, the original being gone: %v", folder, err)
		}
	}
	if err := os.Rename(moved, lake); err != nil {
		t.Fatal(err)
	}
	if err := open(lake); err != nil {
		t.Errorf("where it was made: %v", err)
	}
}

// Behind a server, errors may pass: one that places tables itself is given no
// location.
func TestErrorsThatLast(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]bool{"": false, "s3://bucket/lake": false, "file:///lake": true, "/lake": true} {
		if got := iceberg.LastingAt(location, errors.New("no answer")); got != want {
			t.Errorf("an error at %q lasts: %t", location, got)
		}
	}
}
