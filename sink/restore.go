package sink

import (
	"context"
	"fmt"
	"slices"

	"icehose/catalog"
)

// countKeys notes how many rows there are and what their keys take.
func (w *writer) countKeys() {
	w.rows.Store(w.guard.rows())
	memory, disk := w.guard.size()
	w.indexMemory.Store(memory)
	w.indexDisk.Store(disk)
}

// keyTypes returns what the hash of a key depends on.
func (w *writer) keyTypes() (columns []string) {
	for _, i := range w.key {
		columns = append(columns, w.columns[i].Name+" "+w.columns[i].Type.String())
	}
	return columns
}

// restoreGuard rebuilds the guard's index from the rows and the tombstones.
func (w *writer) restoreGuard(ctx context.Context) error {
	w.guard.restoring = true
	if err := w.scanKeys(ctx); err != nil {
		return err
	}
	if err := readSegments(ctx, w.store, w.segments, w.guard); err != nil {
		return err
	}
	return w.guard.restored(ctx)
}

func (w *writer) scanKeys(ctx context.Context) error {
	columns := append(slices.Clone(w.key), w.position)
	n := 0
	for row, err := range w.store.Scan(ctx, columns) {
		if err != nil {
			return fmt.Errorf("read keys: %w", err)
		}
		n++
		if err := w.guard.restoringRoom(ctx, n); err != nil {
			return err
		}
		// A row that somebody else wrote has no position: it loses to everything.
		var p packed
		if text := row[len(row)-1]; text != nil {
			var ok bool
			if p, ok = pack(text); !ok {
				return fmt.Errorf("read keys: %s of a row is not a position", catalog.ColumnPosition)
			}
		}
		w.guard.restore(w.hash(row[:len(row)-1], nil), &p, false, noTime)
	}
	return nil
}
