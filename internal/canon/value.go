package canon

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"icehose/catalog"
)

// AppendValue is Append with the column's allowed losses applied: with
// catalog.LossNull a value that the type cannot hold is null, and null says so.
// An endpoint's damage (Damaged, BadUnicode) is never turned into null.
func (c *Column) AppendValue(dst []byte, form Form, text []byte) (out []byte, null bool, err error) {
	out, p := c.appendText(dst, form, text)
	switch {
	case p == "":
		return out, false, nil
	case (p == OutOfRange || p == Inexact) && c.null:
		return dst, true, nil
	}
	return dst, false, c.valueError(text, p)
}

func (c *Column) valueError(text []byte, p Problem) error {
	e := &ValueError{Column: c.column.Name, Type: c.column.Type, Problem: p}
	if k := e.Type.Kind; p == OutOfRange && (k == catalog.Date || k == catalog.Timestamp || k == catalog.TimestampTZ) {
		e.Kind = kindOfDate(text)
	}
	return e
}

// AppendValue is Column.AppendValue for one value.
func AppendValue(dst []byte, c *catalog.Column, form Form, text []byte) (out []byte, null bool, err error) {
	ready := Prepare(c)
	return ready.AppendValue(dst, form, text)
}

// Append is the function Append for a column made ready.
func (c *Column) Append(dst []byte, form Form, text []byte) ([]byte, error) {
	out, p := c.appendText(dst, form, text)
	if p != "" {
		return dst, c.valueError(text, p)
	}
	return out, nil
}

func appendCanonical(dst []byte, c *catalog.Column, form Form, text []byte) ([]byte, error) {
	ready := Prepare(c)
	return ready.Append(dst, form, text)
}

// appendText is the closed switch over the types. On a problem the returned
// bytes are meaningless.
func (c *Column) appendText(dst []byte, form Form, text []byte) ([]byte, Problem) {
	t := &c.column.Type
	switch t.Kind {
	case catalog.Boolean:
		return appendBoolean(dst, text)
	case catalog.Int:
		return appendInteger(dst, text, math.MinInt32, math.MaxInt32)
	case catalog.Long:
		return appendInteger(dst, text, math.MinInt64, math.MaxInt64)
	case catalog.Float:
		return appendFloat(dst, text, 32)
	case catalog.Double:
		return appendFloat(dst, text, 64)
	case catalog.Decimal:
		return appendDecimal(dst, text, t.Precision, t.Scale, form, c.round)
	case catalog.Date:
		return appendDate(dst, text)
	case catalog.Time:
		return appendTime(dst, text, c.round)
	case catalog.Timestamp:
		return appendTimestamp(dst, text, false, c.round)
	case catalog.TimestampTZ:
		return appendTimestamp(dst, text, true, c.round)
	case catalog.String:
		if c.numeric && form == Record && hasExponent(text) {
			return dst, Damaged
		}
		if c.fixed.Is() && utf8.Valid(text) {
			return c.fixed.Append(dst, text), ""
		}
		return appendString(dst, text, c.padded)
	case catalog.UUID:
		return appendUUID(dst, text)
	case catalog.Fixed:
		return appendBinary(dst, form, text, t.Length, c.width)
	case catalog.Binary:
		return appendBinary(dst, form, text, -1, c.width)
	}
	return dst, NotValid
}

func appendBoolean(dst, text []byte) ([]byte, Problem) {
	switch string(text) {
	case "true", "t", "1", "TRUE", "True":
		return append(dst, "true"...), ""
	case "false", "f", "0", "FALSE", "False":
		return append(dst, "false"...), ""
	}
	return dst, NotValid
}

// A number is the text of a decimal number taken apart, nothing computed.
type number struct {
	negative        bool
	whole, fraction []byte // digits; whole has no leading zeros, fraction may end in zeros
	exponent        int
	hasExponent     bool
}

// parseNumber reads [-+]digits[.digits][e[+-]digits]; leading zeros are allowed.
func parseNumber(text []byte) (n number, ok bool) {
	s := text
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		n.negative = s[0] == '-'
		s = s[1:]
	}
	i := digits(s)
	n.whole, s = s[:i], s[i:]
	if len(s) > 0 && s[0] == '.' {
		j := digits(s[1:])
		n.fraction, s = s[1:1+j], s[1+j:]
	}
	if len(n.whole)+len(n.fraction) == 0 {
		return n, false
	}
	n.whole = bytes.TrimLeft(n.whole, "0")
	if len(s) > 0 && (s[0] == 'e' || s[0] == 'E') {
		n.hasExponent = true
		s = s[1:]
		negative := false
		if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
			negative = s[0] == '-'
			s = s[1:]
		}
		k := digits(s)
		if k == 0 || k != len(s) {
			return n, false
		}
		for _, c := range s {
			if n.exponent < 1_000_000 {
				n.exponent = n.exponent*10 + int(c-'0')
			}
		}
		if negative {
			n.exponent = -n.exponent
		}
		s = nil
	}
	return n, len(s) == 0
}

func digits(s []byte) int {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

func appendInteger(dst, text []byte, low, high int64) ([]byte, Problem) {
	if isShortInteger(text) {
		return append(dst, text...), ""
	}
	n, ok := parseNumber(text)
	if !ok {
		return dst, NotValid
	}
	if n.hasExponent {
		return dst, Damaged
	}
	if len(bytes.TrimRight(n.fraction, "0")) > 0 {
		return dst, Inexact
	}
	if len(n.whole) > 19 {
		return dst, OutOfRange
	}
	var u uint64
	for _, c := range n.whole {
		u = u*10 + uint64(c-'0')
	}
	if n.negative && u > uint64(-(low+1))+1 || !n.negative && u > uint64(high) {
		return dst, OutOfRange
	}
	if n.negative && u > 0 {
		dst = append(dst, '-')
	}
	return strconv.AppendUint(dst, u, 10), ""
}

// isShortInteger reports whether text is canonical and fits every integer
// type: at most nine digits, without a sign and without a zero before them.
func isShortInteger(text []byte) bool {
	if len(text) == 0 || len(text) > 9 || text[0] == '0' && len(text) > 1 {
		return false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// doubleDigits is how many significant decimal digits survive a double.
const doubleDigits = 15

// appendDecimal keeps the exact value. A record's exponent form shows that the
// endpoint held the number in a double: with a precision of at most 15 digits
// nothing can have been lost on that way, beyond it the value is damaged.
func appendDecimal(dst, text []byte, precision, scale int, form Form, round bool) ([]byte, Problem) {
	if isCanonicalDecimal(text, precision, scale) {
		return append(dst, text...), ""
	}
	n, ok := parseNumber(text)
	if !ok {
		switch string(bytes.ToLower(text)) {
		case "nan", "infinity", "-infinity", "inf", "-inf":
			return dst, OutOfRange
		}
		return dst, NotValid
	}
	if n.hasExponent {
		if form == Record && precision > doubleDigits {
			return dst, Damaged
		}
		if n, ok = shifted(n, precision, scale); !ok {
			return dst, OutOfRange
		}
	}
	fraction, whole := n.fraction, n.whole
	if len(fraction) > scale {
		if len(bytes.TrimRight(fraction[scale:], "0")) > 0 {
			if !round {
				return dst, Inexact
			}
			if fraction[scale] >= '5' {
				whole, fraction = increment(whole, fraction[:scale])
			}
		}
		fraction = fraction[:scale]
	}
	if len(whole) > precision-scale {
		return dst, OutOfRange
	}
	if n.negative && (len(whole) > 0 || len(bytes.TrimRight(fraction, "0")) > 0) {
		dst = append(dst, '-')
	}
	if len(whole) == 0 {
		dst = append(dst, '0')
	}
	dst = append(dst, whole...)
	if scale > 0 {
		dst = append(dst, '.')
		dst = append(dst, fraction...)
		for range scale - len(fraction) {
			dst = append(dst, '0')
		}
	}
	return dst, ""
}

// isCanonicalDecimal reports whether text is already what appendDecimal would
// write. Negative numbers are left to it, as minus zero is.
func isCanonicalDecimal(text []byte, precision, scale int) bool {
	whole := digits(text)
	if whole == 0 || whole > 1 && text[0] == '0' || whole > precision-scale && (whole > 1 || text[0] != '0') {
		return false
	}
	rest := text[whole:]
	if scale == 0 {
		return len(rest) == 0
	}
	return len(rest) == 1+scale && rest[0] == '.' && digits(rest[1:]) == scale
}

// shifted applies the exponent by moving the point. ok is false when the
// number cannot fit whatever its digits are.
func shifted(n number, precision, scale int) (number, bool) {
	all := append(slices.Clone(n.whole), n.fraction...)
	point := len(n.whole) + n.exponent
	if len(bytes.Trim(all, "0")) == 0 {
		return number{negative: n.negative}, true
	}
	if point > precision+len(all) {
		return n, false
	}
	if point < -scale-len(all) {
		// Every digit is beyond the scale; one that is not zero keeps that visible.
		return number{negative: n.negative, fraction: append(bytes.Repeat([]byte{'0'}, scale+1), '1')}, true
	}
	for point > len(all) {
		all = append(all, '0')
	}
	if point < 0 {
		all = append(bytes.Repeat([]byte{'0'}, -point), all...)
		point = 0
	}
	return number{negative: n.negative, whole: bytes.TrimLeft(all[:point], "0"), fraction: all[point:]}, true
}

// increment adds one unit in the last place of whole.fraction.
func increment(whole, fraction []byte) (w, f []byte) {
	all := append(append([]byte{'0'}, whole...), fraction...)
	for i := len(all) - 1; i >= 0; i-- {
		if all[i] != '9' {
			all[i]++
			break
		}
		all[i] = '0'
	}
	cut := len(all) - len(fraction)
	return bytes.TrimLeft(all[:cut], "0"), all[cut:]
}

// isShortest reports whether a number is surely written as strconv writes the
// float nearest to it, which spares reading and writing it: a decimal of at most
// 15 digits, or 6 of a float32, is the shortest for its float, and one from
// 0.0001 to below a million is written without an exponent.
func isShortest(text []byte, bitSize int) bool {
	most := 15
	if bitSize == 32 {
		most = 6
	}
	if len(text) > 0 && text[0] == '-' {
		text = text[1:]
	}
	whole, fraction, point := bytes.Cut(text, []byte{'.'})
	if len(whole) == 0 || len(whole) > 6 || len(whole)+len(fraction) > most || digits(whole) < len(whole) || digits(fraction) < len(fraction) {
		return false
	}
	if point && (len(fraction) == 0 || fraction[len(fraction)-1] == '0') {
		return false
	}
	if whole[0] != '0' {
		return true
	}
	return len(whole) == 1 && len(bytes.TrimLeft(fraction, "0")) > max(0, len(fraction)-4)
}

func appendFloat(dst, text []byte, bitSize int) ([]byte, Problem) {
	if isShortest(text, bitSize) {
		return append(dst, text...), ""
	}
	switch string(text) {
	case "NaN", "nan":
		return append(dst, "NaN"...), ""
	case "Infinity", "inf", "Inf", "+Inf":
		return append(dst, "Infinity"...), ""
	case "-Infinity", "-inf", "-Inf":
		return append(dst, "-Infinity"...), ""
	}
	n, ok := parseNumber(text)
	if !ok {
		return dst, NotValid
	}
	f, err := strconv.ParseFloat(string(text), bitSize)
	if err != nil {
		return dst, OutOfRange
	}
	if f == 0 {
		if len(n.whole) > 0 || len(bytes.TrimRight(n.fraction, "0")) > 0 {
			return dst, Inexact
		}
		return append(dst, '0'), "" // minus zero is zero
	}
	return strconv.AppendFloat(dst, f, 'g', -1, bitSize), ""
}
