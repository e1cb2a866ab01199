package iceberg

import (
	"context"
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
	"icehose/internal/canon/canonarrow"
	"icehose/sink"
)

// copyOnWrite stages a snapshot that has the data files in which a deleted key
// stands anew, without it, and the rows of the batch. Rows that a delete file
// of an earlier time speaks of are left out on the way, so it is right on a
// table that had another delete format before. What it costs is the reading of
// the key columns of files whose bounds do not exclude every key, and the
// rewriting of files that have one.
func (t *lakeTable) copyOnWrite(ctx context.Context, tx *table.Transaction, target *table.Table, b *sink.Batch, summary iceberg.Properties) error {
	keys, err := t.keySetOf(target, b.Deletes)
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	whole, guard, err := guarded(ctx, target)
	if err != nil {
		return fmt.Errorf("look for rows: %w", err)
	}
	touched, err := t.touched(ctx, whole, keys)
	if err != nil {
		return fmt.Errorf("look for rows: %w", guard.blame(ctx, err))
	}
	var kept iter.Seq2[arrow.RecordBatch, error]
	if len(touched) > 0 {
		kept = guard.blamed(ctx, t.without(ctx, whole, touched, keys))
	}
	files, err := t.writeRows(ctx, target, kept, b.Inserts)
	if err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	if len(touched) == 0 {
		if len(files) == 0 {
			return nil // nobody has such a row: the notes are all that changes
		}
		return tx.NewRowDelta(summary).AddRows(files...).Commit(ctx)
	}
	replaced := make([]iceberg.DataFile, len(touched))
	for i := range touched {
		replaced[i] = touched[i].File
	}
	return tx.ReplaceDataFilesWithDataFiles(ctx, replaced, files, summary, table.WithoutAutoNameMapping())
}

// touched returns the files that have a row of a key.
func (t *lakeTable) touched(ctx context.Context, target *table.Table, keys *keySet) ([]table.FileScanTask, error) {
	if target.CurrentSnapshot() == nil {
		return nil, nil
	}
	scan := target.Scan(table.WithSelectedFields(t.definition.Key...), table.WithMaxConcurrency(1), table.WithArrowBatchSize(batchRows))
	tasks, err := lake.Files(ctx, scan)
	if err != nil {
		return nil, err
	}
	var touched []table.FileScanTask
	for _, task := range tasks {
		if !keys.mayBeIn(task.File) {
			continue
		}
		found, err := t.holds(ctx, scan, task, keys)
		if err != nil {
			return nil, err
		}
		if found {
			touched = append(touched, task)
		}
	}
	return touched, nil
}

// holds reports whether a file has a row of a key. It reads no further than to
// the first.
func (t *lakeTable) holds(ctx context.Context, scan *table.Scan, task table.FileScanTask, keys *keySet) (bool, error) {
	_, batches, err := scan.ReadTasks(ctx, []table.FileScanTask{task})
	if err != nil {
		return false, err
	}
	for batch, err := range batches {
		if err != nil {
			return false, err
		}
		mask, gone, err := keys.mask(batch)
		batch.Release()
		if err != nil {
			return false, err
		}
		mask.Release()
		if gone > 0 {
			return true, nil
		}
	}
	return false, nil
}

// without yields the rows of files whose key is not in the set. A batch is the
// consumer's to release.
func (t *lakeTable) without(ctx context.Context, target *table.Table, tasks []table.FileScanTask, keys *keySet) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		scan := target.Scan(table.WithSelectedFields(t.names()...), table.WithMaxConcurrency(1), table.WithArrowBatchSize(batchRows))
		_, batches, err := scan.ReadTasks(ctx, tasks)
		if err != nil {
			yield(nil, err)
			return
		}
		for batch, err := range batches {
			if err != nil {
				yield(nil, err)
				return
			}
			left, err := keys.drop(ctx, batch)
			if err != nil {
				yield(nil, err)
				return
			}
			if left.NumRows() == 0 {
				left.Release()
				continue
			}
			if !yield(left, nil) {
				return
			}
		}
	}
}

// A keySet is a set of keys, as canonical texts.
type keySet struct {
	columns []catalog.Column // of the key
	keys    map[string]struct{}
	spans   []*span // per column: the values that the keys have in it
	text    []byte
}

// keySetOf returns the set of the keys given.
func (t *lakeTable) keySetOf(target *table.Table, keys sink.Rows) (*keySet, error) {
	shape, err := t.shapeOf(target.Schema(), t.definition.Key)
	if err != nil {
		return nil, err
	}
	s := &keySet{columns: shape.columns, keys: make(map[string]struct{}, keys.Len())}
	for _, name := range t.definition.Key {
		field, _ := target.Schema().FindFieldByName(name)
		s.spans = append(s.spans, newSpan(field))
	}
	for batch, err := range shape.batches(keys) {
		if err != nil {
			return nil, err
		}
		at, err := s.columnsOf(batch)
		if err != nil {
			return nil, err
		}
		for row := range int(batch.NumRows()) {
			if err := s.read(at, row); err != nil {
				return nil, err
			}
			s.keys[string(s.text)] = struct{}{}
		}
		for i, column := range at {
			s.spans[t.keyAt(s.columns[i].Name)].add(column)
		}
		batch.Release()
	}
	for _, span := range s.spans {
		span.sort()
	}
	return s, nil
}

// keyAt returns where a column stands in the key.
func (t *lakeTable) keyAt(name string) int {
	for i, key := range t.definition.Key {
		if key == name {
			return i
		}
	}
	return -1
}

// columnsOf returns the key columns of a batch.
func (s *keySet) columnsOf(batch arrow.RecordBatch) ([]arrow.Array, error) {
	at := make([]arrow.Array, len(s.columns))
	for i, c := range s.columns {
		found := batch.Schema().FieldIndices(c.Name)
		if len(found) != 1 {
			return nil, fmt.Errorf("column %s: not in the rows read", c.Name)
		}
		at[i] = batch.Column(found[0])
	}
	return at, nil
}

// read sets text to the key of a row: each text after its length, so that no
// two keys are alike. A null, which no key has, has no text.
func (s *keySet) read(columns []arrow.Array, row int) error {
	s.text = s.text[:0]
	for i, column := range columns {
		start := len(s.text)
		s.text = append(s.text, 0, 0, 0, 0)
		if column.IsNull(row) {
			s.text[start] = 0xff
			continue
		}
		var err error
		if s.text, err = canonarrow.Append(s.text, column, row, s.columns[i].Type); err != nil {
			return fmt.Errorf("column %s: %w", s.columns[i].Name, err)
		}
		n := len(s.text) - start - 4
		s.text[start], s.text[start+1], s.text[start+2], s.text[start+3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	}
	return nil
}

// mask says which rows of a batch stay, and how many do not.
func (s *keySet) mask(batch arrow.RecordBatch) (mask *array.Boolean, gone int, err error) {
	columns, err := s.columnsOf(batch)
	if err != nil {
		return nil, 0, err
	}
	b := array.NewBooleanBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(int(batch.NumRows()))
	for row := range int(batch.NumRows()) {
		if err := s.read(columns, row); err != nil {
			return nil, 0, err
		}
		_, found := s.keys[string(s.text)]
		if found {
			gone++
		}
		b.UnsafeAppend(!found)
	}
	return b.NewBooleanArray(), gone, nil
}

// drop returns the rows of a batch that stay. It takes the batch over.
func (s *keySet) drop(ctx context.Context, batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	mask, gone, err := s.mask(batch)
	if err != nil {
		batch.Release()
		return nil, err
	}
	defer mask.Release()
	if gone == 0 {
		return batch, nil
	}
	defer batch.Release()
	return compute.FilterRecordBatch(ctx, batch, mask, compute.DefaultFilterOptions())
}

// mayBeIn reports whether a file can have a row of a key, by the bounds of its
// key columns.
func (s *keySet) mayBeIn(file iceberg.DataFile) bool {
	lower, upper := file.LowerBoundValues(), file.UpperBoundValues()
	for _, span := range s.spans {
		if !span.meets(lower[span.field], upper[span.field]) {
			return false
		}
	}
	return true
}
