package sink

import (
	"encoding/binary"
	"fmt"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon"
)

// A Reason says why a row was rejected. The list is closed.
type Reason string

// The reasons.
const (
	UnknownTable     Reason = "unknown_table"      // not in the pipeline file
	UnknownOperation Reason = "unknown_operation"  // neither insert, update nor delete
	InvalidJSON      Reason = "invalid_json"       // not one JSON object of plain values
	UnknownColumn    Reason = "unknown_column"     // not a column of the lake table
	RepeatedColumn   Reason = "repeated_column"    // there twice
	MissingColumn    Reason = "missing_column"     // a column of the lake table is not there
	InvalidValue     Reason = "invalid_value"      // not a value of the column's type
	NullKey          Reason = "null_key"           // a key column is null
	NoPosition       Reason = "no_position"        // cdc_position is null or not a position
	NoKey            Reason = "no_key"             // an update or delete of a table without key
	OlderThanHorizon Reason = "older_than_horizon" // older than a delete that may have been forgotten
	SchemaRefused    Reason = "schema_refused"     // the lake table has other columns, and cannot safely get these
)

// A RejectError says why a row was not written. It never holds a value of the row.
type RejectError struct {
	Database, Table string
	Column          string // empty where no single column is meant
	Reason          Reason
}

// Error implements error.
func (e *RejectError) Error() string {
	where := e.Database + "." + e.Table
	if e.Column != "" {
		where += " column " + e.Column
	}
	return fmt.Sprintf("write row of %s: %s", where, e.Reason)
}

// A decoder turns the JSON object of a delivered row into canonical texts.
type decoder struct {
	columns []catalog.Column
	ready   []canon.Column // columns, made ready
	byName  map[string]int
	tokens  []string // per column: its name, which needs no escapes, in quotation marks and the colon
	needed  []bool   // columns that a delete must carry
	row     [][]byte
	text    []byte // canonical texts of the row, one after the other
	raw     []byte // unescaped text of one value
	ends    []int  // per column: where its text ends in text, plus 1; 0 not seen, -1 null
	starts  []int
}

func newDecoder(columns []catalog.Column, needed []bool) *decoder {
	d := &decoder{
		columns: columns, needed: needed, byName: make(map[string]int, len(columns)),
		row: make([][]byte, len(columns)), ends: make([]int, len(columns)), starts: make([]int, len(columns)),
		text: make([]byte, 0, 512), raw: make([]byte, 0, 128),
	}
	for i, c := range columns {
		d.byName[c.Name] = i
		d.tokens = append(d.tokens, `"`+c.Name+`":`)
		d.ready = append(d.ready, canon.Prepare(&columns[i]))
	}
	return d
}

// decode returns one text per column, nil for null, valid until the next
// call. A delete needs only its key and metadata columns. On failure it
// returns the reason and the column.
func (d *decoder) decode(data []byte, isDelete bool) (row [][]byte, reason Reason, column string) {
	d.text = d.text[:0]
	clear(d.ends)
	s := scanner{data: data}
	s.space()
	if !s.take('{') {
		return nil, InvalidJSON, ""
	}
	s.space()
	next := 0
	for first := true; !s.take('}'); first = false {
		if !first {
			if !s.take(',') {
				return nil, InvalidJSON, ""
			}
			s.space()
		}
		i, reason := d.name(&s, next)
		if reason != "" {
			return nil, reason, ""
		}
		s.space()
		v, ok := s.value()
		if !ok {
			return nil, InvalidJSON, ""
		}
		s.space()
		next = i + 1
		if reason := d.set(i, v); reason != "" {
			return nil, reason, d.columns[i].Name
		}
	}
	if s.space(); s.at != len(data) {
		return nil, InvalidJSON, ""
	}
	return d.finish(isDelete)
}

// name reads a name and its colon and finds the column. Rows carry their
// columns in the table's order, so the next one is the first guess.
func (d *decoder) name(s *scanner, next int) (int, Reason) {
	if next < len(d.tokens) && s.skip(d.tokens[next]) {
		return next, ""
	}
	name, ok := s.value()
	if !ok || name.Kind != cdc.String {
		return 0, InvalidJSON
	}
	s.space()
	if !s.take(':') {
		return 0, InvalidJSON
	}
	i, ok := d.column(name)
	if !ok {
		return 0, UnknownColumn
	}
	return i, ""
}

func (d *decoder) column(name cdc.Value) (int, bool) {
	text := name.Raw[1 : len(name.Raw)-1]
	if name.Escaped {
		var ok bool
		if text, ok = name.AppendText(d.raw[:0]); !ok {
			return 0, false
		}
	}
	i, ok := d.byName[string(text)]
	return i, ok
}

func (d *decoder) set(i int, v cdc.Value) Reason {
	if d.ends[i] != 0 {
		return RepeatedColumn
	}
	if v.Kind == cdc.Null {
		d.ends[i] = -1
		return ""
	}
	text := v.Raw
	if v.Kind == cdc.String {
		text = text[1 : len(text)-1]
		if v.Escaped {
			var ok bool
			if d.raw, ok = v.AppendText(d.raw[:0]); !ok {
				return InvalidValue
			}
			text = d.raw
		}
	}
	d.starts[i] = len(d.text)
	out, err := d.ready[i].Append(d.text, canon.Delivered, text)
	if err != nil {
		return InvalidValue
	}
	d.text = out
	d.ends[i] = len(out) + 1
	return ""
}

func (d *decoder) finish(isDelete bool) (row [][]byte, reason Reason, column string) {
	for i, end := range d.ends {
		switch {
		case end > 0:
			d.row[i] = d.text[d.starts[i] : end-1 : end-1]
		case end < 0 || isDelete && !d.needed[i]:
			d.row[i] = nil
		default:
			return nil, MissingColumn, d.columns[i].Name
		}
	}
	return d.row, "", ""
}

// A scanner reads the tokens of a flat JSON object.
type scanner struct {
	data []byte
	at   int
}

func (s *scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) take(c byte) bool {
	if s.at < len(s.data) && s.data[s.at] == c {
		s.at++
		return true
	}
	return false
}

// skip passes over text if it comes next.
func (s *scanner) skip(text string) bool {
	if rest := s.data[s.at:]; len(rest) >= len(text) && string(rest[:len(text)]) == text {
		s.at += len(text)
		return true
	}
	return false
}

// value reads a string, number, boolean or null. Whether a number is one is
// left to the column's type, which has to look at every character anyway.
func (s *scanner) value() (cdc.Value, bool) {
	if s.at == len(s.data) {
		return cdc.Value{}, false
	}
	start := s.at
	switch c := s.data[start]; {
	case c == '"':
		return s.text()
	case c == '-' || c >= '0' && c <= '9':
		for s.at < len(s.data) && isNumberByte(s.data[s.at]) {
			s.at++
		}
		return cdc.Value{Kind: cdc.Number, Raw: s.data[start:s.at]}, true
	}
	for s.at < len(s.data) && s.data[s.at] >= 'a' && s.data[s.at] <= 'z' {
		s.at++
	}
	switch word := s.data[start:s.at]; string(word) {
	case "true", "false":
		return cdc.Value{Kind: cdc.Bool, Raw: word}, true
	case "null":
		return cdc.Value{Kind: cdc.Null, Raw: word}, true
	}
	return cdc.Value{}, false
}

func isNumberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

// text reads a string and checks its escapes.
func (s *scanner) text() (cdc.Value, bool) {
	v := cdc.Value{Kind: cdc.String}
	start := s.at
	for i := start + 1; i < len(s.data); i++ {
		for i+8 <= len(s.data) && isPlain(binary.LittleEndian.Uint64(s.data[i:])) {
			i += 8
		}
		if i == len(s.data) {
			break
		}
		switch c := s.data[i]; {
		case c == '"':
			s.at = i + 1
			v.Raw = s.data[start:s.at]
			return v, true
		case c < ' ':
			return v, false
		case c == '\\':
			v.Escaped = true
			n := escapeLength(s.data[i+1:])
			if n == 0 {
				return v, false
			}
			i += n
		}
	}
	return v, false
}

// isPlain reports whether none of eight bytes is a quotation mark, a backslash
// or a control character. A borrow between bytes may take a plain byte above a
// special one for one, never the other way round.
func isPlain(eight uint64) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	quote, backslash := eight^ones*'"', eight^ones*'\\'
	special := (quote-ones)&^quote | (backslash-ones)&^backslash | (eight-ones*' ')&^eight
	return special&high == 0
}

// escapeLength returns how many bytes follow the backslash of an escape, 0 if
// it is none.
func escapeLength(rest []byte) int {
	if len(rest) == 0 {
		return 0
	}
	switch rest[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		if len(rest) < 5 {
			return 0
		}
		for _, c := range rest[1:5] {
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return 0
			}
		}
		return 5
	}
	return 0
}
