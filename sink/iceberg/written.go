package iceberg

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// errLost says that files hold fewer or more rows than were handed over.
var errLost = errors.New("the files written do not hold all rows")

// writeFiles writes batches as data files of a table, and knows that they hold
// every row and lie about none: see handed. Beside an error it returns the files
// that are there all the same, for whoever removes them.
func writeFiles(ctx context.Context, target *table.Table, schema *arrow.Schema, batches iter.Seq2[arrow.RecordBatch, error], o ...table.WriteRecordOption) ([]iceberg.DataFile, error) {
	h := new(handed)
	var files []iceberg.DataFile
	for file, err := range table.WriteRecords(ctx, h.through(target), schema, h.over(batches), append(o, table.WithRecordBatchBufferSize(2))...) {
		if err != nil {
			return files, h.blame(err)
		}
		files = append(files, file)
	}
	return h.check(ctx, target, files)
}

// writeEqualityDeletes writes batches of keys, columns of the ids given, as
// equality deletes of a table, and knows the same of their files.
func writeEqualityDeletes(ctx context.Context, target *table.Table, ids []int, batches iter.Seq2[arrow.RecordBatch, error]) ([]iceberg.DataFile, error) {
	h := new(handed)
	files, err := h.through(target).NewTransaction().WriteEqualityDeletes(ctx, ids, h.over(batches))
	if err != nil {
		return files, h.blame(err)
	}
	return h.check(ctx, target, files)
}

// handed is what the library is handed in one call.
//
// It counts the rows. The library's writer of a partitioned table keeps a writer
// for each partition and asks for its error when all rows are queued; one that has
// failed by then is forgotten together with its error and its rows, and the
// write seems to have gone well.
//
// It notes which columns may have a batch with no text but empty ones. Parts of
// batches come without a buffer for their texts then, and the library's Parquet
// writer leaves them out of the least and greatest text that it tells, in the
// file's footer and in the table's metadata: every reader would pass over those
// rows. Both tell nothing of such a column. Of a partitioned table, whose batches
// are cut in the library, it is each column with an empty text.
//
// And it keeps the errors. One of the batches would end the process, in a
// goroutine of the library's, and one of a file is often told as "writer is
// closed".
type handed struct {
	cut    bool // by partition, in the library
	rows   int64
	ended  bool  // all batches were handed over
	failed error // of the batches
	mu     sync.Mutex
	cause  error           // the first of a file
	empty  map[string]bool // columns, by name
}

// through returns the table with files that forget what is wrong of them.
func (h *handed) through(target *table.Table) *table.Table {
	spec := target.Spec()
	h.cut = !spec.IsUnpartitioned()
	return table.New(target.Identifier(), target.Metadata(), target.MetadataLocation(), func(ctx context.Context) (iceio.IO, error) {
		files, err := target.FS(ctx)
		if err != nil {
			return nil, err
		}
		if w, ok := files.(iceio.WriteFileIO); ok {
			return &parquetFS{WriteFileIO: w, handed: h}, nil
		}
		return files, nil // the library says what it misses
	}, nil)
}

// over yields what batches yields, up to an error, and looks at it.
func (h *handed) over(batches iter.Seq2[arrow.RecordBatch, error]) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for batch, err := range batches {
			if err != nil {
				h.failed = err
				return
			}
			if h.look(batch); !yield(batch, nil) {
				return
			}
		}
		h.ended = true
	}
}

func (h *handed) look(batch arrow.RecordBatch) {
	h.rows += batch.NumRows()
	for i, column := range batch.Columns() {
		name := batch.ColumnName(i)
		if texts, ok := column.(array.BinaryLike); ok && !h.hasEmpty(name) && onlyEmpty(texts, h.cut) {
			h.mu.Lock()
			if h.empty == nil {
				h.empty = make(map[string]bool)
			}
			h.empty[name] = true
			h.mu.Unlock()
		}
	}
}

func (h *handed) hasEmpty(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.empty[name]
}

// columnsWithEmpty returns the columns noted so far.
func (h *handed) columnsWithEmpty() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.empty)
}

// onlyEmpty reports whether there are texts and all are empty; with one, whether
// one is.
func onlyEmpty(texts array.BinaryLike, one bool) bool {
	found := false
	for i := range texts.Len() {
		if texts.IsNull(i) {
			continue
		}
		empty := texts.ValueLen(i) == 0
		if found = found || empty; empty == one {
			return one
		}
	}
	return found
}

// note keeps the first error of a file.
func (h *handed) note(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause == nil {
		h.cause = err
	}
	return err
}

// blame returns the error that another comes from.
func (h *handed) blame(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause != nil {
		return h.cause
	}
	return err
}

// check returns the files as they are to be committed. It fails if they hold
// other rows than were handed over.
func (h *handed) check(ctx context.Context, target *table.Table, files []iceberg.DataFile) ([]iceberg.DataFile, error) {
	if h.failed != nil {
		return files, h.failed
	}
	var rows int64
	for _, f := range files {
		rows += f.Count()
	}
	if !h.ended || rows != h.rows {
		if err := ctx.Err(); err != nil { // the library may end without a word then
			return files, h.blame(err)
		}
		return files, h.blame(fmt.Errorf("%w: %d of %d", errLost, rows, h.rows))
	}
	if len(h.empty) == 0 {
		return files, nil
	}
	untold := make(map[int]bool, len(h.empty))
	for name := range h.empty {
		if field, ok := target.Schema().FindFieldByName(name); ok {
			untold[field.ID] = true
		}
	}
	spec := target.Spec()
	logical := logicalTypes(target, &spec)
	for i, f := range files {
		told, err := withoutBounds(f, &spec, logical, untold)
		if err != nil {
			return files, fmt.Errorf("describe file: %w", err)
		}
		files[i] = told
	}
	return files, nil
}

// withoutBounds returns a file just written, by a spec whose values have the
// logical types given, that tells no bounds of some columns.
func withoutBounds(f iceberg.DataFile, spec *iceberg.PartitionSpec, logical map[int]string, columns map[int]bool) (iceberg.DataFile, error) {
	b, err := iceberg.NewDataFileBuilder(*spec, f.ContentType(), f.FilePath(), f.FileFormat(), f.Partition(), logical, nil, f.Count(), f.FileSizeBytes())
	if err != nil {
		return nil, err
	}
	kept := func(bounds map[int][]byte) map[int][]byte {
		bounds = maps.Clone(bounds)
		maps.DeleteFunc(bounds, func(id int, _ []byte) bool { return columns[id] })
		return bounds
	}
	b.ColumnSizes(f.ColumnSizes()).ValueCounts(f.ValueCounts()).NullValueCounts(f.NullValueCounts()).NaNValueCounts(f.NaNValueCounts())
	b.LowerBoundValues(kept(f.LowerBoundValues())).UpperBoundValues(kept(f.UpperBoundValues())).SplitOffsets(f.SplitOffsets())
	if ids := f.EqualityFieldIDs(); len(ids) > 0 {
		b.EqualityFieldIDs(ids)
	}
	if id := f.SortOrderID(); id != nil {
		b.SortOrderID(*id)
	}
	return b.Build(), nil
}

// logicalTypes returns the logical types that Avro has for the values of a
// partition spec, by field id, as the library's own writer gives them.
func logicalTypes(target *table.Table, spec *iceberg.PartitionSpec) map[int]string {
	logical := make(map[int]string)
	for _, f := range spec.Fields() {
		source, ok := target.Schema().FindFieldByID(f.SourceID())
		if !ok {
			continue
		}
		switch f.Transform.ResultType(source.Type).(type) {
		case iceberg.DateType:
			logical[f.FieldID] = "date"
		case iceberg.TimeType:
			logical[f.FieldID] = "time-micros"
		case iceberg.TimestampType, iceberg.TimestampTzType:
			logical[f.FieldID] = "timestamp-micros"
		case iceberg.DecimalType:
			logical[f.FieldID] = "decimal"
		case iceberg.UUIDType:
			logical[f.FieldID] = "uuid"
		}
	}
	return logical
}
