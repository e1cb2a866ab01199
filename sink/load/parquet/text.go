package parquet

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"icehose/catalog"
)

// A shape is what of a type of the file matters to whether it fits a column.
type shape uint8

const (
	unread shape = iota // it is not read
	bytes               // of any length, maybe text
	fixed               // bytes of one length
	uuid
	text
	other // its text is checked as it is read
)

// shapeOf must know every type that appendText does.
func shapeOf(typ arrow.DataType, logical schema.LogicalType) shape {
	switch typ.ID() { //nolint:exhaustive // arrow's types are many, and what is not read is refused
	case arrow.DICTIONARY:
		if d, ok := typ.(*arrow.DictionaryType); ok {
			return shapeOf(d.ValueType, logical)
		}
	case arrow.EXTENSION:
		switch typ.(type) {
		case *extensions.UUIDType:
			return uuid
		case *extensions.JSONType:
			return text
		}
	case arrow.BINARY, arrow.LARGE_BINARY:
		switch logical.(type) { // both are UTF-8 by the format's specification
		case schema.EnumLogicalType, schema.JSONLogicalType:
			return text
		}
		return bytes
	case arrow.FIXED_SIZE_BINARY:
		return fixed
	case arrow.STRING, arrow.LARGE_STRING:
		return text
	case arrow.NULL, arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64,
		arrow.DECIMAL32, arrow.DECIMAL64, arrow.DECIMAL128, arrow.DECIMAL256, arrow.FLOAT32, arrow.FLOAT64,
		arrow.DATE32, arrow.DATE64, arrow.TIME32, arrow.TIME64, arrow.TIMESTAMP:
		return other
	}
	return unread
}

// fit refuses a type of the file whose values would become others in column c:
// the texts of bytes are hexadecimal digits, which are a text and a number too.
// asText says that bytes are to be taken for text.
func fit(c *catalog.Column, typ arrow.DataType, logical schema.LogicalType, o Options) (asText bool, err error) {
	got := shapeOf(typ, logical)
	kind := c.Type.Kind
	ofBytes := kind == catalog.Binary || kind == catalog.Fixed
	switch {
	case got == unread:
		return false, fmt.Errorf("a %s is not read", typ)
	case c.Mask == catalog.MaskNull || typ.ID() == arrow.NULL:
		return false, nil
	case got == bytes && !ofBytes && o.BinaryAsString:
		return true, nil
	case got == bytes && !ofBytes && kind != catalog.UUID:
		return false, fmt.Errorf("the file has bytes that are not marked as text, and the column is %s: give it the type binary, or take such bytes for text with --binary-as-string", &c.Type)
	case got == fixed && !ofBytes && kind != catalog.UUID:
		return false, fmt.Errorf("the file has %s, and the column is %s: give it the type binary, or one that fits", typ, &c.Type)
	case (got == text || got == uuid || got == other) && ofBytes:
		return false, fmt.Errorf("the file has %s, and the column is %s, which is read of bytes alone: write bytes, or change the column's type", typ, &c.Type)
	case got == other && kind == catalog.UUID:
		return false, fmt.Errorf("the file has %s, and the column is %s: write text, or 16 bytes", typ, &c.Type)
	}
	return got == text, nil
}

// plain returns the array and the index where a value of a column really is.
func plain(col arrow.Array, i int) (values arrow.Array, at int) {
	for {
		d, ok := col.(*array.Dictionary)
		if !ok || d.IsNull(i) {
			return col, i
		}
		col, i = d.Dictionary(), d.GetValueIndex(i)
	}
}

// appendText appends the text of a value that is not null, and in no dictionary.
func appendText(dst []byte, col arrow.Array, i int, text bool) ([]byte, error) {
	switch c := col.(type) {
	case *array.Boolean:
		return strconv.AppendBool(dst, c.Value(i)), nil
	case *array.Int8, *array.Int16, *array.Int32, *array.Int64, *array.Uint8, *array.Uint16, *array.Uint32, *array.Uint64,
		*array.Decimal32, *array.Decimal64, *array.Decimal128, *array.Decimal256:
		return append(dst, c.ValueStr(i)...), nil
	case *array.Float32:
		return strconv.AppendFloat(dst, float64(c.Value(i)), 'g', -1, 32), nil
	case *array.Float64:
		return strconv.AppendFloat(dst, c.Value(i), 'g', -1, 64), nil
	case *array.String:
		return append(dst, c.Value(i)...), nil
	case *array.LargeString:
		return append(dst, c.Value(i)...), nil
	case *array.Binary:
		return appendBytes(dst, c.Value(i), text), nil
	case *array.LargeBinary:
		return appendBytes(dst, c.Value(i), text), nil
	case *array.FixedSizeBinary:
		return hex.AppendEncode(dst, c.Value(i)), nil
	case *extensions.UUIDArray:
		return append(dst, c.Value(i).String()...), nil
	case *extensions.JSONArray:
		return appendText(dst, c.Storage(), i, text)
	}
	return appendTime(dst, col, i)
}

func appendBytes(dst, value []byte, text bool) []byte {
	if text {
		return append(dst, value...)
	}
	return hex.AppendEncode(dst, value)
}

const clock = "15:04:05.000000000"

func appendTime(dst []byte, col arrow.Array, i int) ([]byte, error) {
	switch c := col.(type) {
	case *array.Date32:
		return appendMoment(dst, c.Value(i).ToTime(), time.DateOnly), nil
	case *array.Date64:
		return appendMoment(dst, c.Value(i).ToTime(), time.DateOnly), nil
	case *array.Time32:
		if t, ok := c.DataType().(*arrow.Time32Type); ok {
			return appendClock(dst, int64(c.Value(i)), int64(time.Second/t.Unit.Multiplier())), nil
		}
	case *array.Time64:
		if t, ok := c.DataType().(*arrow.Time64Type); ok {
			return appendClock(dst, int64(c.Value(i)), int64(time.Second/t.Unit.Multiplier())), nil
		}
	case *array.Timestamp:
		if t, ok := c.DataType().(*arrow.TimestampType); ok {
			layout := "2006-01-02T" + clock
			if t.TimeZone != "" {
				layout += "Z"
			}
			return appendMoment(dst, c.Value(i).ToTime(t.Unit).UTC(), layout), nil
		}
	}
	return dst, fmt.Errorf("a %s is not read", col.DataType())
}

// appendMoment appends a time, one before the year 1 as PostgreSQL would: Go's
// own text of it is no date at all to package canon, rather than one out of range.
func appendMoment(dst []byte, t time.Time, layout string) []byte {
	if t.Year() >= 1 {
		return t.AppendFormat(dst, layout)
	}
	dst = fmt.Appendf(dst, "%04d", 1-t.Year())
	return append(t.AppendFormat(dst, layout[len("2006"):]), " BC"...)
}

// appendClock appends the time that lies so many units after midnight. One that
// is not of the day keeps its hours, for package canon to judge.
func appendClock(dst []byte, n, perSecond int64) []byte {
	rest := uint64(n) //nolint:gosec // the sign is written by itself
	if n < 0 {
		dst, rest = append(dst, '-'), -rest
	}
	unit := uint64(perSecond) //nolint:gosec // a power of ten
	seconds, fraction := rest/unit, rest%unit*(uint64(time.Second)/unit)
	return fmt.Appendf(dst, "%02d:%02d:%02d.%09d", seconds/3600, seconds/60%60, seconds%60, fraction)
}
