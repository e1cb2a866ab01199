package iceberg

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	"icehose/sink"
)

// A written batch is one whose files are there, for its commit or another attempt
// of it: when only the table's head has moved they are as good as they were.
type written struct {
	batch         string
	schema, spec  int
	rows, deletes []iceberg.DataFile
}

// fits reports whether the files are those of a batch, as the table target has them.
func (w *written) fits(b *sink.Batch, target *table.Table) bool {
	spec := target.Spec()
	return w != nil && w.batch == b.ID && w.schema == target.Schema().ID && w.spec == spec.ID()
}

// Stage implements sink.Stager. A batch of a table that is to be evolved first is
// left to its commit, and one that is to be copied on write.
func (t *lakeTable) Stage(ctx context.Context, b *sink.Batch) error {
	target := t.newest.Load()
	if t.pending.Load() || b.Deletes.Len() > 0 && t.definition.DeleteFormat() == catalog.CopyOnWrite {
		return nil
	}
	w, err := t.write(ctx, target, b)
	if err != nil {
		return oneLine(err)
	}
	t.ahead.put(w)
	return nil
}

// An aheadOf keeps what was written of batches whose commits have not begun: of
// the last two, since while one waits for the one before it to land, another may be
// written. The zero aheadOf is ready.
type aheadOf struct {
	mu      sync.Mutex
	written []*written
}

func (a *aheadOf) put(w *written) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.written = append(a.written, w); len(a.written) > 2 {
		a.written = a.written[1:]
	}
}

// take returns what was written of a batch, nil if nothing was, and forgets it.
func (a *aheadOf) take(batch string) *written {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.written, func(w *written) bool { return w.batch == batch })
	if i < 0 {
		return nil
	}
	w := a.written[i]
	a.written = slices.Delete(a.written, i, i+1)
	return w
}

// files returns the files of a batch, which it writes unless they are there.
func (t *lakeTable) files(ctx context.Context, target *table.Table, b *sink.Batch) (*written, error) {
	if w := t.ahead.take(b.ID); w.fits(b, target) {
		t.written = w // the catalog is not told of a file that is not on the disk
		return w, nil
	}
	if t.written.fits(b, target) && !t.lost(t.written) {
		return t.written, nil
	}
	w, err := t.write(ctx, target, b)
	if err != nil {
		return nil, err
	}
	t.written = w
	return w, nil
}

// write writes the files of a batch.
func (t *lakeTable) write(ctx context.Context, target *table.Table, b *sink.Batch) (w *written, err error) {
	spec := target.Spec()
	w = &written{batch: b.ID, schema: target.Schema().ID, spec: spec.ID()}
	if b.Deletes.Len() > 0 {
		if w.deletes, err = t.writeDeletes(ctx, target, b.Deletes); err != nil {
			return nil, fmt.Errorf("write deletes: %w", err)
		}
	}
	if w.rows, err = t.writeRows(ctx, target, nil, b.Inserts); err != nil {
		return nil, fmt.Errorf("write rows: %w", err)
	}
	return w, nil
}

// lost reports whether a file of w is not on the disk.
func (t *lakeTable) lost(w *written) bool {
	return t.store.disk.settled(append(paths(w.rows...), paths(w.deletes...)...)...) != nil
}
