package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"icehose/sink/iceberg"
)

// A lakeMark tells the demo's own lakes from other people's directories, and
// whether a lake is the one that this run would continue.
type lakeMark struct {
	Stream string `json:"stream"` // SHA-256 of the recorded stream
	Fault  string `json:"fault,omitempty"`
}

const (
	lakeMarkFile = "icehose-demo.json"
	newSuffix    = ".new" // ends the name of a mark that is not yet whole
)

// markOf is the mark of a lake that this run would make.
func markOf(events string, f *fault) (m lakeMark, err error) {
	file, err := os.Open(events)
	if err != nil {
		return m, fmt.Errorf("open records: %w", err)
	}
	defer file.Close() //nolint:errcheck // opened for reading
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return m, fmt.Errorf("read records: %w", err)
	}
	return lakeMark{Stream: hex.EncodeToString(sum.Sum(nil)), Fault: f.String()}, nil
}

// prepareLake makes the directory of the lake, or sees that it can be
// continued. A lake with a fault, or of another stream, is made anew: what was
// lost or doubled in it would stay so. It tells out when it removes one.
func prepareLake(ctx context.Context, dir string, mark lakeMark, out io.Writer) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return fmt.Errorf("prepare lake: %w", err)
	case len(entries) > 1, len(entries) == 1 && entries[0].Name() != lakeMarkFile+newSuffix:
		old, err := readLakeMark(dir)
		if err != nil {
			return err
		}
		if old == mark && mark.Fault == "" {
			return nil
		}
		if err := iceberg.Remove(ctx, dir); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "%s is made anew: it was of another stream or had a fault\n", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("prepare lake: %w", err)
	}
	return writeLakeMark(dir, mark)
}

func readLakeMark(dir string) (m lakeMark, err error) {
	text, err := os.ReadFile(filepath.Join(dir, lakeMarkFile))
	if err != nil {
		return m, fmt.Errorf("prepare lake: %s is not empty and not a lake of the demo: choose another --lake", dir)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("prepare lake: %s is damaged: remove the directory", filepath.Join(dir, lakeMarkFile))
	}
	return m, nil
}

// writeLakeMark writes the mark in one step, so that a killed run leaves
// either the old mark or the new one.
func writeLakeMark(dir string, m lakeMark) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("mark lake: %w", err)
	}
	temporary := filepath.Join(dir, lakeMarkFile+newSuffix)
	if err := os.WriteFile(temporary, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("mark lake: %w", err)
	}
	if err := os.Rename(temporary, filepath.Join(dir, lakeMarkFile)); err != nil {
		return fmt.Errorf("mark lake: %w", err)
	}
	return nil
}
