package dmssim_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/internal/dmssim"
)

// encode returns the JSON of one value, or "absent".
func encode(s dmssim.Settings, c dmssim.Column, d dmssim.Datum) string {
	c.Name = "v"
	m := &dmssim.Message{Table: &dmssim.Table{Schema: "s", Name: "t", Columns: []dmssim.Column{c}}, Operation: dmssim.Load, Built: time.Unix(0, 0), Row: []dmssim.Datum{d}}
	text, _, _ := strings.Cut(string(s.AppendData(nil, m, dmssim.PartitionKey{})), `,"metadata"`)
	if text == `{"data":{}` {
		return "absent"
	}
	return strings.TrimSuffix(strings.TrimPrefix(text, `{"data":{"v":`), "}")
}

func TestValue(t *testing.T) {
	set := unformatted
	tests := []struct {
		name     string
		settings dmssim.Settings
		column   dmssim.Column
		text     string
		want     string
	}{
		{"smallint", set(nil), dmssim.Column{Kind: dmssim.SmallInt}, "-32768", `-32768`},
		{"integer", set(nil), dmssim.Column{Kind: dmssim.Integer}, "2147483647", `2147483647`},
		{"bigint of 15 digits", set(nil), dmssim.Column{Kind: dmssim.BigInt}, "123456789012345", `123456789012345`},
		{"bigint of 17 digits is a double without exponent", set(nil), dmssim.Column{Kind: dmssim.BigInt}, "12345678901234567", `12345678901234568`},
		{"bigint of 18 digits has an exponent", set(nil), dmssim.Column{Kind: dmssim.BigInt}, "123456789012345678", `1.2345678901234568e+17`},
		{"largest bigint", set(nil), dmssim.Column{Kind: dmssim.BigInt}, "9223372036854775807", `9.2233720368547758e+18`},
		{"negative bigint of 18 digits", set(nil), dmssim.Column{Kind: dmssim.BigInt}, "-123456789012345678", `-1.2345678901234568e+17`},
		{"large integer value, 18 digits", set(func(s *dmssim.Settings) { s.UseLargeIntegerValue = true }), dmssim.Column{Kind: dmssim.BigInt}, "123456789012345678", `123456789012345678`},
		{"large integer value, 19 digits", set(func(s *dmssim.Settings) { s.UseLargeIntegerValue = true }), dmssim.Column{Kind: dmssim.BigInt}, "9223372036854775807", `9.2233720368547758e+18`},
		{"numeric keeps its zeros", set(nil), dmssim.Column{Kind: dmssim.Numeric, Precision: 12, Scale: 2}, "-10.00", `-10.00`},
		{"numeric without precision is cut", set(nil), dmssim.Column{Kind: dmssim.Numeric}, "0.611111104488373", `0.611111`},
		{"numeric without precision as text", set(func(s *dmssim.Settings) { s.MapUnboundedNumericAsString = true }), dmssim.Column{Kind: dmssim.Numeric}, "0.611111104488373", `"0.611111104488373"`},
		{"numeric of 39 digits", set(nil), dmssim.Column{Kind: dmssim.Numeric, Precision: 39}, "1", `"1"`},
		{"numeric NaN", set(func(s *dmssim.Settings) { s.IncludeNullAndEmpty = true }), dmssim.Column{Kind: dmssim.Numeric, Precision: 4}, "NaN", `null`},
		{"numeric that is not a number is left out", set(nil), dmssim.Column{Kind: dmssim.Numeric, Precision: 4}, "NaN", `absent`},
		{"money", set(nil), dmssim.Column{Kind: dmssim.Money}, "-$1,234.50", `-1234.50`},
		{"real has nine digits", set(nil), dmssim.Column{Kind: dmssim.Real}, "2.2", `2.20000005`},
		{"real", set(nil), dmssim.Column{Kind: dmssim.Real}, "3.3", `3.29999995`},
		{"whole real", set(nil), dmssim.Column{Kind: dmssim.Real}, "55", `55`},
		{"double", set(nil), dmssim.Column{Kind: dmssim.Double}, "0.1", `0.1`},
		{"double of 17 digits", set(nil), dmssim.Column{Kind: dmssim.Double}, "0.30000000000000004", `0.30000000000000004`},
		{"whole double", set(nil), dmssim.Column{Kind: dmssim.Double}, "55", `55`},
		{"large double", set(nil), dmssim.Column{Kind: dmssim.Double}, "1e+300", `1e+300`},
		{"small double", set(nil), dmssim.Column{Kind: dmssim.Double}, "1.5e-07", `1.5e-07`},
		{"double infinity", set(func(s *dmssim.Settings) { s.IncludeNullAndEmpty = true }), dmssim.Column{Kind: dmssim.Double}, "-Infinity", `null`},
		{"boolean is text", set(nil), dmssim.Column{Kind: dmssim.Boolean}, "t", `"true"`},
		{"boolean is a boolean", set(func(s *dmssim.Settings) { s.MapBooleanAsBoolean = true }), dmssim.Column{Kind: dmssim.Boolean}, "f", `false`},
		{"char loses its blanks", set(nil), dmssim.Column{Kind: dmssim.Char, Length: 5}, " B   ", `" B"`},
		{"char keeps its blanks", set(func(s *dmssim.Settings) { s.TrimSpaceInChar = false }), dmssim.Column{Kind: dmssim.Char, Length: 5}, "B    ", `"B    "`},
		{"varchar keeps its blanks", set(nil), dmssim.Column{Kind: dmssim.Varchar, Length: 9}, "B  ", `"B  "`},
		{"empty text is left out", set(nil), dmssim.Column{Kind: dmssim.Varchar, Length: 9}, "", `absent`},
		{"empty text is written", set(func(s *dmssim.Settings) { s.IncludeNullAndEmpty = true }), dmssim.Column{Kind: dmssim.Varchar, Length: 9}, "", `""`},
		{"jsonb keeps PostgreSQL's spaces", set(nil), dmssim.Column{Kind: dmssim.JSONB}, `{"foo": "bar"}`, `"{\"foo\": \"bar\"}"`},
		{"array", set(nil), dmssim.Column{Kind: dmssim.Array}, "{1,2}", `"{1,2}"`},
		{"bytea", set(nil), dmssim.Column{Kind: dmssim.Bytea}, `\xdeadbeef`, `"0xdeadbeef"`},
		{"bytea without prefix", set(func(s *dmssim.Settings) { s.NoHexPrefix = true }), dmssim.Column{Kind: dmssim.Bytea}, `\xdeadbeef`, `"deadbeef"`},
		{"text longer than the LOB size", set(func(s *dmssim.Settings) { s.LOBMaxSizeKB = 1 }), dmssim.Column{Kind: dmssim.Text}, strings.Repeat("x", 1023) + "é", `"` + strings.Repeat("x", 1023) + `"`},
		{"varchar with a length is no LOB", set(func(s *dmssim.Settings) { s.LOBMaxSizeKB = 1 }), dmssim.Column{Kind: dmssim.Varchar, Length: 4000}, strings.Repeat("x", 1025), `"` + strings.Repeat("x", 1025) + `"`},
		{"LOB size without limited mode", set(func(s *dmssim.Settings) { s.LimitedLOBMode, s.LOBMaxSizeKB = false, 1 }), dmssim.Column{Kind: dmssim.Text}, strings.Repeat("x", 1025), `"` + strings.Repeat("x", 1025) + `"`},
		{"date", set(nil), dmssim.Column{Kind: dmssim.Date}, "2018-01-02", `"2018-01-02"`},
		{"infinite date", set(nil), dmssim.Column{Kind: dmssim.Date}, "infinity", `"9999-12-31"`},
		{"time", set(nil), dmssim.Column{Kind: dmssim.Time}, "04:05:06.789", `"04:05:06.789"`},
		{"whole second has no fraction", set(nil), dmssim.Column{Kind: dmssim.Timestamp}, "2010-11-01 00:00:00", `"2010-11-01T00:00:00Z"`},
		{"fraction has six digits", set(nil), dmssim.Column{Kind: dmssim.Timestamp}, "2010-11-01 00:02:00.1", `"2010-11-01T00:02:00.100000Z"`},
		{"with time zone", set(nil), dmssim.Column{Kind: dmssim.TimestampTZ}, "2010-11-01 00:02:00.123456+00", `"2010-11-01T00:02:00.123456Z"`},
		{"infinite timestamp", set(nil), dmssim.Column{Kind: dmssim.Timestamp}, "infinity", `"9999-12-31T23:59:59Z"`},
		{"timestamp before Christ", set(nil), dmssim.Column{Kind: dmssim.TimestampTZ}, "0044-03-15 12:00:00+00 BC", `"0044-03-15T12:00:00Z BC"`},
		{"interval", set(nil), dmssim.Column{Kind: dmssim.Interval}, "1 day 04:00:00", `"1 day 04:00:00"`},
		{"bit", set(nil), dmssim.Column{Kind: dmssim.Bit, Length: 3}, "101", `"101"`},
		{"enum", set(nil), dmssim.Column{Kind: dmssim.Other}, "happy", `"happy"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, encode(tt.settings, tt.column, known(tt.text))); diff != "" {
				t.Errorf("value (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzValue feeds texts that PostgreSQL would not write as well: whatever
// comes, a record is JSON, and a text is what it was.
func FuzzValue(f *testing.F) {
	for _, text := range []string{
		"", "NaN", "-Infinity", "1e5", "007", "-", "0x10", "1.2.3", ".5", "5.", "+1", "9223372036854775808", "\\x", "infinity", "2010-11-01", "0001-01-01 BC",
		"2010-11-01 00:00:00.1234567+00", "\x00\x1f\"\\", "\xff\xfe", "1_000", "0x1p-2", "nan", "inf", "  ", "\u2028</script>",
	} {
		for kind := dmssim.Boolean; kind <= dmssim.Other; kind++ {
			f.Add(uint8(kind), uint8(len(text)), text)
		}
	}
	f.Fuzz(func(t *testing.T, kind, bits uint8, text string) {
		column := dmssim.Column{Name: text, Kind: dmssim.Kind(kind), Length: int(bits & 1), Precision: int(bits>>1&1) * 39}
		s := dmssim.Defaults()
		s.LOBMaxSizeKB = 1
		if bits&4 > 0 {
			s.MessageFormat = dmssim.JSONUnformatted
		}
		s.IncludeNullAndEmpty, s.UseLargeIntegerValue, s.MapBooleanAsBoolean = bits&8 > 0, bits&16 > 0, bits&32 > 0
		s.NoHexPrefix, s.TrimSpaceInChar = bits&64 > 0, bits&128 > 0
		m := &dmssim.Message{Table: &dmssim.Table{Schema: text, Name: text, Columns: []dmssim.Column{column}}, Operation: dmssim.Load, Built: time.Unix(0, 0), Row: []dmssim.Datum{known(text)}}
		record := s.AppendData(nil, m, s.PartitionKey(m))
		var back struct {
			Data     map[string]json.RawMessage `json:"data"`
			Metadata struct {
				Table string `json:"table-name"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(record, &back); err != nil {
			t.Fatalf("not JSON: %v: %q", err, record)
		}
		if want := strings.ToValidUTF8(text, "\uFFFD"); strings.ToValidUTF8(back.Metadata.Table, "\uFFFD") != want && !strings.Contains(want, "\uFFFD") {
			t.Errorf("the name came back as %q, want %q", back.Metadata.Table, want)
		}
	})
}
