package postgres

import (
	"context"
	"fmt"
	"iter"

	"icehose/reconcile"
)

var _ reconcile.ValueView = (*view)(nil)

// Values implements reconcile.ValueView.
func (v *view) Values(ctx context.Context, part reconcile.Part) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		v.mu.Lock()
		defer v.mu.Unlock()
		for values, err := range reconcile.SelectValues(v.table, v.scan(ctx, v.conn, part, ""), part) {
			if err != nil {
				yield(nil, fmt.Errorf("read %s: %w", v.table.Source, clean(err)))
				return
			}
			if !yield(values, nil) {
				return
			}
		}
	}
}
