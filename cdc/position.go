package cdc

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// A Position says where a change stands in its source's order. Two positions
// of one table compare as strings, byte by byte, in every engine:
//
//	EEEE.BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB.R.T...
//
// epoch is 4 hex digits; body 32 (128 bits: the source's commit order, or the
// floor of a load); rank 0 for loads and 1 for changes; tie is 16 hex digits
// for a ranked change (the record number in its transaction) and 69 for a
// load (14 for metadata.timestamp in microseconds, 8 for the shard number, 47
// for the Kinesis sequence number). Ties of different length never meet in a
// comparison, because the rank before them differs.
//
// A position is a pure function of the record and the pipeline file.
type Position string

// Body is the 128-bit ordering part of a position.
type Body struct{ Hi, Lo uint64 }

// Compare returns -1, 0 or +1.
func (b Body) Compare(c Body) int {
	switch {
	case b.Hi != c.Hi && b.Hi < c.Hi, b.Hi == c.Hi && b.Lo < c.Lo:
		return -1
	case b == c:
		return 0
	}
	return 1
}

// String renders the body as it stands in a position: 32 hex digits.
func (b Body) String() string {
	var buf [32]byte
	return string(appendHex(appendHex(buf[:0], b.Hi, 16), b.Lo, 16))
}

// ParseBody reads what String wrote; capital digits are accepted.
func ParseBody(s string) (Body, error) {
	if len(s) != 32 {
		return Body{}, fmt.Errorf("parse position body: want 32 hex digits, got %d characters", len(s))
	}
	hi, err := strconv.ParseUint(s[:16], 16, 64)
	if err != nil {
		return Body{}, fmt.Errorf("parse position body: not hexadecimal")
	}
	lo, err := strconv.ParseUint(s[16:], 16, 64)
	if err != nil {
		return Body{}, fmt.Errorf("parse position body: not hexadecimal")
	}
	return Body{hi, lo}, nil
}

// Epoch returns the four hex digits of the position's epoch.
func (p Position) Epoch() string { return part(p, 0, 4) }

// Body returns the 32 hex digits of the position's body.
func (p Position) Body() string { return part(p, 5, 37) }

// IsLoad reports whether the position ranks its row as loaded.
func (p Position) IsLoad() bool { return part(p, 38, 39) == "0" }

func part(p Position, from, to int) string {
	if len(p) < to {
		return ""
	}
	return string(p[from:to])
}

// Valid reports whether p has the form of a position: the tie of a load is
// never that of a change.
func (p Position) Valid() bool {
	if len(p) != loadLen && (len(p) != changeLen || p.IsLoad()) {
		return false
	}
	for i := range len(p) {
		switch c := p[i]; {
		case i == 4 || i == 37 || i == 39:
			if c != '.' {
				return false
			}
		case i == 38:
			if c != '0' && c != '1' {
				return false
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}

const (
	changeLen = 4 + 1 + 32 + 1 + 1 + 1 + 16
	loadLen   = 4 + 1 + 32 + 1 + 1 + 1 + 69
)

// ChangePosition is the position of a change: body is the source's commit
// order, record the number of the change in its transaction.
func ChangePosition(epoch uint16, body Body, record uint64) Position {
	var buf [changeLen]byte
	return Position(AppendChangePosition(buf[:0], epoch, body, record))
}

// AppendChangePosition appends the text of ChangePosition to dst.
func AppendChangePosition(dst []byte, epoch uint16, body Body, record uint64) []byte {
	var text [changeLen]byte
	putHex(text[tieAt:], record)
	putHead(text[:], epoch, body, '1')
	return append(dst, text[:]...)
}

// LoadPosition is the position of a loaded row: below every change whose body
// is the floor or above it, above every change whose body is below the floor.
// builtAt, shard and sequence order loads among themselves only.
func LoadPosition(epoch uint16, floor Body, builtAt time.Time, o Origin) (Position, error) {
	text, err := AppendLoadPosition(nil, epoch, floor, builtAt, o)
	return Position(text), err
}

// AppendLoadPosition appends the text of LoadPosition to dst.
func AppendLoadPosition(dst []byte, epoch uint16, floor Body, builtAt time.Time, o Origin) ([]byte, error) {
	return appendOrigin(dst, epoch, floor, '0', builtAt, o)
}

// ArrivalPosition is the position of a change of a table whose position kind
// is None: it identifies the record and orders nothing.
func ArrivalPosition(epoch uint16, builtAt time.Time, o Origin) (Position, error) {
	text, err := appendOrigin(nil, epoch, Body{}, '1', builtAt, o)
	return Position(text), err
}

// tieAt is where the tie of a position begins.
const tieAt = changeLen - 16

// putHead writes what all positions begin with, up to the tie. Numbers are
// written from the last to the first, each with zeros before it that the one
// before overwrites.
func putHead(text []byte, epoch uint16, body Body, rank byte) {
	_ = text[tieAt-1]
	text[39], text[38], text[37] = '.', rank, '.'
	putHex(text[21:], body.Lo)
	putHex(text[5:], body.Hi)
	text[4] = '.'
	binary.BigEndian.PutUint32(text, uint32(hexDigits(uint32(epoch))))
}

// appendHex appends the low digits hex digits of n, at most 16.
func appendHex(dst []byte, n uint64, digits int) []byte {
	var text [16]byte
	putHex(text[:], n)
	return append(dst, text[16-digits:]...)
}

// putHex writes the 16 hex digits of n.
func putHex(text []byte, n uint64) {
	binary.BigEndian.PutUint64(text[8:], hexDigits(uint32(n)))
	binary.BigEndian.PutUint64(text, hexDigits(uint32(n>>32)))
}

// hexDigits returns the text of the eight hex digits of n, the first in the
// highest byte: all are made at once, one in each byte of a word.
func hexDigits(n uint32) uint64 {
	const ones = 0x0101010101010101
	w := uint64(n)
	w = (w | w<<16) & 0x0000ffff0000ffff
	w = (w | w<<8) & 0x00ff00ff00ff00ff
	w = (w | w<<4) & (0xf * ones)
	letters := (w + 6*ones) >> 4 & ones // 1 where a digit is 10 or more
	return w + '0'*ones + letters*('a'-'0'-10)
}

// appendOrigin appends a position's beginning and (time, shard, sequence) as
// 69 hex digits. On an error it returns nil.
func appendOrigin(dst []byte, epoch uint16, body Body, rank byte, builtAt time.Time, o Origin) ([]byte, error) {
	const maxSeconds = 1 << 36 // the year 4147; its microseconds fit 14 hex digits
	var micros, shard uint64
	if !builtAt.IsZero() {
		seconds := builtAt.Unix()
		if seconds < 0 || seconds >= maxSeconds {
			return nil, fmt.Errorf("make position: record time out of range: %w", ErrNoPosition)
		}
		micros = uint64(builtAt.UnixMicro())
	}
	if o.Shard != "" {
		n, err := strconv.ParseUint(o.Shard[strings.LastIndexByte(o.Shard, '-')+1:], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("make position: shard id without a number: %w", ErrNoPosition)
		}
		shard = n
	}
	sequence, ok := parseSequence(o.Sequence)
	if !ok {
		return nil, fmt.Errorf("make position: sequence number is not a number of at most 188 bits: %w", ErrNoPosition)
	}
	var text [loadLen]byte // 14 digits, 8, 15, 16, 16
	putHex(text[tieAt+53:], sequence[2])
	putHex(text[tieAt+37:], sequence[1])
	putHex(text[tieAt+21:], sequence[0])
	binary.BigEndian.PutUint64(text[tieAt+14:], hexDigits(uint32(shard)))
	putHex(text[tieAt-2:], micros)
	putHead(text[:], epoch, body, rank)
	return append(dst, text[:]...), nil
}

// parseSequence reads decimal digits into 188 bits, most significant word
// first. No digit at all is zero.
func parseSequence(s string) (words [3]uint64, ok bool) {
	const chunk = 16
	for first := len(s) % chunk; first > 0; first-- {
		if s[0]-'0' > 9 {
			return words, false
		}
		words[2], s = words[2]*10+uint64(s[0]-'0'), s[1:]
	}
	for ; len(s) > 0; s = s[chunk:] {
		high, okHigh := eightDigits(s)
		low, okLow := eightDigits(s[8:])
		carry := high*1e8 + low
		for w := 2; w >= 0; w-- {
			high, low := bits.Mul64(words[w], 1e16)
			low, over := bits.Add64(low, carry, 0)
			words[w], carry = low, high+over
		}
		if !okHigh || !okLow || carry != 0 {
			return words, false
		}
	}
	return words, words[0]>>60 == 0
}

// eightDigits reads the eight decimal digits that s begins with, all at once.
func eightDigits(s string) (n uint64, ok bool) {
	const ones = 0x0101010101010101
	_ = s[7]
	w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	ok = (w&(0xf0*ones) | (w+6*ones)&(0xf0*ones)>>4) == '3'*ones
	w = w & (0xf * ones) * (10<<8 + 1) >> 8                   // pairs
	w = w & 0x00ff00ff00ff00ff * (100<<16 + 1) >> 16          // fours
	return w & 0x0000ffff0000ffff * (10000<<32 + 1) >> 32, ok // all
}
