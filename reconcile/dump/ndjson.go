package dump

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"icehose/cdc"
)

// maxLine bounds the memory that one row can take.
const maxLine = 64 << 20

// ndjson decodes lines of JSON objects whose values are strings or null.
type ndjson struct {
	in   *bufio.Reader
	long []byte // a line that does not fit the reader's buffer
	line int
	text []byte // unescaped strings of the current line
}

func newNDJSON(r io.Reader) *ndjson { return &ndjson{in: newText(r)} }

// next implements decoder. Lines of nothing but space are passed over.
func (d *ndjson) next(rec *record) error {
	for {
		d.line++
		rec.line = d.line
		line, err := d.readLine()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return d.parse(rec, line)
		}
		if err != nil {
			return err
		}
	}
}

func (d *ndjson) readLine() ([]byte, error) {
	line, err := d.in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	d.long = d.long[:0]
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(d.long)+len(line) > maxLine {
			return nil, fmt.Errorf("longer than %d bytes", maxLine)
		}
		d.long = append(d.long, line...)
		line, err = d.in.ReadSlice('\n')
	}
	d.long = append(d.long, line...)
	return d.long, err
}

// parse reads one object. Errors say where, never what.
func (d *ndjson) parse(rec *record, line []byte) error {
	rec.names, rec.values, d.text = rec.names[:0], rec.values[:0], d.text[:0]
	s := scanner{line: line}
	if !s.take('{') {
		return s.fail("want an object")
	}
	if s.take('}') {
		return s.end()
	}
	for {
		name, err := d.string(&s)
		if err != nil {
			return err
		}
		if !s.take(':') {
			return s.fail("want a colon")
		}
		v := value{null: s.null()}
		if !v.null {
			if !s.quoted() {
				return fmt.Errorf("%w, or null: values are the database's texts (value::text), numbers and booleans in quotes too", s.fail("want a string"))
			}
			if v.text, err = d.string(&s); err != nil {
				return err
			}
		}
		rec.names, rec.values = append(rec.names, name), append(rec.values, v)
		if s.take(',') {
			continue
		}
		if !s.take('}') {
			return s.fail("want a comma or the end of the object")
		}
		return s.end()
	}
}

// string reads a string. It aliases the line, or d.text if it had escapes;
// d.text may move while the line is read, but what it held stays valid.
func (d *ndjson) string(s *scanner) ([]byte, error) {
	raw, escaped, err := s.string()
	if err != nil || !escaped {
		return raw, err
	}
	from := len(d.text)
	quoted := s.line[s.at-len(raw)-2 : s.at]
	text, ok := cdc.Value{Kind: cdc.String, Escaped: true, Raw: quoted}.AppendText(d.text)
	if !ok {
		return nil, s.fail("half a surrogate pair")
	}
	d.text = text
	return text[from:], nil
}

// A scanner walks over one line of JSON.
type scanner struct {
	line []byte
	at   int
}

func (s *scanner) fail(reason string) error {
	return fmt.Errorf("%s at byte %d", reason, s.at)
}

func (s *scanner) space() {
	for s.at < len(s.line) {
		switch s.line[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// take consumes c, and space before it, if it comes next.
func (s *scanner) take(c byte) bool {
	s.space()
	if s.at < len(s.line) && s.line[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scanner) null() bool {
	s.space()
	if bytes.HasPrefix(s.line[s.at:], []byte("null")) {
		s.at += len("null")
		return true
	}
	return false
}

// quoted reports whether a string comes next, and consumes space before it.
func (s *scanner) quoted() bool {
	s.space()
	return s.at < len(s.line) && s.line[s.at] == '"'
}

func (s *scanner) end() error {
	s.space()
	if s.at < len(s.line) {
		return s.fail("want the end of the line")
	}
	return nil
}

// string consumes a string and returns what is between its quotes, whose
// escapes are checked but not replaced.
func (s *scanner) string() (raw []byte, escaped bool, err error) {
	if !s.take('"') {
		return nil, false, s.fail("want a string")
	}
	from := s.at
	for s.at < len(s.line) {
		switch c := s.line[s.at]; {
		case c == '"':
			raw = s.line[from:s.at]
			if !utf8.Valid(raw) {
				return nil, false, s.fail("text before this is not UTF-8")
			}
			s.at++
			return raw, escaped, nil
		case c == '\\':
			n := escapeLength(s.line[s.at:])
			if n == 0 {
				return nil, false, s.fail("no such escape")
			}
			escaped = true
			s.at += n
		case c < ' ':
			return nil, false, s.fail("control character in a string")
		default:
			s.at++
		}
	}
	return nil, false, s.fail("a string does not end")
}

// escapeLength returns how long the escape at the start of s is, 0 if it is none.
func escapeLength(s []byte) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(s) < 6 {
			return 0
		}
		for _, c := range s[2:6] {
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return 0
			}
		}
		return 6
	}
	return 0
}
