// Package parquet reads a table from Parquet files for a load.
//
// In come files; out come parts, one for each row group, whose texts are those
// of package canon's form Delivered: numbers with all their digits, times in
// UTC, bytes in hexadecimal. A value is read as its file's type has it and then
// must fit the column of the pipeline file exactly: an integer may be narrower
// or wider than its column, a decimal may have another scale. Bytes are for
// columns of bytes, and nothing else is: a text is not taken for hexadecimal
// digits, nor bytes for text unless Options says so. Nested columns are refused.
package parquet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"icehose/catalog"
	"icehose/sink/load"
)

// Options say how files are read.
type Options struct {
	// BinaryAsString takes bytes that are not marked as text for text, in UTF-8,
	// wherever the column of the lake is not of bytes: old versions of Hive,
	// Impala and Spark wrote text so.
	BinaryAsString bool
}

// A Part is one row group of a file.
type Part struct {
	Rows load.Part
	Name string // of the file, and which group
}

// Open returns the parts of the files, and how many rows they have.
func Open(paths []string, t *catalog.Table, o Options) (parts []Part, rows int64, err error) {
	for _, path := range paths {
		r, err := file.OpenParquetFile(path, false)
		if err != nil {
			return nil, 0, fmt.Errorf("open %s: %w", path, err)
		}
		rows += r.NumRows()
		columns, placeErr := place(r, t, o)
		for group := range r.NumRowGroups() {
			parts = append(parts, Part{part(path, group, columns), fmt.Sprintf("%s, row group %d", path, group)})
		}
		if err := errors.Join(placeErr, r.Close()); err != nil {
			return nil, 0, fmt.Errorf("open %s: %w", path, err)
		}
	}
	return parts, rows, nil
}

// A column is where the values of a column of the lake are in a file.
type column struct {
	leaf int  // of the file's schema
	text bool // its bytes are text
}

// place finds the columns of the table among those of a file.
func place(r *file.Reader, t *catalog.Table, o Options) ([]column, error) {
	schema := r.MetaData().Schema
	names := make([]string, schema.Root().NumFields())
	for i := range names {
		names[i] = schema.Root().Field(i).Name()
	}
	wanted := load.Columns(t)
	places, err := t.PlaceColumns(names)
	if err != nil {
		return nil, err
	}
	reader, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	read, err := reader.Schema()
	if err != nil {
		return nil, err
	}
	columns := make([]column, len(places))
	for i, at := range places {
		leaf := schema.ColumnIndexByName(names[at])
		if leaf < 0 {
			return nil, fmt.Errorf("column %s is nested, which no column of the lake is", wanted[i].Name)
		}
		columns[i] = column{leaf: leaf}
		if columns[i].text, err = fit(wanted[i], read.Field(at).Type, schema.Column(leaf).LogicalType(), o); err != nil {
			return nil, fmt.Errorf("column %s: %w", wanted[i].Name, err)
		}
	}
	return columns, nil
}

// part yields the rows of one row group.
func part(path string, group int, columns []column) load.Part {
	return func(ctx context.Context) iter.Seq2[[][]byte, error] {
		return func(yield func([][]byte, error) bool) {
			if err := read(ctx, path, group, columns, yield); err != nil {
				yield(nil, fmt.Errorf("read %s: row group %d: %w", filepath.Base(path), group, err))
			}
		}
	}
}

const batchRows = 8192

func read(ctx context.Context, path string, group int, columns []column, yield func([][]byte, error) bool) (err error) {
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
	leaves := make([]int, len(columns))
	for i, c := range columns {
		leaves[i] = c.leaf
	}
	records, err := reader.GetRecordReader(ctx, leaves, []int{group})
	if err != nil {
		return err
	}
	defer records.Release()
	// The reader has the columns in the order of the file.
	at := make([]int, len(columns))
	for i, leaf := range leaves {
		name := parquet.MetaData().Schema.Column(leaf).Name()
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
				values, at := plain(batch.Column(c), i)
				if row[n] = nil; values.IsNull(at) {
					continue
				}
				if texts[n], err = appendText(texts[n][:0], values, at, columns[n].text); err != nil {
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
