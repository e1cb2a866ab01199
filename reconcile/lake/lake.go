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
// the current rows of the part that is read, and the keys of all key changes; a
// table of many changes is read in parts (reconcile.Pinned.Slice). A column that
// no change of a changelog carries is read as NULL, as every view of the
// changelog shows it.
package lake

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon"
	"icehose/reconcile"
	"icehose/sink"
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

// A KeyScanner is a Store that leaves out rows that are not wanted.
type KeyScanner interface {
	// ScanKeys is Scan of the rows that have one of the values, canonical texts,
	// in a column, and of those that have a value in the column orSet; without
	// values, of the latter only, and without orSet of the former. Other rows may
	// be among them.
	ScanKeys(ctx context.Context, t *catalog.Table, snapshotID int64, columns []string, column string, values []string, orSet string) iter.Seq2[arrow.RecordBatch, error]
}

// A Reader reads the tables of a Store.
type Reader struct {
	store  Store
	mu     sync.Mutex
	newest map[string]known // by source name
}

// known is the newest change of a table in a snapshot.
type known struct {
	snapshot int64
	newest   time.Time
}

var _ reconcile.Reader = (*Reader)(nil)

// Open returns a Reader of the tables of a store.
func Open(store Store) *Reader { return &Reader{store: store, newest: map[string]known{}} }

// Open implements reconcile.Reader: the view is at the newest snapshot. An
// exact one has read the positions: so it knows how many rows there are, of a
// changelog changes.
func (r *Reader) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	v := &view{store: r.store, table: t}
	var err error
	if v.snapshot, v.ok, err = r.snapshot(ctx, t); err != nil {
		return nil, err
	}
	v.pinned.Moment = "no snapshot"
	if !v.ok {
		return v, nil
	}
	v.pinned.Moment = fmt.Sprintf("snapshot %d", v.snapshot)
	v.pinned.Newest.Committed, err = r.newestOf(ctx, t, v.snapshot)
	if err == nil && exact {
		err = v.count(ctx)
	}
	if err == nil && t.Mode == catalog.Changelog && len(t.Key) > 0 {
		v.pinned.Slice, err = v.foldRows(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s.%s: %w", t.Database(), t.Name(), err)
	}
	return v, nil
}

func (r *Reader) snapshot(ctx context.Context, t *catalog.Table) (id int64, ok bool, err error) {
	if id, ok, err = r.store.Snapshot(ctx, t); err != nil {
		return 0, false, fmt.Errorf("find snapshot of %s.%s: %w", t.Database(), t.Name(), err)
	}
	return id, ok, nil
}

// State implements reconcile.Reader. The mark is the snapshots of the tables.
// A table that is not there has none.
func (r *Reader) State(ctx context.Context, tables []*catalog.Table) (reconcile.State, error) {
	var s reconcile.State
	for _, t := range tables {
		id, ok, err := r.store.Snapshot(ctx, t)
		if err != nil {
			if ctx.Err() != nil {
				return s, ctx.Err()
			}
			s.Mark += t.Source + " none;"
			continue
		}
		s.Mark += fmt.Sprintf("%s %d;", t.Source, id)
		if !ok {
			continue
		}
		newest, err := r.newestOf(ctx, t, id)
		if err != nil {
			return s, fmt.Errorf("read %s.%s: %w", t.Database(), t.Name(), err)
		}
		if newest.After(s.Time) {
			s.Time = newest
		}
	}
	return s, nil
}

// newestOf reads the newest commit time of a snapshot, once.
func (r *Reader) newestOf(ctx context.Context, t *catalog.Table, snapshot int64) (time.Time, error) {
	r.mu.Lock()
	k, ok := r.newest[t.Source]
	r.mu.Unlock()
	if ok && k.snapshot == snapshot {
		return k.newest, nil
	}
	k = known{snapshot: snapshot}
	if n, ok := r.store.(Newester); ok {
		var err error
		if k.newest, err = n.NewestCommit(ctx, t, snapshot); err != nil {
			return time.Time{}, err
		}
	} else {
		v := &view{store: r.store, table: t, snapshot: snapshot, ok: true}
		var err error
		if _, k.newest, err = v.committed(ctx); err != nil {
			return time.Time{}, err
		}
	}
	r.mu.Lock()
	r.newest[t.Source] = k
	r.mu.Unlock()
	return k.newest, nil
}

// A Newester is a Store that knows the newest commit time of a snapshot's rows
// without reading them. It may be that of a row which was replaced since.
type Newester interface {
	NewestCommit(ctx context.Context, t *catalog.Table, snapshotID int64) (time.Time, error)
}

// A Keeper is a Store that knows whether a snapshot is still there.
type Keeper interface {
	HasSnapshot(ctx context.Context, t *catalog.Table, snapshotID int64) (bool, error)
}

// Oldest returns the oldest commit time among the current rows of a mirror:
// the low watermark, if the table has a row for every shard of the stream and
// somebody keeps updating all of them. The zero time when it has no rows.
func (r *Reader) Oldest(ctx context.Context, t *catalog.Table) (oldest time.Time, err error) {
	if t.Mode != catalog.Mirror {
		return oldest, fmt.Errorf("read %s.%s: want a mirror: a changelog keeps old rows", t.Database(), t.Name())
	}
	v := &view{store: r.store, table: t}
	if v.snapshot, v.ok, err = r.snapshot(ctx, t); err != nil {
		return oldest, err
	}
	if oldest, _, err = v.committed(ctx); err != nil {
		return oldest, fmt.Errorf("read %s.%s: %w", t.Database(), t.Name(), err)
	}
	return oldest, nil
}

// Reached returns the position below which a lake has every change of the
// tables of p, as the sink that writes it has recorded (sink.Checkpoint); empty
// when it has not, or cannot tell.
func Reached(ctx context.Context, store Store, p *catalog.Pipeline) (cdc.Position, error) {
	checkpoints, ok := store.(sink.Checkpointer)
	if !ok {
		return "", nil
	}
	last, err := sink.ReadCheckpoint(ctx, checkpoints, p)
	if err != nil || last == nil {
		return "", err
	}
	for _, t := range p.Tables { // the record's name is that of the database alone
		if _, ok := last.Tables[t.Database()+"."+t.Name()]; !ok {
			return "", nil
		}
	}
	low, _ := last.Watermark()
	return low, nil
}

// timeLayout is that of a canonical timestamptz.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// A view is one table at one snapshot.
type view struct {
	store    Store
	table    *catalog.Table
	snapshot int64
	ok       bool // there is one
	pinned   reconcile.Pinned
}

// Pinned implements reconcile.View.
func (v *view) Pinned() reconcile.Pinned { return v.pinned }

// Close implements reconcile.View.
func (*view) Close() error { return nil }

// Digests implements reconcile.View.
func (v *view) Digests(ctx context.Context, part reconcile.Part) ([]canon.Digest, error) {
	return reconcile.DigestRows(v.table, v.scan(ctx, part, false), part)
}

// Rows implements reconcile.View. A row's stamp is its position.
func (v *view) Rows(ctx context.Context, part reconcile.Part) iter.Seq2[reconcile.Row, error] {
	return reconcile.SelectRows(v.table, v.scan(ctx, part, true), part)
}

// count counts the rows and finds the newest position among them.
func (v *view) count(ctx context.Context) error {
	var position []byte
	for row, err := range v.texts(ctx, []catalog.Column{positionColumn}, nil) {
		if err != nil {
			return err
		}
		v.pinned.Rows++
		if bytes.Compare(row[0], position) > 0 {
			position = append(position[:0], row[0]...)
		}
	}
	v.pinned.Newest.Position = cdc.Position(position)
	return nil
}

// committed returns the oldest and the newest commit time of the rows. Oldest
// is zero when a row has none.
func (v *view) committed(ctx context.Context) (oldest, newest time.Time, err error) {
	unknown := false
	for row, err := range v.texts(ctx, []catalog.Column{{Name: catalog.ColumnCommittedAt, Type: catalog.Type{Kind: catalog.TimestampTZ}}}, nil) {
		if err != nil {
			return oldest, newest, err
		}
		if row[0] == nil {
			unknown = true
			continue
		}
		at, err := time.Parse(timeLayout, string(row[0]))
		if err != nil {
			return oldest, newest, fmt.Errorf("column %s: %w", catalog.ColumnCommittedAt, err)
		}
		if oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
		if at.After(newest) {
			newest = at
		}
	}
	if unknown {
		oldest = time.Time{}
	}
	return oldest, newest, nil
}

// scan yields current rows of t, those of the part among them, encoded; stamped
// also reads their positions.
func (v *view) scan(ctx context.Context, part reconcile.Part, stamped bool) iter.Seq2[*reconcile.Encoder, error] {
	return func(yield func(*reconcile.Encoder, error) bool) {
		t := v.table
		encoder, err := reconcile.NewEncoder(t)
		if err != nil {
			yield(nil, err)
			return
		}
		var rows iter.Seq2[stampedRow, error]
		switch t.Mode {
		case catalog.Mirror:
			rows = v.mirror(ctx, part, stamped)
		case catalog.Changelog:
			rows = v.changelog(ctx, part)
		default:
			yield(nil, fmt.Errorf("read %s.%s: no write mode %q", t.Database(), t.Name(), t.Mode))
			return
		}
		for row, err := range rows {
			if err != nil {
				yield(nil, fmt.Errorf("read %s.%s: %w", t.Database(), t.Name(), err))
				return
			}
			encoder.Reset()
			for _, text := range row.values {
				encoder.Lake(text)
			}
			encoder.Stamp(row.position)
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

// A stampedRow is a current row, good until the next one.
type stampedRow struct {
	values   [][]byte // the canonical text of each data column, nil for NULL
	position []byte
}

// mirror yields rows of a mirror, those of the part among them, stamped ones with
// their positions.
func (v *view) mirror(ctx context.Context, part reconcile.Part, stamped bool) iter.Seq2[stampedRow, error] {
	return func(yield func(stampedRow, error) bool) {
		lake, data := v.table.LakeColumns()
		columns := slices.Clone(lake[:data])
		if stamped {
			columns = append(columns, positionColumn)
		}
		for texts, err := range v.texts(ctx, columns, v.only(part.Keys.Texts(), "")) {
			if err != nil {
				yield(stampedRow{}, err)
				return
			}
			row := stampedRow{values: texts[:data]}
			if stamped {
				row.position = texts[data]
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// positionColumn is read as the text that it is.
var positionColumn = catalog.Column{Name: catalog.ColumnPosition, Type: catalog.Type{Kind: catalog.String}} //nolint:gochecknoglobals // a constant
