package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"icehose/catalog"
	"icehose/reconcile"
)

// readKeys reads a file of keys, one JSON object a line.
func readKeys(path string, p *catalog.Pipeline) (map[string]*reconcile.Keys, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	texts := map[string][][]string{}
	whole := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var line struct {
			Table   string   `json:"table"`
			Columns []string `json:"columns"`
			Key     []string `json:"key"`
			All     bool     `json:"all"`
			// The rest of a line of a repair's plan.
			Kind   string `json:"kind"`
			Action string `json:"action"`
			Rows   uint64 `json:"rows"`
		}
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		if decoder.Decode(&line) != nil {
			return nil, fmt.Errorf(`%s: line %d: want {"table":"schema.table","columns":["id"],"key":["7"]} or {"table":"schema.table","all":true}`, path, n)
		}
		t, err := tableOf(p, line.Table)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		if line.All || len(t.Key) == 0 {
			whole[t.Source] = true
			continue
		}
		key, err := inKeyOrder(t, line.Columns, line.Key)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		texts[t.Source] = append(texts[t.Source], key)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read keys: %s: %w", path, err)
	}
	keys := map[string]*reconcile.Keys{}
	for source := range whole {
		keys[source] = nil
	}
	for source, some := range texts {
		if whole[source] {
			continue
		}
		t, err := tableOf(p, source)
		if err == nil {
			keys[source], err = reconcile.NewKeys(t, some)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return keys, nil
}

// namesOneOf reports whether there are keys of one of the tables; none: of any.
func namesOneOf(keys map[string]*reconcile.Keys, tables []string) bool {
	for source := range keys {
		if len(tables) == 0 || slices.Contains(tables, source) {
			return true
		}
	}
	return false
}

// inKeyOrder puts the texts of named columns into the order of the key.
func inKeyOrder(t *catalog.Table, columns, key []string) ([]string, error) {
	if len(columns) == 0 && len(key) == len(t.Key) {
		return key, nil
	}
	if len(columns) != len(key) || len(key) != len(t.Key) {
		return nil, fmt.Errorf("table %s has the key columns %s", t.Source, strings.Join(t.Key, ", "))
	}
	ordered := make([]string, len(key))
	for i, name := range t.Key {
		at := slices.Index(columns, name)
		if at < 0 {
			return nil, fmt.Errorf("table %s has the key columns %s", t.Source, strings.Join(t.Key, ", "))
		}
		ordered[i] = key[at]
	}
	return ordered, nil
}

// A checkpointFile keeps a checkpoint in a file that only its owner may read.
type checkpointFile string

var _ reconcile.Checkpoint = checkpointFile("")

// Load implements reconcile.Checkpoint.
func (f checkpointFile) Load(context.Context) ([]byte, error) {
	data, err := os.ReadFile(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Save implements reconcile.Checkpoint.
func (f checkpointFile) Save(_ context.Context, data []byte) error {
	if data == nil {
		if err := os.Remove(string(f)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	if _, err := os.Stat(string(f)); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(string(f), nil, 0o600); err != nil {
			return err
		}
	}
	return replaceFile(string(f), data)
}
