// Package reconciletest holds what every reader of package reconcile is tested
// with: a pipeline whose tables have all types and all sorts of keys, a reader
// of rows in memory, and a suite that a reader must pass.
//
// In come rows as canonical texts. The suite computes what it expects from
// their canonical bytes itself, apart from the encoder that readers share.
package reconciletest

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/reconcile"
)

// A Value is one value of a row: its canonical text, or NULL.
type Value struct {
	Text string
	Null bool
}

// Null is the value NULL.
func Null() Value { return Value{Null: true} }

// A Row is the values of one row, in the order of the table's columns.
type Row []Value

// MakeRow returns a row of texts without a NULL.
func MakeRow(texts ...string) Row {
	row := make(Row, len(texts))
	for i, text := range texts {
		row[i].Text = text
	}
	return row
}

// Tables are the rows of each table, by the table's name at the source.
type Tables map[string][]Row

// The tables of Pipeline.
const (
	Typed   = "public.typed"   // one key column, a column of every type
	Lines   = "public.lines"   // a key of two columns, which are not the first and in another order
	History = "public.history" // no key
	Changes = "public.changes" // written as a changelog
)

const pipelineText = `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - source: public.typed
    mode: mirror
    key: [id]
    columns:
      - {name: id, type: long}
      - {name: yes, type: boolean}
      - {name: small, type: int}
      - {name: real, type: float}
      - {name: wide, type: double}
      - {name: price, type: "decimal(12,2)"}
      - {name: big, type: "decimal(38,10)"}
      - {name: day, type: date}
      - {name: clock, type: time}
      - {name: at, type: timestamp}
      - {name: at_zone, type: timestamptz}
      - {name: note, type: string}
      - {name: other, type: string}
      - {name: ident, type: uuid}
      - {name: code, type: "fixed[4]"}
      - {name: raw, type: binary}
  - source: public.lines
    mode: mirror
    key: [line, doc]
    columns:
      - {name: note, type: string}
      - {name: doc, type: string}
      - {name: line, type: int}
  - source: public.history
    mode: changelog
    columns:
      - {name: doc, type: string}
      - {name: amount, type: "decimal(6,2)"}
  - source: public.changes
    mode: changelog
    key: [id]
    columns:
      - {name: id, type: long}
      - {name: note, type: string}
      - {name: amount, type: "decimal(6,2)"}
`

// A T is what helpers need of a *testing.T or a *rapid.T.
type T interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Pipeline returns the suite's pipeline file.
func Pipeline(t T) *catalog.Pipeline {
	t.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte(pipelineText))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Table returns the table of p with the given name at the source.
func Table(t T, p *catalog.Pipeline, source string) *catalog.Table {
	t.Helper()
	for _, table := range p.Tables {
		if table.Source == source {
			return table
		}
	}
	t.Fatalf("no table %s", source)
	return nil
}

// Memory is a reader of rows in memory. It reads the rows as they are at the
// time of each call.
type Memory struct {
	Tables Tables
	// Guess is how many rows Pin says that a table has; 0: the truth.
	Guess int64
}

var _ reconcile.Reader = (*Memory)(nil)

// Open implements reconcile.Reader.
func (m *Memory) Open(_ context.Context, t *catalog.Table, _ bool) (reconcile.View, error) {
	rows, ok := m.Tables[t.Source]
	if !ok {
		return nil, fmt.Errorf("read memory: no table %s", t.Source)
	}
	pinned := reconcile.Pinned{Moment: "memory", Rows: int64(len(rows))}
	if m.Guess > 0 {
		pinned.Rows = m.Guess
	}
	return &memoryView{memory: m, table: t, pinned: pinned}, nil
}

// State implements reconcile.Reader.
func (m *Memory) State(context.Context, []*catalog.Table) (reconcile.State, error) {
	return reconcile.State{Mark: "memory"}, nil
}

type memoryView struct {
	memory *Memory
	table  *catalog.Table
	pinned reconcile.Pinned
}

// Pinned implements reconcile.View.
func (v *memoryView) Pinned() reconcile.Pinned { return v.pinned }

// Digests implements reconcile.View.
func (v *memoryView) Digests(ctx context.Context, part reconcile.Part) ([]canon.Digest, error) {
	return reconcile.DigestRows(v.table, v.memory.scan(ctx, v.table), part)
}

// Rows implements reconcile.View.
func (v *memoryView) Rows(ctx context.Context, part reconcile.Part) iter.Seq2[reconcile.Row, error] {
	return reconcile.SelectRows(v.table, v.memory.scan(ctx, v.table), part)
}

// Close implements reconcile.View.
func (*memoryView) Close() error { return nil }

func (m *Memory) scan(ctx context.Context, t *catalog.Table) iter.Seq2[*reconcile.Encoder, error] {
	return func(yield func(*reconcile.Encoder, error) bool) {
		rows, ok := m.Tables[t.Source]
		if !ok {
			yield(nil, fmt.Errorf("read memory: no table %s", t.Source))
			return
		}
		e, err := reconcile.NewEncoder(t)
		if err != nil {
			yield(nil, err)
			return
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return
		}
		for _, row := range rows {
			e.Reset()
			for _, v := range row {
				if v.Null {
					e.Null()
				} else {
					e.Canonical([]byte(v.Text))
				}
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Expected returns the digests that a reader of rows must return.
func Expected(t T, table *catalog.Table, rows []Row, buckets int) []canon.Digest {
	t.Helper()
	digests := make([]canon.Digest, buckets)
	for _, row := range rows {
		r := ExpectedRow(t, table, row, buckets)
		digests[r.Bucket].Add(r.Hash)
	}
	return digests
}

// ExpectedRow returns what a reader must yield for a row.
func ExpectedRow(t T, table *catalog.Table, row Row, buckets int) reconcile.Row {
	t.Helper()
	var whole, key []byte
	for i, v := range row {
		whole = appendValue(t, whole, table.Columns[i], v)
	}
	for _, name := range table.Key {
		i := slices.IndexFunc(table.Columns, func(c *catalog.Column) bool { return c.Name == name })
		if i < 0 {
			t.Fatalf("no column %s", name)
		}
		key = appendValue(t, key, table.Columns[i], row[i])
	}
	hash := canon.HashRow(whole)
	keyHash := canon.HashRow(key)
	if len(table.Key) == 0 {
		key = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, hash.Hi), hash.Lo)
		keyHash = hash
	}
	return reconcile.Row{Bucket: int(keyHash.Lo % uint64(buckets)), Key: key, Hash: hash}
}

// appendValue appends a field. Of a float it takes the bits from the text by
// itself.
func appendValue(t T, dst []byte, c *catalog.Column, v Value) []byte {
	t.Helper()
	if v.Null {
		return append(dst, "N:"...)
	}
	text := v.Text
	if bits := map[catalog.TypeKind]int{catalog.Float: 32, catalog.Double: 64}[c.Type.Kind]; bits > 0 {
		f, err := strconv.ParseFloat(text, bits)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case f != f && bits == 32:
			text = "7fc00000"
		case f != f:
			text = "7ff8000000000000"
		case bits == 32:
			text = fmt.Sprintf("%08x", math.Float32bits(float32(f)))
		default:
			text = fmt.Sprintf("%016x", math.Float64bits(f))
		}
	}
	return append(dst, fmt.Sprintf("%d:%s", len(text), text)...)
}
