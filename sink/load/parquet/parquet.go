// Package parquet reads a table from Parquet files for a load.
//
// In come files; out come parts, one for each row group, whose texts are those
// of package canon's form Delivered: numbers with all their digits, times in
// UTC, bytes in hexadecimal. A value is read as its file's type has it and then
// must fit the column of the pipeline file exactly: an integer may be narrower
// or wider than its column, a decimal may have another scale. Nested columns
// are refused.
package parquet

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"icehose/catalog"
	"icehose/sink/load"
)

// Open returns the parts of the files, and how many rows they have.
func Open(paths []string, t *catalog.Table) (parts []load.Part, rows int64, err error) {
	for _, path := range paths {
		r, err := file.OpenParquetFile(path, false)
		if err != nil {
			return nil, 0, fmt.Errorf("open %s: %w", path, err)
		}
		rows += r.NumRows()
		columns, placeErr := place(r, t)
		for group := range r.NumRowGroups() {
			parts = append(parts, part(path, group, columns))
		}
		if err := errors.Join(placeErr, r.Close()); err != nil {
			return nil, 0, fmt.Errorf("open %s: %w", path, err)
		}
	}
	return parts, rows, nil
}

// place finds the columns of the table among those of a file.
func place(r *file.Reader, t *catalog.Table) ([]int, error) {
	schema := r.MetaData().Schema
	names := make([]string, schema.Root().NumFields())
	for i := range names {
		names[i] = schema.Root().Field(i).Name()
	}
	columns := load.Columns(t)
	places, err := t.PlaceColumns(names)
	if err != nil {
		return nil, err
	}
	for i, at := range places {
		node := schema.Root().Field(at)
		if places[i] = schema.ColumnIndexByName(node.Name()); places[i] < 0 {
			return nil, fmt.Errorf("column %s is nested, which no column of the lake is", columns[i].Name)
		}
	}
	return places, nil
}

// part yields the rows of one row group.
func part(path string, group int, columns []int) load.Part {
	return func(ctx context.Context) iter.Seq2[[][]byte, error] {
		return func(yield func([][]byte, error) bool) {
			if err := read(ctx, path, group, columns, yield); err != nil {
				yield(nil, fmt.Errorf("read %s: row group %d: %w", filepath.Base(path), group, err))
			}
		}
	}
}

const batchRows = 8192

func read(ctx context.Context, path string, group int, columns []int, yield func([][]byte, error) bool) (err error) {
	parquet, err := file.OpenParquetFile(path, false)
	if err != nil {
		return err
	}
	stopped := false
	defer func() {
		if closed := parquet.Close(); !stopped {
			err = errors.Join(err, closed)
		}
	}()
	reader, err := pqarrow.NewFileReader(parquet, pqarrow.ArrowReadProperties{BatchSize: batchRows}, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	records, err := reader.GetRecordReader(ctx, columns, []int{group})
	if err != nil {
		return err
	}
	defer records.Release()
	// The reader has the columns in the order of the file.
	at := make([]int, len(columns))
	for i, c := range columns {
		name := parquet.MetaData().Schema.Column(c).Name()
		found := records.Schema().FieldIndices(name)
		if len(found) != 1 {
			return fmt.Errorf("column %s is there %d times", name, len(found))
		}
		at[i] = found[0]
	}
	row := make([][]byte, len(columns))
	texts := make([][]byte, len(columns))
	for records.Next() {
		batch := records.RecordBatch()
		for i := range int(batch.NumRows()) {
			for n, c := range at {
				if row[n] = nil; batch.Column(c).IsNull(i) {
					continue
				}
				if texts[n], err = appendText(texts[n][:0], batch.Column(c), i); err != nil {
					return fmt.Errorf("column %s: %w", batch.ColumnName(c), err)
				}
				if row[n] = texts[n]; row[n] == nil {
					row[n] = []byte{} // empty, not null
				}
			}
			if stopped = !yield(row, nil); stopped {
				return nil
			}
		}
	}
	return records.Err()
}

// appendText appends the text of a value that is not null.
func appendText(dst []byte, col arrow.Array, i int) ([]byte, error) {
	switch c := col.(type) {
	case *array.Boolean:
		return strconv.AppendBool(dst, c.Value(i)), nil
	case *array.Int8, *array.Int16, *array.Int32, *array.Int64, *array.Uint8, *array.Uint16, *array.Uint32, *array.Uint64,
		*array.Decimal32, *array.Decimal64, *array.Decimal128, *array.Decimal256:
		return append(dst, c.ValueStr(i)...), nil
	case *array.Float32:
		return strconv.AppendFloat(dst, float64(c.Value(i)), 'g', -1, 32), nil
	case *array.Float64:
		return strconv.AppendFloat(dst, c.Value(i), 'g', -1, 64), nil
	case *array.String:
		return append(dst, c.Value(i)...), nil
	case *array.LargeString:
		return append(dst, c.Value(i)...), nil
	case *array.Binary:
		return hex.AppendEncode(dst, c.Value(i)), nil
	case *array.LargeBinary:
		return hex.AppendEncode(dst, c.Value(i)), nil
	case *array.FixedSizeBinary:
		return hex.AppendEncode(dst, c.Value(i)), nil
	case *extensions.UUIDArray:
		return append(dst, c.Value(i).String()...), nil
	}
	return appendTime(dst, col, i)
}

func appendTime(dst []byte, col arrow.Array, i int) ([]byte, error) {
	const clock = "15:04:05.000000000"
	switch c := col.(type) {
	case *array.Date32:
		return c.Value(i).ToTime().AppendFormat(dst, time.DateOnly), nil
	case *array.Date64:
		return c.Value(i).ToTime().AppendFormat(dst, time.DateOnly), nil
	case *array.Time32:
		if t, ok := c.DataType().(*arrow.Time32Type); ok {
			return c.Value(i).ToTime(t.Unit).AppendFormat(dst, clock), nil
		}
	case *array.Time64:
		if t, ok := c.DataType().(*arrow.Time64Type); ok {
			return c.Value(i).ToTime(t.Unit).AppendFormat(dst, clock), nil
		}
	case *array.Timestamp:
		if t, ok := c.DataType().(*arrow.TimestampType); ok {
			dst = c.Value(i).ToTime(t.Unit).UTC().AppendFormat(dst, "2006-01-02T"+clock)
			if t.TimeZone != "" {
				dst = append(dst, 'Z')
			}
			return dst, nil
		}
	}
	return dst, fmt.Errorf("a %s is not read", col.DataType())
}
