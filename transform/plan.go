package transform

import (
	"bytes"
	"unicode/utf8"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon"
)

// A form is how a column's values stand in the row's JSON.
type form uint8

const (
	quoted   form = iota // a string of the canonical text
	bare                 // the canonical text, which is a JSON number or boolean
	floating             // the source's own number text
	encoded              // a string of the bytes in base64
)

// A column is a column of the lake table that comes from the source.
type column struct {
	source  *catalog.Column
	canon   canon.Column
	itself  bool // its text needs nothing but JSON's escapes
	trimmed bool // as itself, once the blanks at its end are cut
	integer bool // int or long, not masked
	float   bool // float or double, neither masked nor a key
	label   label
	form    form
	key     int  // its place in the key; -1
	replace bool // text that is not Unicode gets U+FFFD
	// required says that a missing value is no null, even where the endpoint
	// leaves nulls out.
	required bool
}

// A plan is a table compiled: what every record of it needs, looked up once.
type plan struct {
	index    int
	table    *catalog.Table
	excluded bool
	columns  []column // in lake order
	keyed    bool
	keyOrder []int          // key place -> index in columns
	exact    map[string]int // record's spelling -> index in columns, for columns with source:
	folded   map[string]int // lower-cased spelling -> index in columns, for the others
	epochs   bool
	metadata metadataLabels
}

// metadataLabels are the labels of the metadata columns.
type metadataLabels struct{ position, committedAt, operation, oldKey, absent label }

// A label is a column's `"name":`, with a comma before it where one belongs.
type label struct {
	text  []byte
	short [32]byte // text, when it fits
}

// append appends the label. A short one is copied with the bytes behind it,
// which whatever follows overwrites: a copy of constant size takes two
// instructions and no call.
func (l *label) append(dst []byte) []byte {
	if n := len(dst); len(l.text) <= len(l.short) && cap(dst)-n >= len(l.short) {
		*(*[len(l.short)]byte)(dst[n : n+len(l.short)]) = l.short
		return dst[:n+len(l.text)]
	}
	return append(dst, l.text...)
}

// Indexes of a field that no lake column is made from.
const (
	noColumn = -1 // the pipeline file does not have it
	leftOut  = -2 // the pipeline file excludes it
)

func compile(p *catalog.Pipeline, t *catalog.Table, index int, excluded bool, binary BinaryForm) *plan {
	out := &plan{
		index: index, table: t, excluded: excluded, keyed: len(t.Key) > 0, keyOrder: make([]int, len(t.Key)),
		exact: make(map[string]int), folded: make(map[string]int), epochs: len(p.Epochs) > 0,
	}
	for i, c := range t.Columns {
		at := leftOut
		if !c.Exclude {
			at = len(out.columns)
			col := column{source: c, canon: canon.Prepare(c), label: newLabel(c.Name, at > 0), form: formOf(c, binary), key: -1}
			for _, loss := range c.AllowLossy {
				col.replace = col.replace || loss == catalog.LossInvalid
			}
			for place, k := range t.KeyColumns() {
				if k == i {
					col.key = place
					out.keyOrder[place] = at
				}
			}
			col.required = isRequired(c)
			simple := col.key < 0 && c.Mask == ""
			col.itself, col.trimmed = simple && col.canon.IsItself(), simple && col.canon.IsTrimmed()
			col.float = simple && (c.Type.Kind == catalog.Float || c.Type.Kind == catalog.Double)
			col.integer = c.Mask == "" && (c.Type.Kind == catalog.Int || c.Type.Kind == catalog.Long)
			out.columns = append(out.columns, col)
		}
		if c.Source != "" {
			out.exact[c.Source] = at
		} else {
			out.folded[c.Name] = at
		}
	}
	out.metadata = metadataLabels{
		newLabel(catalog.ColumnPosition, len(out.columns) > 0), newLabel(catalog.ColumnCommittedAt, true), newLabel(catalog.ColumnOperation, true),
		newLabel(catalog.ColumnOldKey, true), newLabel(catalog.ColumnAbsent, true),
	}
	return out
}

// isRequired reports whether a record without the column has lost it: the source
// has no null there, so what an endpoint left out is an empty text, or anything
// that a rule of the task took away. One reason is none: a record from before
// the column was added, whose null means the default. A text with a default may
// have been empty all the same.
func isRequired(c *catalog.Column) bool {
	return c.NotNull && (c.Default == nil || c.Type.Kind == catalog.String || c.Type.Kind == catalog.Binary)
}

func newLabel(name string, comma bool) label {
	var l label
	if comma {
		l.text = append(l.text, ',')
	}
	l.text = append(appendEscaped(append(l.text, '"'), []byte(name)), '"', ':')
	copy(l.short[:], l.text)
	return l
}

// formOf says how a column's values are written. A digest is text whatever the
// column's type was.
func formOf(c *catalog.Column, binary BinaryForm) form {
	if c.Mask == catalog.MaskSHA256 {
		return quoted
	}
	switch c.Type.Kind {
	case catalog.Boolean, catalog.Int, catalog.Long:
		return bare
	case catalog.Float, catalog.Double:
		return floating
	case catalog.Fixed, catalog.Binary:
		if binary == Base64 {
			return encoded
		}
	case catalog.Decimal, catalog.Date, catalog.Time, catalog.Timestamp, catalog.TimestampTZ, catalog.String, catalog.UUID:
	}
	return quoted
}

// find returns the column that a record's field is for. A spelling in the
// pipeline file counts exactly; a column without one takes every spelling that
// lower-cases to its name.
func (p *plan) find(name []byte) int {
	if at, ok := p.exact[string(name)]; ok {
		return at
	}
	if at, ok := p.folded[string(name)]; ok {
		return at
	}
	var buffer [64]byte
	lower := buffer[:0]
	for _, c := range name {
		switch {
		case c >= utf8.RuneSelf:
			if at, ok := p.folded[string(bytes.ToLower(name))]; ok {
				return at
			}
			return noColumn
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		}
		lower = append(lower, c)
	}
	if at, ok := p.folded[string(lower)]; ok {
		return at
	}
	return noColumn
}

// partial reports whether an update's value of a column stands for "not
// changed", by what the pipeline file says of the endpoint.
func (p *plan) partial(c *column, kind cdc.Kind) bool {
	if !c.source.MayBeUnchanged || c.source.Mask == catalog.MaskNull {
		return false
	}
	switch p.table.Unchanged {
	case catalog.UnchangedAbsent:
		return kind == cdc.Missing
	case catalog.UnchangedNull:
		// An endpoint that leaves nulls out leaves these out too.
		return kind == cdc.Null || kind == cdc.Missing && p.table.Nulls == catalog.NullsOmitted
	case catalog.UnchangedNever:
		return false
	}
	return false
}

// reasonOf translates canon's closed list of problems.
func reasonOf(p canon.Problem) Reason {
	switch p {
	case canon.NotValid:
		return InvalidValue
	case canon.OutOfRange:
		return OutOfRange
	case canon.Inexact:
		return Inexact
	case canon.BadUnicode:
		return InvalidUTF8
	case canon.Damaged:
		return DamagedNumber
	}
	return InvalidValue
}
