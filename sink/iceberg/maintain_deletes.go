package iceberg

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/internal/canon/canonarrow"
)

// carriedKeys bounds the keys that are put together into one delete file, and
// those of the rows that are rewritten with them: their hashes are in memory.
// What goes beyond it stays as it is.
const carriedKeys = 2 << 20

// A keySchema says how keys are read and written.
type keySchema struct {
	ids     []int // field ids, in the order of the schema
	columns []catalog.Column
	schema  *arrow.Schema
}

func newKeySchema(current *table.Table, t *catalog.Table) (*keySchema, error) {
	if len(t.Key) == 0 {
		return nil, errors.New("a table without a key has equality deletes")
	}
	key, err := current.Schema().Select(true, t.Key...)
	if err != nil {
		return nil, err
	}
	k := &keySchema{}
	if k.schema, err = table.SchemaToArrowSchema(key, nil, true, false); err != nil {
		return nil, err
	}
	columns, _ := t.LakeColumns()
	for _, f := range key.Fields() {
		i := slices.IndexFunc(columns, func(c catalog.Column) bool { return c.Name == f.Name })
		if i < 0 {
			return nil, fmt.Errorf("key column %s is not in the pipeline file", f.Name)
		}
		k.ids, k.columns = append(k.ids, f.ID), append(k.columns, columns[i])
	}
	return k, nil
}

// writeDeletes writes the keys of the deletes that r removes, once each, and,
// apart from them, the other keys of the files that it replaces: with both, the
// rows of those files are deleted while they are still there.
func (k *keeper) writeDeletes(ctx context.Context, current *table.Table, w *rewritten, tasks []table.FileScanTask) error {
	key, err := newKeySchema(current, k.table)
	if err != nil {
		return fmt.Errorf("carry deletes over: %w", err)
	}
	seen := make(map[canon.Hash]struct{})
	w.carried, err = key.write(ctx, current, seen, func(yield func(arrow.RecordBatch, error) bool) {
		for _, f := range w.deletes {
			for batch, err := range w.guard.blamed(ctx, key.read(ctx, w.from, f.file)) {
				if !yield(batch, err) || err != nil {
					return
				}
			}
		}
	})
	if err == nil && len(tasks) > 0 {
		w.covers, err = key.write(ctx, current, seen, w.guard.blamed(ctx, key.scan(ctx, w.from, tasks)))
	}
	if err != nil {
		return fmt.Errorf("carry deletes over: %w", err)
	}
	return nil
}

// scan yields the keys of the rows of data files, without those that are deleted.
func (k *keySchema) scan(ctx context.Context, current *table.Table, tasks []table.FileScanTask) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		names := make([]string, len(k.columns))
		for i, c := range k.columns {
			names[i] = c.Name
		}
		_, batches, err := current.Scan(table.WithSelectedFields(names...), table.WithMaxConcurrency(1)).ReadTasks(ctx, tasks)
		if err != nil {
			yield(nil, err)
			return
		}
		for batch, err := range batches {
			if err != nil {
				yield(nil, err)
				return
			}
			more := yieldColumns(batch, names, func(ordered arrow.RecordBatch, err error) bool {
				if err == nil {
					ordered.Retain() // the consumer releases it
				}
				return yield(ordered, err)
			})
			if !more {
				return
			}
		}
	}
}

// read yields the keys of a delete file; columns are found by their field ids,
// so that one which was renamed is still the same.
func (k *keySchema) read(ctx context.Context, current *table.Table, f iceberg.DataFile) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		fs, err := current.FS(ctx)
		if err == nil {
			err = k.readFile(ctx, fs, f.FilePath(), yield)
		}
		if err != nil {
			yield(nil, fmt.Errorf("read delete file: %w", err))
		}
	}
}

func (k *keySchema) readFile(ctx context.Context, fs iceio.IO, path string, yield func(arrow.RecordBatch, error) bool) (err error) {
	in, err := fs.Open(path)
	if err != nil {
		return err
	}
	parquet, err := file.NewParquetReader(in)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	defer func() { err = errors.Join(err, parquet.Close()) }() // closes the file too
	reader, err := pqarrow.NewFileReader(parquet, pqarrow.ArrowReadProperties{BatchSize: batchRows}, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	records, err := reader.GetRecordReader(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer records.Release()
	at, err := k.place(records.Schema())
	if err != nil {
		return err
	}
	for records.Next() {
		batch := records.RecordBatch()
		columns := make([]arrow.Array, len(at))
		fields := make([]arrow.Field, len(at))
		for i, n := range at {
			columns[i], fields[i] = batch.Column(n), batch.Schema().Field(n)
		}
		if !yield(array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, batch.NumRows()), nil) {
			return nil
		}
	}
	return records.Err()
}

// place finds the key's columns in a file.
func (k *keySchema) place(schema *arrow.Schema) ([]int, error) {
	at := make([]int, len(k.ids))
	for i, id := range k.ids {
		at[i] = slices.IndexFunc(schema.Fields(), func(f arrow.Field) bool {
			text, ok := f.Metadata.GetValue("PARQUET:field_id")
			return ok && text == strconv.Itoa(id)
		})
		if at[i] < 0 {
			return nil, fmt.Errorf("it has no field %d", id)
		}
	}
	return at, nil
}

// write writes the keys of the batches, which it releases, that were not seen
// before as an equality delete. No key, no file.
func (k *keySchema) write(ctx context.Context, current *table.Table, seen map[canon.Hash]struct{}, batches iter.Seq2[arrow.RecordBatch, error]) (
	[]iceberg.DataFile, error,
) {
	next, stop := iter.Pull2(k.unseen(seen, batches))
	defer stop()
	first, err, ok := next()
	if err != nil || !ok {
		return nil, err
	}
	return writeEqualityDeletes(ctx, current, k.ids, func(yield func(arrow.RecordBatch, error) bool) {
		for batch := first; ok; batch, err, ok = next() {
			if !yield(batch, err) || err != nil {
				return
			}
		}
	})
}

// unseen yields batches of the keys that are not in seen, and notes them.
func (k *keySchema) unseen(seen map[canon.Hash]struct{}, batches iter.Seq2[arrow.RecordBatch, error]) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		b := array.NewRecordBuilder(memory.DefaultAllocator, k.schema)
		defer b.Release()
		r := canonarrow.NewRowReader(k.columns)
		var encoded []byte
		n := 0
		add := func(batch arrow.RecordBatch) error {
			defer batch.Release()
			for row, err := range r.RowsInOrder(batch) {
				if err != nil {
					return err
				}
				encoded = encoded[:0]
				for _, v := range row {
					if v == nil {
						encoded = canon.AppendNull(encoded)
					} else {
						encoded = canon.AppendField(encoded, v)
					}
				}
				h := canon.HashRow(encoded)
				if _, ok := seen[h]; ok {
					continue
				}
				seen[h] = struct{}{}
				for c, v := range row {
					if err := canonarrow.AppendToBuilder(b.Field(c), k.columns[c].Type, v); err != nil {
						return fmt.Errorf("column %s: %w", k.columns[c].Name, err)
					}
				}
				n++
			}
			return nil
		}
		for batch, err := range batches {
			if err == nil {
				err = add(batch)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if n >= batchRows {
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
