package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sinksource "icehose/sink/source"
)

// A file of rejects that is new is forced to the disk with its entry in the
// folder; one that was there has that already.
func TestRejectsAreForced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rejects.ndjson")
	var forced []string
	force := func(f *os.File) error {
		forced = append(forced, f.Name())
		return f.Sync()
	}
	for _, want := range [][]string{{filepath.Dir(path), path}, {path}} {
		forced = nil
		r, err := openRejects(path, nil, force)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.write(&failure{record: &sinksource.Record{}, by: "sink"}), r.close()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(forced, want) {
			t.Errorf("forced %q, want %q", forced, want)
		}
	}
	broken := errors.New("not forced")
	if _, err := openRejects(filepath.Join(t.TempDir(), "other"), nil, func(*os.File) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// A line that a full disk has cut does not take the next one along.
func TestRejectsBehindHalfALine(t *testing.T) {
	t.Parallel()
	for before, want := range map[string]int{"": 1, "{}\n": 2, `{"reason":"unkn`: 2} {
		path := filepath.Join(t.TempDir(), "rejects.ndjson")
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := openRejects(path, nil, (*os.File).Sync)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.write(&failure{record: &sinksource.Record{}, by: "sink"}), r.close()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n != want || !strings.HasPrefix(string(text), before) || !strings.Contains("\n"+string(text), "\n"+`{"reason":"","stage":"sink"`) {
			t.Errorf("%q: %q", before, text)
		}
	}
}
