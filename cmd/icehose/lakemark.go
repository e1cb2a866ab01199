package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// newSuffix ends the name of a mark that is not yet whole.
const newSuffix = ".new"

// emptyLake removes what is in dir, the mark last: killed half-way, it leaves
// a directory that the next run still knows as its own.
func emptyLake(dir string, entries []os.DirEntry) error {
	for _, e := range entries {
		if e.Name() == lakeMarkFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("empty lake: %w", err)
		}
	}
	if err := os.Remove(filepath.Join(dir, lakeMarkFile)); err != nil {
		return fmt.Errorf("empty lake: %w", err)
	}
	return nil
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
// either no mark or a whole one.
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
