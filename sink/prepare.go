package sink

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
)

// prepare turns the buffer into a commit. It changes nothing in w.
func (w *writer) prepare(ctx context.Context, seen offsets) (*flight, error) {
	f := &flight{offsets: w.offsets.union(seen), newest: noTime, segments: w.segments}
	f.batch.Parent, f.batch.ID = w.commitID, rand.Text()
	f.batch.Properties = map[string]string{PropertyCommit: f.batch.ID}
	text, err := json.Marshal(f.offsets)
	if err != nil {
		return nil, fmt.Errorf("write offsets: %w", err)
	}
	f.batch.Properties[PropertyOffsets] = string(text)
	f.batch.Inserts = Rows{data: w.data, width: len(w.columns)}
	f.batch.Deletes = Rows{data: w.data, width: len(w.columns), pick: w.key}
	for i := range w.changes {
		w.place(f, &w.changes[i])
	}
	if w.guard != nil {
		err = w.remember(ctx, f)
	}
	return f, err
}

// place puts a change into the commit. An equality delete does not touch rows
// of its own commit, so an update is a delete and an insert of the same key.
func (w *writer) place(f *flight, c *change) {
	if c.collapsed {
		return
	}
	f.newest = max(f.newest, c.committed)
	if c.live {
		f.batch.Deletes.starts = append(f.batch.Deletes.starts, c.start)
	}
	if !c.deletes {
		f.batch.Inserts.starts = append(f.batch.Inserts.starts, c.start)
	}
}

// remember adds the tombstones and the horizon.
func (w *writer) remember(ctx context.Context, f *flight) error {
	var tombs []tombstone
	for i := range w.changes {
		if c := &w.changes[i]; c.deletes && !c.collapsed {
			tombs = append(tombs, tombstone{key: c.key, position: c.position, committed: w.deletedAt(c, f)})
		}
	}
	var file *File
	var err error
	f.segments, file, f.batch.Drop, err = addSegment(ctx, w.store, w.guard, w.segments, tombs, "cdc-tombstones-"+f.batch.ID+".bin")
	if err != nil {
		return err
	}
	if file != nil {
		f.batch.Files = append(f.batch.Files, *file)
	}
	text, err := json.Marshal(f.segments)
	if err != nil {
		return fmt.Errorf("write tombstones: %w", err)
	}
	f.batch.Properties[PropertyTombstones] = string(text)
	f.batch.Properties[PropertyHorizon], err = w.guard.horizonText(f.newest)
	return err
}

// deletedAt is the commit time of a delete, or the newest one known.
func (w *writer) deletedAt(c *change, f *flight) int64 {
	if c.committed != noTime {
		return c.committed
	}
	return max(w.guard.newest, f.newest)
}

// settle makes the state of w that of the commit, which has landed.
func (w *writer) settle(f *flight) {
	w.offsets, w.segments, w.commitID = f.offsets, f.segments, f.batch.ID
	applied := int64(0)
	for i := range w.changes {
		c := &w.changes[i]
		if c.collapsed {
			continue
		}
		applied++
		if w.guard != nil {
			w.guard.set(c.key, &c.position, c.deletes, w.deletedAt(c, f))
		}
	}
	if w.guard != nil {
		w.guard.advance(f.newest)
		w.rows.Store(w.guard.rows())
	} else if w.rows.Load() >= 0 {
		w.rows.Add(applied)
	}
	w.applied.Add(applied)
	w.commits.Add(1)
	w.log.Info("table committed", slog.String("table", w.name()), slog.String("commit_id", f.batch.ID),
		slog.Int64("changes", applied), slog.Int("inserts", f.batch.Inserts.Len()), slog.Int("deletes", f.batch.Deletes.Len()))
	w.data, w.changes = w.data[:0], w.changes[:0]
	clear(w.latest)
}
