package catalog_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/internal/canon"
)

var update = flag.Bool("update", false, "write golden files anew")

// Every trap of a type that looks harmless.
func TestMapTypeTraps(t *testing.T) {
	tests := []struct {
		trap   string
		words  catalog.Engine
		typ    string
		want   string
		losses []catalog.Loss
		note   string // part of it
	}{
		{"numeric without precision", catalog.PostgreSQL, "numeric", "string", nil, "mapUnboundedNumericAsString"},
		{"numeric at the limit", catalog.PostgreSQL, "numeric(38,10)", "decimal(38,10)", nil, ""},
		{"numeric beyond the limit", catalog.PostgreSQL, "numeric(39,10)", "string", nil, "beyond 38 digits"},
		{"numeric with more scale than precision", catalog.PostgreSQL, "numeric(3,5)", "decimal(5,5)", nil, ""},
		{"numeric with negative scale", catalog.PostgreSQL, "numeric(5,-2)", "decimal(7,0)", nil, ""},
		{"numeric with negative scale beyond the limit", catalog.PostgreSQL, "numeric(37,-2)", "string", nil, "beyond 38 digits"},
		{"decimal of MySQL beyond the limit", catalog.MySQL, "decimal(65,30)", "string", nil, "beyond 38 digits"},
		{"decimal without parameters", catalog.MySQL, "decimal", "decimal(10,0)", nil, ""},
		{"unsigned bigint", catalog.MySQL, "bigint(20) unsigned", "decimal(20,0)", nil, "beyond a long"},
		{"zerofill is unsigned", catalog.MySQL, "bigint(20) zerofill", "decimal(20,0)", nil, "beyond a long"},
		{"unsigned int", catalog.MySQL, "int unsigned", "long", nil, "beyond an int"},
		{"unsigned mediumint", catalog.MySQL, "mediumint unsigned", "int", nil, ""},
		{"tinyint(1)", catalog.MySQL, "tinyint(1)", "int", nil, "-128 to 127"},
		{"bit(1)", catalog.MySQL, "bit(1)", "boolean", nil, "one bit"},
		{"bit(64)", catalog.MySQL, "bit(64)", "binary", nil, "not documented"},
		{"bit of PostgreSQL", catalog.PostgreSQL, "bit(1)", "string", nil, "0 and 1"},
		{"money", catalog.PostgreSQL, "money", "decimal(23,4)", nil, "currency"},
		{"interval", catalog.PostgreSQL, "interval", "string", nil, "no Iceberg type"},
		{"interval with fields", catalog.PostgreSQL, "interval day to second(3)", "string", nil, "no Iceberg type"},
		{"timetz", catalog.PostgreSQL, "time(3) with time zone", "string", nil, "offset"},
		{"time of MySQL", catalog.MySQL, "time(6)", "string", nil, "838 hours"},
		{"enum", catalog.MySQL, "enum('a','it''s','b,c)')", "string", nil, "label"},
		{"set", catalog.MySQL, "set('a','b')", "string", nil, "commas"},
		{"array", catalog.PostgreSQL, "numeric(5,2)[]", "string", nil, "array"},
		{"char padding", catalog.PostgreSQL, "character(5)", "string", nil, "blanks"},
		{"char padding of MySQL", catalog.MySQL, "char(5)", "string", nil, "blanks"},
		{"binary padding", catalog.MySQL, "binary(16)", "binary", nil, "zero bytes"},
		{"infinity", catalog.PostgreSQL, "timestamp with time zone", "timestamptz", nil, "infinity"},
		{"datetime", catalog.MySQL, "datetime", "timestamp", nil, "means nothing"},
		{"timestamp of MySQL", catalog.MySQL, "timestamp", "timestamptz", nil, ""},
		{"uuid of MariaDB", catalog.MariaDB, "uuid", "uuid", nil, ""},
		{"boolean of DMS", catalog.DMS, "STRING(5)", "string", nil, "boolean"},
		{"numeric that DMS cut", catalog.DMS, "NUMERIC(28,6)", "decimal(28,6)", []catalog.Loss{catalog.LossRound}, "cut to 6"},
		{"timestamp of DMS", catalog.DMS, "TIMESTAMP", "timestamp", nil, "timestamptz"},
	}
	for _, test := range tests {
		t.Run(test.trap, func(t *testing.T) {
			typ, err := catalog.ParseSourceType(test.typ)
			if err != nil {
				t.Fatal(err)
			}
			m, err := catalog.MapType(test.words, &catalog.SourceColumn{Declared: test.typ, Type: typ})
			if err != nil {
				t.Fatal(err)
			}
			if m.Type.String() != test.want || !cmp.Equal(m.Losses, test.losses) || !strings.Contains(m.Note, test.note) || test.note == "" && m.Note != "" {
				t.Errorf("got %s %v %q, want %s %v %q", m.Type, m.Losses, m.Note, test.want, test.losses, test.note)
			}
		})
	}
}

func TestZeroDatesAreALoss(t *testing.T) {
	for _, name := range []string{"date", "datetime", "timestamp"} {
		m, err := catalog.MapType(catalog.MySQL, &catalog.SourceColumn{Type: catalog.SourceType{Name: name}, ZeroDates: true})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]catalog.Loss{catalog.LossNull}, m.Losses); diff != "" {
			t.Errorf("%s: losses (-want +got):\n%s", name, diff)
		}
	}
}

// A type that is not known is refused: never a silent string.
func TestMapTypeRefuses(t *testing.T) {
	for _, c := range []struct {
		words catalog.Engine
		typ   string
		class catalog.TypeClass
	}{
		{catalog.PostgreSQL, "public.geometry(Point,4326)", catalog.ClassOther},
		{catalog.PostgreSQL, "public.geometry(Point,4326)[]", catalog.ClassOther},
		{catalog.PostgreSQL, "public.text", catalog.ClassOther},
		{catalog.PostgreSQL, "hyperloglog", ""},
		{catalog.PostgreSQL, "tinyint", ""},
		{catalog.MySQL, "uuid", ""},
		{catalog.MySQL, "jsonb", ""},
		{catalog.DMS, "NUMERIC", ""},
		{catalog.DMS, "text", ""},
		{catalog.Oracle, "NUMBER(10)", ""},
		{catalog.SQLServer, "int", ""},
	} {
		typ, err := catalog.ParseSourceType(c.typ)
		if err != nil {
			t.Fatal(err)
		}
		typ.Class = c.class
		m, err := catalog.MapType(c.words, &catalog.SourceColumn{Declared: c.typ, Type: typ})
		unmapped, ok := errors.AsType[*catalog.UnmappedError](err)
		if !ok || unmapped.Type != c.typ {
			t.Errorf("%s of %s became %s (%v)", c.typ, c.words, m.Type, err)
		}
	}
}

// What a mapping says fits is what canon, the only judge of values, takes: the
// extreme values of each exact type.
func TestMappedTypesHoldTheirExtremes(t *testing.T) {
	tests := []struct {
		words catalog.Engine
		typ   string
		text  []string
	}{
		{catalog.PostgreSQL, "smallint", []string{"-32768", "32767"}},
		{catalog.PostgreSQL, "integer", []string{"-2147483648", "2147483647"}},
		{catalog.PostgreSQL, "bigint", []string{"-9223372036854775808", "9223372036854775807"}},
		{catalog.PostgreSQL, "oid", []string{"0", "4294967295"}},
		{catalog.PostgreSQL, "xid8", []string{"18446744073709551615"}},
		{catalog.PostgreSQL, "numeric(38,0)", []string{strings.Repeat("9", 38), "-" + strings.Repeat("9", 38)}},
		{catalog.PostgreSQL, "numeric(3,5)", []string{"0.00999", "-0.00999"}},
		{catalog.PostgreSQL, "numeric(5,-2)", []string{"9999900", "-9999900"}},
		{catalog.PostgreSQL, "numeric(1000,500)", []string{strings.Repeat("9", 500) + "." + strings.Repeat("9", 500)}},
		{catalog.PostgreSQL, "numeric", []string{"NaN", "Infinity", "1e-10"}},
		{catalog.PostgreSQL, "money", []string{"-92233720368547758.08", "9223372036854775807", "922337203685477.5807"}},
		{catalog.PostgreSQL, "time without time zone", []string{"00:00:00", "23:59:59.999999"}},
		{catalog.PostgreSQL, "time with time zone", []string{"24:00:00-15:59:59"}},
		{catalog.PostgreSQL, "interval", []string{"-178000000 years", "1 mon -1 days +04:05:06.000007"}},
		{catalog.PostgreSQL, "uuid", []string{"ffffffff-ffff-ffff-ffff-ffffffffffff"}},
		{catalog.PostgreSQL, "bytea", []string{`\x`, `\x00ff`}},
		{catalog.MySQL, "tinyint unsigned", []string{"0", "255"}},
		{catalog.MySQL, "mediumint unsigned", []string{"16777215"}},
		{catalog.MySQL, "int unsigned", []string{"4294967295"}},
		{catalog.MySQL, "bigint unsigned", []string{"18446744073709551615"}},
		{catalog.MySQL, "tinyint(1)", []string{"-128", "0", "1", "127"}},
		{catalog.MySQL, "year", []string{"0", "1901", "2155"}},
		{catalog.MySQL, "decimal(65,30)", []string{strings.Repeat("9", 35) + "." + strings.Repeat("9", 30)}},
		{catalog.MySQL, "time(6)", []string{"-838:59:59.000000", "838:59:59.000000"}},
		{catalog.MySQL, "datetime(6)", []string{"1000-01-01 00:00:00.000000", "9999-12-31 23:59:59.999999"}},
		{catalog.MySQL, "bit(1)", []string{"0", "1"}},
	}
	for _, test := range tests {
		typ, err := catalog.ParseSourceType(test.typ)
		if err != nil {
			t.Fatal(err)
		}
		m, err := catalog.MapType(test.words, &catalog.SourceColumn{Declared: test.typ, Type: typ})
		if err != nil {
			t.Fatal(err)
		}
		form := map[catalog.Engine]canon.Form{catalog.PostgreSQL: canon.Postgres, catalog.MySQL: canon.MySQL}[test.words]
		for _, text := range test.text {
			column := &catalog.Column{Name: "c", Type: m.Type, SourceType: test.typ}
			if _, err := canon.Append(nil, column, form, []byte(text)); err != nil {
				t.Errorf("%s of %s: %q: %v", test.typ, test.words, text, err)
			}
		}
	}
}

func TestSourceTypeRoundTrip(t *testing.T) {
	for _, words := range []catalog.Engine{catalog.PostgreSQL, catalog.MySQL, catalog.MariaDB, catalog.DMS} {
		columns := catalog.Types(words)
		if len(columns) < 20 {
			t.Errorf("%s has only %d types", words, len(columns))
		}
		for _, c := range columns {
			if got := c.Type.String(); got != c.Declared {
				t.Errorf("%s: %q became %q", words, c.Declared, got)
			}
			if _, err := catalog.MapType(words, c); err != nil {
				t.Error(err)
			}
		}
	}
	for _, bad := range []string{"", "()", "int(3", "text]", "enum('a", "enum(a)", "enum('a' 'b')", "[]"} {
		if typ, err := catalog.ParseSourceType(bad); err == nil {
			t.Errorf("accepted %q as %v", bad, typ)
		}
	}
}

func FuzzParseSourceType(f *testing.F) {
	for _, s := range []string{"numeric(12,2)", "enum('a','it''s')", "timestamp(3) with time zone[]", "\"Odd (\"", "bigint(20) unsigned zerofill", "geometry(Point,4326)", "(", "[[]]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		typ, err := catalog.ParseSourceType(s)
		if err == nil && typ.Name == "" {
			t.Error("a type without a name")
		}
	})
}

func TestLiteralDefault(t *testing.T) {
	for sql, want := range map[string]string{
		"0": "0", "-1.50": "-1.50", "'x'": "x", "'it''s'": "it's", "'x'::character varying": "x", "(-1)": "-1", "'{}'::text[]": "{}", "('a'::sales.mood)": "a",
		"true": "true", "FALSE": "false", "(0)::numeric": "0", "NULL": "", "NULL::character varying": "", "": "",
		"now()": "=now()", "'a' || 'b'": "='a' || 'b'", "('a' || 'b')": "='a' || 'b'", "CURRENT_TIMESTAMP": "=current_timestamp()",
		"current_timestamp(6)": "=current_timestamp(6)", "nextval('s'::regclass)": "=nextval('s'::regclass)", "(a) + (b)": "=(a) + (b)", "0x10": "=0x10",
		"'now'::text": "now", "b'101'": "=b'101'", "infinity": "=infinity",
	} {
		got := ""
		if d := catalog.LiteralDefault(sql); d != nil {
			got = map[bool]string{true: "="}[d.Expression] + d.Text
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", sql, got, want)
		}
	}
}

// docs/types.md is what MapType says.
func TestTypesTable(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# Source types\n\nWhat `icehose catalog discover` proposes for each type. Written by `make golden` from the code; do not edit.\n\n" +
		"A loss must be allowed in the pipeline file (`allow_lossy:`), or nothing is generated for the column. A value that a type\n" +
		"cannot hold fails with its table, column and reason; it is never changed in silence. Types that are not listed are refused:\n" +
		"name them with `--as-text` to carry their text, or write the column into the pipeline file by hand.\n")
	for _, section := range []struct {
		words catalog.Engine
		title string
	}{
		{catalog.PostgreSQL, "PostgreSQL"},
		{catalog.MySQL, "MySQL"},
		{catalog.MariaDB, "MariaDB"},
		{catalog.DMS, "DMS control records (any engine)"},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n| type | Iceberg | loss | note |\n|---|---|---|---|\n", section.title)
		for _, c := range catalog.Types(section.words) {
			m, err := catalog.MapType(section.words, c)
			if err != nil {
				t.Fatal(err)
			}
			losses := make([]string, len(m.Losses))
			for i, l := range m.Losses {
				losses[i] = string(l)
			}
			name := "`" + c.Declared + "`"
			if c.ZeroDates {
				name += " that may be zero"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, m.Type, strings.Join(losses, ", "), strings.ReplaceAll(m.Note, "|", `\|`))
		}
	}
	golden(t, "../docs/types.md", b.Bytes())
}

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil { //nolint:gosec // a document for all to read
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-file +code):\n%s", path, diff)
	}
}
