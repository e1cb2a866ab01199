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
	"sync"
	"sync/atomic"

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
	Fault func(step Step, table string) error
	// Disk is asked before each file of a commit, as a lake of files would
	// write it; nil for never.
	Disk   *Disk
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
	key        []string
	mirror     bool
	rows       [][][]byte
	properties map[string]string
	files      map[string][]byte
	mu         sync.Mutex
	ahead      map[string][]string // by batch: the rows whose files were written before its commit
	meddled    atomic.Int64        // commits of somebody else
	Commits    int                 // commits made
}

// OpenTable implements sink.Store. A table that lacks columns of def gets them
// in the first commit of rows, null in the rows before.
func (l *Lake) OpenTable(_ context.Context, def *catalog.Table) (sink.Table, error) {
	name := def.Database() + "." + def.Name()
	columns, _ := def.LakeColumns()
	t, ok := l.tables[name]
	if !ok {
		t = &Table{
			lake: l, name: name, columns: slices.Clone(columns), mirror: def.Mode == catalog.Mirror, key: def.Key,
			properties: make(map[string]string), files: make(map[string][]byte),
		}
		l.tables[name] = t
	}
	for _, c := range columns {
		if i := t.index(c.Name); i >= 0 && t.columns[i].Type != c.Type {
			return nil, fmt.Errorf("table %s has another column %s: %w", name, c.Name, sink.ErrRefused)
		}
	}
	return &view{Table: t, columns: columns}, nil
}

// widen gives the table the columns that it lacks.
func (t *Table) widen(columns []catalog.Column) {
	added := slices.DeleteFunc(slices.Clone(columns), func(c catalog.Column) bool { return t.index(c.Name) >= 0 })
	if len(added) == 0 {
		return
	}
	t.columns = append(t.columns, added...)
}

func (t *Table) index(name string) int {
	return slices.IndexFunc(t.columns, func(c catalog.Column) bool { return c.Name == name })
}

// A view is a Table as somebody has opened it: with the columns that his
// pipeline file has.
type view struct {
	*Table
	columns []catalog.Column
}

var (
	_ sink.Table  = (*Table)(nil)
	_ sink.Table  = (*view)(nil)
	_ sink.Stager = (*view)(nil)
)

// Commit implements sink.Table.
func (v *view) Commit(ctx context.Context, b *sink.Batch) error { return v.commit(ctx, b, v.columns) }

// Scan implements sink.Table.
func (v *view) Scan(ctx context.Context, columns []int) iter.Seq2[[][]byte, error] {
	return v.scan(ctx, columns, v.columns)
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
	t.mu.Lock()
	defer t.mu.Unlock()
	properties := maps.Clone(t.properties)
	maps.DeleteFunc(properties, func(name, _ string) bool { return !strings.HasPrefix(name, sink.PropertyPrefix) })
	return sink.State{Properties: properties, Rows: int64(len(t.rows)), Own: true}, nil
}

// Commit implements sink.Table, for batches of all columns of the table.
func (t *Table) Commit(ctx context.Context, b *sink.Batch) error { return t.commit(ctx, b, t.columns) }

func (t *Table) commit(ctx context.Context, b *sink.Batch, columns []catalog.Column) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.fault(ctx, BeforeCommit); err != nil {
		return err
	}
	if t.properties[sink.PropertyCommit] != b.Parent {
		return sink.ErrConflict
	}
	before := t.meddled.Load()
	t.mu.Unlock() // others may commit while the files are written
	err := t.write(b)
	t.mu.Lock()
	delete(t.ahead, b.ID)
	if err != nil {
		return err
	}
	if t.meddled.Load() != before || t.properties[sink.PropertyCommit] != b.Parent {
		return sink.ErrConflict
	}
	rows, err := t.changed(b, columns)
	if err != nil {
		return err
	}
	if b.Inserts.Len()+b.Deletes.Len() > 0 {
		t.widen(columns)
		for i := range rows {
			rows[i] = append(rows[i], make([][]byte, len(t.columns)-len(rows[i]))...)
		}
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

// write asks the disk for the files of a commit.
func (t *Table) write(b *sink.Batch) error {
	if t.lake.Disk == nil {
		return nil
	}
	var names []string
	for _, f := range b.Files {
		names = append(names, f.Name)
	}
	t.mu.Lock()
	ahead, ok := t.ahead[b.ID]
	t.mu.Unlock()
	if !ok {
		names = append(names, rowFiles(b)...)
	} else if !slices.Equal(ahead, rowTexts(b)) {
		return errors.New("commit has other rows than were written for it")
	}
	for _, name := range append(names, "manifest.avro", "manifest-list.avro", "1.metadata.json") {
		if err := t.lake.Disk.Write(name); err != nil {
			return err
		}
	}
	return nil
}

// Stage implements sink.Stager.
func (t *Table) Stage(ctx context.Context, b *sink.Batch) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for _, name := range rowFiles(b) {
		if t.lake.Disk == nil {
			break
		}
		if err := t.lake.Disk.Write(name); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ahead == nil {
		t.ahead = make(map[string][]string)
	}
	t.ahead[b.ID] = rowTexts(b)
	return nil
}

// rowFiles names the files of the rows of a batch.
func rowFiles(b *sink.Batch) (names []string) {
	if b.Deletes.Len() > 0 {
		names = append(names, "deletes.parquet")
	}
	if b.Inserts.Len() > 0 {
		names = append(names, "rows.parquet")
	}
	return names
}

// rowTexts makes the rows of batches comparable.
func rowTexts(b *sink.Batch) (texts []string) {
	for row := range b.Deletes.All() {
		texts = append(texts, "delete "+rowText(row, nil))
	}
	for row := range b.Inserts.All() {
		texts = append(texts, "insert "+rowText(row, nil))
	}
	return texts
}

// changed returns the rows after b, or how b breaks the promises of a mirror:
// it deletes only keys that are there, each once, and leaves one row per key.
func (t *Table) changed(b *sink.Batch, columns []catalog.Column) ([][][]byte, error) {
	gone := make(map[string]bool)
	for key := range b.Deletes.All() {
		text := rowText(key, nil)
		if gone[text] {
			return nil, errors.New("commit deletes a key twice")
		}
		gone[text] = true
	}
	var rows [][][]byte
	var keys []int
	for _, name := range t.key {
		keys = append(keys, t.index(name))
	}
	found := 0
	held := make(map[string]bool)
	for _, row := range t.rows {
		key := rowText(row, keys)
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
	for texts := range b.Inserts.All() {
		row := t.arrange(texts, columns)
		if key := rowText(row, keys); t.mirror && len(t.key) > 0 {
			if held[key] {
				return nil, errors.New("commit leaves two rows of one key")
			}
			held[key] = true
		}
		rows = append(rows, cloneRow(row))
	}
	return rows, nil
}

// arrange puts the texts of columns where the table has them, and those of
// columns that it will get behind them.
func (t *Table) arrange(texts [][]byte, columns []catalog.Column) [][]byte {
	row := make([][]byte, len(t.columns))
	for i, c := range columns {
		if at := t.index(c.Name); at >= 0 {
			row[at] = texts[i]
		} else {
			row = append(row, texts[i])
		}
	}
	return row
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

// Scan implements sink.Table, for all columns of the table.
func (t *Table) Scan(ctx context.Context, columns []int) iter.Seq2[[][]byte, error] {
	return t.scan(ctx, columns, t.columns)
}

func (t *Table) scan(ctx context.Context, columns []int, all []catalog.Column) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		if err := t.fault(ctx, Reading); err != nil {
			yield(nil, err)
			return
		}
		t.mu.Lock()
		rows := t.rows // a commit makes new ones
		t.mu.Unlock()
		for _, row := range rows {
			picked := make([][]byte, len(columns))
			for i, c := range columns {
				if at := t.index(all[c].Name); at >= 0 {
					picked[i] = row[at]
				}
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
	t.mu.Lock()
	defer t.mu.Unlock()
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

// Meddle is a commit of somebody else who leaves rows and notes alone.
func (t *Table) Meddle() { t.meddled.Add(1) }
