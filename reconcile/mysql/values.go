package mysql

import (
	"context"
	"iter"

	"icehose/reconcile"
)

var _ reconcile.ValueView = (*view)(nil)

// Values implements reconcile.ValueView.
func (v *view) Values(ctx context.Context, part reconcile.Part) iter.Seq2[[][]byte, error] {
	return reconcile.Exclusive(&v.mu, v.failed, func() iter.Seq2[[][]byte, error] {
		return reconcile.SelectValues(v.table, v.scan(ctx, v.conn, part, ""), part)
	})
}
