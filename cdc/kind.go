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
	SourceNone     PositionSource = iota + 1 // "none"
	SourcePostgres                           // "postgres": two log sequence numbers
	SourceMySQL                              // "mysql": binlog file number << 32 | offset
	SourceColumn                             // "column:NAME": up to 38 decimal digits
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
	case strings.HasPrefix(s, "column:") && len(s) > len("column:"):
		return PositionKind{Source: SourceColumn, Column: s[len("column:"):]}, nil
	}
	return PositionKind{}, fmt.Errorf("parse position kind: want postgres, mysql, column:NAME or none")
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

// parseLSNs reads "HHHHHHHH/HHHHHHHH.N.HHHHHHHH/HHHHHHHH". Which of the two is
// the commit is not documented, so the body is (second, first): of changes to
// one row both numbers rise together, since the later transaction could not
// touch the row before the earlier one had ended.
func parseLSNs(s string) (Body, error) {
	first, rest, ok1 := strings.Cut(s, ".")
	_, second, ok2 := strings.Cut(rest, ".")
	a, okA := ParseLSN(first)
	b, okB := ParseLSN(second)
	if !ok1 || !ok2 || !okA || !okB {
		return Body{}, fmt.Errorf("read position: stream-position is not two log sequence numbers: %w", ErrNoPosition)
	}
	return Body{Hi: b, Lo: a}, nil
}

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
