package lake

import (
	"context"
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"

	"icehose/catalog"
	"icehose/internal/canon/canonarrow"
)

// A choice is which rows are wanted: KeyScanner.
type choice struct {
	column string
	values []string
	orSet  string
}

// only chooses rows by the first column of their key, and those that have a
// value in the column orSet; nil: all of them.
func (v *view) only(keys [][]string, orSet string) *choice {
	if len(keys) == 0 || len(v.table.Key) == 0 {
		return nil
	}
	c := &choice{column: v.table.Key[0], orSet: orSet, values: make([]string, len(keys))}
	for _, column := range v.table.Columns {
		if column.Name == c.column && column.Default != nil {
			return nil // a row may have its key without a value
		}
	}
	for i, key := range keys {
		c.values[i] = key[0]
	}
	return c
}

func (v *view) chosen(ctx context.Context, columns []string, c *choice) iter.Seq2[arrow.RecordBatch, error] {
	if scanner, ok := v.store.(KeyScanner); ok && c != nil {
		return scanner.ScanKeys(ctx, v.table, v.snapshot, columns, c.column, c.values, c.orSet)
	}
	return v.store.Scan(ctx, v.table, v.snapshot, columns)
}

// batches yields the batches of the pinned snapshot, each valid until the next.
func (v *view) batches(ctx context.Context, columns []string, c *choice) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		if !v.ok {
			return
		}
		for batch, err := range v.chosen(ctx, columns, c) {
			if err != nil {
				yield(nil, v.expired(ctx, err))
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

// expired says of an error that the snapshot is gone, if it is.
func (v *view) expired(ctx context.Context, err error) error {
	keeper, ok := v.store.(Keeper)
	if !ok {
		return err
	}
	if there, hasErr := keeper.HasSnapshot(ctx, v.table, v.snapshot); hasErr != nil || there {
		return err
	}
	return fmt.Errorf("snapshot %d has expired while it was read: keep snapshots for longer than a run takes (icehose maintain --snapshot-age): %w", v.snapshot, err)
}

// texts yields the rows of the pinned snapshot that are chosen, perhaps among
// others: the canonical text of each of the columns, nil for NULL, good until
// the next row.
func (v *view) texts(ctx context.Context, columns []catalog.Column, c *choice) iter.Seq2[[][]byte, error] {
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].Name
	}
	return func(yield func([][]byte, error) bool) {
		rows := canonarrow.NewRowReader(columns)
		for batch, err := range v.batches(ctx, names, c) {
			if err != nil {
				yield(nil, err)
				return
			}
			for row, err := range rows.Rows(batch) {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}
