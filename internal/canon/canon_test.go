package canon_test

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"icehose/catalog"
	"icehose/internal/canon"
)

func column(t testing.TB, typ string, losses ...catalog.Loss) *catalog.Column {
	parsed, err := catalog.ParseType(typ)
	if err != nil {
		t.Fatal(err)
	}
	return &catalog.Column{Name: "c", Type: parsed, AllowLossy: losses}
}

func TestAppend(t *testing.T) {
	tests := []struct {
		typ     string
		form    canon.Form
		in      string
		want    string
		problem canon.Problem
	}{
		{"boolean", canon.Record, "true", "true", ""},
		{"boolean", canon.Postgres, "f", "false", ""},
		{"boolean", canon.MySQL, "1", "true", ""},
		{"boolean", canon.Record, "2", "", canon.NotValid},
		{"boolean", canon.Record, "", "", canon.NotValid},

		{"int", canon.Record, "2147483647", "2147483647", ""},
		{"int", canon.Record, "-2147483648", "-2147483648", ""},
		{"int", canon.Record, "2147483648", "", canon.OutOfRange},
		{"int", canon.Record, "-2147483649", "", canon.OutOfRange},
		{"int", canon.Record, "-0", "0", ""},
		{"int", canon.Record, "007", "7", ""},
		{"int", canon.Record, "5.000", "5", ""},
		{"int", canon.Record, "5.5", "", canon.Inexact},
		{"int", canon.Record, "1e3", "", canon.Damaged},
		{"int", canon.Record, "", "", canon.NotValid},
		{"int", canon.Record, "-", "", canon.NotValid},
		{"int", canon.Record, "0x10", "", canon.NotValid},
		{"int", canon.Record, " 1", "", canon.NotValid},
		{"long", canon.Record, "9223372036854775807", "9223372036854775807", ""},
		{"long", canon.Record, "-9223372036854775808", "-9223372036854775808", ""},
		{"long", canon.Record, "9223372036854775808", "", canon.OutOfRange},
		{"long", canon.Record, "18446744073709551616", "", canon.OutOfRange},
		{"long", canon.Record, "99999999999999999999", "", canon.OutOfRange},
		{"long", canon.Record, "1.2345678901234567e+18", "", canon.Damaged},

		{"decimal(5,2)", canon.Record, "1.1", "1.10", ""},
		{"decimal(5,2)", canon.Record, "-0.00", "0.00", ""},
		{"decimal(5,2)", canon.Record, "999.99", "999.99", ""},
		{"decimal(5,2)", canon.Record, "1000", "", canon.OutOfRange},
		{"decimal(5,2)", canon.Record, "0.001", "", canon.Inexact},
		{"decimal(5,2)", canon.Record, "0.010", "0.01", ""},
		{"decimal(5,2)", canon.Record, "1e2", "100.00", ""},
		{"decimal(5,2)", canon.Record, "5e-02", "0.05", ""},
		{"decimal(5,2)", canon.Record, "1E-130", "", canon.Inexact},
		{"decimal(5,2)", canon.Record, "0E-130", "0.00", ""},
		{"decimal(5,2)", canon.Record, "1e999999999999", "", canon.OutOfRange},
		{"decimal(20,2)", canon.Record, "1.2e+10", "", canon.Damaged},
		{"decimal(20,2)", canon.Postgres, "1.2e+10", "12000000000.00", ""},
		{"decimal(5,2)", canon.Postgres, "NaN", "", canon.OutOfRange},
		{"decimal(5,2)", canon.Postgres, "Infinity", "", canon.OutOfRange},
		{"decimal(5,2)", canon.Record, "12,5", "", canon.NotValid},
		{"decimal(5,2)", canon.Record, ".", "", canon.NotValid},
		{"decimal(5,2)", canon.Record, ".5", "0.50", ""},
		{"decimal(38,0)", canon.Record, strings.Repeat("9", 38), strings.Repeat("9", 38), ""},
		{"decimal(38,38)", canon.Record, "0." + strings.Repeat("9", 38), "0." + strings.Repeat("9", 38), ""},
		{"decimal(38,0)", canon.Record, "1" + strings.Repeat("0", 38), "", canon.OutOfRange},

		{"double", canon.Record, "1.10", "1.1", ""},
		{"double", canon.Record, "-0", "0", ""},
		{"double", canon.Record, "1e400", "", canon.OutOfRange},
		{"double", canon.Record, "1e-400", "", canon.Inexact},
		{"double", canon.Record, "0e-400", "0", ""},
		{"double", canon.Postgres, "NaN", "NaN", ""},
		{"double", canon.Postgres, "-Infinity", "-Infinity", ""},
		{"double", canon.Record, "0x1p3", "", canon.NotValid},
		{"double", canon.Record, "1_000", "", canon.NotValid},
		{"float", canon.Record, "2.20000005", "2.2", ""},
		{"float", canon.Postgres, "2.2", "2.2", ""},
		{"float", canon.Record, "1e39", "", canon.OutOfRange},

		{"date", canon.Record, "2024-02-29", "2024-02-29", ""},
		{"date", canon.Record, "2023-02-29", "", canon.NotValid},
		{"date", canon.Record, "1932-10-26T00:00:00Z", "1932-10-26", ""},
		{"date", canon.Record, "1932-10-26T00:00:01Z", "", canon.Inexact},
		{"date", canon.MySQL, "0000-00-00", "", canon.OutOfRange},
		{"date", canon.MySQL, "2024-00-10", "", canon.OutOfRange},
		{"date", canon.MySQL, "2024-01-00", "", canon.OutOfRange},
		{"date", canon.Postgres, "infinity", "", canon.OutOfRange},
		{"date", canon.Postgres, "0044-03-15 BC", "", canon.OutOfRange},
		{"date", canon.Postgres, "10000-01-01", "", canon.OutOfRange},
		{"date", canon.Record, "2024-13-01", "", canon.NotValid},
		{"date", canon.Record, "2024-1-1", "", canon.NotValid},

		{"time", canon.Record, "18:56:15.096", "18:56:15.096000", ""},
		{"time", canon.Postgres, "24:00:00", "", canon.OutOfRange},
		{"time", canon.Record, "12:00:00.1234567", "", canon.Inexact},
		{"time", canon.Record, "12:00", "", canon.NotValid},
		{"time", canon.MySQL, "-01:00:00", "", canon.OutOfRange},
		{"time", canon.MySQL, "-00:00:00.000001", "", canon.OutOfRange},
		{"time", canon.Record, "838:59:59", "", canon.OutOfRange},
		{"time", canon.Record, "-838:59:59.000000", "", canon.OutOfRange},
		{"time", canon.Record, "25:00:00", "", canon.OutOfRange},
		{"time", canon.Record, "0024:00:00", "", canon.OutOfRange},
		{"time", canon.Record, "-00:00:00", "", canon.NotValid},
		{"time", canon.Record, "012:00:00", "", canon.NotValid},
		{"time", canon.Record, "838:60:59", "", canon.NotValid},
		{"time", canon.Record, "838:59:60", "", canon.NotValid},
		{"time", canon.Record, "838:59:59.", "", canon.NotValid},
		{"time", canon.Record, "838:59:59Z", "", canon.NotValid},
		{"time", canon.Record, "838:59", "", canon.NotValid},
		{"time", canon.Record, "-:59:59", "", canon.NotValid},
		{"time", canon.Record, "--1:59:59", "", canon.NotValid},
		{"timestamp", canon.Record, "2010-11-01T25:00:00", "", canon.NotValid},
		{"time", canon.Postgres, "12:00:00+02", "", canon.NotValid},
		{"timestamp", canon.Record, "2024-02-29T24:00:00Z", "", canon.OutOfRange},

		{"timestamp", canon.Record, "2010-11-01T00:02:00.1Z", "2010-11-01T00:02:00.100000", ""},
		{"timestamp", canon.Postgres, "2010-11-01 00:02:00", "2010-11-01T00:02:00.000000", ""},
		{"timestamp", canon.Record, "2010-11-01T00:02:00+02", "", canon.NotValid},
		{"timestamp", canon.Record, "2022-09-01T18:21:36.915241000Z", "2022-09-01T18:21:36.915241", ""},
		{"timestamp", canon.Record, "2022-09-01T18:21:36.915241001Z", "", canon.Inexact},
		{"timestamp", canon.MySQL, "0000-00-00 00:00:00", "", canon.OutOfRange},
		{"timestamp", canon.Record, "2016-12-31T23:59:60Z", "", canon.OutOfRange},
		{"timestamp", canon.Record, "2016-12-31X23:59:00Z", "", canon.NotValid},
		{"timestamptz", canon.Postgres, "2024-03-10 03:30:00.5-07", "2024-03-10T10:30:00.500000Z", ""},
		{"timestamptz", canon.Postgres, "2024-12-31 23:30:00+05:30", "2024-12-31T18:00:00.000000Z", ""},
		{"timestamptz", canon.Postgres, "0001-01-01 00:00:00+15:59:59", "", canon.OutOfRange},
		{"timestamptz", canon.Record, "2024-03-10T03:30:00", "2024-03-10T03:30:00.000000Z", ""},
		{"timestamptz", canon.Record, "2024-03-10T03:30:00+1", "", canon.NotValid},
		{"timestamptz", canon.Record, "2024-03-10T03:30:00+01:75", "", canon.NotValid},

		{"string", canon.Record, "caf\u00e9 \U0001f600\x00", "caf\u00e9 \U0001f600\x00", ""},
		{"string", canon.Record, "", "", ""},
		{"string", canon.Record, "a\xff", "", canon.BadUnicode},
		{"uuid", canon.Record, "21C5521C-0000-4000-8000-0123456789AB", "21c5521c-0000-4000-8000-0123456789ab", ""},
		{"uuid", canon.Record, "21c5521c00004000800001234567 89ab", "", canon.NotValid},
		{"uuid", canon.Record, "21c5521c0000400080000123456789ab", "21c5521c-0000-4000-8000-0123456789ab", ""},
		{"uuid", canon.Record, "21c5521c-0000-4000-8000-0123456789a", "", canon.NotValid},
		{"uuid", canon.Record, "21c5-521c-0000-4000-8000-0123456789a", "", canon.NotValid},
		{"uuid", canon.Record, "21c5521c0000400080000123456789a", "", canon.NotValid},
		{"uuid", canon.Record, "21c5521c0000400080000123456789abc", "", canon.NotValid},
		{"uuid", canon.Record, "", "", canon.NotValid},
		{"binary", canon.Record, "0xDEADBEEF", "deadbeef", ""},
		{"binary", canon.Record, "deadbeef", "deadbeef", ""},
		{"binary", canon.Postgres, `\xdead`, "dead", ""},
		{"binary", canon.Postgres, "dead", "", canon.NotValid},
		{"binary", canon.Delivered, "0xdead", "", canon.NotValid},
		{"binary", canon.Record, "abc", "", canon.NotValid},
		{"binary", canon.Record, "", "", ""},
		{"fixed[2]", canon.Record, "dead", "dead", ""},
		{"fixed[2]", canon.Record, "deadbe", "", canon.OutOfRange},
	}
	for _, tt := range tests {
		got, err := canon.Append([]byte("x"), column(t, tt.typ), tt.form, []byte(tt.in))
		var problem *canon.ValueError
		if errors.As(err, &problem) != (tt.problem != "") || problem != nil && problem.Problem != tt.problem {
			t.Errorf("%s of %q: got %v, want problem %q", tt.typ, tt.in, err, tt.problem)
			continue
		}
		if tt.problem == "" && string(got) != "x"+tt.want {
			t.Errorf("%s of %q: got %q, want %q", tt.typ, tt.in, got[1:], tt.want)
		}
		if problem != nil && tt.in != "" && len(tt.in) > 3 && strings.Contains(err.Error(), tt.in) {
			t.Errorf("error %q holds the value", err)
		}
	}
}

func TestAllowedLosses(t *testing.T) {
	tests := []struct {
		typ, in, want string
		null          bool
		losses        []catalog.Loss
		problem       canon.Problem
	}{
		{"decimal(5,2)", "1.005", "1.01", false, []catalog.Loss{catalog.LossRound}, ""},
		{"decimal(5,2)", "-1.005", "-1.01", false, []catalog.Loss{catalog.LossRound}, ""},
		{"decimal(5,2)", "0.004", "0.00", false, []catalog.Loss{catalog.LossRound}, ""},
		{"decimal(5,2)", "9.995", "10.00", false, []catalog.Loss{catalog.LossRound}, ""},
		{"decimal(3,2)", "9.995", "", false, []catalog.Loss{catalog.LossRound}, canon.OutOfRange},
		{"decimal(3,2)", "9.995", "", true, []catalog.Loss{catalog.LossRound, catalog.LossNull}, ""},
		{"timestamp", "1999-12-31T23:59:59.9999995", "2000-01-01T00:00:00.000000", false, []catalog.Loss{catalog.LossRound}, ""},
		{"time", "23:59:59.9999999", "", false, []catalog.Loss{catalog.LossRound}, canon.OutOfRange},
		{"date", "infinity", "", true, []catalog.Loss{catalog.LossNull}, ""},
		{"time", "838:59:59", "", true, []catalog.Loss{catalog.LossNull}, ""},
		{"time", "-01:00:00", "", true, []catalog.Loss{catalog.LossNull}, ""},
		{"long", "1e18", "", false, []catalog.Loss{catalog.LossNull, catalog.LossRound}, canon.Damaged},
		{"int", "abc", "", false, []catalog.Loss{catalog.LossNull}, canon.NotValid},
	}
	for _, tt := range tests {
		got, null, err := canon.AppendValue(nil, column(t, tt.typ, tt.losses...), canon.Record, []byte(tt.in))
		var problem *canon.ValueError
		errors.As(err, &problem)
		if (problem != nil) != (tt.problem != "") || problem != nil && problem.Problem != tt.problem {
			t.Errorf("%s of %q: got %v, want problem %q", tt.typ, tt.in, err, tt.problem)
		}
		if err == nil && (null != tt.null || string(got) != tt.want) {
			t.Errorf("%s of %q: got %q null %v, want %q null %v", tt.typ, tt.in, got, null, tt.want, tt.null)
		}
	}
}

// Canonical text is a fixed point: reading it again changes nothing.
func TestCanonicalIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom([]string{
			"boolean", "int", "long", "float", "double", "decimal(10,3)", "decimal(38,10)", "date", "time", "timestamp", "timestamptz", "string", "uuid", "binary",
		}).Draw(t, "type")
		text := rapid.OneOf(
			rapid.StringMatching(`-?[0-9]{1,20}(\.[0-9]{1,12})?([eE][+-]?[0-9]{1,2})?`),
			rapid.StringMatching(`[0-2][0-9]{3}-[01][0-9]-[0-3][0-9]([T ][0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-][01][0-9](:[0-5][0-9])?)?)?`),
			rapid.StringMatching(`[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?`),
			rapid.StringMatching(`([0-9a-fA-F]{2}){0,20}`), rapid.String(),
		).Draw(t, "text")
		parsed, err := catalog.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		c := &catalog.Column{Name: "c", Type: parsed}
		first, err := canon.Append(nil, c, canon.Record, []byte(text))
		if err != nil {
			return
		}
		second, err := canon.Append(nil, c, canon.Delivered, first)
		if err != nil || string(second) != string(first) {
			t.Fatalf("%s: %q became %q, then %q (%v)", typ, text, first, second, err)
		}
	})
}

// The decimal code never computes with floats; math/big is the oracle.
func TestDecimalAgainstBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		precision := rapid.IntRange(1, 38).Draw(t, "precision")
		scale := rapid.IntRange(0, precision).Draw(t, "scale")
		text := rapid.StringMatching(`-?[0-9]{1,40}(\.[0-9]{1,40})?(e-?[0-9]{1,2})?`).Draw(t, "text")
		c := &catalog.Column{Name: "c", Type: catalog.Type{Kind: catalog.Decimal, Precision: precision, Scale: scale}}
		value, _ := new(big.Rat).SetString(text)
		scaled := new(big.Rat).Mul(value, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)))
		limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil)
		fits := scaled.IsInt() && new(big.Int).Abs(scaled.Num()).Cmp(limit) < 0
		got, err := canon.Append(nil, c, canon.Postgres, []byte(text))
		if (err == nil) != fits {
			t.Fatalf("%s as decimal(%d,%d): got %q %v, exact fit is %v", text, precision, scale, got, err, fits)
		}
		if fits && string(got) != value.FloatString(scale) && string(got) != strings.TrimPrefix(value.FloatString(scale), "-") {
			t.Fatalf("%s as decimal(%d,%d): got %q, want %q", text, precision, scale, got, value.FloatString(scale))
		}
		if fits && value.Sign() < 0 && got[0] != '-' {
			t.Fatalf("%s lost its sign: %q", text, got)
		}
	})
}

// Every instant that time.Time can format in the range is read exactly.
func TestTimestampAgainstTime(t *testing.T) {
	c := column(t, "timestamptz")
	rapid.Check(t, func(t *rapid.T) {
		micros := rapid.Int64Range(-62135596800_000000, 253402300799_999999).Draw(t, "micros")
		offset := 60 * rapid.IntRange(-15*60, 15*60).Draw(t, "offset")
		when := time.UnixMicro(micros).In(time.FixedZone("", offset))
		if when.Year() < 1 || when.Year() > 9999 {
			return
		}
		text := when.Format("2006-01-02 15:04:05.999999-07:00")
		got, err := canon.Append(nil, c, canon.Postgres, []byte(text))
		want := when.UTC().Format("2006-01-02T15:04:05.000000Z")
		if err != nil || string(got) != want {
			t.Fatalf("%s: got %q %v, want %q", text, got, err, want)
		}
	})
}

// However a decimal is written, its float is written as strconv does.
func TestFloatAgainstStrconv(t *testing.T) {
	for kind, bits := range map[string]int{"double": 64, "float": 32} {
		c := column(t, kind)
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,8})(\.[0-9]{1,12}|\.0{0,6}[1-9]{1,3})?`).Draw(t, "text")
			f, err := strconv.ParseFloat(text, bits)
			if err != nil {
				t.Fatal(err)
			}
			want := strconv.FormatFloat(f, 'g', -1, bits)
			if f == 0 {
				if strings.Trim(text, "-0.") != "" {
					return // refused
				}
				want = "0"
			}
			got, err := canon.Append(nil, c, canon.Record, []byte(text))
			if err != nil || string(got) != want {
				t.Fatalf("%s as %s: got %q %v, want %q", text, kind, got, err, want)
			}
		})
	}
}

func TestFloatReadsBack(t *testing.T) {
	c := column(t, "double")
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "f")
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return
		}
		for _, format := range []byte{'e', 'f', 'g'} {
			got, err := canon.Append(nil, c, canon.Record, strconv.AppendFloat(nil, f, format, -1, 64))
			if err != nil {
				t.Fatalf("%v as %c: %v", f, format, err)
			}
			if back, err := strconv.ParseFloat(string(got), 64); err != nil || back != f {
				t.Fatalf("%v as %c: %q reads back as %v", f, format, got, back)
			}
		}
	})
}

func TestPaddedCharIsTrimmed(t *testing.T) {
	for source, want := range map[string]string{"character(5)": "B", "char": "B", "bpchar": "B", "character varying(5)": "B   ", "text": "B   ", "": "B   "} {
		c := &catalog.Column{Name: "c", Type: catalog.Type{Kind: catalog.String}, SourceType: source}
		got, err := canon.Append(nil, c, canon.Record, []byte("B   "))
		if err != nil || string(got) != want {
			t.Errorf("%q: got %q %v, want %q", source, got, err, want)
		}
	}
}

// The log of MySQL has a binary(n) without the zeros at its end, a query with them.
func TestPaddedBinaryIsPadded(t *testing.T) {
	for source, want := range map[string]string{"binary(4)": "0a000000", "BINARY(2)": "0a00", "binary": "0a", "varbinary(4)": "0a", "bytea": "0a", "": "0a"} {
		for _, kind := range []catalog.Type{{Kind: catalog.Binary}, {Kind: catalog.Fixed, Length: len(want) / 2}} {
			c := &catalog.Column{Name: "c", Type: kind, SourceType: source}
			for _, form := range []canon.Form{canon.Record, canon.Delivered, canon.MySQL} {
				got, err := canon.Append(nil, c, form, []byte("0A"))
				if err != nil || string(got) != want {
					t.Errorf("%q as %s: got %q %v, want %q", source, kind, got, err, want)
				}
			}
		}
	}
}
