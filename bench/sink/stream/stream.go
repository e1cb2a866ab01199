// Package stream makes what the sink's benchmarks deliver: changes of tables
// with ten columns, as transform writes them. The same arguments give the same
// bytes.
package stream

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink"
)

// Database is the database of all tables.
const Database = "lake"

// Columns are the key and the ten columns of a table, as a pipeline file has them.
const Columns = `
  key: [id]
  columns:
  - {name: id, type: long}
  - {name: name, type: string}
  - {name: country, type: string}
  - {name: qty, type: int}
  - {name: ratio, type: double}
  - {name: amount, type: "decimal(18,2)"}
  - {name: active, type: boolean}
  - {name: day, type: date}
  - {name: at, type: timestamptz}
  - {name: note, type: string}
`

// A Table is a table of ten columns.
type Table struct {
	Name, Mode string // mirror or changelog
	Reader     string // of a mirror; it decides about the form of deletes
}

// Pipeline returns the definitions of tables.
func Pipeline(tables ...Table) (*catalog.Pipeline, error) {
	var b strings.Builder
	b.WriteString("version: 1\ndatabase: " + Database + "\nsource: {engine: postgresql, position: postgres}\ntables:\n")
	for _, t := range tables {
		b.WriteString("- source: s." + t.Name + "\n  mode: " + t.Mode)
		if t.Reader != "" {
			b.WriteString("\n  readers: [" + t.Reader + "]")
		}
		b.WriteString(Columns)
	}
	return catalog.Parse("pipeline.yaml", []byte(b.String()))
}

// A Change is the change number N, from 0, of the only shard of a stream.
type Change struct {
	N         uint64
	ID        int
	Operation cdc.Operation
}

// Position is the position of the change.
func (c *Change) Position() cdc.Position { return cdc.ChangePosition(0, cdc.Body{Lo: c.N + 1}, 0) }

// appendRow appends the row as a mirror gets it.
func (c *Change) appendRow(dst []byte) []byte {
	id, n := c.ID, c.N+1
	at := fmt.Sprintf("2026-01-%02dT%02d:%02d:%02d.000000Z", 1+n/86_400%28, n/3600%24, n/60%60, n%60)
	if c.Operation == cdc.Delete {
		return fmt.Appendf(dst, `{"id":%d,"name":null,"country":null,"qty":null,"ratio":null,"amount":null,"active":null,"day":null,"at":null,"note":null,`+
			`"cdc_position":"%s","cdc_committed_at":"%s"}`, id, c.Position(), at)
	}
	h := uint64(id)*0x9E3779B97F4A7C15 ^ n
	return fmt.Appendf(dst, `{"id":%d,"name":"name-%d-v%d","country":"%s","qty":%d,"ratio":%d.%d,"amount":"%d.%02d","active":%t,"day":"2026-01-%02d","at":"%s",`+
		`"note":"%016x%016x","cdc_position":"%s","cdc_committed_at":"%s"}`,
		id, id, n, []string{"DE", "FR", "US", "CN"}[id%4], n%1000, h%100_000, h%9+1, h%1_000_000, h%100, id%2 == 0, 1+n%28, at, h, h*31, c.Position(), at)
}

// Append appends the row of the change as the table gets it.
func (t *Table) Append(dst []byte, c *Change) []byte {
	dst = c.appendRow(dst)
	if t.Mode == "changelog" {
		dst = fmt.Appendf(dst[:len(dst)-1], `,"cdc_operation":"%s","cdc_old_key":null,"cdc_absent":null}`, c.Operation)
	}
	return dst
}

// Delivery is the record of the change, whose row Append has made.
func (t *Table) Delivery(c *Change, row []byte) sink.Delivery {
	o := c.Operation
	if t.Mode == "changelog" {
		o = cdc.Insert
	}
	return sink.Delivery{
		Offset: sink.Offset{Shard: "shardId-000000000000", Sequence: strconv.FormatUint(c.N, 10), Ordinal: c.N},
		Row:    &sink.Row{Database: Database, Table: t.Name, Operation: o, Data: row},
	}
}

// Deliveries are the records of count changes from the number n on.
func (t *Table) Deliveries(n uint64, count int, change func(n uint64) Change) []sink.Delivery {
	out := make([]sink.Delivery, count)
	for i := range out {
		c := change(n + uint64(i)) //nolint:gosec // an index
		out[i] = t.Delivery(&c, t.Append(nil, &c))
	}
	return out
}

// NewKey is a change of a key that has its number.
func NewKey(n uint64) Change {
	return Change{N: n, ID: int(n), Operation: cdc.Update} //nolint:gosec // a number of changes
}

// Mixed draws changes of a table whose keys were 0 to rows-1: 80 % updates, 10 %
// inserts, 10 % deletes.
func Mixed(r *rand.Rand, rows int, n uint64) Change {
	switch c := (Change{N: n, ID: r.IntN(rows), Operation: cdc.Update}); r.IntN(10) {
	case 0:
		return Change{N: n, ID: rows + int(n), Operation: cdc.Update} //nolint:gosec // a number of changes
	case 1:
		c.Operation = cdc.Delete
		return c
	default:
		return c
	}
}
