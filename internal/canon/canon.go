// Package canon is the one definition of a typed value's canonical text, and
// of the bytes and digest of a row made of such texts.
//
// In come texts: of a DMS record, of a delivered row, of a database's own
// output. Out comes, for equal values, the same text whatever engine wrote it:
//
//	boolean      true | false
//	int, long    minimal decimal, "-" for negative, no "-0"
//	float,double shortest decimal that reads back to the same value; NaN,
//	             Infinity, -Infinity; -0 is 0
//	decimal      exactly scale fraction digits, no leading zeros, no "-0"
//	date         2006-01-02 (years 0001 to 9999)
//	time         15:04:05.000000
//	timestamp    2006-01-02T15:04:05.000000
//	timestamptz  2006-01-02T15:04:05.000000Z, in UTC
//	string       itself; a char(n) without the blanks at its end; a number or a
//	             MySQL time whose source_type has a scale with as many fraction
//	             digits, or more where they are not zero
//	uuid         lower case, with dashes
//	fixed,binary lower-case hexadecimal; a MySQL binary(n) with the zeros at its end
//
// Transform, sink and reconcile all go through it, so they cannot drift apart.
package canon

import (
	"strings"

	"icehose/catalog"
)

// A Form says whose text it is, where that changes its meaning.
type Form uint8

// The forms.
const (
	Record    Form = iota + 1 // a value of a DMS record: binary is hex, 0x or not; char was trimmed or not
	Delivered                 // a value of a row that transform wrote: binary is hex
	Postgres                  // PostgreSQL's text output (value::text, COPY): binary is \x hex
	MySQL                     // MySQL's text output: boolean is 0/1, binary is hex
)

// Append appends the canonical text of the value of column c that text stands
// for. The error is a *ValueError; the value itself is not in it. NULL never
// comes here: it has no text.
func Append(dst []byte, c *catalog.Column, form Form, text []byte) ([]byte, error) {
	return appendCanonical(dst, c, form, text)
}

// A Problem is why a text is not a value of its column.
type Problem string

// The problems.
const (
	NotValid   Problem = "invalid_value"  // not a text of this type at all
	OutOfRange Problem = "out_of_range"   // a value that the type cannot hold
	Inexact    Problem = "inexact"        // digits would be lost
	BadUnicode Problem = "invalid_utf8"   // not text
	Damaged    Problem = "damaged_number" // an exact number in exponent form: digits are already lost
)

// A ValueError says why a value has no canonical text. It never holds the value.
type ValueError struct {
	Column  string
	Type    catalog.Type
	Problem Problem
	// Kind says what kind of value is out of range, where that is known: one of
	// the constants below, or empty.
	Kind string
}

// The kinds of dates and times that no lake type holds.
const (
	ZeroDate     = "a date whose year, month or day is zero"
	InfiniteDate = "an infinite date"
	EarlyDate    = "a date before the year 1"
	LateDate     = "a date after the year 9999"
)

// Error implements error.
func (e *ValueError) Error() string {
	return "coerce " + e.Column + " to " + e.Type.String() + ": " + strings.TrimSuffix(string(e.Problem)+": "+e.Kind, ": ")
}
