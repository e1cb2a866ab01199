package reconcile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"icehose/catalog"
	"icehose/internal/canon"
)

// An Encoder turns the values of one table's rows, a row at a time, into what
// is compared of them. It is the one place that decides which columns count,
// how a masked one does, and in which bucket a row is; every Reader that
// streams rows uses it.
type Encoder struct {
	table    *catalog.Table
	columns  []*catalog.Column // of the source, in lake order
	ready    []canon.Column
	kinds    []catalog.TypeKind // in the lake
	defaults [][]byte           // what NULL in the lake means; nil: NULL
	key      []int              // indexes into columns, in key order
	isKey    []bool

	row     []byte // canonical bytes of the current row
	ends    []int  // where each of its fields ends
	text    []byte // one canonical text
	keyText []byte // canonical bytes of the key
	stamp   []byte
	bucket  int   // that the server has put the row in; -1: it does not say
	unfit   error // why a value of the current row has no canonical text
	err     error // why the current row cannot be encoded
}

// NewEncoder returns an Encoder of rows of t.
func NewEncoder(t *catalog.Table) (*Encoder, error) {
	e := &Encoder{table: t, columns: comparedColumns(t), bucket: -1}
	e.isKey = make([]bool, len(e.columns))
	e.defaults = make([][]byte, len(e.columns))
	for i, c := range e.columns {
		e.ready = append(e.ready, canon.Prepare(c))
		e.kinds = append(e.kinds, comparedKind(c))
		if c.Default != nil {
			e.defaults[i] = []byte(*c.Default)
		}
	}
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

// maskText appends what catalog.MaskSHA256 leaves of a canonical text.
func maskText(dst, text []byte) []byte {
	sum := sha256.Sum256(text)
	return hex.AppendEncode(dst, sum[:])
}

// Columns returns the columns whose values make a row, in the order in which
// they must come: those of the source that are not excluded.
func (e *Encoder) Columns() []*catalog.Column { return e.columns }

// Reset begins a row.
func (e *Encoder) Reset() {
	e.row, e.ends, e.stamp, e.unfit, e.err = e.row[:0], e.ends[:0], e.stamp[:0], nil, nil
	e.bucket = -1
}

// Placed says in which of the part's buckets the server has put the current row:
// it hashes a value that no lake can have as the text that it writes for it, so
// nobody else finds the bucket of a row with such a key, or such a row without one.
func (e *Encoder) Placed(text []byte) {
	bucket, err := strconv.Atoi(string(text))
	if err != nil || bucket < 0 {
		e.fail(errors.New("encode row: the server's bucket is no number"))
		return
	}
	e.bucket = bucket
}

// Stamp gives the current row a stamp (Row.Stamp).
func (e *Encoder) Stamp(text []byte) { e.stamp = append(e.stamp[:0], text...) }

// Null is the next column's value: NULL.
func (e *Encoder) Null() {
	if i := len(e.ends); i < len(e.columns) && e.isKey[i] && e.err == nil {
		e.err = fmt.Errorf("encode row: key column %s is null", e.columns[i].Name)
	}
	e.row = canon.AppendNull(e.row)
	e.ends = append(e.ends, len(e.row))
}

// Lake is the next column's value as the lake has it: its canonical text,
// masked when the column is; nil for NULL. NULL means the column's default
// where the source forbids NULL: the row was written before the column was.
func (e *Encoder) Lake(text []byte) {
	i := len(e.ends)
	if text == nil && i < len(e.defaults) {
		text = e.defaults[i]
	}
	if text == nil {
		e.Null()
		return
	}
	e.Canonical(text)
}

// Canonical is the next column's value: its canonical text, masked when the
// column is.
func (e *Encoder) Canonical(text []byte) {
	i := len(e.ends)
	if i >= len(e.columns) {
		e.fail(errTooMany)
		return
	}
	var err error
	if e.row, err = canon.AppendTyped(e.row, e.kinds[i], text); err != nil {
		e.fail(fmt.Errorf("encode row: column %s: %w", e.columns[i].Name, err))
	}
	e.ends = append(e.ends, len(e.row))
}

var errTooMany = errors.New("encode row: more values than columns")

// Value is the next column's value as the source writes it. It is masked, and
// loses what the pipeline file lets it lose, on its way. A value that the lake's
// type cannot hold makes the row one that no lake has (Row.Unfit); in a key it
// stands as the source writes it.
func (e *Encoder) Value(form canon.Form, text []byte) {
	i := len(e.ends)
	if i >= len(e.columns) {
		e.fail(errTooMany)
		return
	}
	c := e.columns[i]
	if c.Mask == catalog.MaskNull {
		e.Null()
		return
	}
	out, null, err := e.ready[i].AppendValue(e.text[:0], form, text)
	e.text = out
	switch {
	case err != nil && isUnfit(err):
		if e.unfit == nil {
			e.unfit = err
		}
		e.row = appendUnfit(e.row, c, e.isKey[i], text)
		e.ends = append(e.ends, len(e.row))
	case err != nil:
		e.fail(err)
		e.Null()
	case null:
		e.Null()
	case c.Mask == catalog.MaskSHA256:
		e.text = maskText(e.text[:0], out)
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

// field returns the canonical bytes of column i of the finished row.
func (e *Encoder) field(i int) []byte {
	from := 0
	if i > 0 {
		from = e.ends[i-1]
	}
	return e.row[from:e.ends[i]]
}

// value returns the canonical text of column i of the finished row.
func (e *Encoder) value(i int) (text []byte, null bool) {
	if isUnfitField(e.field(i)) {
		return nil, true
	}
	length, text, _ := bytes.Cut(e.field(i), []byte{':'})
	return text, string(length) == "N"
}

// HasKeyOf reports whether the finished row has one of the keys, byte for byte. It
// is true of a row that cannot be encoded: whoever reads it next says why.
func (e *Encoder) HasKeyOf(keys *Keys) bool {
	if e.End() != nil {
		return true
	}
	e.keyText = e.keyText[:0]
	for _, i := range e.key {
		e.keyText = append(e.keyText, e.field(i)...)
	}
	return keys.Has(e.keyText)
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
		return Row{Bucket: e.bucketOf(h, buckets), Key: e.keyText, Hash: h}, nil
	}
	e.keyText = e.keyText[:0]
	for _, i := range e.key {
		e.keyText = append(e.keyText, e.field(i)...)
	}
	return Row{Bucket: e.bucketOf(canon.HashRow(e.keyText), buckets), Key: e.keyText}, nil
}

// bucketOf is the bucket of the current row: that of a hash, or where the server
// has put what it alone can place.
func (e *Encoder) bucketOf(h canon.Hash, buckets int) int {
	if e.unfit != nil && e.bucket >= 0 {
		return e.bucket & (buckets - 1)
	}
	return bucketOf(h, buckets)
}

// bucketOfKey is the bucket of a Row.Key with so many columns.
func bucketOfKey(key []byte, columns, buckets int) int {
	if columns > 0 {
		return bucketOf(canon.HashRow(key), buckets)
	}
	return bucketOf(canon.Hash{Hi: binary.BigEndian.Uint64(key), Lo: binary.BigEndian.Uint64(key[8:])}, buckets)
}

func bucketOf(h canon.Hash, buckets int) int {
	return int(h.Lo & uint64(buckets-1))
}

// finish completes a placed row.
func (e *Encoder) finish(r Row) Row {
	if len(e.key) > 0 {
		r.Hash = canon.HashRow(e.row)
	}
	r.Unfit = e.unfit != nil
	return r
}

// DigestRows digests the rows of a part in a stream of encoded rows: Digests
// of a View whose rows pass through this process. The stream may have more
// rows than the part.
func DigestRows(t *catalog.Table, rows iter.Seq2[*Encoder, error], part Part) ([]canon.Digest, error) {
	s, err := part.selector(t)
	if err != nil {
		return nil, err
	}
	digests := make([]canon.Digest, part.Buckets)
	for e, err := range rows {
		if err != nil {
			return nil, err
		}
		row, err := e.place(part.Buckets)
		if err != nil {
			return nil, err
		}
		if s.has(e, &row) {
			digests[row.Bucket].Add(e.finish(row).Hash)
		}
	}
	return digests, nil
}

// SelectRows yields the rows of a part in a stream of encoded rows: Rows of a
// View whose rows pass through this process. The stream may have more rows
// than the part.
func SelectRows(t *catalog.Table, rows iter.Seq2[*Encoder, error], part Part) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		s, err := part.selector(t)
		version := slices.IndexFunc(comparedColumns(t), func(c *catalog.Column) bool { return c.Name == part.Version })
		if err == nil && part.Version != "" && version < 0 {
			err = fmt.Errorf("select rows of %s: no column %s", t.Source, part.Version)
		}
		if err != nil {
			yield(Row{}, err)
			return
		}
		for e, err := range rows {
			if err != nil {
				yield(Row{}, err)
				return
			}
			row, err := e.place(part.Buckets)
			if err != nil {
				yield(Row{}, err)
				return
			}
			if !s.has(e, &row) {
				continue
			}
			row.Stamp = e.stamp
			if part.Version != "" {
				row.Version, _ = e.value(version)
			}
			if !yield(e.finish(row), nil) {
				return
			}
		}
	}
}
