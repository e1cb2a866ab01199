package sink

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"icehose/internal/canon"
)

// prepared prepares a commit, if need be several times: files of tombstones are
// read on the way.
func (w *writer) prepared(ctx context.Context, seen offsets) (*flight, error) {
	r := w.retry()
	for {
		f, err := w.prepare(ctx, seen)
		if err == nil {
			return f, nil
		}
		if err = r.again(ctx, w.fenced(ctx, err)); err != nil {
			return nil, err
		}
	}
}

// prepare turns the buffer into a commit. It changes nothing in w.
func (w *writer) prepare(ctx context.Context, seen offsets) (*flight, error) {
	if w.guard != nil {
		if err := w.guard.makeRoom(ctx, len(w.changes)); err != nil {
			return nil, err
		}
	}
	f := &flight{offsets: w.offsets.union(seen), segments: w.segments, data: w.data, changes: w.changes, staged: w.arranged()}
	f.batch.Parent, f.batch.ID = w.commitID, f.staged.id
	f.batch.Inserts, f.batch.Deletes = f.staged.inserts, f.staged.deletes
	f.batch.Properties = map[string]string{PropertyCommit: f.batch.ID}
	text, err := json.Marshal(f.offsets)
	if err != nil {
		return nil, fmt.Errorf("write offsets: %w", err)
	}
	f.batch.Properties[PropertyOffsets] = string(text)
	if len(w.starts) > 0 {
		text, err := json.Marshal(w.starts)
		if err != nil {
			return nil, fmt.Errorf("write starts: %w", err)
		}
		f.batch.Properties[PropertyStarts] = string(text)
	}
	highest, err := w.watch.text()
	if err != nil {
		return nil, err
	}
	if highest != "" {
		f.batch.Properties[PropertyHighest] = highest
	}
	if w.guard != nil {
		f.clock = w.guard.clock.after(w.changes)
		err = w.remember(ctx, f)
	}
	return f, err
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
	f.batch.Properties[PropertyHorizon], err = w.guard.horizonText(f.clock)
	return err
}

// deletedAt is the commit time of a delete, or what the clock says if it has none.
func (w *writer) deletedAt(c *change, f *flight) int64 {
	if c.committed != noTime {
		return c.committed
	}
	return f.clock.now
}

// keepLatest is up to how many keys the memory of a writer's map is kept for its
// next buffer: some 150 KB.
const keepLatest = 4096

// launch makes f the commit that comes next, whatever happens: the guard takes
// its changes for done, and a new buffer begins. Should it never land, nothing
// that w decides from now on ever will either.
func (w *writer) launch(f *flight) {
	w.flight = f
	if w.watch.moved {
		position := w.watch.highest.text()
		f.highest = &position
	}
	if w.guard != nil {
		for i := range f.changes {
			if c := &f.changes[i]; !c.collapsed {
				w.guard.set(c.key, &c.position, c.deletes, w.deletedAt(c, f), c.live)
			}
		}
		w.guard.advance(f.clock)
		if len(w.latest) > keepLatest {
			w.latest = make(map[canon.Hash]int) // a map that was cleared keeps its size
		} else {
			clear(w.latest)
		}
	}
	w.data, w.changes, w.staged = nil, nil, nil
}

// settle notes that the flight has landed.
func (w *writer) settle() {
	f := w.flight
	w.flight = nil
	w.fresh = false
	w.offsets, w.segments, w.commitID = f.offsets, f.segments, f.batch.ID
	applied := int64(0)
	for i := range f.changes {
		if !f.changes[i].collapsed {
			applied++
		}
	}
	if w.guard != nil {
		w.countKeys()
	} else if w.rows.Load() >= 0 {
		w.rows.Add(applied)
	}
	w.applied.Add(applied)
	w.commits.Add(1)
	if counter, ok := w.store.(FileCounter); ok {
		data, deletes := counter.Files()
		w.dataFiles.Store(data)
		w.deleteFiles.Store(deletes)
	}
	w.log.Info("table committed", slog.String("table", w.name()), slog.String("commit_id", f.batch.ID),
		slog.Int64("changes", applied), slog.Int("inserts", f.batch.Inserts.Len()), slog.Int("deletes", f.batch.Deletes.Len()))
	w.spares.keep(f.data, f.changes)
	if f.highest != nil {
		w.highest.Store(f.highest)
	}
}
