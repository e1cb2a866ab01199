package iceberg

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	"icehose/internal/canon"
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
// the current one, in the order of the names, with the columns that the table
// has now, whenever the snapshot was made: one that was not there yet, or that the
// table is to get by its next commit, is null. Memory is bounded by one batch
// and the keys of the delete files that speak of one data file. A batch is
// valid until the next one; Retain keeps it. A table without snapshots has no rows.
func (s *Store) Scan(ctx context.Context, t *catalog.Table, snapshotID int64, columns []string) iter.Seq2[arrow.RecordBatch, error] {
	return s.scan(ctx, t, snapshotID, columns, "", iceberg.AlwaysTrue{})
}

// ScanKeys is Scan of those rows that have one of the values, canonical texts,
// in a column, and of those that have a value in the column orSet; without
// values, of the latter only, and without orSet of the former. Files and parts
// of files that cannot have such a row are not read. Other rows may be among
// those that are yielded.
func (s *Store) ScanKeys(ctx context.Context, t *catalog.Table, snapshotID int64, columns []string, column string, values []string, orSet string) iter.Seq2[arrow.RecordBatch, error] {
	return s.scan(ctx, t, snapshotID, columns, column, keyFilter(t, column, values, orSet))
}

// maxValues is how many values of a column statistics of files are compared
// with; of more only the least and the greatest are.
const maxValues = 200

func keyFilter(t *catalog.Table, column string, values []string, orSet string) iceberg.BooleanExpression {
	filter := iceberg.BooleanExpression(iceberg.AlwaysFalse{})
	if len(values) > 0 {
		filter = valueFilter(t, column, values)
	}
	if orSet != "" {
		filter = iceberg.NewOr(filter, iceberg.NotNull(iceberg.Reference(orSet)))
	}
	return filter
}

// valueFilter selects rows by values of a column; all rows, where the type has
// no literal that its canonical text can be read as.
func valueFilter(t *catalog.Table, column string, values []string) iceberg.BooleanExpression {
	lake, _ := t.LakeColumns()
	at := slices.IndexFunc(lake, func(c catalog.Column) bool { return c.Name == column })
	if at < 0 {
		return iceberg.AlwaysTrue{}
	}
	kind := lake[at].Type.Kind
	switch kind {
	case catalog.Int, catalog.Long, catalog.String, catalog.UUID, catalog.Date, catalog.Timestamp, catalog.TimestampTZ:
	case catalog.Boolean, catalog.Float, catalog.Double, catalog.Decimal, catalog.Time, catalog.Fixed, catalog.Binary:
		return iceberg.AlwaysTrue{}
	default:
		return iceberg.AlwaysTrue{}
	}
	sorted := slices.Clone(values)
	slices.SortFunc(sorted, func(a, b string) int { return canon.Compare(kind, []byte(a), []byte(b)) })
	sorted = slices.Compact(sorted)
	ref := iceberg.Reference(column)
	if len(sorted) <= maxValues {
		return iceberg.IsIn(ref, sorted...)
	}
	return iceberg.NewAnd(iceberg.GreaterThanEqual(ref, sorted[0]), iceberg.LessThanEqual(ref, sorted[len(sorted)-1]))
}

func (s *Store) scan(ctx context.Context, t *catalog.Table, snapshotID int64, columns []string, by string, filter iceberg.BooleanExpression) iter.Seq2[arrow.RecordBatch, error] {
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
		if partitionsText(current, by) {
			filter = iceberg.AlwaysTrue{}
		}
		options := []table.ScanOption{table.WithSelectedFields(columns...), table.WithRowFilter(filter), table.WithMaxConcurrency(1), table.WithArrowBatchSize(batchRows)}
		if snapshotID != 0 && snapshotID != current.CurrentSnapshot().SnapshotID {
			if current, err = earlier(current, snapshotID); err != nil {
				fail(err)
				return
			}
		}
		if seen, err := view(ctx, t, current); err == nil {
			current = seen
		} else if !errors.Is(err, sink.ErrRefused) { // what was refused may still be read
			fail(err)
			return
		}
		current, guard, err := guarded(ctx, current)
		if err != nil {
			fail(err)
			return
		}
		_, batches, err := current.Scan(options...).ToArrowRecords(ctx)
		if err != nil {
			fail(guard.blame(ctx, err))
			return
		}
		for batch, err := range batches {
			if err != nil {
				fail(guard.blame(ctx, err))
				return
			}
			if !yieldColumns(batch, columns, yield) {
				return
			}
		}
	}
}

// earlier returns a table as if a snapshot were its newest one. A scan that names
// the snapshot would have the columns of when it was made. Nothing is written.
func earlier(current *table.Table, snapshotID int64) (*table.Table, error) {
	builder, err := table.MetadataBuilderFromBase(current.Metadata(), current.MetadataLocation())
	if err != nil {
		return nil, err
	}
	if err := builder.SetSnapshotRef(table.MainBranch, snapshotID, table.BranchRef); err != nil {
		return nil, err
	}
	metadata, err := builder.Build()
	if err != nil {
		return nil, err
	}
	return table.New(current.Identifier(), metadata, current.MetadataLocation(), current.FS, nil), nil
}

// partitionsText reports whether rows are placed by the texts of a column. The
// library takes the bound of an empty one, in the list of manifests, for none, and
// finds no row then, of whichever text.
func partitionsText(t *table.Table, column string) bool {
	source, ok := t.Schema().FindFieldByName(column)
	if !ok {
		return false
	}
	for _, spec := range t.Metadata().PartitionSpecs() {
		for _, f := range spec.FieldsBySourceID(source.ID) {
			switch f.Transform.ResultType(source.Type).(type) {
			case iceberg.StringType, iceberg.BinaryType:
				return true
			}
		}
	}
	return false
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
