// Package sinktest tests what stands on either side of a sink.Store: the
// conformance of a store (RunStoreTests), and the sink itself under hostile
// delivery and crashes (RunChaos). Lake is a store in memory that fails on
// demand and refuses commits that a correct sink never makes.
//
// It is for tests only and promises no speed.
package sinktest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/sink"
)

// A Step is a place where a Lake can be made to fail.
type Step string

// The steps of a Lake.
const (
	Loading      Step = "load"          // nothing was read
	BeforeCommit Step = "before-commit" // nothing was written
	AfterCommit  Step = "after-commit"  // the commit has happened, although it returns an error
	Reading      Step = "read"          // a scan or a file
)

// A Lake is a sink.Store in memory. It outlives the sinks that write it, as a
// real lake does.
type Lake struct {
	// Fault is asked at each step whether it fails; nil for never.
	Fault  func(step Step, table string) error
	tables map[string]*Table
}

var _ sink.Store = (*Lake)(nil)

// NewLake returns an empty lake.
func NewLake() *Lake { return &Lake{tables: make(map[string]*Table)} }

// A Table is one table of a Lake.
type Table struct {
	lake       *Lake
	name       string
	columns    []catalog.Column
	key        []int
	mirror     bool
	rows       [][][]byte
	properties map[string]string
	files      map[string][]byte
	Commits    int // commits made
}

// OpenTable implements sink.Store.
func (l *Lake) OpenTable(_ context.Context, def *catalog.Table) (sink.Table, error) {
	name := def.Database() + "." + def.Name()
	columns, _ := def.LakeColumns()
	if t, ok := l.tables[name]; ok {
		if !slices.EqualFunc(t.columns, columns, func(a, b catalog.Column) bool { return a.Name == b.Name && a.Type == b.Type }) {
			return nil, fmt.Errorf("table %s has other columns", name)
		}
		return t, nil
	}
	t := &Table{
		lake: l, name: name, columns: columns, mirror: def.Mode == catalog.Mirror,
		properties: make(map[string]string), files: make(map[string][]byte),
	}
	for _, k := range def.Key {
		t.key = append(t.key, slices.IndexFunc(columns, func(c catalog.Column) bool { return c.Name == k }))
	}
	l.tables[name] = t
	return t, nil
}

func (t *Table) fault(ctx context.Context, step Step) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if t.lake.Fault == nil {
		return nil
	}
	return t.lake.Fault(step, t.name)
}

// Load implements sink.Table.
func (t *Table) Load(ctx context.Context) (sink.State, error) {
	if err := t.fault(ctx, Loading); err != nil {
		return sink.State{}, err
	}
	properties := maps.Clone(t.properties)
	maps.DeleteFunc(properties, func(name, _ string) bool { return !strings.HasPrefix(name, sink.PropertyPrefix) })
	return sink.State{Properties: properties, Rows: int64(len(t.rows))}, nil
}

// Commit implements sink.Table.
func (t *Table) Commit(ctx context.Context, b *sink.Batch) error {
	if err := t.fault(ctx, BeforeCommit); err != nil {
		return err
	}
	if t.properties[sink.PropertyCommit] != b.Parent {
		return sink.ErrConflict
	}
	rows, err := t.changed(b)
	if err != nil {
		return err
	}
	t.rows = rows
	maps.Copy(t.properties, b.Properties)
	for _, f := range b.Files {
		t.files[f.Name] = slices.Clone(f.Data)
	}
	for _, name := range b.Drop {
		if _, ok := t.files[name]; !ok {
			return fmt.Errorf("commit drops %s, which is not there", name)
		}
		delete(t.files, name)
	}
	t.Commits++
	return t.fault(ctx, AfterCommit)
}

// changed returns the rows after b, or how b breaks the promises of a mirror:
// it deletes only keys that are there, each once, and leaves one row per key.
func (t *Table) changed(b *sink.Batch) ([][][]byte, error) {
	gone := make(map[string]bool)
	for key := range b.Deletes.All() {
		text := rowText(key, nil)
		if gone[text] {
			return nil, errors.New("commit deletes a key twice")
		}
		gone[text] = true
	}
	var rows [][][]byte
	found := 0
	held := make(map[string]bool)
	for _, row := range t.rows {
		key := rowText(row, t.key)
		if gone[key] {
			found++
			continue
		}
		held[key] = true
		rows = append(rows, row)
	}
	if found < len(gone) {
		return nil, errors.New("commit deletes a key that is not there")
	}
	for row := range b.Inserts.All() {
		if key := rowText(row, t.key); t.mirror && len(t.key) > 0 {
			if held[key] {
				return nil, errors.New("commit leaves two rows of one key")
			}
			held[key] = true
		}
		rows = append(rows, cloneRow(row))
	}
	return rows, nil
}

// rowText makes rows comparable: the values picked, or all.
func rowText(row [][]byte, pick []int) string {
	var text []byte
	add := func(v []byte) {
		if v == nil {
			text = canon.AppendNull(text)
		} else {
			text = canon.AppendField(text, v)
		}
	}
	if pick == nil {
		for _, v := range row {
			add(v)
		}
	}
	for _, i := range pick {
		add(row[i])
	}
	return string(text)
}

func cloneRow(row [][]byte) [][]byte {
	out := make([][]byte, len(row))
	for i, v := range row {
		if v != nil {
			out[i] = append([]byte{}, v...)
		}
	}
	return out
}

// Scan implements sink.Table.
func (t *Table) Scan(ctx context.Context, columns []int) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		if err := t.fault(ctx, Reading); err != nil {
			yield(nil, err)
			return
		}
		for _, row := range t.rows {
			picked := make([][]byte, len(columns))
			for i, c := range columns {
				picked[i] = row[c]
			}
			if !yield(picked, nil) {
				return
			}
		}
	}
}

// ReadFile implements sink.Table.
func (t *Table) ReadFile(ctx context.Context, name string) ([]byte, error) {
	if err := t.fault(ctx, Reading); err != nil {
		return nil, err
	}
	data, ok := t.files[name]
	if !ok {
		return nil, fmt.Errorf("read file %s: %w", name, fs.ErrNotExist)
	}
	return data, nil
}

// Files returns the names of the table's files, sorted.
func (t *Table) Files() []string { return slices.Sorted(maps.Keys(t.files)) }

// Table returns a table, nil if it was never opened.
func (l *Lake) Table(database, name string) *Table { return l.tables[database+"."+name] }

// RemoveFile loses a file, as a careless cleanup does.
func (t *Table) RemoveFile(name string) { delete(t.files, name) }
