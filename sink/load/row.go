package load

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon"
)

// A coder turns rows of a source's texts into rows of the lake's.
type coder struct {
	table    *catalog.Table
	form     canon.Form
	columns  []column
	snapshot *Snapshot
	epoch    uint16
	part     string // of a keyless table
	number   uint64 // of rows of the part that were begun

	lake [][]byte
	text []byte // of the current row
	ends []int  // per column: where its text ends; -1 for null
	hash []byte // what key returns
}

type column struct {
	*catalog.Column
	canon   canon.Column
	key     bool
	notNull bool
	replace bool
}

func newCoder(t *catalog.Table, s *Snapshot, epoch uint16, position cdc.Position) (*coder, error) {
	c := &coder{table: t, form: s.Form, snapshot: s, epoch: epoch}
	all, data := t.LakeColumns()
	for _, col := range Columns(t) {
		c.columns = append(c.columns, column{
			Column: col, canon: canon.Prepare(col), key: t.IsKey(col.Name), replace: slices.Contains(col.AllowLossy, catalog.LossInvalid),
			notNull: col.NotNull && col.Mask != catalog.MaskNull,
		})
	}
	if len(c.columns) != data {
		return nil, fmt.Errorf("%d columns of the source for %d of the lake", len(c.columns), data)
	}
	c.lake, c.ends = make([][]byte, len(all)), make([]int, data)
	c.lake[data] = []byte(position)
	if t.Mode == catalog.Changelog {
		c.lake[data+2] = []byte(cdc.Load.String())
	}
	return c, nil
}

// begin begins a part.
func (c *coder) begin(part int) {
	c.part, c.number = strconv.Itoa(part), 0
}

// row returns the lake row of a source row, valid until the next call.
func (c *coder) row(values [][]byte) ([][]byte, error) {
	if len(values) != len(c.columns) {
		return nil, fmt.Errorf("read row: %d values for %d columns", len(values), len(c.columns))
	}
	c.text = c.text[:0]
	c.number++
	for i := range c.columns {
		if err := c.value(i, values[i]); err != nil {
			return nil, err
		}
	}
	start := 0
	for i, end := range c.ends {
		if end < 0 {
			c.lake[i] = nil
			continue
		}
		c.lake[i] = c.text[start:end:end]
		if start == end {
			c.lake[i] = []byte{} // empty, not null
		}
		start = end
	}
	if len(c.table.Key) == 0 {
		return c.lake, c.setPosition()
	}
	return c.lake, nil
}

// value appends the text of one column.
func (c *coder) value(i int, text []byte) error {
	col := &c.columns[i]
	if text == nil && col.notNull && !col.key {
		return fmt.Errorf("column %s is null, but not_null in the pipeline file: write an empty text with quotes (\"\") in CSV; if the source has nulls, take not_null away", col.Name)
	}
	null := text == nil || col.Mask == catalog.MaskNull
	if !null {
		if col.replace && !utf8.Valid(text) {
			text = replaceInvalid(text)
		}
		start := len(c.text)
		out, lost, err := col.canon.AppendValue(c.text, c.form, text)
		if err != nil {
			return advise(err)
		}
		if c.text, null = out, lost; !null && col.Mask == catalog.MaskSHA256 {
			sum := sha256.Sum256(c.text[start:])
			c.text = hex.AppendEncode(c.text[:start], sum[:])
		}
	}
	if !null {
		c.ends[i] = len(c.text)
		return nil
	}
	if c.ends[i] = -1; col.key {
		return fmt.Errorf("key column %s is null", col.Name)
	}
	return nil
}

// advise adds what can be done about a value that its column cannot hold.
func advise(err error) error {
	value, ok := errors.AsType[*canon.ValueError](err)
	if !ok {
		return err
	}
	switch value.Problem {
	case canon.Inexact:
		return fmt.Errorf("%w: change the column's type in the pipeline file, or let it round with allow_lossy: [round]", err)
	case canon.OutOfRange:
		if value.Kind == canon.ZeroDate { // its key would be a value of the row
			err = fmt.Errorf("%w (WHERE 0 IN (YEAR(%[2]s), MONTH(%[2]s), DAYOFMONTH(%[2]s)) finds such rows)", err, value.Column)
		}
		return fmt.Errorf("%w: change the column's type in the pipeline file, or let such values become null with allow_lossy: [null]", err)
	case canon.BadUnicode:
		return fmt.Errorf("%w: let it be replaced with allow_lossy: [replace]", err)
	case canon.NotValid, canon.Damaged:
	}
	return fmt.Errorf("%w: look at the column's type in the pipeline file", err)
}

// replaceInvalid puts U+FFFD in the place of each byte that is not text.
func replaceInvalid(text []byte) []byte {
	return []byte(string([]rune(string(text))))
}

// key returns what the key of the current row is, in canonical fields.
func (c *coder) key() []byte {
	c.hash = c.hash[:0]
	for i := range c.columns {
		if c.columns[i].key {
			c.hash = canon.AppendField(c.hash, c.lake[i])
		}
	}
	return c.hash
}

// setPosition gives a row of a table without a key a position of its own: it is
// what tells one row from another.
func (c *coder) setPosition() error {
	position, err := cdc.LoadPosition(c.epoch, c.snapshot.Floor, c.snapshot.Since, cdc.Origin{
		Shard: c.part, Sequence: strconv.FormatUint(c.number-1, 10),
	})
	c.lake[len(c.columns)] = []byte(position)
	return err
}
