package catalog

import "slices"

// A FixedText is the text of values that a source always writes with as many
// digits after the point: MySQL's and PostgreSQL's decimals of a given scale, and
// MySQL's times. DMS does not say that it keeps the zeros at their end, so where
// a column of strings has such a source_type its canonical text has them again.
// The zero value stands for any other text.
type FixedText struct {
	kind   fixedKind
	digits int // after the point
}

type fixedKind uint8

const (
	fixedNumber fixedKind = iota + 1
	fixedClock            // [-]hours:minutes:seconds
)

// FixedTextOf returns that of a source_type, in an engine's words. A numeric
// without a scale keeps the digits that it was given, and what DMS says of a scale
// is no word of the engine.
func FixedTextOf(sourceType string) FixedText {
	if sourceType == "" {
		return FixedText{}
	}
	t, err := ParseSourceType(sourceType)
	if err != nil || t.Array || t.Class != "" {
		return FixedText{}
	}
	switch {
	case slices.Contains([]string{"decimal", "numeric", "dec", "fixed"}, t.Name):
		if len(t.Params) == 0 {
			return FixedText{}
		}
		scale, _ := t.Param(1)
		return fixed(fixedNumber, scale)
	case t.Name == "time": // PostgreSQL's are without time zone
		digits, _ := t.Param(0)
		return fixed(fixedClock, digits)
	}
	return FixedText{}
}

func fixed(kind fixedKind, digits int) FixedText {
	if digits < 0 {
		return FixedText{}
	}
	return FixedText{kind: kind, digits: digits}
}

// Is reports whether it stands for texts of its own.
func (f FixedText) Is() bool { return f.kind != 0 }

// Append appends a text as the source writes it. Digits that the type does not
// have are kept unless they are zeros, and what is no such value is kept too.
func (f FixedText) Append(dst, text []byte) []byte {
	s, negative := text, false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		negative, s = s[0] == '-', s[1:]
	}
	whole := leadingDigits(s)
	rest := s[whole:]
	if f.kind == fixedClock {
		if len(rest) < len(":00:00") || rest[0] != ':' || rest[3] != ':' || !isSexagesimal(rest[1:3]) || !isSexagesimal(rest[4:6]) {
			return append(dst, text...)
		}
		rest = rest[6:]
	}
	var fraction []byte
	if len(rest) > 0 && rest[0] == '.' {
		fraction = rest[1:]
		rest = fraction[leadingDigits(fraction):]
	}
	if f.kind == 0 || len(rest) > 0 || whole == 0 && (f.kind == fixedClock || len(fraction) == 0) {
		return append(dst, text...)
	}
	head := s[:len(s)-len(fraction)]
	if n := len(head); n > 0 && head[n-1] == '.' {
		head = head[:n-1]
	}
	if negative && (hasValue(head) || hasValue(fraction)) { // minus zero is zero
		dst = append(dst, '-')
	}
	least := 1
	if f.kind == fixedClock {
		least = 2
	}
	for ; whole > least && head[0] == '0'; whole-- {
		head = head[1:]
	}
	for ; whole < least; whole++ {
		dst = append(dst, '0')
	}
	return f.appendFraction(append(dst, head...), fraction)
}

func (f FixedText) appendFraction(dst, fraction []byte) []byte {
	for len(fraction) > f.digits && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1]
	}
	if len(fraction) == 0 && f.digits == 0 {
		return dst
	}
	dst = append(append(dst, '.'), fraction...)
	for n := len(fraction); n < f.digits; n++ {
		dst = append(dst, '0')
	}
	return dst
}

func leadingDigits(s []byte) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// isSexagesimal reports whether two bytes are 00 to 59.
func isSexagesimal(s []byte) bool {
	return s[0] >= '0' && s[0] <= '5' && s[1] >= '0' && s[1] <= '9'
}

// hasValue reports whether a digit is not zero.
func hasValue(s []byte) bool {
	return slices.ContainsFunc(s, func(c byte) bool { return c >= '1' && c <= '9' })
}
