package canonarrow_test

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"pgregory.net/rapid"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/internal/canon/canonarrow"
)

// arrowType is the type that iceberg-go gives a column.
func arrowType(t catalog.Type) arrow.DataType {
	switch t.Kind {
	case catalog.Boolean:
		return arrow.FixedWidthTypes.Boolean
	case catalog.Int:
		return arrow.PrimitiveTypes.Int32
	case catalog.Long:
		return arrow.PrimitiveTypes.Int64
	case catalog.Float:
		return arrow.PrimitiveTypes.Float32
	case catalog.Double:
		return arrow.PrimitiveTypes.Float64
	case catalog.Decimal:
		return &arrow.Decimal128Type{Precision: int32(t.Precision), Scale: int32(t.Scale)}
	case catalog.Date:
		return arrow.FixedWidthTypes.Date32
	case catalog.Time:
		return arrow.FixedWidthTypes.Time64us
	case catalog.Timestamp:
		return &arrow.TimestampType{Unit: arrow.Microsecond}
	case catalog.TimestampTZ:
		return arrow.FixedWidthTypes.Timestamp_us
	case catalog.String:
		return arrow.BinaryTypes.String
	case catalog.UUID:
		return extensions.NewUUIDType()
	case catalog.Fixed:
		return &arrow.FixedSizeBinaryType{ByteWidth: t.Length}
	case catalog.Binary:
		return arrow.BinaryTypes.Binary
	}
	panic("no such type")
}

// build returns a column of one value.
func build(t catalog.Type, text []byte) (arrow.Array, error) {
	b := array.NewBuilder(memory.DefaultAllocator, arrowType(t))
	if err := canonarrow.AppendToBuilder(b, t, text); err != nil {
		if b.Len() != 0 {
			return nil, fmt.Errorf("refused, but appended: %w", err)
		}
		return nil, err
	}
	return b.NewArray(), nil
}

func decimalOf(precision, scale int) catalog.Type {
	return catalog.Type{Kind: catalog.Decimal, Precision: precision, Scale: scale}
}

// source draws a text of the type, canonical or not, that canon accepts.
func source(typ catalog.Type) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		switch typ.Kind {
		case catalog.Boolean:
			return rapid.SampledFrom([]string{"true", "false"}).Draw(t, "v")
		case catalog.Int:
			return fmt.Sprint(rapid.OneOf(rapid.Int32(), rapid.SampledFrom([]int32{math.MinInt32, -1, 0, 1, math.MaxInt32})).Draw(t, "v"))
		case catalog.Long:
			return fmt.Sprint(rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, math.MaxInt64})).Draw(t, "v"))
		case catalog.Float:
			return fmt.Sprint(rapid.OneOf(rapid.Float32(),
				rapid.SampledFrom([]float32{0, math.SmallestNonzeroFloat32, math.MaxFloat32, 1e21, float32(math.Inf(-1))})).Draw(t, "v"))
		case catalog.Double:
			return fmt.Sprint(rapid.OneOf(rapid.Float64(),
				rapid.SampledFrom([]float64{0, math.SmallestNonzeroFloat64, math.MaxFloat64, 1e21, math.Inf(1), math.NaN()})).Draw(t, "v"))
		case catalog.Decimal:
			digits := rapid.StringOfN(rapid.SampledFrom([]rune("09123")), typ.Precision, typ.Precision, -1).Draw(t, "digits")
			whole := digits[:typ.Precision-typ.Scale]
			return rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign") + whole + strings.TrimSuffix("."+digits[len(whole):], ".")
		case catalog.Date, catalog.Timestamp, catalog.TimestampTZ:
			first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC).UnixMicro()
			at := time.UnixMicro(rapid.OneOf(rapid.Int64Range(first, last), rapid.SampledFrom([]int64{first, -1, 0, last})).Draw(t, "v")).UTC()
			if typ.Kind == catalog.Date {
				return at.Format(time.DateOnly)
			}
			return at.Format("2006-01-02T15:04:05.000000")
		case catalog.Time:
			micros := rapid.OneOf(rapid.Int64Range(0, 86_399_999_999), rapid.SampledFrom([]int64{0, 86_399_999_999})).Draw(t, "v")
			return time.UnixMicro(micros).UTC().Format("15:04:05.000000")
		case catalog.String:
			return rapid.String().Draw(t, "v")
		case catalog.UUID:
			return fmt.Sprintf("%x", rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "v"))
		case catalog.Fixed:
			return fmt.Sprintf("%x", rapid.SliceOfN(rapid.Byte(), typ.Length, typ.Length).Draw(t, "v"))
		case catalog.Binary:
			return fmt.Sprintf("%x", rapid.SliceOf(rapid.Byte()).Draw(t, "v"))
		}
		panic("no such type")
	})
}

// TestRoundTrip: the canonical text of any value builds a value whose text it is.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	types := []catalog.Type{
		{Kind: catalog.Boolean},
		{Kind: catalog.Int},
		{Kind: catalog.Long},
		{Kind: catalog.Float},
		{Kind: catalog.Double},
		decimalOf(1, 0), decimalOf(1, 1),
		decimalOf(12, 2), decimalOf(19, 0), decimalOf(20, 19), decimalOf(38, 0), decimalOf(38, 10), decimalOf(38, 38),
		{Kind: catalog.Date},
		{Kind: catalog.Time},
		{Kind: catalog.Timestamp},
		{Kind: catalog.TimestampTZ},
		{Kind: catalog.String},
		{Kind: catalog.UUID},
		{Kind: catalog.Fixed, Length: 1},
		{Kind: catalog.Fixed, Length: 100},
		{Kind: catalog.Binary},
	}
	for _, typ := range types {
		t.Run(typ.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				in := source(typ).Draw(t, "text")
				text, err := canon.Append([]byte{}, &catalog.Column{Type: typ}, canon.Delivered, []byte(in))
				if err != nil {
					t.Fatalf("%q is no value: %v", in, err)
				}
				col, err := build(typ, text)
				if err != nil {
					t.Fatal(err)
				}
				back, err := canonarrow.Append([]byte("before "), col, 0, typ)
				if err != nil || string(back) != "before "+string(text) {
					t.Fatalf("%q came back as %q: %v", text, back, err)
				}
			})
		})
	}
}

// TestDecimal compares with math/big.
func TestDecimal(t *testing.T) {
	t.Parallel()
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(38), nil)
	rapid.Check(t, func(t *rapid.T) {
		scale := rapid.IntRange(0, 38).Draw(t, "scale")
		n, _ := new(big.Int).SetString(rapid.StringMatching(`-?[0-9]{1,38}`).Draw(t, "n"), 10)
		if n.CmpAbs(limit) >= 0 {
			t.Fatal("generator broken")
		}
		b := array.NewDecimal128Builder(memory.DefaultAllocator, &arrow.Decimal128Type{Precision: 38, Scale: int32(scale)})
		b.Append(decimal128.FromBigInt(n))
		got, err := canonarrow.Append(nil, b.NewArray(), 0, decimalOf(38, scale))
		if err != nil {
			t.Fatal(err)
		}
		digits := fmt.Sprintf("%0*s", scale+1, new(big.Int).Abs(n).String())
		want := digits[:len(digits)-scale]
		if scale > 0 {
			want += "." + digits[len(digits)-scale:]
		}
		if n.Sign() < 0 {
			want = "-" + want
		}
		if string(got) != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

// TestEveryDay walks the calendar with package time.
func TestEveryDay(t *testing.T) {
	t.Parallel()
	typ := catalog.Type{Kind: catalog.Date}
	b := array.NewDate32Builder(memory.DefaultAllocator)
	day := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	n := int32(day.Unix() / 86_400)
	for ; day.Year() < 10_000; day = day.AddDate(0, 0, 1) {
		want := day.AppendFormat(nil, time.DateOnly)
		if err := canonarrow.AppendToBuilder(b, typ, want); err != nil {
			t.Fatal(err)
		}
		if got := b.Value(b.Len() - 1); int32(got) != n {
			t.Fatalf("%s is day %d, want %d", want, got, n)
		}
		n++
	}
	days := b.NewDate32Array()
	if _, err := canonarrow.Append(nil, days, 0, typ); err != nil {
		t.Fatal(err)
	}
	var text []byte
	day = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range days.Len() {
		var err error
		if text, err = canonarrow.Append(text[:0], days, i, typ); err != nil || string(text) != day.Format(time.DateOnly) {
			t.Fatalf("day %d is %s, want %s: %v", days.Value(i), text, day.Format(time.DateOnly), err)
		}
		day = day.AddDate(0, 0, 1)
	}
}

func TestBuildRefusesWhatIsNotCanonical(t *testing.T) {
	t.Parallel()
	for typ, list := range map[catalog.Type][]string{
		{Kind: catalog.Boolean}: {"", "TRUE", "1", "t"},
		{Kind: catalog.Int}:     {"", "-", "+1", "01", "-0", "1.0", "2147483648", "-2147483649", " 1", "1e3"},
		{Kind: catalog.Long}:    {"", "+1", "00", "9223372036854775808", "-9223372036854775809"},
		{Kind: catalog.Float}:   {"", "-0", "0.0", "x", "1e39"},
		{Kind: catalog.Double}:  {"", "-0", "0.0", "x", "1e309"},
		decimalOf(4, 2):         {"", "1", "1.2", "1.234", "123.45", "-0.00", "01.00", ".10", "1,00", "1.0x", "--1.00"},
		decimalOf(3, 0):         {"1234", "1.", "-0", "00", "-"},
		decimalOf(38, 0):        {strings.Repeat("9", 39), strings.Repeat("9", 60)},
		{Kind: catalog.Date}:    {"", "2026-02-29", "2026-13-01", "2026-00-01", "2026-01-00", "0000-01-01", "2026-1-1", "2026-04-31", "2026/01/01", "10000-01-01"},
		{Kind: catalog.Time}:    {"", "24:00:00.000000", "12:60:00.000000", "12:00:60.000000", "12:00:00", "12:00:00.000", "12:00:00.0000000"},
		{Kind: catalog.Timestamp}: {
			"", "2026-01-01T00:00:00.000000Z", "2026-01-01 00:00:00.000000", "2026-01-01T00:00:00", "2026-02-30T00:00:00.000000",
		},
		{Kind: catalog.TimestampTZ}:       {"", "2026-01-01T00:00:00.000000", "2026-01-01T00:00:00.000000+", "2026-01-01T25:00:00.000000Z"},
		{Kind: catalog.String}:            {"\xff", "\xed\xa0\x80"},
		{Kind: catalog.UUID}:              {"", "00112233445566778899aabbccddeeff", "00112233-4455-6677-8899-AABBCCDDEEFF", "00112233-4455-6677-8899-aabbccddeef"},
		{Kind: catalog.Fixed, Length: 2}:  {"", "00", "000000", "00FF", "zzzz"},
		{Kind: catalog.Binary}:            {"0", "0x00", "FF", "gg"},
		{Kind: catalog.TypeKind(0)}:       nil,
		{Kind: catalog.Fixed, Length: 80}: {strings.Repeat("0", 161)},
	} {
		for _, text := range list {
			if col, err := build(typ, []byte(text)); err == nil {
				t.Errorf("%s: %q is taken for %v", typ, text, col)
			} else if b := err.Error(); strings.Contains(b, "appended") || text != "" && len(text) > 3 && strings.Contains(b, text) {
				t.Errorf("%s: error %q", typ, b)
			}
		}
	}
}

func TestNulls(t *testing.T) {
	t.Parallel()
	typ := catalog.Type{Kind: catalog.String}
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for _, text := range [][]byte{nil, {}} {
		if err := canonarrow.AppendToBuilder(b, typ, text); err != nil {
			t.Fatal(err)
		}
	}
	col := b.NewArray()
	if !col.IsNull(0) || col.IsNull(1) {
		t.Fatal("null and empty are confused")
	}
	if _, err := canonarrow.Append(nil, col, 0, typ); err == nil {
		t.Fatal("null has a text")
	}
}

// TestMismatch: a column of another type is an error, whatever its value.
func TestMismatch(t *testing.T) {
	t.Parallel()
	texts := map[catalog.Type]string{
		{Kind: catalog.Boolean}: "true", {Kind: catalog.Int}: "1", {Kind: catalog.Long}: "1", {Kind: catalog.Float}: "1", {Kind: catalog.Double}: "1",
		decimalOf(5, 2): "1.00", decimalOf(5, 1): "1.0", {Kind: catalog.Date}: "2026-01-01", {Kind: catalog.Time}: "00:00:00.000000",
		{Kind: catalog.String}: "1", {Kind: catalog.UUID}: "00112233-4455-6677-8899-aabbccddeeff", {Kind: catalog.Fixed, Length: 2}: "0000",
		{Kind: catalog.Fixed, Length: 3}: "000000", {Kind: catalog.Binary}: "00", {Kind: catalog.Timestamp}: "2026-01-01T00:00:00.000000",
	}
	for typ, text := range texts {
		col, err := build(typ, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for other := range texts {
			_, err := canonarrow.Append(nil, col, 0, other)
			widened := typ.Kind == catalog.Int && other.Kind == catalog.Long
			if (err == nil) != (typ == other || widened) {
				t.Errorf("%s read as %s: %v", typ, other, err)
			}
			b := array.NewBuilder(memory.DefaultAllocator, arrowType(other))
			if err := canonarrow.AppendToBuilder(b, typ, []byte(text)); (err == nil) != (typ == other) {
				t.Errorf("%s built as %s: %v", typ, other, err)
			}
		}
	}
}

func TestOutOfRangeHasNoText(t *testing.T) {
	t.Parallel()
	dates := array.NewDate32Builder(memory.DefaultAllocator)
	dates.AppendValues([]arrow.Date32{-719_163, 2_932_897, math.MinInt32, math.MaxInt32}, nil)
	times := array.NewTime64Builder(memory.DefaultAllocator, &arrow.Time64Type{Unit: arrow.Microsecond})
	times.AppendValues([]arrow.Time64{-1, 86_400_000_000}, nil)
	stamps := array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Microsecond})
	stamps.AppendValues([]arrow.Timestamp{math.MinInt64, math.MaxInt64, -719_162*86_400_000_000 - 1, 2_932_897 * 86_400_000_000}, nil)
	for kind, b := range map[catalog.TypeKind]array.Builder{catalog.Date: dates, catalog.Time: times, catalog.Timestamp: stamps} {
		col := b.NewArray()
		for i := range col.Len() {
			if text, err := canonarrow.Append(nil, col, i, catalog.Type{Kind: kind}); err == nil {
				t.Errorf("%s %d is %s", kind, i, text)
			}
		}
	}
}

// TestOtherArrowForms: what other readers may hand over for the same types.
func TestOtherArrowForms(t *testing.T) {
	t.Parallel()
	large := array.NewLargeStringBuilder(memory.DefaultAllocator)
	large.Append("x")
	blob := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.LargeBinary)
	blob.Append([]byte{1})
	bare := array.NewFixedSizeBinaryBuilder(memory.DefaultAllocator, &arrow.FixedSizeBinaryType{ByteWidth: 16})
	bare.Append(make([]byte, 16))
	minusZero := array.NewFloat64Builder(memory.DefaultAllocator)
	minusZero.Append(math.Copysign(0, -1))
	for _, test := range []struct {
		b    array.Builder
		kind catalog.TypeKind
		want string
	}{
		{large, catalog.String, "x"},
		{blob, catalog.Binary, "01"},
		{bare, catalog.UUID, "00000000-0000-0000-0000-000000000000"},
		{minusZero, catalog.Double, "0"},
	} {
		got, err := canonarrow.Append(nil, test.b.NewArray(), 0, catalog.Type{Kind: test.kind})
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %q, %v", test.kind, got, err)
		}
	}
}
