package cdc

import (
	"unicode/utf16"
	"unicode/utf8"
)

// appendUnescaped appends the text of a JSON string body whose escapes were
// already checked by the decoder. ok is false when a surrogate stood alone.
func appendUnescaped(dst, body []byte) (text []byte, ok bool) {
	ok = true
	for i := 0; i < len(body); {
		c := body[i]
		if c != '\\' || i+1 >= len(body) {
			dst = append(dst, c)
			i++
			continue
		}
		i += 2
		switch e := body[i-1]; e {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, n := hexRune(body[i:])
			i += n
			if utf16.IsSurrogate(r) {
				low, m := rune(-1), 0
				if i+1 < len(body) && body[i] == '\\' && body[i+1] == 'u' {
					low, m = hexRune(body[i+2:])
				}
				if full := utf16.DecodeRune(r, low); full != utf8.RuneError {
					r = full
					i += 2 + m
				} else {
					r, ok = utf8.RuneError, false
				}
			}
			dst = utf8.AppendRune(dst, r)
		default: // quote, backslash, slash
			dst = append(dst, e)
		}
	}
	return dst, ok
}

// hexRune reads four hex digits. It returns how many bytes it used.
func hexRune(s []byte) (r rune, n int) {
	if len(s) < 4 {
		return utf8.RuneError, len(s)
	}
	for _, c := range s[:4] {
		r <<= 4
		switch {
		case c >= '0' && c <= '9':
			r |= rune(c - '0')
		case c >= 'a' && c <= 'f':
			r |= rune(c-'a') + 10
		case c >= 'A' && c <= 'F':
			r |= rune(c-'A') + 10
		default:
			return utf8.RuneError, 4
		}
	}
	return r, 4
}
