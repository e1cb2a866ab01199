package dmssim

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Kind is a PostgreSQL type as far as DMS tells types apart.
type Kind uint8

// The kinds. Other is every type that DMS moves as its text, such as enums.
const (
	Boolean Kind = iota + 1
	SmallInt
	Integer
	BigInt
	Numeric
	Money
	Real
	Double
	Char
	Varchar
	Text
	JSONText
	JSONB
	Array
	Bytea
	Date
	Time
	Timestamp
	TimestampTZ
	Interval
	Bit
	Other
)

// A Column is a column of a table. Length is that of character and bit types,
// 0 when they have none; Precision is 0 for a numeric without one.
type Column struct {
	Name             string
	Kind             Kind
	Length           int
	Precision, Scale int
	Nullable         bool
}

// isLOB reports whether DMS treats the column as a large object.
func (c *Column) isLOB() bool {
	switch c.Kind {
	case Text, JSONText, JSONB, Array, Bytea:
		return true
	case Varchar:
		return c.Length == 0
	case Boolean, SmallInt, Integer, BigInt, Numeric, Money, Real, Double, Char, Date, Time, Timestamp, TimestampTZ, Interval, Bit, Other:
		return false
	}
	return false
}

// A form is how a value stands in JSON.
type form uint8

const (
	formNull form = iota
	formText
	formLiteral // a number, true or false
)

// encode renders the text of a value as PostgreSQL writes it (DateStyle ISO,
// TimeZone UTC, IntervalStyle postgres, bytea_output hex) in DMS's form.
func (s *Settings) encode(c *Column, text string) (form, string) {
	switch c.Kind {
	case Boolean:
		word := "false"
		if text == "t" {
			word = "true"
		}
		if s.MapBooleanAsBoolean {
			return formLiteral, word
		}
		return formText, word
	case SmallInt, Integer:
		return number(text)
	case BigInt:
		return number(s.bigInt(text))
	case Numeric:
		return s.numeric(c, text)
	case Money:
		// NUMERIC(38,4) in the type table; no capture shows its JSON.
		return number(strings.Map(func(r rune) rune {
			if r == '-' || r == '.' || r >= '0' && r <= '9' {
				return r
			}
			return -1
		}, text))
	case Real:
		return double(text, 32)
	case Double:
		return double(text, 64)
	case Char:
		if s.TrimSpaceInChar {
			text = strings.TrimRight(text, " ")
		}
		return formText, text
	case Bytea:
		return formText, s.bytea(text)
	case Date:
		return formText, infinite(text, "9999-12-31", "4713-01-01 BC")
	case Timestamp, TimestampTZ:
		return formText, timestamp(text)
	case Varchar, Text, JSONText, JSONB, Array:
		if c.isLOB() {
			text = s.limitLOB(text)
		}
		return formText, text
	case Time, Interval, Bit, Other:
		return formText, text
	}
	return formText, text
}

// bigInt goes through a C double and back, as DMS does unless
// UseLargeIntegerValue is set: beyond 17 digits that takes exponent form, and
// beyond 15 it may lose the last digit.
func (s *Settings) bigInt(text string) string {
	length := len(strings.TrimPrefix(text, "-"))
	if length <= maxExactDoubleDigits || s.UseLargeIntegerValue && length <= maxLargeIntegerDigits {
		return text
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text // not a number: PostgreSQL never writes that
	}
	return formatG(f, 17)
}

// double renders a float with as many digits as its C format asks for: nine
// for float4, as captures show, and for float8 fifteen, or seventeen if
// fifteen do not give the number back.
func double(text string, bits int) (form, string) {
	f, err := strconv.ParseFloat(text, bits)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return formNull, "" // cJSON prints null for what JSON cannot say
	}
	if bits == 32 {
		return formLiteral, formatG(f, 9)
	}
	short := formatG(f, 15)
	if back, err := strconv.ParseFloat(short, 64); err == nil && back == f {
		return formLiteral, short
	}
	return formLiteral, formatG(f, 17)
}

// formatG is C's %.{digits}g.
func formatG(f float64, digits int) string {
	scientific := strconv.FormatFloat(f, 'e', digits-1, 64)
	mantissa, exponent, _ := strings.Cut(scientific, "e")
	x, err := strconv.Atoi(exponent)
	if err != nil {
		return scientific
	}
	if x < -4 || x >= digits {
		if strings.Contains(mantissa, ".") {
			mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
		}
		return mantissa + "e" + exponent
	}
	fixed := strconv.FormatFloat(f, 'f', digits-1-x, 64)
	if strings.Contains(fixed, ".") {
		fixed = strings.TrimRight(strings.TrimRight(fixed, "0"), ".")
	}
	return fixed
}

// numeric writes the digits that PostgreSQL has, as a number: no capture
// shows a decimal of a PostgreSQL source.
func (s *Settings) numeric(c *Column, text string) (form, string) {
	switch {
	case c.Precision > maxDecimalPrecision, c.Precision == 0 && s.MapUnboundedNumericAsString:
		return formText, text
	case text == "NaN" || strings.HasSuffix(text, "Infinity"):
		return formNull, ""
	case c.Precision > 0:
		return number(text)
	}
	whole, fraction, found := strings.Cut(text, ".")
	if !found || len(fraction) <= unboundedScale {
		return number(text)
	}
	return number(whole + "." + fraction[:unboundedScale])
}

// number is text as a number, if it is one. PostgreSQL writes nothing else;
// should it, the record stays JSON and the value visible.
func number(text string) (form, string) {
	if isNumber(text) {
		return formLiteral, text
	}
	return formText, text
}

// isNumber reports whether text is a JSON number.
func isNumber(text string) bool {
	text = strings.TrimPrefix(text, "-")
	whole := digits(text)
	if whole == 0 || whole > 1 && text[0] == '0' {
		return false
	}
	text = text[whole:]
	if fraction, ok := strings.CutPrefix(text, "."); ok {
		n := digits(fraction)
		if n == 0 {
			return false
		}
		text = fraction[n:]
	}
	if text == "" {
		return true
	}
	if text[0] != 'e' && text[0] != 'E' {
		return false
	}
	exponent := text[1:]
	if exponent != "" && (exponent[0] == '+' || exponent[0] == '-') {
		exponent = exponent[1:]
	}
	n := digits(exponent)
	return n > 0 && n == len(exponent)
}

// digits counts the decimal digits that text begins with.
func digits(text string) int {
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return n
}

func (s *Settings) bytea(text string) string {
	hex := strings.TrimPrefix(text, `\x`)
	if s.LimitedLOBMode && len(hex) > s.LOBMaxSizeKB*1024*2 {
		hex = hex[:s.LOBMaxSizeKB*1024*2]
	}
	if s.NoHexPrefix || hex == "" {
		return hex
	}
	return "0x" + hex
}

// limitLOB cuts a text at the LOB limit, between characters.
func (s *Settings) limitLOB(text string) string {
	limit := s.LOBMaxSizeKB * 1024
	if !s.LimitedLOBMode || len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

func infinite(text, last, first string) string {
	switch text {
	case "infinity":
		return last
	case "-infinity":
		return first
	}
	return text
}

// timestamp turns "2010-11-01 00:02:00.1" or "2010-11-01 00:02:00.1+00" into
// "2010-11-01T00:02:00.100000Z". How DMS writes years before Christ is not
// known: they keep PostgreSQL's suffix.
func timestamp(text string) string {
	if bound := infinite(text, "9999-12-31T23:59:59Z", "4713-01-01T00:00:00Z BC"); bound != text {
		return bound
	}
	text, bc := strings.CutSuffix(text, " BC")
	text = strings.TrimSuffix(text, "+00")
	day, clock, _ := strings.Cut(text, " ")
	clock, fraction, found := strings.Cut(clock, ".")
	out := day + "T" + clock
	if found {
		out += "." + fraction + "000000"[:max(0, 6-len(fraction))]
	}
	out += "Z"
	if bc {
		out += " BC"
	}
	return out
}
