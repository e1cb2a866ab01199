package cdc

import (
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
	return appendHex(appendHead(dst, epoch, body, '1'), record, 16)
}

// LoadPosition is the position of a loaded row: below every change whose body
// is the floor or above it, above every change whose body is below the floor.
// builtAt, shard and sequence order loads among themselves only.
func LoadPosition(epoch uint16, floor Body, builtAt time.Time, o Origin) (Position, error) {
	var buf [loadLen]byte
	text, err := AppendLoadPosition(buf[:0], epoch, floor, builtAt, o)
	return Position(text), err
}

// AppendLoadPosition appends the text of LoadPosition to dst.
func AppendLoadPosition(dst []byte, epoch uint16, floor Body, builtAt time.Time, o Origin) ([]byte, error) {
	return appendOrigin(appendHead(dst, epoch, floor, '0'), builtAt, o)
}

// ArrivalPosition is the position of a change of a table whose position kind
// is None: it identifies the record and orders nothing.
func ArrivalPosition(epoch uint16, builtAt time.Time, o Origin) (Position, error) {
	var buf [loadLen]byte
	text, err := appendOrigin(appendHead(buf[:0], epoch, Body{}, '1'), builtAt, o)
	return Position(text), err
}

// appendHead appends what all positions begin with, up to the tie.
func appendHead(dst []byte, epoch uint16, body Body, rank byte) []byte {
	dst = append(appendHex(dst, uint64(epoch), 4), '.')
	dst = appendHex(appendHex(dst, body.Hi, 16), body.Lo, 16)
	return append(dst, '.', rank, '.')
}

// hexPairs holds the two digits of every byte, one after another.
const hexPairs = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f" +
	"202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f" +
	"404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f" +
	"606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f" +
	"808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f" +
	"a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf" +
	"c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf" +
	"e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"

// appendHex appends the low digits hex digits of n, at most 16.
func appendHex(dst []byte, n uint64, digits int) []byte {
	var buf [16]byte
	for i := range 8 {
		at := n >> (56 - 8*i) & 0xff * 2
		buf[2*i], buf[2*i+1] = hexPairs[at], hexPairs[at+1]
	}
	return append(dst, buf[16-digits:]...)
}

// appendOrigin appends (time, shard, sequence) as 69 hex digits. On an error
// it returns nil.
func appendOrigin(dst []byte, builtAt time.Time, o Origin) ([]byte, error) {
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
	dst = appendHex(appendHex(dst, micros, 14), shard, 8)
	return appendHex(appendHex(appendHex(dst, sequence[0], 15), sequence[1], 16), sequence[2], 16), nil
}

// parseSequence reads decimal digits into 188 bits, most significant word
// first, 18 digits at a time. No digit at all is zero.
func parseSequence(s string) (words [3]uint64, ok bool) {
	chunk, power := uint64(0), uint64(1)
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return words, false
		}
		chunk, power = chunk*10+uint64(s[i]-'0'), power*10
		if power < 1e18 && i+1 < len(s) {
			continue
		}
		for w := 2; w >= 0; w-- {
			high, low := bits.Mul64(words[w], power)
			low, over := bits.Add64(low, chunk, 0)
			words[w], chunk = low, high+over
		}
		if chunk != 0 || words[0]>>60 != 0 {
			return words, false
		}
		power = 1
	}
	return words, true
}
