// Package lake reads the lake side of a reconcile run: Iceberg tables, each at
// one snapshot.
//
// In come batches of a Store, with deletes applied: of a mirror its rows, of a
// changelog every change, which is folded to current rows as package sink
// defines it. Out go row digests and row hashes (a reconcile.Reader). Only the
// columns that are compared are read, and of a changelog those that the fold
// needs.
//
// A mirror is streamed: memory holds one batch. The fold of a changelog holds
// every current row of the table, once per reading. A column that no change of
// a changelog carries is read as NULL, as every view of the changelog shows it.
package lake

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/internal/canon/canonarrow"
	"icehose/reconcile"
)

// A Store is the lake. Package sink/iceberg implements it.
type Store interface {
	// Snapshot returns the current snapshot of the lake table of t; ok is
	// false when the table has none yet, so no rows. A table that is not there
	// is an error.
	Snapshot(ctx context.Context, t *catalog.Table) (id int64, ok bool, err error)
	// Scan yields the rows of a snapshot, deletes applied. Each batch has the
	// named columns and is valid until the next.
	Scan(ctx context.Context, t *catalog.Table, snapshotID int64, columns []string) iter.Seq2[arrow.RecordBatch, error]
}

// A Reader reads the tables of a Store. The snapshot of a table is that of the
// first call for it.
type Reader struct {
	store Store
	mu    sync.Mutex
	pins  map[string]pin // by source name
}

// A pin is the snapshot at which a table is read.
type pin struct {
	snapshot int64
	ok       bool // there is one
}

var _ reconcile.Reader = (*Reader)(nil)

// Open returns a Reader of the tables of a store.
func Open(store Store) *Reader { return &Reader{store: store, pins: map[string]pin{}} }

func (r *Reader) pin(ctx context.Context, t *catalog.Table) (pin, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.pins[t.Source]; ok {
		return p, nil
	}
	id, ok, err := r.store.Snapshot(ctx, t)
	if err != nil {
		return pin{}, fmt.Errorf("find snapshot of %s.%s: %w", t.Database(), t.Name(), err)
	}
	p := pin{snapshot: id, ok: ok}
	r.pins[t.Source] = p
	return p, nil
}

// Pin implements reconcile.Reader. It counts the rows of the snapshot, of a
// changelog the changes.
func (r *Reader) Pin(ctx context.Context, t *catalog.Table) (reconcile.Pinned, error) {
	p, err := r.pin(ctx, t)
	if err != nil {
		return reconcile.Pinned{}, err
	}
	if !p.ok {
		return reconcile.Pinned{Moment: "no snapshot"}, nil
	}
	pinned := reconcile.Pinned{Moment: fmt.Sprintf("snapshot %d", p.snapshot)}
	for batch, err := range r.batches(ctx, t, []string{catalog.ColumnCommittedAt}) {
		if err != nil {
			return reconcile.Pinned{}, err
		}
		pinned.Rows += batch.NumRows()
	}
	return pinned, nil
}

// Digests implements reconcile.Reader.
func (r *Reader) Digests(ctx context.Context, t *catalog.Table, buckets int) ([]canon.Digest, error) {
	return reconcile.DigestRows(r.scan(ctx, t), buckets)
}

// Rows implements reconcile.Reader.
func (r *Reader) Rows(ctx context.Context, t *catalog.Table, buckets int, wanted func(int) bool) iter.Seq2[reconcile.Row, error] {
	return reconcile.SelectRows(r.scan(ctx, t), buckets, wanted)
}

// scan yields the current rows of t, encoded.
func (r *Reader) scan(ctx context.Context, t *catalog.Table) iter.Seq2[*reconcile.Encoder, error] {
	return func(yield func(*reconcile.Encoder, error) bool) {
		encoder, err := reconcile.NewEncoder(t)
		if err != nil {
			yield(nil, err)
			return
		}
		rows := r.mirror
		switch t.Mode {
		case catalog.Mirror:
		case catalog.Changelog:
			rows = r.changelog
		default:
			yield(nil, fmt.Errorf("read %s.%s: no write mode %q", t.Database(), t.Name(), t.Mode))
			return
		}
		for row, err := range rows(ctx, t) {
			if err != nil {
				yield(nil, fmt.Errorf("read %s.%s: %w", t.Database(), t.Name(), err))
				return
			}
			encoder.Reset()
			for _, text := range row {
				if text == nil {
					encoder.Null()
				} else {
					encoder.Canonical(text)
				}
			}
			if err := encoder.End(); err != nil {
				yield(nil, fmt.Errorf("read %s.%s: %w", t.Database(), t.Name(), err))
				return
			}
			if !yield(encoder, nil) {
				return
			}
		}
	}
}

// mirror yields the rows of a mirror: the canonical text of each data column,
// nil for NULL, good until the next row.
func (r *Reader) mirror(ctx context.Context, t *catalog.Table) iter.Seq2[[][]byte, error] {
	columns, data := t.LakeColumns()
	return r.texts(ctx, t, columns[:data])
}

// batches yields the batches of the pinned snapshot, each valid until the next.
func (r *Reader) batches(ctx context.Context, t *catalog.Table, columns []string) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		p, err := r.pin(ctx, t)
		if err != nil || !p.ok {
			if err != nil {
				yield(nil, err)
			}
			return
		}
		for batch, err := range r.store.Scan(ctx, t, p.snapshot, columns) {
			if err != nil {
				yield(nil, err)
				return
			}
			if ctx.Err() != nil {
				break
			}
			if !yield(batch, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// texts yields the rows of the pinned snapshot: the canonical text of each of
// the columns, nil for NULL, good until the next row.
func (r *Reader) texts(ctx context.Context, t *catalog.Table, columns []catalog.Column) iter.Seq2[[][]byte, error] {
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].Name
	}
	return func(yield func([][]byte, error) bool) {
		row := make([][]byte, len(columns))
		buffers := make([][]byte, len(columns))
		for batch, err := range r.batches(ctx, t, names) {
			if err != nil {
				yield(nil, err)
				return
			}
			arrays, err := inOrder(batch, names)
			if err != nil {
				yield(nil, err)
				return
			}
			for n := range int(batch.NumRows()) {
				for i, a := range arrays {
					if a.IsNull(n) {
						row[i] = nil
						continue
					}
					if buffers[i], err = canonarrow.Append(buffers[i][:0], a, n, columns[i].Type); err != nil {
						yield(nil, fmt.Errorf("column %s: %w", names[i], err))
						return
					}
					if row[i] = buffers[i]; row[i] == nil {
						row[i] = []byte{} // the empty text, which is not NULL
					}
				}
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// inOrder returns the arrays of a batch in the order of names.
func inOrder(batch arrow.RecordBatch, names []string) ([]arrow.Array, error) {
	arrays := make([]arrow.Array, len(names))
	for i, name := range names {
		at := batch.Schema().FieldIndices(name)
		if len(at) != 1 {
			return nil, fmt.Errorf("the lake has %d columns called %s", len(at), name)
		}
		arrays[i] = batch.Column(at[0])
	}
	return arrays, nil
}
