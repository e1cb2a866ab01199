// Package canonarrow is the one mapping between Arrow values and canonical
// texts (package internal/canon): what a lake writer builds columns from, and
// what a lake reader compares.
//
// In comes a value of an Arrow column and its Iceberg type; out comes its
// canonical text, and the other way round. Both directions are exact: a text
// that Append wrote builds the same value again. The only values without a
// text of their own are minus zero, which is zero, and the payloads of NaN.
//
// A column has the Arrow type that iceberg-go gives its Iceberg type; large
// offsets and bare storage of uuid are read as well. Texts that are not
// canonical are refused, not repaired: that is what package canon is for.
package canonarrow

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"

	"icehose/catalog"
)

// Append appends the canonical text of value i of a column of type t. Null has
// no text: asking for one is an error.
func Append(dst []byte, col arrow.Array, i int, t catalog.Type) ([]byte, error) {
	if col.IsNull(i) {
		return dst, fmt.Errorf("read %s: null has no text", t)
	}
	switch c := col.(type) {
	case *array.Boolean:
		if t.Kind == catalog.Boolean {
			return strconv.AppendBool(dst, c.Value(i)), nil
		}
	case *array.Int32:
		if t.Kind == catalog.Int || t.Kind == catalog.Long {
			return strconv.AppendInt(dst, int64(c.Value(i)), 10), nil
		}
	case *array.Int64:
		if t.Kind == catalog.Long {
			return strconv.AppendInt(dst, c.Value(i), 10), nil
		}
	case *array.Float32:
		if t.Kind == catalog.Float {
			return appendFloat(dst, float64(c.Value(i)), 32), nil
		}
	case *array.Float64:
		if t.Kind == catalog.Double {
			return appendFloat(dst, c.Value(i), 64), nil
		}
	case *array.Decimal128:
		if d, ok := c.DataType().(*arrow.Decimal128Type); ok && t.Kind == catalog.Decimal && int(d.Scale) == t.Scale {
			return appendDecimal(dst, c.Value(i), t.Scale), nil
		}
	case *array.Date32, *array.Time64, *array.Timestamp:
		return appendTemporal(dst, col, i, t)
	case *array.String:
		if t.Kind == catalog.String {
			return append(dst, c.Value(i)...), nil
		}
	case *array.LargeString:
		if t.Kind == catalog.String {
			return append(dst, c.Value(i)...), nil
		}
	default:
		return appendBytes(dst, col, i, t)
	}
	return dst, mismatch(col, t)
}

func mismatch(col arrow.Array, t catalog.Type) error {
	return fmt.Errorf("read %s: Arrow column is %s", t, col.DataType())
}

// appendBytes handles the columns whose values are plain bytes.
func appendBytes(dst []byte, col arrow.Array, i int, t catalog.Type) ([]byte, error) {
	switch c := col.(type) {
	case *array.Binary:
		if t.Kind == catalog.Binary {
			return hex.AppendEncode(dst, c.Value(i)), nil
		}
	case *array.LargeBinary:
		if t.Kind == catalog.Binary {
			return hex.AppendEncode(dst, c.Value(i)), nil
		}
	case *array.FixedSizeBinary:
		v := c.Value(i)
		switch {
		case t.Kind == catalog.Fixed && len(v) == t.Length:
			return hex.AppendEncode(dst, v), nil
		case t.Kind == catalog.UUID && len(v) == 16:
			return appendUUID(dst, v), nil
		}
	case *extensions.UUIDArray:
		if t.Kind == catalog.UUID {
			v := c.Value(i)
			return appendUUID(dst, v[:]), nil
		}
	}
	return dst, mismatch(col, t)
}

func appendUUID(dst, v []byte) []byte {
	for n, part := range [...][]byte{v[:4], v[4:6], v[6:8], v[8:10], v[10:]} {
		if n > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return dst
}

func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case f == 0:
		return append(dst, '0')
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, bits) // NaN included
}

// AppendToBuilder appends the value of type t whose canonical text is given;
// nil stands for null. The error says that the text is not canonical or that
// the builder is not one for t; nothing was appended then.
func AppendToBuilder(b array.Builder, t catalog.Type, text []byte) error {
	if text == nil {
		b.AppendNull()
		return nil
	}
	ok := false
	switch b := b.(type) {
	case *array.BooleanBuilder:
		value := string(text) == "true"
		if ok = t.Kind == catalog.Boolean && (value || string(text) == "false"); ok {
			b.Append(value)
		}
	case *array.Int32Builder:
		var n int64
		if n, ok = parseInt(text, 32); ok && t.Kind == catalog.Int {
			b.Append(int32(n))
		}
		ok = ok && t.Kind == catalog.Int
	case *array.Int64Builder:
		var n int64
		if n, ok = parseInt(text, 64); ok && t.Kind == catalog.Long {
			b.Append(n)
		}
		ok = ok && t.Kind == catalog.Long
	case *array.Float32Builder:
		f, err := strconv.ParseFloat(string(text), 32)
		if ok = err == nil && t.Kind == catalog.Float && (f != 0 || string(text) == "0"); ok {
			b.Append(float32(f))
		}
	case *array.Float64Builder:
		f, err := strconv.ParseFloat(string(text), 64)
		if ok = err == nil && t.Kind == catalog.Double && (f != 0 || string(text) == "0"); ok {
			b.Append(f)
		}
	case *array.StringBuilder:
		if ok = t.Kind == catalog.String && utf8.Valid(text); ok {
			b.BinaryBuilder.Append(text)
		}
	case *array.LargeStringBuilder:
		if ok = t.Kind == catalog.String && utf8.Valid(text); ok {
			b.BinaryBuilder.Append(text)
		}
	case *array.Decimal128Builder, *array.Date32Builder, *array.Time64Builder, *array.TimestampBuilder:
		ok = buildNumeric(b, t, text)
	default:
		ok = buildBytes(b, t, text)
	}
	if !ok {
		return fmt.Errorf("build %s: no canonical text, or builder of %s", t, b.Type())
	}
	return nil
}

func buildNumeric(b array.Builder, t catalog.Type, text []byte) bool {
	switch b := b.(type) {
	case *array.Decimal128Builder:
		d, isDecimal := b.Type().(*arrow.Decimal128Type)
		n, ok := parseDecimal(text, t.Precision, t.Scale)
		if ok = ok && isDecimal && t.Kind == catalog.Decimal && int(d.Scale) == t.Scale; ok {
			b.Append(n)
		}
		return ok
	case *array.Date32Builder:
		days, ok := parseDate(text)
		if ok = ok && t.Kind == catalog.Date; ok {
			b.Append(arrow.Date32(days))
		}
		return ok
	case *array.Time64Builder:
		micros, ok := parseClock(text)
		if ok = ok && t.Kind == catalog.Time; ok {
			b.Append(arrow.Time64(micros))
		}
		return ok
	case *array.TimestampBuilder:
		micros, ok := parseTimestamp(text, t.Kind == catalog.TimestampTZ)
		if ok = ok && (t.Kind == catalog.Timestamp || t.Kind == catalog.TimestampTZ); ok {
			b.Append(arrow.Timestamp(micros))
		}
		return ok
	}
	return false
}

// buildBytes decodes into the stack for the usual sizes.
func buildBytes(b array.Builder, t catalog.Type, text []byte) bool {
	var room [64]byte
	switch b := b.(type) {
	case *array.BinaryBuilder:
		v, ok := unhex(room[:0], text)
		if ok = ok && t.Kind == catalog.Binary; ok {
			b.Append(v)
		}
		return ok
	case *array.FixedSizeBinaryBuilder:
		width, isFixed := b.Type().(*arrow.FixedSizeBinaryType)
		v, ok := unhex(room[:0], text)
		if ok = ok && isFixed && t.Kind == catalog.Fixed && len(v) == t.Length && width.ByteWidth == t.Length; ok {
			b.Append(v)
		}
		return ok
	case *extensions.UUIDBuilder:
		v, ok := parseUUID(text)
		if ok = ok && t.Kind == catalog.UUID; ok {
			b.AppendBytes(v)
		}
		return ok
	}
	return false
}

func parseUUID(text []byte) (v [16]byte, ok bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return v, false
	}
	out := v[:0]
	for _, part := range [...][]byte{text[:8], text[9:13], text[14:18], text[19:23], text[24:]} {
		if out, ok = unhex(out, part); !ok {
			return v, false
		}
	}
	return v, true
}

// unhex appends what lower-case hexadecimal stands for.
func unhex(dst, text []byte) ([]byte, bool) {
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return dst, false
		}
	}
	out, err := hex.AppendDecode(dst, text)
	return out, err == nil
}
