package iceberg

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	"icehose/sink"
)

// Snapshot returns the id of the current snapshot of t; ok is false while
// nothing has been written.
func (s *Store) Snapshot(ctx context.Context, t *catalog.Table) (id int64, ok bool, err error) {
	current, err := s.catalog.LoadTable(ctx, identifier(t))
	if err != nil {
		return 0, false, fmt.Errorf("read snapshot of %s.%s: %w", t.Database(), t.Name(), oneLine(err))
	}
	if snapshot := current.CurrentSnapshot(); snapshot != nil {
		return snapshot.SnapshotID, true, nil
	}
	return 0, false, nil
}

// Scan yields the named columns of the rows that t has in a snapshot, 0 for
// the current one, in the order of the names. A column that the table is to
// get by its next commit is null. Memory is bounded by one batch
// and the keys of the delete files that speak of one data file. A batch is
// valid until the next one; Retain keeps it. A table without snapshots has no rows.
func (s *Store) Scan(ctx context.Context, t *catalog.Table, snapshotID int64, columns []string) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		fail := func(err error) {
			yield(nil, fmt.Errorf("scan %s.%s: %w", t.Database(), t.Name(), oneLine(err)))
		}
		current, err := s.catalog.LoadTable(ctx, identifier(t))
		if err != nil {
			fail(err)
			return
		}
		if current.CurrentSnapshot() == nil {
			return
		}
		options := []table.ScanOption{table.WithSelectedFields(columns...), table.WithMaxConcurrency(1), table.WithArrowBatchSize(batchRows)}
		if snapshotID != 0 && snapshotID != current.CurrentSnapshot().SnapshotID {
			options = append(options, table.WithSnapshotID(snapshotID))
		} else if seen, err := view(ctx, t, current); err == nil {
			current = seen
		} else if !errors.Is(err, sink.ErrRefused) { // what was refused may still be read
			fail(err)
			return
		}
		_, batches, err := current.Scan(options...).ToArrowRecords(ctx)
		if err != nil {
			fail(err)
			return
		}
		for batch, err := range batches {
			if err != nil {
				fail(err)
				return
			}
			if !yieldColumns(batch, columns, yield) {
				return
			}
		}
	}
}

// yieldColumns yields a batch with its columns in the order given.
func yieldColumns(batch arrow.RecordBatch, columns []string, yield func(arrow.RecordBatch, error) bool) bool {
	defer batch.Release()
	fields := make([]arrow.Field, len(columns))
	arrays := make([]arrow.Array, len(columns))
	for i, name := range columns {
		at := batch.Schema().FieldIndices(name)
		if len(at) != 1 {
			yield(nil, fmt.Errorf("scan: no column %s in the table", name))
			return false
		}
		fields[i], arrays[i] = batch.Schema().Field(at[0]), batch.Column(at[0])
	}
	ordered := array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, batch.NumRows())
	defer ordered.Release()
	return yield(ordered, nil)
}
