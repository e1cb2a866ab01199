package catalog

import (
	"cmp"
	"encoding/hex"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// A Literal is a scalar of the pipeline file as it is written there: 5.00 stays
// "5.00", whatever YAML takes it for.
type Literal string

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (l *Literal) UnmarshalYAML(n ast.Node) error {
	switch n := n.(type) {
	case *ast.AnchorNode:
		return l.UnmarshalYAML(n.Value)
	case *ast.LiteralNode: // its token is the | or >
		*l = Literal(n.Value.Value)
	case ast.ScalarNode:
		*l = Literal(n.GetToken().Value)
	default:
		return &yaml.SyntaxError{Message: "want one value, not a list or a mapping", Token: n.GetToken()}
	}
	return nil
}

var (
	plainDecimal = regexp.MustCompile(`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)$`)
	plainUUID    = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	plainTime    = regexp.MustCompile(`^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|([-+][0-9]{2})(?::?([0-9]{2}))?)?)?$`)
)

// examples are defaults of each type, as an error shows them.
var examples = [...]string{ //nolint:gochecknoglobals // constant table
	Boolean: "true", Int: "42", Long: "42", Float: "1.5", Double: "1.5", Decimal: "12.50 with no more digits than the type has", Date: "2024-01-31", Time: "10:30:00",
	Timestamp: "2024-01-31 10:30:00", TimestampTZ: "2024-01-31 10:30:00+00", String: "text in UTF-8", UUID: "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
	Fixed: "0x6162 with two digits for each byte", Binary: "0x6162",
}

// canonical returns the canonical text, that of internal/canon, of the value of
// a column that the literal stands for; ok is false when it stands for none.
func (l Literal) canonical(c *Column) (text Literal, ok bool) {
	s := string(l)
	switch c.Type.Kind {
	case Boolean:
		b, err := strconv.ParseBool(s)
		return Literal(strconv.FormatBool(b)), err == nil && s != "T" && s != "F" // which no source writes
	case Int, Long:
		n, err := strconv.ParseInt(s, 10, map[TypeKind]int{Int: 32, Long: 64}[c.Type.Kind])
		return Literal(strconv.FormatInt(n, 10)), err == nil
	case Float:
		return canonicalFloat(s, 32)
	case Double:
		return canonicalFloat(s, 64)
	case Decimal:
		return canonicalDecimal(s, c.Type.Precision, c.Type.Scale)
	case Date:
		text, ok := canonicalTime(s, "2006-01-02", false)
		return text, ok && text == l
	case Time:
		return canonicalTime("2000-01-01T"+s, "15:04:05.000000", false)
	case Timestamp:
		return canonicalTime(s, "2006-01-02T15:04:05.000000", false)
	case TimestampTZ:
		return canonicalTime(s, "2006-01-02T15:04:05.000000Z", true)
	case String:
		if PaddedChar(c.SourceType) {
			s = strings.TrimRight(s, " ")
		}
		s = string(FixedTextOf(c.SourceType).Append(nil, []byte(s)))
		return Literal(s), utf8.ValidString(s)
	case UUID:
		if s = strings.ToLower(s); len(s) == 32 {
			s = strings.Join([]string{s[:8], s[8:12], s[12:16], s[16:20], s[20:]}, "-")
		}
		return Literal(s), plainUUID.MatchString(s)
	case Fixed, Binary:
		if len(s) >= 2 && slices.Contains([]string{"0x", "0X", `\x`}, s[:2]) {
			s = s[2:]
		}
		bytes, err := hex.DecodeString(s)
		if n := PaddedBinary(c.SourceType); len(bytes) < n {
			bytes = append(bytes, make([]byte, n-len(bytes))...)
		}
		return Literal(hex.EncodeToString(bytes)), err == nil && (c.Type.Kind == Binary || len(bytes) == c.Type.Length)
	}
	return "", false
}

func canonicalFloat(s string, bits int) (Literal, bool) {
	switch s {
	case "NaN", "Infinity", "-Infinity":
		return Literal(s), true
	}
	f, err := strconv.ParseFloat(s, bits)
	switch {
	case err != nil || math.IsInf(f, 0) || math.IsNaN(f) || strings.ContainsAny(s, "xX_"):
		return "", false
	case f == 0: // minus zero is zero, and a number too small for the type is none
		return "0", !strings.ContainsAny(strings.SplitN(strings.ToLower(s), "e", 2)[0], "123456789")
	}
	return Literal(strconv.FormatFloat(f, 'g', -1, bits)), true
}

func canonicalDecimal(s string, precision, scale int) (Literal, bool) {
	r, ok := new(big.Rat).SetString(s)
	if !ok || !plainDecimal.MatchString(s) {
		return "", false
	}
	text := r.FloatString(scale)
	kept, ok := new(big.Rat).SetString(text)
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision-scale)), nil)
	return Literal(text), ok && kept.Cmp(r) == 0 && r.Abs(r).Cmp(new(big.Rat).SetInt(limit)) < 0
}

// canonicalTime reads a date with or without a time of day, to the microsecond,
// and renders it in UTC; only where it is zoned it may have come from elsewhere.
func canonicalTime(s, layout string, zoned bool) (Literal, bool) {
	m := plainTime.FindStringSubmatch(s)
	if m == nil {
		return "", false
	}
	day, minute, second, zone := m[1], cmp.Or(m[2], "00:00"), cmp.Or(m[3], ":00"), "Z"
	if m[4] != "" {
		zone = m[4] + ":" + cmp.Or(m[5], "00")
	}
	t, err := time.Parse(time.RFC3339Nano, day+"T"+minute+second+zone)
	if _, offset := t.Zone(); err != nil || !zoned && offset != 0 {
		return "", false
	}
	t = t.UTC()
	return Literal(t.Format(layout)), t.Year() >= 1 && t.Year() <= 9999
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

// PaddedBinary returns the length in bytes to which the source pads values of
// this type with zeros, MySQL's binary(n); 0 for other types. Its log has them
// without, so the canonical text always has them.
func PaddedBinary(sourceType string) int {
	base, length, _ := strings.Cut(sourceType, "(")
	if !strings.EqualFold(strings.TrimSpace(base), "binary") {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(length), ")"))
	if err != nil {
		return 1 // binary alone
	}
	return n
}

// defaultOf checks a column's default and makes it canonical. What a null in
// older rows means can only be told where the source and the lake have no other.
func (c *checker) defaultOf(place string, t *Table, col *Column) {
	if col.Default == nil || col.Exclude {
		return
	}
	written, place := string(*col.Default), place+".default"
	canonical, ok := col.Default.canonical(col)
	switch {
	case col.Type == Type{}: // said already
	case col.Mask != "":
		c.fail(place, written, "the column is masked, and its default would not be: remove it, and load the table anew")
	case t.IsKey(col.Name):
		c.fail(place, written, "a key column is never null: remove it")
	case !col.NotNull:
		c.fail(place, written, "without not_null: true a null of the source cannot be told from one of an older row")
	case !ok:
		c.fail(place, written, "not a value of %s, such as %s", col.Type, examples[col.Type.Kind])
	default:
		*col.Default = canonical
	}
}
