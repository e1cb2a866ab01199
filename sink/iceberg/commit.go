package iceberg

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	"icehose/internal/canon/canonarrow"
	"icehose/sink"
)

// Commit implements sink.Table.
func (t *lakeTable) Commit(ctx context.Context, b *sink.Batch) error {
	if err := t.commit(ctx, b); err != nil {
		if errors.Is(err, table.ErrCommitFailed) {
			err = fmt.Errorf("%w: %w", sink.ErrConflict, err)
		}
		return oneLine(err)
	}
	// The commit has happened: nothing from here on may say otherwise.
	current, err := t.current(ctx)
	if err == nil {
		t.drop(ctx, current, b.Drop)
		err = t.maintain(ctx, current)
	}
	if err != nil {
		t.store.log.WarnContext(ctx, "table maintenance failed", slog.String("table", t.name()), slog.String("error", oneLine(err).Error()))
	}
	return nil
}

func (t *lakeTable) name() string { return t.definition.Database() + "." + t.definition.Name() }

func (t *lakeTable) commit(ctx context.Context, b *sink.Batch) error {
	if t.store.readOnly {
		return errors.New("lake is open for reading only")
	}
	current, err := t.current(ctx)
	if err != nil {
		return err
	}
	if current.Properties()[sink.PropertyCommit] != b.Parent {
		return sink.ErrConflict
	}
	for _, f := range b.Files {
		files, location, err := fileAccess(ctx, current, f.Name)
		if err != nil {
			return err
		}
		if err := files.WriteFile(location, f.Data); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
	}
	tx := current.NewTransaction()
	// Pinned to the snapshot just read, the library does not replay the commit
	// on top of another writer's: the sink decides what to do then.
	if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
		return err
	}
	if err := t.stage(ctx, tx, current, b); err != nil {
		return err
	}
	if err := tx.SetProperties(b.Properties); err != nil {
		return err
	}
	_, err = tx.Commit(ctx)
	return err
}

// stage writes the files of a batch and adds them to the transaction as one
// snapshot, if there are any rows. It never uses the library's own filtered
// Delete or Overwrite: those lose the delete files of what they rewrite.
func (t *lakeTable) stage(ctx context.Context, tx *table.Transaction, current *table.Table, b *sink.Batch) error {
	if b.Inserts.Len() == 0 && b.Deletes.Len() == 0 {
		return nil
	}
	delta := tx.NewRowDelta(iceberg.Properties{sink.PropertyCommit: b.ID})
	if b.Deletes.Len() > 0 {
		key, err := current.Schema().Select(true, t.definition.Key...)
		if err != nil {
			return fmt.Errorf("write deletes: %w", err)
		}
		shape, err := t.shapeOf(key, t.definition.Key)
		if err != nil {
			return fmt.Errorf("write deletes: %w", err)
		}
		var ids []int
		for _, f := range key.Fields() {
			ids = append(ids, f.ID)
		}
		files, err := tx.WriteEqualityDeletes(ctx, ids, shape.batches(b.Deletes))
		if err != nil {
			return fmt.Errorf("write deletes: %w", err)
		}
		delta.AddDeletes(files...)
	}
	if b.Inserts.Len() > 0 {
		names := make([]string, len(t.columns))
		for i, c := range t.columns {
			names[i] = c.Name
		}
		shape, err := t.shapeOf(current.Schema(), names)
		if err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
		for file, err := range table.WriteRecords(ctx, current, shape.schema, shape.batches(b.Inserts), table.WithRecordBatchBufferSize(2)) {
			if err != nil {
				return fmt.Errorf("write rows: %w", err)
			}
			delta.AddRows(file)
		}
	}
	return delta.Commit(ctx)
}

// A shape says how rows of texts become Arrow batches.
type shape struct {
	schema  *arrow.Schema
	sources []int            // per field: which value of a row
	columns []catalog.Column // per field
}

// shapeOf returns the shape of rows whose values have the names given.
func (t *lakeTable) shapeOf(schema *iceberg.Schema, names []string) (*shape, error) {
	arrowSchema, err := table.SchemaToArrowSchema(schema, nil, true, false)
	if err != nil {
		return nil, err
	}
	s := &shape{schema: arrowSchema}
	for _, f := range arrowSchema.Fields() {
		s.sources = append(s.sources, slices.Index(names, f.Name))
		s.columns = append(s.columns, t.columns[slices.IndexFunc(t.columns, func(c catalog.Column) bool { return c.Name == f.Name })])
	}
	return s, nil
}

// batchRows is how many rows are turned into columns at a time.
const batchRows = 8192

// batches yields the rows as Arrow batches, each the consumer's to release.
func (s *shape) batches(rows sink.Rows) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		b := array.NewRecordBuilder(memory.DefaultAllocator, s.schema)
		defer b.Release()
		b.Reserve(min(rows.Len(), batchRows))
		n := 0
		for row := range rows.All() {
			for i, source := range s.sources {
				if err := canonarrow.AppendToBuilder(b.Field(i), s.columns[i].Type, row[source]); err != nil {
					yield(nil, fmt.Errorf("column %s: %w", s.columns[i].Name, err))
					return
				}
			}
			if n++; n == batchRows {
				n = 0
				if !yield(b.NewRecordBatch(), nil) {
					return
				}
			}
		}
		if n > 0 {
			yield(b.NewRecordBatch(), nil)
		}
	}
}

// drop removes files that no commit needs any more. One that stays is garbage,
// nothing worse.
func (t *lakeTable) drop(ctx context.Context, current *table.Table, names []string) {
	for _, name := range names {
		files, location, err := fileAccess(ctx, current, name)
		if err == nil {
			err = files.Remove(location)
		}
		if err != nil {
			t.store.log.WarnContext(ctx, "file not removed", slog.String("table", t.name()), slog.String("file", name), slog.String("error", err.Error()))
		}
	}
}

const (
	// expireAt is the number of snapshots at which old ones go, keepSnapshots
	// how many stay. Without it each commit costs more than the last.
	expireAt      = 64
	keepSnapshots = 20
)

// maintain keeps the table's metadata small.
func (t *lakeTable) maintain(ctx context.Context, current *table.Table) error {
	if len(current.Metadata().Snapshots()) < expireAt {
		return nil
	}
	tx := current.NewTransaction()
	if _, err := tx.RewriteManifests(ctx); err != nil {
		return fmt.Errorf("rewrite manifests: %w", err)
	}
	current, err := tx.Commit(ctx)
	if err != nil {
		return fmt.Errorf("rewrite manifests: %w", err)
	}
	tx = current.NewTransaction()
	if err := tx.ExpireSnapshots(table.WithRetainLast(keepSnapshots), table.WithOlderThan(0)); err != nil {
		return fmt.Errorf("expire snapshots: %w", err)
	}
	if _, err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("expire snapshots: %w", err)
	}
	t.store.log.InfoContext(ctx, "snapshots expired", slog.String("table", t.name()))
	return nil
}
