package canon

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"icehose/catalog"
)

// AppendValue is Append with the column's allowed losses applied: with
// catalog.LossNull a value that the type cannot hold is null, and null says so.
// An endpoint's damage (Damaged, BadUnicode) is never turned into null.
func AppendValue(dst []byte, c *catalog.Column, form Form, text []byte) (out []byte, null bool, err error) {
	out, p := appendText(dst, c, form, text)
	switch {
	case p == "":
		return out, false, nil
	case (p == OutOfRange || p == Inexact) && slices.Contains(c.AllowLossy, catalog.LossNull):
		return dst, true, nil
	}
	return dst, false, &ValueError{Column: c.Name, Type: c.Type, Problem: p}
}

func appendCanonical(dst []byte, c *catalog.Column, form Form, text []byte) ([]byte, error) {
	out, p := appendText(dst, c, form, text)
	if p != "" {
		return dst, &ValueError{Column: c.Name, Type: c.Type, Problem: p}
	}
	return out, nil
}

// appendText is the closed switch over the types. On a problem the returned
// bytes are meaningless.
func appendText(dst []byte, c *catalog.Column, form Form, text []byte) ([]byte, Problem) {
	round := slices.Contains(c.AllowLossy, catalog.LossRound)
	switch c.Type.Kind {
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
		return appendDecimal(dst, text, c.Type.Precision, c.Type.Scale, form, round)
	case catalog.Date:
		return appendDate(dst, text)
	case catalog.Time:
		return appendTime(dst, text, round)
	case catalog.Timestamp:
		return appendTimestamp(dst, text, false, round)
	case catalog.TimestampTZ:
		return appendTimestamp(dst, text, true, round)
	case catalog.String:
		return appendString(dst, c, text)
	case catalog.UUID:
		return appendUUID(dst, text)
	case catalog.Fixed:
		return appendBinary(dst, form, text, c.Type.Length)
	case catalog.Binary:
		return appendBinary(dst, form, text, -1)
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

// doubleDigits is how many significant decimal digits survive a double.
const doubleDigits = 15

// appendDecimal keeps the exact value. A record's exponent form shows that the
// endpoint held the number in a double: with a precision of at most 15 digits
// nothing can have been lost on that way, beyond it the value is damaged.
func appendDecimal(dst, text []byte, precision, scale int, form Form, round bool) ([]byte, Problem) {
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

func appendFloat(dst, text []byte, bitSize int) ([]byte, Problem) {
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

func appendString(dst []byte, c *catalog.Column, text []byte) ([]byte, Problem) {
	if !utf8.Valid(text) {
		return dst, BadUnicode
	}
	if PaddedChar(c.SourceType) {
		text = bytes.TrimRight(text, " ")
	}
	return append(dst, text...), ""
}

// PaddedChar reports whether the source pads values of this type with blanks,
// which mean nothing: DMS trims them (TrimSpaceInChar) or not, so the canonical
// text never has them.
func PaddedChar(sourceType string) bool {
	base, _, _ := strings.Cut(sourceType, "(")
	base = strings.TrimSpace(base)
	for _, padded := range [...]string{"character", "char", "bpchar", "nchar", "national character"} {
		if strings.EqualFold(base, padded) {
			return true
		}
	}
	return false
}

func appendUUID(dst, text []byte) ([]byte, Problem) {
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

func lowerHex(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9', c >= 'a' && c <= 'f':
		return c, true
	case c >= 'A' && c <= 'F':
		return c + 'a' - 'A', true
	}
	return 0, false
}

// appendBinary reads hexadecimal; length is in bytes, -1 for any.
func appendBinary(dst []byte, form Form, text []byte, length int) ([]byte, Problem) {
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
	if length >= 0 && len(text) != 2*length {
		return dst, OutOfRange
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
