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
	"icehose/sink"
)

// Commit implements sink.Table.
func (t *lakeTable) Commit(ctx context.Context, b *sink.Batch) error {
	done, err := t.commit(ctx, b)
	if err != nil {
		if errors.Is(err, table.ErrCommitFailed) {
			err = fmt.Errorf("%w: %w", sink.ErrConflict, err)
		}
		return t.store.lasting(oneLine(err))
	}
	t.written = nil
	// The commit has happened: nothing from here on may say otherwise.
	t.drop(ctx, done, b.Drop)
	if err := t.maintain(ctx, done); err != nil {
		t.store.log.WarnContext(ctx, "table maintenance failed", slog.String("table", t.name()), slog.String("error", oneLine(err).Error()))
	}
	return nil
}

func (t *lakeTable) name() string { return t.definition.Database() + "." + t.definition.Name() }

func (t *lakeTable) commit(ctx context.Context, b *sink.Batch) (*table.Table, error) {
	if t.store.readOnly {
		return nil, errors.New("lake is open for reading only")
	}
	current, err := t.current(ctx)
	if err != nil {
		return nil, err
	}
	if current.Properties()[sink.PropertyCommit] != b.Parent || b.Snapshot != nil && snapshotID(current) != *b.Snapshot {
		return nil, sink.ErrConflict
	}
	t.look(current)
	beside, err := writeBeside(ctx, current, b.Files)
	if err != nil {
		return nil, err
	}
	done, err := t.commitOn(ctx, current, b, beside)
	if err != nil {
		return nil, explain(ctx, current, err)
	}
	if b.Inserts.Len()+b.Deletes.Len() > 0 { // notes alone evolve nothing
		t.pending.Store(false)
	}
	t.count(done)
	t.newest.Store(done)
	return done, nil
}

// commitOn commits a batch on top of current, beside files that were written.
func (t *lakeTable) commitOn(ctx context.Context, current *table.Table, b *sink.Batch, beside []string) (*table.Table, error) {
	tx := current.NewTransaction()
	// Pinned to the snapshot just read, the library does not replay the commit
	// on top of another writer's: the sink decides what to do then.
	if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
		return nil, err
	}
	if b.Inserts.Len()+b.Deletes.Len() > 0 {
		target, err := t.evolved(ctx, tx, current)
		if err != nil {
			return nil, err
		}
		if err := t.stage(ctx, tx, target, b); err != nil {
			return nil, err
		}
	}
	if err := snapshotted(ctx, tx, current, iceberg.Properties{sink.PropertyCommit: b.ID}); err != nil {
		return nil, err
	}
	if err := t.store.disk.settled(beside...); err != nil { // the library knows nothing of them
		return nil, err
	}
	if err := tx.SetProperties(b.Properties); err != nil {
		return nil, err
	}
	return tx.Commit(ctx)
}

// writeBeside writes the files that go with a commit, and returns where they are.
func writeBeside(ctx context.Context, current *table.Table, files []sink.File) (locations []string, err error) {
	for _, f := range files {
		access, location, err := fileAccess(ctx, current, f.Name)
		if err != nil {
			return nil, err
		}
		if err := access.WriteFile(location, f.Data); err != nil {
			return nil, fmt.Errorf("write file: %w", err)
		}
		locations = append(locations, location)
	}
	return locations, nil
}

// snapshotted makes a snapshot of no files where a transaction has made none, so
// that every commit moves the table's head: that is all a catalog which is a
// server compares (the SQL and the Glue catalog read the table again and put the
// properties of a commit on top of whatever they find). Without it a rival whose
// commit was built before one of notes alone would undo that.
func snapshotted(ctx context.Context, tx *table.Transaction, current *table.Table, summary iceberg.Properties) error {
	staged, err := tx.StagedTable()
	if err != nil {
		return err
	}
	if snapshotID(staged.Table) != snapshotID(current) {
		return nil
	}
	schema, err := table.SchemaToArrowSchema(staged.Schema(), nil, true, false)
	if err != nil {
		return err
	}
	none, err := array.NewRecordReader(schema, nil)
	if err != nil {
		return err
	}
	defer none.Release()
	if err := tx.Append(ctx, none, summary); err != nil {
		return fmt.Errorf("append nothing: %w", err)
	}
	return nil
}

// snapshotID returns the newest snapshot of a table, 0 for none.
func snapshotID(t *table.Table) int64 {
	if s := t.CurrentSnapshot(); s != nil {
		return s.SnapshotID
	}
	return 0
}

// stage writes the files of a batch and adds them to the transaction as one
// snapshot; target is the table as the transaction leaves it otherwise. It
// never uses the library's own filtered Delete or Overwrite: those lose the
// delete files of what they rewrite.
func (t *lakeTable) stage(ctx context.Context, tx *table.Transaction, target *table.Table, b *sink.Batch) error {
	summary := iceberg.Properties{sink.PropertyCommit: b.ID}
	if b.Deletes.Len() > 0 && t.definition.DeleteFormat() == catalog.CopyOnWrite {
		return t.copyOnWrite(ctx, tx, target, b, summary)
	}
	w, err := t.files(ctx, target, b)
	if err != nil {
		return err
	}
	return tx.NewRowDelta(summary).AddDeletes(w.deletes...).AddRows(w.rows...).Commit(ctx)
}

// writeDeletes writes equality deletes. Their files say to which partition they
// belong: that of a mirror follows from its key.
func (t *lakeTable) writeDeletes(ctx context.Context, target *table.Table, keys sink.Rows) ([]iceberg.DataFile, error) {
	shape, err := t.shapeOf(target.Schema(), t.definition.Key)
	if err != nil {
		return nil, err
	}
	ids := make([]int, len(t.definition.Key))
	for i, name := range t.definition.Key {
		field, _ := target.Schema().FindFieldByName(name)
		ids[i] = field.ID
	}
	return writeEqualityDeletes(ctx, target, ids, shape.batches(keys))
}

// writeRows writes data files: of the rows that kept yields, if it is not nil,
// whose batches have all columns of the table, and then of the rows given.
func (t *lakeTable) writeRows(ctx context.Context, target *table.Table, kept iter.Seq2[arrow.RecordBatch, error], rows sink.Rows) ([]iceberg.DataFile, error) {
	if kept == nil && rows.Len() == 0 {
		return nil, nil
	}
	shape, err := t.shapeOf(target.Schema(), t.names())
	if err != nil {
		return nil, err
	}
	batches := shape.batches(rows)
	if kept != nil {
		batches = concat(shape.fit(kept), batches)
	}
	tuned, err := t.store.tuned(target, plainColumns(rows, t.names()))
	if err != nil {
		return nil, err
	}
	return writeFiles(ctx, tuned, shape.schema, batches)
}

// names returns the names of the lake columns.
func (t *lakeTable) names() []string {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.Name
	}
	return names
}

// A shape says how rows of texts become Arrow batches.
type shape struct {
	schema  *arrow.Schema
	sources []int            // per field: which value of a row
	columns []catalog.Column // per field
}

// shapeOf returns the shape of rows whose values have the names given. The
// table may have further columns, which are null then.
func (t *lakeTable) shapeOf(schema *iceberg.Schema, names []string) (*shape, error) {
	selected, err := schema.Select(true, names...)
	if err != nil {
		return nil, err
	}
	arrowSchema, err := table.SchemaToArrowSchema(selected, nil, true, false)
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

// fit yields batches that were read from the table as the shape has them.
func (s *shape) fit(batches iter.Seq2[arrow.RecordBatch, error]) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for batch, err := range batches {
			if err != nil {
				yield(nil, err)
				return
			}
			fitted, err := s.fitBatch(batch)
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(fitted, nil) {
				return
			}
		}
	}
}

// fitBatch takes the batch over.
func (s *shape) fitBatch(batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	defer batch.Release()
	columns := make([]arrow.Array, s.schema.NumFields())
	for i, f := range s.schema.Fields() {
		at := batch.Schema().FieldIndices(f.Name)
		if len(at) != 1 {
			return nil, fmt.Errorf("column %s: not in the rows read", f.Name)
		}
		columns[i] = batch.Column(at[0])
		if !arrow.TypeEqual(columns[i].DataType(), f.Type) {
			return nil, fmt.Errorf("column %s: read as %s, written as %s", f.Name, columns[i].DataType(), f.Type)
		}
	}
	return array.NewRecordBatch(s.schema, columns, batch.NumRows()), nil
}

// concat yields what a yields, then what b yields.
func concat[T any](a, b iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, seq := range []iter.Seq2[T, error]{a, b} {
			for v, err := range seq {
				if !yield(v, err) {
					return
				}
			}
		}
	}
}

// batchRows is how many rows are turned into columns at a time.
const batchRows = 8192

// batches yields the rows as Arrow batches, each the consumer's to release.
func (s *shape) batches(rows sink.Rows) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		b := array.NewRecordBuilder(memory.DefaultAllocator, s.schema)
		defer b.Release()
		texts := make([]int, len(s.columns)) // bytes of text that a column had in the batch before
		s.reserve(b, min(rows.Len(), batchRows), texts)
		n, done := 0, 0
		for row := range rows.All() {
			if err := s.append(b, row); err != nil {
				yield(nil, err)
				return
			}
			if n++; n == batchRows {
				done += n
				n = 0
				for i := range texts {
					if text, ok := b.Field(i).(textBuilder); ok {
						texts[i] = text.DataLen()
					}
				}
				if !yield(b.NewRecordBatch(), nil) {
					return
				}
				s.reserve(b, min(rows.Len()-done, batchRows), texts)
			}
		}
		if n > 0 {
			yield(b.NewRecordBatch(), nil)
		}
	}
}

// A textBuilder builds a column whose values have any length.
type textBuilder interface {
	ReserveData(n int)
	DataLen() int
}

// reserve makes room for rows, and for as much text as a batch had before and a
// little more: a builder that grows copies what it has.
func (s *shape) reserve(b *array.RecordBuilder, rows int, texts []int) {
	b.Reserve(rows)
	for i, n := range texts {
		if text, ok := b.Field(i).(textBuilder); ok && n > 0 {
			text.ReserveData(n + n/16)
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
	// expireEvery is how many snapshots must be to go before they do.
	expireEvery = 44
	// mergeEvery is after how many commits manifests are merged.
	mergeEvery = 44
)

// maintain keeps the table's metadata small: without it each commit costs more
// than the last.
func (t *lakeTable) maintain(ctx context.Context, current *table.Table) (err error) {
	if last := current.Metadata().LastSequenceNumber(); unmerged(current) >= mergeEvery && last >= t.merged+mergeEvery {
		t.merged = last
		if current, err = rewriteManifests(ctx, current); err != nil {
			return err
		}
	}
	if t.store.retention.expiry(current, now()).gone < expireEvery {
		return nil
	}
	gone, err := expireSnapshots(ctx, current, t.store.retention, now())
	if err != nil {
		return err
	}
	t.store.log.InfoContext(ctx, "snapshots expired", slog.String("table", t.name()), slog.Int("snapshots", gone))
	return nil
}
