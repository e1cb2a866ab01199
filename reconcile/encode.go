package reconcile

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"

	"icehose/catalog"
	"icehose/internal/canon"
)

// An Encoder turns the values of one table's rows, a row at a time, into what
// is compared of them. It is the one place that decides which columns count,
// how a masked one does, and in which bucket a row is; every Reader that
// streams rows uses it.
type Encoder struct {
	columns []*catalog.Column // of the source, in lake order
	key     []int             // indexes into columns, in key order
	isKey   []bool

	row     []byte // canonical bytes of the current row
	ends    []int  // where each of its fields ends
	text    []byte // one canonical text
	keyText []byte // canonical bytes of the key
	err     error  // why the current row cannot be encoded
}

// NewEncoder returns an Encoder of rows of t.
func NewEncoder(t *catalog.Table) (*Encoder, error) {
	e := &Encoder{}
	for _, c := range t.Columns {
		if !c.Exclude {
			e.columns = append(e.columns, c)
		}
	}
	e.isKey = make([]bool, len(e.columns))
	for _, name := range t.Key {
		i := slices.IndexFunc(e.columns, func(c *catalog.Column) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("encode rows of %s: key column %s is not a column of the lake", t.Source, name)
		}
		e.key = append(e.key, i)
		e.isKey[i] = true
	}
	return e, nil
}

// Columns returns the columns whose values make a row, in the order in which
// they must come: those of the source that are not excluded.
func (e *Encoder) Columns() []*catalog.Column { return e.columns }

// Reset begins a row.
func (e *Encoder) Reset() {
	e.row, e.ends, e.err = e.row[:0], e.ends[:0], nil
}

// Null is the next column's value: NULL.
func (e *Encoder) Null() {
	if i := len(e.ends); i < len(e.columns) && e.isKey[i] && e.err == nil {
		e.err = fmt.Errorf("encode row: key column %s is null", e.columns[i].Name)
	}
	e.row = canon.AppendNull(e.row)
	e.ends = append(e.ends, len(e.row))
}

// Canonical is the next column's value as the lake holds it: its canonical
// text, masked when the column is.
func (e *Encoder) Canonical(text []byte) {
	e.row = canon.AppendField(e.row, text)
	e.ends = append(e.ends, len(e.row))
}

// Value is the next column's value as the source writes it. It is masked, and
// loses what the pipeline file lets it lose, on its way. The error is kept for
// the end of the row.
func (e *Encoder) Value(form canon.Form, text []byte) {
	if len(e.ends) >= len(e.columns) {
		e.fail(errors.New("encode row: more values than columns"))
		return
	}
	c := e.columns[len(e.ends)]
	if c.Mask == catalog.MaskNull {
		e.Null()
		return
	}
	out, null, err := canon.AppendValue(e.text[:0], c, form, text)
	e.text = out
	switch {
	case err != nil:
		e.fail(err)
		e.Null()
	case null:
		e.Null()
	case c.Mask == catalog.MaskSHA256:
		sum := sha256.Sum256(out)
		e.text = hex.AppendEncode(e.text[:0], sum[:])
		e.Canonical(e.text)
	default:
		e.Canonical(out)
	}
}

func (e *Encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// End ends the row. The error says why it cannot be encoded, without its values.
func (e *Encoder) End() error {
	if e.err == nil && len(e.ends) != len(e.columns) {
		e.err = fmt.Errorf("encode row: %d values for %d columns", len(e.ends), len(e.columns))
	}
	return e.err
}

// place finds the key and the bucket of the finished row. The row hash is
// known only when it was needed for that: for a table without a key.
func (e *Encoder) place(buckets int) (Row, error) {
	if err := e.End(); err != nil {
		return Row{}, err
	}
	if len(e.key) == 0 {
		h := canon.HashRow(e.row)
		e.keyText = binary.BigEndian.AppendUint64(e.keyText[:0], h.Hi)
		e.keyText = binary.BigEndian.AppendUint64(e.keyText, h.Lo)
		return Row{Bucket: bucketOf(h, buckets), Key: e.keyText, Hash: h}, nil
	}
	e.keyText = e.keyText[:0]
	for _, i := range e.key {
		from := 0
		if i > 0 {
			from = e.ends[i-1]
		}
		e.keyText = append(e.keyText, e.row[from:e.ends[i]]...)
	}
	return Row{Bucket: bucketOf(canon.HashRow(e.keyText), buckets), Key: e.keyText}, nil
}

func bucketOf(h canon.Hash, buckets int) int {
	return int(h.Lo % uint64(buckets))
}

// finish completes a placed row.
func (e *Encoder) finish(r Row) Row {
	if len(e.key) > 0 {
		r.Hash = canon.HashRow(e.row)
	}
	return r
}

// DigestRows digests a stream of encoded rows: Digests of a Reader whose rows
// pass through this process.
func DigestRows(rows iter.Seq2[*Encoder, error], buckets int) ([]canon.Digest, error) {
	digests := make([]canon.Digest, buckets)
	for e, err := range rows {
		if err != nil {
			return nil, err
		}
		row, err := e.place(buckets)
		if err != nil {
			return nil, err
		}
		digests[row.Bucket].Add(e.finish(row).Hash)
	}
	return digests, nil
}

// SelectRows yields the rows of a stream whose bucket is wanted: Rows of a
// Reader whose rows pass through this process.
func SelectRows(rows iter.Seq2[*Encoder, error], buckets int, wanted func(int) bool) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for e, err := range rows {
			if err != nil {
				yield(Row{}, err)
				return
			}
			row, err := e.place(buckets)
			if err != nil {
				yield(Row{}, err)
				return
			}
			if wanted(row.Bucket) && !yield(e.finish(row), nil) {
				return
			}
		}
	}
}
