package sink

import (
	"bytes"
	"encoding/hex"

	"icehose/cdc"
)

const (
	headSize = 2 + 16 + 1 + 8 // epoch, body, rank, the first 16 digits of the tie
	tailSize = 27             // the other 53 digits of a load's tie, a zero digit after them
	longSize = headSize + tailSize
	rankByte = 2 + 16 // where the rank stands in the head
)

// A packed is a position in the form that the index keeps: bytes instead of
// hexadecimal digits, in the same order as the text.
type packed struct {
	head [headSize]byte
	tail [tailSize]byte // zero unless long
	long bool           // the tie has 69 digits
}

// compare orders as the texts do.
func (p *packed) compare(q *packed) int {
	if c := bytes.Compare(p.head[:], q.head[:]); c != 0 {
		return c
	}
	switch {
	case p.long && q.long:
		return bytes.Compare(p.tail[:], q.tail[:])
	case p.long:
		return 1
	case q.long:
		return -1
	}
	return 0
}

// Where the parts stand in the text: EEEE.B{32}.R.T{16 or 69}.
const (
	bodyAt, rankAt, tieAt = 5, 38, 40
	shortText             = tieAt + 16
	longText              = tieAt + 69
)

// pack reads the text of a position; ok is false if it is none.
func pack(text []byte) (p packed, ok bool) {
	if len(text) != shortText && len(text) != longText || text[4] != '.' || text[37] != '.' || text[39] != '.' {
		return p, false
	}
	ok = unhex(p.head[:2], text[:4]) && unhex(p.head[2:18], text[bodyAt:37]) && unhex(p.head[19:], text[tieAt:tieAt+16])
	switch text[rankAt] {
	case '0':
	case '1':
		p.head[18] = 1
	default:
		return p, false
	}
	if len(text) == longText {
		p.long = true
		var rest [2 * tailSize]byte
		rest[copy(rest[:], text[shortText:])] = '0'
		ok = ok && unhex(p.tail[:], rest[:])
	}
	return p, ok
}

// text returns what pack read.
func (p *packed) text() cdc.Position {
	t := make([]byte, 0, longText+1)
	t = hex.AppendEncode(t, p.head[:2])
	t = append(t, '.')
	t = hex.AppendEncode(t, p.head[2:18])
	t = append(t, '.', '0'+p.head[18], '.')
	t = hex.AppendEncode(t, p.head[19:])
	if p.long {
		t = hex.AppendEncode(t, p.tail[:])[:longText]
	}
	return cdc.Position(t)
}

// appendPacked appends p as 27 or 54 bytes.
func appendPacked(dst []byte, p *packed) []byte {
	dst = append(dst, p.head[:]...)
	if p.long {
		dst = append(dst, p.tail[:]...)
	}
	return dst
}

// unpack reads what appendPacked wrote; ok is false if b has another length.
func unpack(b []byte) (p packed, ok bool) {
	copy(p.head[:], b)
	if len(b) == longSize {
		p.long = true
		copy(p.tail[:], b[headSize:])
	}
	return p, len(b) == headSize || len(b) == longSize
}

// unhex decodes lower-case digits only: a position has one spelling.
func unhex(dst, src []byte) bool {
	var seen byte
	for i := range dst {
		hi, lo := digits[src[2*i]], digits[src[2*i+1]]
		seen |= hi | lo
		dst[i] = hi<<4 | lo
	}
	return seen <= 15
}

// digits are the values of hexadecimal digits, 0xff of all other bytes.
var digits = func() (values [256]byte) { //nolint:gochecknoglobals // a constant
	for i := range values {
		values[i] = 0xff
	}
	for i, c := range []byte("0123456789abcdef") {
		values[c] = byte(i)
	}
	return values
}()
