package canon

import (
	"bytes"
	"unicode/utf8"
)

func appendString(dst, text []byte, padded bool) ([]byte, Problem) {
	if !utf8.Valid(text) {
		return dst, BadUnicode
	}
	if padded {
		text = bytes.TrimRight(text, " ")
	}
	return append(dst, text...), ""
}

// hasExponent reports whether a text is a number in exponent form. No engine
// writes an exact number so: the endpoint held it in a double, which keeps 15
// digits, and a text column has as many as its source.
func hasExponent(text []byte) bool {
	if bytes.IndexByte(text, 'e') < 0 && bytes.IndexByte(text, 'E') < 0 {
		return false
	}
	n, ok := parseNumber(text)
	return ok && n.hasExponent
}

func appendUUID(dst, text []byte) ([]byte, Problem) {
	if len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' &&
		isLowerHex(text[:8]) && isLowerHex(text[9:13]) && isLowerHex(text[14:18]) && isLowerHex(text[19:23]) && isLowerHex(text[24:]) {
		return append(dst, text...), ""
	}
	n := 0
	for i, c := range text {
		if c == '-' && len(text) == 36 && (i == 8 || i == 13 || i == 18 || i == 23) {
			continue
		}
		h, ok := lowerHex(c)
		if !ok {
			return dst, NotValid
		}
		switch n {
		case 8, 12, 16, 20:
			dst = append(dst, '-')
		}
		dst = append(dst, h)
		n++
	}
	if n != 32 || len(text) != 36 && len(text) != 32 {
		return dst, NotValid
	}
	return dst, ""
}

// isLowerHex reports whether text is nothing but canonical hexadecimal digits.
func isLowerHex(text []byte) bool {
	for _, c := range text {
		if c-'0' > 9 && c-'a' > 5 {
			return false
		}
	}
	return true
}

func lowerHex(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9', c >= 'a' && c <= 'f':
		return c, true
	case c >= 'A' && c <= 'F':
		return c + 'a' - 'A', true
	}
	return 0, false
}

// appendBinary reads hexadecimal; length is in bytes, -1 for any. What is shorter
// than width bytes gets zeros.
func appendBinary(dst []byte, form Form, text []byte, length, width int) ([]byte, Problem) {
	switch form {
	case Postgres:
		rest, ok := bytes.CutPrefix(text, []byte(`\x`))
		if !ok {
			return dst, NotValid
		}
		text = rest
	case Record, MySQL:
		if rest, ok := bytes.CutPrefix(text, []byte("0x")); ok {
			text = rest
		} else if rest, ok := bytes.CutPrefix(text, []byte("0X")); ok {
			text = rest
		}
	case Delivered:
	}
	if len(text)%2 != 0 {
		return dst, NotValid
	}
	if len(text) < 2*width {
		text = append(bytes.Clone(text), bytes.Repeat([]byte{'0'}, 2*width-len(text))...)
	}
	if length >= 0 && len(text) != 2*length {
		return dst, OutOfRange
	}
	if isLowerHex(text) {
		return append(dst, text...), ""
	}
	for _, c := range text {
		h, ok := lowerHex(c)
		if !ok {
			return dst, NotValid
		}
		dst = append(dst, h)
	}
	return dst, ""
}
