package dms

import (
	"encoding/binary"
	"math/bits"

	"icehose/cdc"
)

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

// colon reads a colon after space.
func (s *scanner) colon() bool {
	if s.space() != ':' {
		return s.unexpected(reasonColon)
	}
	s.i++
	return true
}

// fields reads a value and, when it is an object, appends its members to dst.
// Names are the decoder's own, which never change.
// The object stands directly inside the record.
func (s *scanner) fields(k *keys, dst cdc.Fields) (kind cdc.Kind, _ cdc.Fields, ok bool) {
	if s.space() != '{' {
		var v cdc.Value
		ok := s.value(&v, 1)
		return v.Kind, dst, ok
	}
	s.i++
	for m := k.object(&k.image); ; {
		if !m.next(s) {
			return cdc.Object, dst, s.reason == ""
		}
		n := len(dst)
		if n == cap(dst) {
			dst = append(dst, cdc.Field{})
		}
		dst = dst[:n+1]
		dst[n].Name = m.key.name
		if !s.value(&dst[n].Value, 2) {
			return cdc.Object, dst[:n], false
		}
	}
}

// value reads a value that stands inside depth objects and arrays into v, field
// by field: to copy a Value that was just written field by field stalls the
// processor, and that for every value of a stream.
func (s *scanner) value(v *cdc.Value, depth int) (ok bool) {
	c := s.space()
	if c == '"' {
		return s.text(v)
	}
	start := s.i
	v.Escaped, v.Digits = false, false
	switch c {
	case '{':
		v.Kind, ok = cdc.Object, s.skip(depth)
	case '[':
		v.Kind, ok = cdc.Array, s.skip(depth)
	default:
		if n := plainDigits(s.b[s.i:]); n > 0 && (c != '0' || n == 1) {
			v.Kind, v.Digits, ok = cdc.Number, true, true
			s.i += n
			break
		}
		v.Kind, ok = s.scalar(c)
	}
	if ok {
		v.Raw = s.b[start:s.i:s.i]
	}
	return ok
}

// plainDigits returns how many digits b begins with, when these are fewer than
// eight and what follows them cannot be of the same number; else 0.
func plainDigits(b []byte) int {
	if len(b) < 8 {
		return 0
	}
	const ones = 0x0101010101010101
	w := binary.LittleEndian.Uint64(b) ^ '0'*ones // digits become 0 to 9
	n := bits.TrailingZeros64(((w+(0x80-10)*ones)|w)&(0x80*ones)) / 8
	if n >= 8 {
		return 0
	}
	switch b[n] {
	case ',', '}', ']', ' ', '\t', '\n', '\r':
		return n
	}
	return 0
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
