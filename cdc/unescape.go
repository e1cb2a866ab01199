package cdc

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// SkipPlain returns the first index from i on whose byte is not plain inside a
// JSON string: a quote, a backslash, a control character or not ASCII.
func SkipPlain(b []byte, i int) int {
	if i+8 <= len(b) { // most texts end here
		if mask := special(binary.LittleEndian.Uint64(b[i:])); mask != 0 {
			return i + bits.TrailingZeros64(mask)/8
		}
		i += 8
	}
	for ; i+32 <= len(b); i += 32 { // long texts
		w := b[i : i+32]
		first, second := special(binary.LittleEndian.Uint64(w)), special(binary.LittleEndian.Uint64(w[8:]))
		third, fourth := special(binary.LittleEndian.Uint64(w[16:])), special(binary.LittleEndian.Uint64(w[24:]))
		switch {
		case first|second|third|fourth == 0:
		case first != 0:
			return i + bits.TrailingZeros64(first)/8
		case second != 0:
			return i + 8 + bits.TrailingZeros64(second)/8
		case third != 0:
			return i + 16 + bits.TrailingZeros64(third)/8
		default:
			return i + 24 + bits.TrailingZeros64(fourth)/8
		}
	}
	for ; i+8 <= len(b); i += 8 {
		if mask := special(binary.LittleEndian.Uint64(b[i:])); mask != 0 {
			return i + bits.TrailingZeros64(mask)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' && b[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// special sets the high bit of each byte that is not plain. A borrow can only
// set it falsely above a byte that is not: the lowest one is right.
func special(w uint64) uint64 {
	const (
		ones  = 0x0101010101010101
		highs = 0x80 * ones
	)
	return ((w - ' '*ones) | ((w ^ '"'*ones) - ones) | ((w ^ '\\'*ones) - ones) | w) & highs
}

// SkipDigits returns the first index from i on whose byte is not a decimal digit.
func SkipDigits(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		const ones = 0x0101010101010101
		w := binary.LittleEndian.Uint64(b[i:]) ^ '0'*ones // digits become 0 to 9
		if mask := (w + (0x80-10)*ones | w) & (0x80 * ones); mask != 0 {
			return i + bits.TrailingZeros64(mask)/8
		}
	}
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

// appendUnescaped appends the text of a JSON string body whose escapes were
// already checked by the decoder. ok is false when a surrogate stood alone.
func appendUnescaped(dst, body []byte) (text []byte, ok bool) {
	ok = true
	for i := 0; i < len(body); {
		n := bytes.IndexByte(body[i:], '\\')
		if n < 0 || i+n+1 >= len(body) {
			return append(dst, body[i:]...), ok
		}
		dst = append(dst, body[i:i+n]...)
		i += n + 2
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
