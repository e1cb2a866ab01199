package catalog

import (
	"encoding/hex"
	"math"
	"math/big"
	"regexp"
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
	if _, ok := n.(ast.ScalarNode); !ok {
		return &yaml.SyntaxError{Message: "want one value, not a list or a mapping", Token: n.GetToken()}
	}
	*l = Literal(n.GetToken().Value)
	return nil
}

var (
	plainDecimal = regexp.MustCompile(`^[-+]?[0-9]+(\.[0-9]+)?$`)
	plainUUID    = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	plainClock   = regexp.MustCompile(`(^|[T ])[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[-+][0-9]{2}:[0-9]{2})?$`)
)

// canonical returns the canonical text, that of internal/canon, of the value of
// a column that the literal stands for; ok is false when it stands for none.
func (l Literal) canonical(c *Column) (text Literal, ok bool) {
	s := string(l)
	switch c.Type.Kind {
	case Boolean:
		b, err := strconv.ParseBool(s)
		return Literal(strconv.FormatBool(b)), err == nil
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
		return canonicalTime(s, "2006-01-02", "2006-01-02")
	case Time:
		return canonicalTime(s, "15:04:05.000000", "15:04:05")
	case Timestamp:
		return canonicalTime(s, "2006-01-02T15:04:05.000000", "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04:05Z", "2006-01-02")
	case TimestampTZ:
		return canonicalTime(s, "2006-01-02T15:04:05.000000Z", "2006-01-02T15:04:05Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02")
	case String:
		if PaddedChar(c.SourceType) {
			s = strings.TrimRight(s, " ")
		}
		return Literal(s), utf8.ValidString(s)
	case UUID:
		s = strings.ToLower(s)
		return Literal(s), plainUUID.MatchString(s)
	case Fixed, Binary:
		bytes, err := hex.DecodeString(strings.TrimPrefix(s, "0x"))
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

// canonicalTime reads a time in one of the layouts, to the microsecond, and
// renders it in UTC.
func canonicalTime(s, canonical string, layouts ...string) (Literal, bool) {
	for _, layout := range layouts {
		t, err := time.Parse(layout, s)
		if err != nil || strings.Contains(layout, ":") && !plainClock.MatchString(s) {
			continue
		}
		if t = t.UTC(); !strings.Contains(canonical, "2006") || t.Year() >= 1 && t.Year() <= 9999 {
			return Literal(t.Format(canonical)), true
		}
	}
	return "", false
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
		c.fail(place, written, "not a value of %s", col.Type)
	default:
		*col.Default = canonical
	}
}
