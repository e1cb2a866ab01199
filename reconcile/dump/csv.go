package dump

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// csvFile decodes PostgreSQL's COPY ... (FORMAT csv, HEADER). The standard
// library's reader cannot be used: it does not tell a quoted empty field, the
// empty text, from one without quotes, which is NULL.
type csvFile struct {
	in     *bufio.Reader
	line   int
	header [][]byte
	text   []byte // the fields of the current record, end to end
	ends   []int
	quoted []bool
	state  csvState
}

func newCSV(r io.Reader) *csvFile { return &csvFile{in: newText(r), line: 1} }

// readHeader must be called once, before next.
func (d *csvFile) readHeader() ([][]byte, error) {
	if err := d.read(); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("no header")
		}
		return nil, err
	}
	for i := range d.ends {
		d.header = append(d.header, bytes.Clone(d.field(i)))
	}
	return d.header, nil
}

// next implements decoder.
func (d *csvFile) next(rec *record) error {
	rec.line = d.line
	if err := d.read(); err != nil {
		return err
	}
	if len(d.ends) != len(d.header) {
		return fmt.Errorf("%d fields under a header of %d", len(d.ends), len(d.header))
	}
	rec.names, rec.values = d.header, rec.values[:0]
	for i := range d.ends {
		text := d.field(i)
		rec.values = append(rec.values, value{text: text, null: len(text) == 0 && !d.quoted[i]})
	}
	return nil
}

func (d *csvFile) field(i int) []byte {
	from := 0
	if i > 0 {
		from = d.ends[i-1]
	}
	return d.text[from:d.ends[i]]
}

// csvState is where in a field the reader is.
type csvState uint8

const (
	fieldStart csvState = iota
	unquoted
	inQuotes
	afterQuote // behind a quote in quotes: the end of the field, or a quote if another follows
)

// read reads one record: up to a line end outside quotes.
func (d *csvFile) read() error {
	d.text, d.ends, d.quoted, d.state = d.text[:0], d.ends[:0], d.quoted[:0], fieldStart
	for first := true; ; first = false {
		c, err := d.in.ReadByte()
		switch {
		case errors.Is(err, io.EOF) && first:
			return io.EOF
		case errors.Is(err, io.EOF) && d.state == inQuotes:
			return errors.New("a quoted field does not end")
		case errors.Is(err, io.EOF):
			d.endField()
			return nil
		case err != nil:
			return err
		case len(d.text) > maxLine:
			return fmt.Errorf("longer than %d bytes", maxLine)
		}
		if c == '\n' {
			d.line++
		}
		if done, err := d.step(c); done || err != nil {
			return err
		}
	}
}

func (d *csvFile) endField() {
	d.ends = append(d.ends, len(d.text))
	d.quoted = append(d.quoted, d.state == afterQuote)
	d.state = fieldStart
}

// step takes one byte of a record. done says that it was the record's last.
func (d *csvFile) step(c byte) (done bool, err error) {
	switch {
	case d.state == inQuotes && c == '"':
		d.state = afterQuote
	case d.state == inQuotes:
		d.text = append(d.text, c)
	case d.state == afterQuote && c == '"':
		d.text = append(d.text, c)
		d.state = inQuotes
	case c == ',':
		d.endField()
	case c == '\n':
		d.endField()
		return true, nil
	case c == '\r':
		if next, err := d.in.Peek(1); err != nil || next[0] != '\n' {
			return false, errors.New("a carriage return outside quotes")
		}
	case d.state == afterQuote:
		return false, errors.New("text behind a closing quote")
	case c == '"' && d.state == fieldStart:
		d.state = inQuotes
	case c == '"':
		return false, errors.New("a quote in a field without quotes")
	default:
		d.text = append(d.text, c)
		d.state = unquoted
	}
	return false, nil
}
