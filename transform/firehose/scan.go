package firehose

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"icehose/cdc"
)

// maxDepth is how deep an event or response may nest where nobody looks.
const maxDepth = 64

// A scanner reads JSON once, from front to back, and checks it by RFC 8259.
type scanner struct {
	b []byte
	i int
}

// A syntaxError says where a text stopped being what it should be.
type syntaxError struct {
	what string
	at   int
}

// Error implements error.
func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.what, e.at) }

func (s *scanner) fail(what string) error { return &syntaxError{what, s.i} }

// peek skips space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// take consumes the byte c after space.
func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.i >= len(s.b) {
		return false
	}
	s.i++
	return true
}

// end reports an error unless only space is left.
func (s *scanner) end() error {
	if s.peek(); s.i < len(s.b) {
		return s.fail("text after the object")
	}
	return nil
}

// object reads an object and calls member with each key; member reads the value.
func (s *scanner) object(member func(key []byte) error) error {
	if !s.take('{') {
		return s.fail("expected an object")
	}
	if s.take('}') {
		return nil
	}
	for {
		raw, escaped, err := s.text()
		if err != nil {
			return err
		}
		if !s.take(':') {
			return s.fail("expected a colon")
		}
		if escaped {
			raw = unescape(raw)
		}
		if err := member(raw); err != nil {
			return err
		}
		if s.take('}') {
			return nil
		}
		if !s.take(',') {
			return s.fail("expected a comma or the end of the object")
		}
	}
}

// array reads an array and calls element before each value.
func (s *scanner) array(element func() error) error {
	if !s.take('[') {
		return s.fail("expected an array")
	}
	if s.take(']') {
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return s.fail("expected a comma or the end of the array")
		}
	}
}

// text reads a string and returns what is between its quotes.
func (s *scanner) text() (raw []byte, escaped bool, err error) {
	if !s.take('"') {
		return nil, false, s.fail("expected a string")
	}
	from, high := s.i, false
	for {
		s.i = cdc.SkipPlain(s.b, s.i)
		if s.i >= len(s.b) {
			return nil, false, s.fail("unterminated string")
		}
		switch c := s.b[s.i]; {
		case c == '"':
			raw = s.b[from:s.i]
			if high && !utf8.Valid(raw) {
				s.i = from
				return nil, false, s.fail("invalid UTF-8")
			}
			s.i++
			return raw, escaped, nil
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return nil, false, err
			}
		case c < ' ':
			return nil, false, s.fail("control character in a string")
		default:
			high = true
			s.i++
		}
	}
}

func (s *scanner) escape() error {
	rest := s.b[s.i+1:]
	if len(rest) == 0 {
		return s.fail("unterminated string")
	}
	switch rest[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i += 2
		return nil
	case 'u':
		if len(rest) >= 5 && isHex(rest[1:5]) {
			s.i += 6
			return nil
		}
	}
	return s.fail("malformed escape")
}

func isHex(s []byte) bool {
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}

// payload reads a string that should be base64. It is found by its closing
// quote; what is between is looked at when it is decoded.
func (s *scanner) payload() (raw []byte, escaped bool, err error) {
	if s.peek() == '"' {
		n := bytes.IndexByte(s.b[s.i+1:], '"')
		if n >= 0 && s.b[s.i+n] != '\\' {
			raw = s.b[s.i+1 : s.i+1+n]
			s.i += n + 2
			return raw, false, nil
		}
	}
	return s.text()
}

// scalar reads a string or a number and returns its text: AWS has sent both
// for the same fields. Anything else is skipped and has no text.
func (s *scanner) scalar() ([]byte, error) {
	switch c := s.peek(); {
	case c == '"':
		raw, escaped, err := s.text()
		if escaped {
			raw = unescape(raw)
		}
		return raw, err
	case c == '-' || c >= '0' && c <= '9':
		from := s.i
		if err := s.number(); err != nil {
			return nil, err
		}
		return s.b[from:s.i], nil
	}
	return nil, s.skip(1)
}

// skip reads any value.
func (s *scanner) skip(depth int) error {
	if depth > maxDepth {
		return s.fail("nested too deeply")
	}
	switch s.peek() {
	case '{':
		return s.object(func([]byte) error { return s.skip(depth + 1) })
	case '[':
		return s.array(func() error { return s.skip(depth + 1) })
	case '"':
		_, _, err := s.text()
		return err
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

func (s *scanner) word(w string) error {
	if !bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		return s.fail("expected a value")
	}
	s.i += len(w)
	return nil
}

// number reads a number by the grammar of RFC 8259.
func (s *scanner) number() error {
	digits := func() bool {
		from := s.i
		for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
			s.i++
		}
		return s.i > from
	}
	at := func(c byte) bool { return s.i < len(s.b) && s.b[s.i] == c }
	from, ok := s.i, true
	if at('-') {
		s.i++
	}
	if at('0') {
		s.i++
	} else {
		ok = digits()
	}
	if ok && at('.') {
		s.i++
		ok = digits()
	}
	if ok && (at('e') || at('E')) {
		s.i++
		if at('-') || at('+') {
			s.i++
		}
		ok = digits()
	}
	if !ok {
		s.i = from
		return s.fail("expected a value")
	}
	return nil
}

// unescape returns the text of a string body that text has checked.
func unescape(raw []byte) []byte {
	var out string
	quoted := append(append([]byte{'"'}, raw...), '"')
	if err := json.Unmarshal(quoted, &out); err != nil {
		return raw // cannot be: the grammar was checked
	}
	return []byte(out)
}
