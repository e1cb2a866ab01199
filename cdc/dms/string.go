package dms

import (
	"unicode/utf8"

	"icehose/cdc"
)

// text reads a string whose quote stands at i into v.
func (s *scanner) text(v *cdc.Value) bool {
	v.Kind, v.Escaped, v.Digits = cdc.String, false, false
	b, start := s.b, s.i
	for i := start + 1; ; {
		i = cdc.SkipPlain(b, i)
		if i >= len(b) {
			return s.fail(len(b), reasonUnterminated)
		}
		switch c := b[i]; {
		case c == '"':
			s.i = i + 1
			v.Raw = b[start:s.i:s.i]
			return true
		case c == '\\':
			n := escape(b[i+1:])
			if n == 0 {
				return s.fail(i, reasonEscape)
			}
			v.Escaped = true
			i += 1 + n
		case c < ' ':
			return s.fail(i, reasonControlChar)
		default:
			for i < len(b) && b[i] >= utf8.RuneSelf {
				r, n := utf8.DecodeRune(b[i:])
				if r == utf8.RuneError && n <= 1 {
					return s.fail(i, reasonUTF8)
				}
				i += n
			}
		}
	}
}

// escape returns the length of the escape that follows a backslash, 0 when it
// is none. A surrogate may stand alone: the grammar allows it, and
// cdc.Value.AppendText reports it.
func escape(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		if len(b) < 5 {
			return 0
		}
		for _, c := range b[1:5] {
			if !isDigit(c) && (c|0x20)-'a' > 5 {
				return 0
			}
		}
		return 5
	}
	return 0
}

// skip reads the object or array at i, which stands inside depth others, down
// to its end. It keeps one bit for every level it is in, 1 for an object, so
// hostile nesting costs no stack.
func (s *scanner) skip(depth int) bool {
	var stack uint64
	for level := 0; ; {
		switch c := s.space(); c {
		case '{', '[':
			if depth+level >= maxDepth {
				return s.fail(s.i, reasonDepth)
			}
			level++
			stack <<= 1
			if c == '{' {
				stack |= 1
			}
			s.i++
			if next := s.space(); next != c+2 { // '{'+2 is '}', '['+2 is ']'
				if c == '{' && !s.nextKey(next) {
					return false
				}
				continue
			}
		case '"':
			if !s.text(new(cdc.Value)) {
				return false
			}
		default:
			if _, ok := s.scalar(c); !ok {
				return false
			}
		}
		if done, ok := s.closing(&stack, &level); done || !ok {
			return ok
		}
	}
}

// closing reads what may follow a value inside skip: the ends of the objects
// and arrays that it was the last of, then a comma and in an object a key.
func (s *scanner) closing(stack *uint64, level *int) (done, ok bool) {
	for *level > 0 {
		object := *stack&1 == 1
		c := s.space()
		switch {
		case object && c == '}', !object && c == ']':
			s.i++
			*stack >>= 1
			*level--
		case c != ',':
			return false, s.unexpected(reasonComma)
		case object:
			s.i++
			return false, s.nextKey(s.space())
		default:
			s.i++
			return false, true
		}
	}
	return true, true
}

// nextKey reads a key that begins with c, and its colon.
func (s *scanner) nextKey(c byte) bool {
	if c != '"' {
		return s.unexpected(reasonKey)
	}
	return s.text(new(cdc.Value)) && s.colon()
}
