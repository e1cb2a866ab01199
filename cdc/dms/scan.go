package dms

import "icehose/cdc"

// maxDepth is how many objects and arrays may stand inside each other, the
// record itself included. The stack of skip is one bit a level.
const maxDepth = 64

// Why a record is refused.
const (
	reasonEmpty        = "empty record"
	reasonNotObject    = "record is not a JSON object"
	reasonTrailing     = "data after the record"
	reasonEnd          = "record ends too early"
	reasonValue        = "expected a value"
	reasonKey          = "expected a key"
	reasonColon        = "expected a colon"
	reasonComma        = "expected a comma or the end of the object or array"
	reasonNumber       = "malformed number"
	reasonUnterminated = "unterminated string"
	reasonEscape       = "malformed escape"
	reasonControlChar  = "control character in a string"
	reasonUTF8         = "invalid UTF-8"
	reasonDepth        = "nested too deeply"
	reasonNoMetadata   = "no metadata"
	reasonMetadataKind = "metadata is not an object"
	reasonNoData       = "data record without data"
	reasonDataKind     = "data is not an object"
	reasonBeforeKind   = "before-image is not an object"
	reasonNoTable      = "data record without a table name"
)

// A scanner reads JSON from b. After a method has reported failure, reason
// says why and i where.
type scanner struct {
	b      []byte
	i      int
	reason string
}

// fail notes a fault and returns false, for the caller to return.
func (s *scanner) fail(at int, reason string) bool {
	s.i, s.reason = at, reason
	return false
}

// unexpected notes that what stands at i is not what reason asks for.
func (s *scanner) unexpected(reason string) bool {
	if s.i >= len(s.b) {
		reason = reasonEnd
	}
	return s.fail(s.i, reason)
}

// space skips white space and returns the byte after it, 0 at the end.
func (s *scanner) space() byte {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// member steps to the next member of an object whose brace was read: it reads
// the key and the colon. more is false at the end of the object, and after a
// fault, which leaves a reason.
func (s *scanner) member(first bool) (name cdc.Value, more bool) {
	c := s.space()
	switch {
	case c == '}':
		s.i++
		return name, false
	case first:
	case c == ',':
		s.i++
		c = s.space()
	default:
		return name, s.unexpected(reasonComma)
	}
	if c != '"' {
		return name, s.unexpected(reasonKey)
	}
	return s.key()
}

// key reads a key, whose quote is next, and its colon.
func (s *scanner) key() (name cdc.Value, ok bool) {
	if name, ok = s.text(); !ok {
		return name, false
	}
	if s.space() != ':' {
		return name, s.unexpected(reasonColon)
	}
	s.i++
	return name, true
}

// name returns the text of a key. A lone surrogate in it becomes U+FFFD.
func (s *scanner) name(v cdc.Value) []byte {
	if !v.Escaped {
		return v.Raw[1 : len(v.Raw)-1 : len(v.Raw)-1]
	}
	text, _ := v.AppendText(nil)
	return text
}

// fields reads a value and, when it is an object, appends its members to dst.
// The object stands directly inside the record.
func (s *scanner) fields(dst cdc.Fields) (kind cdc.Kind, _ cdc.Fields, ok bool) {
	if s.space() != '{' {
		v, ok := s.value(1)
		return v.Kind, dst, ok
	}
	s.i++
	for first := true; ; first = false {
		name, more := s.member(first)
		if !more {
			return cdc.Object, dst, s.reason == ""
		}
		v, ok := s.value(2)
		if !ok {
			return cdc.Object, dst, false
		}
		dst = append(dst, cdc.Field{Name: s.name(name), Value: v})
	}
}

// value reads a value that stands inside depth objects and arrays.
func (s *scanner) value(depth int) (v cdc.Value, ok bool) {
	c := s.space()
	start := s.i
	switch c {
	case '"':
		return s.text()
	case '{':
		v.Kind, ok = cdc.Object, s.skip(depth)
	case '[':
		v.Kind, ok = cdc.Array, s.skip(depth)
	default:
		v.Kind, ok = s.scalar(c)
	}
	if ok {
		v.Raw = s.b[start:s.i:s.i]
	}
	return v, ok
}

// scalar reads a number or a literal that begins with c.
func (s *scanner) scalar(c byte) (cdc.Kind, bool) {
	switch {
	case c == '-' || isDigit(c):
		return cdc.Number, s.number()
	case c == 't':
		return cdc.Bool, s.literal("true")
	case c == 'f':
		return cdc.Bool, s.literal("false")
	case c == 'n':
		return cdc.Null, s.literal("null")
	}
	return cdc.Missing, s.unexpected(reasonValue)
}

func (s *scanner) literal(word string) bool {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return s.fail(s.i, reasonValue)
	}
	s.i += len(word)
	return true
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// number reads the grammar of RFC 8259 section 6.
func (s *scanner) number() bool {
	if s.b[s.i] == '-' {
		s.i++
	}
	switch c := s.peek(); {
	case c == '0':
		s.i++
	case !s.digits():
		return false
	}
	if s.peek() == '.' {
		s.i++
		if !s.digits() {
			return false
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return false
		}
	}
	return true
}

// digits reads one digit or more.
func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && isDigit(s.b[s.i]) {
		s.i++
	}
	return s.i > start || s.unexpected(reasonNumber)
}

// peek returns the byte at i, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}
