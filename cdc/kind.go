package cdc

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// A PositionKind says where a table's changes carry their order.
type PositionKind struct {
	Source PositionSource
	Column string // for SourceColumn: the column's name in the record
}

// A PositionSource is the closed set of position kinds.
type PositionSource uint8

// The position sources, in the words of the pipeline file.
const (
	SourceNone      PositionSource = iota + 1 // "none"
	SourcePostgres                            // "postgres": two log sequence numbers
	SourceMySQL                               // "mysql": binlog file number << 32 | offset
	SourceSQLServer                           // "sqlserver": a log sequence number of three parts
	SourceOracle                              // "oracle": a system change number
	SourceColumn                              // "column:NAME": up to 38 decimal digits
)

// ParsePositionKind reads the word of a pipeline file.
func ParsePositionKind(s string) (PositionKind, error) {
	switch {
	case s == "none":
		return PositionKind{Source: SourceNone}, nil
	case s == "postgres":
		return PositionKind{Source: SourcePostgres}, nil
	case s == "mysql":
		return PositionKind{Source: SourceMySQL}, nil
	case s == "sqlserver":
		return PositionKind{Source: SourceSQLServer}, nil
	case s == "oracle":
		return PositionKind{Source: SourceOracle}, nil
	case strings.HasPrefix(s, "column:") && len(s) > len("column:"):
		return PositionKind{Source: SourceColumn, Column: s[len("column:"):]}, nil
	}
	return PositionKind{}, fmt.Errorf("parse position kind: want postgres, mysql, sqlserver, oracle, column:NAME or none")
}

// String returns the word of the pipeline file.
func (k PositionKind) String() string {
	switch k.Source {
	case SourceNone:
		return "none"
	case SourcePostgres:
		return "postgres"
	case SourceMySQL:
		return "mysql"
	case SourceSQLServer:
		return "sqlserver"
	case SourceOracle:
		return "oracle"
	case SourceColumn:
		return "column:" + k.Column
	}
	return "invalid"
}

// BodyOf returns the ordering part of a data change. Loads have none of their
// own: their body is the floor of the load. The error wraps ErrNoPosition.
func (k PositionKind) BodyOf(c *Change) (Body, error) {
	switch k.Source {
	case SourceNone:
		return Body{}, nil
	case SourcePostgres:
		return parseLSNs(c.StreamPosition)
	case SourceMySQL:
		if !c.HasTransactionID {
			return Body{}, fmt.Errorf("read position: record has no transaction-id: %w", ErrNoPosition)
		}
		return Body{Lo: c.TransactionID}, nil
	case SourceSQLServer:
		return parseLSN3(c.StreamPosition)
	case SourceOracle:
		scn, err := strconv.ParseUint(c.StreamPosition, 10, 64)
		if err != nil {
			return Body{}, fmt.Errorf("read position: stream-position is not a decimal system change number: %w", ErrNoPosition)
		}
		return Body{Lo: scn}, nil
	case SourceColumn:
		var buf [64]byte // enough for every text that parseDigits accepts
		v := c.Data.Get(k.Column)
		text, _ := v.AppendText(buf[:0])
		if v.Kind != String && v.Kind != Number || len(text) == 0 {
			return Body{}, fmt.Errorf("read position: column %s is missing or empty: %w", k.Column, ErrNoPosition)
		}
		return parseDigits(text)
	}
	return Body{}, fmt.Errorf("read position: no position kind declared: %w", ErrNoPosition)
}

// Fits reports whether a valid position may be one of this kind: whether it has
// the form that BodyOf gives to a change. The position of a load fits every kind,
// and so do some of other kinds: mysql and oracle look alike, and a column may
// hold anything.
func (k PositionKind) Fits(p Position) bool {
	const zero = "0000000000000000"
	if p.IsLoad() {
		return true
	}
	arrival, high := len(p) != changeLen, p.Body()[:len(zero)]
	switch k.Source {
	case SourceNone:
		return arrival
	case SourcePostgres:
		return !arrival && high != zero
	case SourceMySQL, SourceOracle:
		return !arrival && high == zero
	case SourceSQLServer:
		return !arrival && high[:12] == zero[:12]
	case SourceColumn:
		return !arrival
	}
	return false
}

// parseLSNs reads "HHHHHHHH/HHHHHHHH.N.HHHHHHHH/HHHHHHHH". Which of the two is
// the commit is not documented, so the body is (second, first): of changes to
// one row both numbers rise together, since the later transaction could not
// touch the row before the earlier one had ended.
func parseLSNs(s string) (Body, error) {
	if b, ok := parsePaddedLSNs(s); ok {
		return b, nil
	}
	first, rest, ok1 := strings.Cut(s, ".")
	_, second, ok2 := strings.Cut(rest, ".")
	a, okA := ParseLSN(first)
	b, okB := ParseLSN(second)
	if !ok1 || !ok2 || !okA || !okB {
		return Body{}, fmt.Errorf("read position: stream-position is not two log sequence numbers: %w", ErrNoPosition)
	}
	return Body{Hi: b, Lo: a}, nil
}

// parsePaddedLSNs reads the form with padded numbers and one digit between
// them, which is the one that is seen.
func parsePaddedLSNs(s string) (Body, bool) {
	const form = "HHHHHHHH/HHHHHHHH.N.HHHHHHHH/HHHHHHHH"
	if len(s) != len(form) || s[8] != '/' || s[17] != '.' || s[18] == '.' || s[19] != '.' || s[28] != '/' {
		return Body{}, false
	}
	a, okA := paddedHex(s[0:8])
	b, okB := paddedHex(s[9:17])
	c, okC := paddedHex(s[20:28])
	d, okD := paddedHex(s[29:37])
	return Body{Hi: c<<32 | d, Lo: a<<32 | b}, okA && okB && okC && okD
}

// parseLSN3 reads "HHHHHHHH:HHHHHHHH:HHHH": SQL Server's virtual log file, block
// and slot, which compare in this order.
func parseLSN3(s string) (Body, error) {
	const form = "HHHHHHHH:HHHHHHHH:HHHH"
	if len(s) == len(form) && s[8] == ':' && s[17] == ':' {
		file, okFile := paddedHex(s[0:8])
		block, okBlock := paddedHex(s[9:17])
		slot, okSlot := paddedHex(s[18:22])
		if okFile && okBlock && okSlot {
			return Body{Hi: file >> 16, Lo: file<<48 | block<<16 | slot}, nil
		}
	}
	return Body{}, fmt.Errorf("read position: stream-position is not a log sequence number of three parts: %w", ErrNoPosition)
}

// paddedHex reads at most 15 hex digits, leading zeros included.
func paddedHex(s string) (n uint64, ok bool) {
	bad := byte(0)
	for i := range len(s) {
		digit := hexValues[s[i]]
		bad |= digit
		n = n<<4 | uint64(digit)
	}
	return n, bad < 16
}

// hexValues are the values of the hex digits by their byte; 16 stands for no
// digit.
const hexValues = noDigits + noDigits + noDigits +
	"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09" + "\x10\x10\x10\x10\x10\x10" + // 0 to 9
	hexLetters + noDigits + hexLetters + noDigits + // A to F, a to f
	noDigits + noDigits + noDigits + noDigits + noDigits + noDigits + noDigits + noDigits

const (
	noDigits   = "\x10\x10\x10\x10\x10\x10\x10\x10\x10\x10\x10\x10\x10\x10\x10\x10"
	hexLetters = "\x10\x0a\x0b\x0c\x0d\x0e\x0f\x10\x10\x10\x10\x10\x10\x10\x10\x10"
)

// ParseLSN reads a PostgreSQL log sequence number, padded or not.
func ParseLSN(s string) (uint64, bool) {
	hi, lo, ok := strings.Cut(s, "/")
	if !ok || len(hi) > 8 || len(lo) > 8 {
		return 0, false
	}
	h, err1 := strconv.ParseUint(hi, 16, 32)
	l, err2 := strconv.ParseUint(lo, 16, 32)
	return h<<32 | l, err1 == nil && err2 == nil
}

// parseDigits reads up to 38 decimal digits into 128 bits.
func parseDigits(text []byte) (Body, error) {
	var b Body
	if len(text) > 38 {
		return b, fmt.Errorf("read position: more than 38 digits: %w", ErrNoPosition)
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return Body{}, fmt.Errorf("read position: not all decimal digits: %w", ErrNoPosition)
		}
		over, lo := bits.Mul64(b.Lo, 10)
		lo, carry := bits.Add64(lo, uint64(c-'0'), 0)
		b.Hi, b.Lo = b.Hi*10+over+carry, lo
	}
	return b, nil
}
