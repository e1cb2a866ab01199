package canonarrow

import (
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"

	"icehose/catalog"
)

// A RowReader turns the rows of Arrow batches into canonical texts. It is used
// for one batch at a time.
type RowReader struct {
	columns []catalog.Column
	row     [][]byte
	ends    []int
	text    []byte
}

// NewRowReader returns a reader of rows with the columns given.
func NewRowReader(columns []catalog.Column) *RowReader {
	return &RowReader{columns: columns, row: make([][]byte, len(columns)), ends: make([]int, len(columns))}
}

// Rows yields the rows of a batch, in which it finds the columns by name: a canonical text per column, nil for null,
// valid until the next row. An error is the last thing that is yielded.
func (r *RowReader) Rows(batch arrow.RecordBatch) iter.Seq2[[][]byte, error] {
	arrays := make([]arrow.Array, len(r.columns))
	for n, c := range r.columns {
		at := batch.Schema().FieldIndices(c.Name)
		if len(at) != 1 {
			return func(yield func([][]byte, error) bool) {
				yield(nil, fmt.Errorf("the lake has %d columns called %s", len(at), c.Name))
			}
		}
		arrays[n] = batch.Column(at[0])
	}
	return r.rows(arrays, int(batch.NumRows()))
}

// RowsInOrder is Rows of a batch whose columns are those of the reader, in its
// order. A name may come twice.
func (r *RowReader) RowsInOrder(batch arrow.RecordBatch) iter.Seq2[[][]byte, error] {
	return r.rows(batch.Columns(), int(batch.NumRows()))
}

func (r *RowReader) rows(arrays []arrow.Array, n int) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		for i := range n {
			if err := r.read(arrays, i); err != nil {
				yield(nil, err)
				return
			}
			if !yield(r.row, nil) {
				return
			}
		}
	}
}

// read sets row to row i of the arrays.
func (r *RowReader) read(arrays []arrow.Array, i int) error {
	r.text = append(r.text[:0], '-') // never nil, so that an empty text is not null
	for n, c := range r.columns {
		if !arrays[n].IsNull(i) {
			var err error
			if r.text, err = Append(r.text, arrays[n], i, c.Type); err != nil {
				return fmt.Errorf("column %s: %w", c.Name, err)
			}
		}
		r.ends[n] = len(r.text)
	}
	start := 1
	for n, end := range r.ends {
		r.row[n] = nil
		if !arrays[n].IsNull(i) {
			r.row[n] = r.text[start:end:end]
		}
		start = end
	}
	return nil
}
