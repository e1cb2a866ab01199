package dump

import (
	"bytes"
	"fmt"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/reconcile"
)

// ignored marks a column that is not in the lake.
const ignored = -1

// fields puts the columns of a record, which come in any order, into the
// order of an encoder.
type fields struct {
	encoder *reconcile.Encoder
	source  catalog.SourceNames
	lake    []int // column of the table -> column of the encoder, or ignored

	// What the last record was like, which the next one mostly repeats.
	names   [][]byte
	columns []int

	values []value // by column of the encoder
	seen   []bool

	amounts amounts
	numbers []byte // of the current record's amounts
}

func newFields(t *catalog.Table, e *reconcile.Encoder) *fields {
	n := len(e.Columns())
	f := &fields{encoder: e, source: t.SourceNames(), values: make([]value, n), seen: make([]bool, n)}
	f.amounts = newAmounts(e.Columns())
	at := 0
	for _, c := range t.Columns {
		column := ignored
		if !c.Exclude {
			column = at
			at++
		}
		f.lake = append(f.lake, column)
	}
	return f
}

// encode gives one record to the encoder.
func (f *fields) encode(rec *record, form canon.Form) error {
	if err := f.place(rec.names); err != nil {
		return err
	}
	for i, v := range rec.values {
		if column := f.columns[i]; column != ignored {
			f.values[column] = v
		}
	}
	if f.amounts != nil && form == canon.Postgres {
		if err := f.plain(); err != nil {
			return err
		}
	}
	f.encoder.Reset()
	for _, v := range f.values {
		if v.null {
			f.encoder.Null()
		} else {
			f.encoder.Value(form, v.text)
		}
	}
	return f.encoder.End()
}

// plain puts numbers in the place of amounts.
func (f *fields) plain() error {
	f.numbers = f.numbers[:0]
	for i, v := range f.values {
		if f.amounts[i] == nil || v.null {
			continue
		}
		from := len(f.numbers)
		var err error
		if f.numbers, err = f.amounts.append(f.numbers, i, v.text); err != nil {
			return err
		}
		f.values[i].text = f.numbers[from:len(f.numbers):len(f.numbers)]
	}
	return nil
}

// place fills columns for the given names: every column once, no other name.
func (f *fields) place(names [][]byte) error {
	if f.same(names) {
		return nil
	}
	f.names, f.columns = f.names[:0], f.columns[:0]
	clear(f.seen)
	for i, name := range names {
		for _, earlier := range names[:i] {
			if bytes.Equal(earlier, name) {
				return fmt.Errorf("column %q occurs twice", name)
			}
		}
		found := f.source.Find(string(name))
		if found < 0 {
			return fmt.Errorf("column %q is not in the pipeline file", name)
		}
		column := f.lake[found]
		if column != ignored {
			if f.seen[column] {
				return fmt.Errorf("column %q occurs twice, in two spellings", f.encoder.Columns()[column].Name)
			}
			f.seen[column] = true
		}
		f.columns = append(f.columns, column)
	}
	for column, seen := range f.seen {
		if !seen {
			return fmt.Errorf("column %q is missing", f.encoder.Columns()[column].Name)
		}
	}
	for _, name := range names {
		f.names = append(f.names, bytes.Clone(name))
	}
	return nil
}

func (f *fields) same(names [][]byte) bool {
	if len(f.names) != len(names) || len(names) == 0 {
		return false
	}
	for i := range names {
		if !bytes.Equal(f.names[i], names[i]) {
			return false
		}
	}
	return true
}
