package canon_test

import (
	"encoding/json"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/internal/canon"
)

// A default: of the pipeline file is made canonical when the file is loaded, by
// rules of its own: what they make is canonical here, and where both take a text
// they make the same of it.
func TestDefaultsOfTheFile(t *testing.T) {
	texts := []string{
		"", "x", "x  ", "true", "True", "1", "0", "f", "00", "-0", "+5", "007", "2147483648", "9223372036854775807", "9223372036854775808", "1_000", "0x1f", "0X1F", "1f", "1F0",
		"5", "5.0", "5.00", "5.001", "-0.00", "0.005", "9999999.99", "99999999.99", "1e2", "1e-400", "1e39", "1e400", ".5", "5.", "1/3", "NaN", "nan", "Infinity", "-Infinity", "0.1", "1e21",
		"2020-02-29", "2021-02-29", "0000-00-00", "0001-01-01", "20-01-01", "2020-2-29", "01:02:03", "1:02:03", "24:00:00", "01:02:03.5", "01:02:03,5", "01:02:03.1234567",
		"2020-02-29 01:02:03", "2020-02-29T01:02:03Z", "2020-02-29T01:02:03+02:00", "2020-02-29 01:02:03.5-01:30", "0001-01-01T00:00:00+02:00", "9999-12-31T23:59:59-01:00",
		"A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc999c0b4ef8bb6d6bb9bd380a11", "abc", "abcd", "\xff",
		"T", "10:30", "2020-02-29 01:02:03+00", "2020-02-29T01:02:03.25-0730", "2020-02-29 01:02", `\x6162`, "-0:00:00.50", "838:59:59.1234",
	}
	for _, column := range []string{
		"boolean", "int", "long", "float", "double", "decimal(9,2)", "decimal(38,0)", "date", "time", "timestamp", "timestamptz", "string", "string, source_type: char(3)", `string, source_type: "decimal(60,2)"`, "string, source_type: time(3)", "uuid", "fixed[2]", "binary", "binary, source_type: binary(4)",
	} {
		typ, more, _ := strings.Cut(column, ", ")
		taken := 0
		for _, text := range texts {
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			p, err := catalog.Parse("f", []byte("version: 1\ndatabase: d\nsource: {engine: postgresql, position: postgres}\ntables:\n  - source: s.t\n    mode: changelog\n    columns:\n"+
				"      - {name: c, type: \""+typ+"\", not_null: true, default: "+string(quoted)+", "+more+"}\n"))
			if err != nil {
				if !strings.Contains(err.Error(), "f:8: tables[0].columns[0].default: not a value of ") {
					t.Error(err)
				}
				continue
			}
			taken++
			c := p.Tables[0].Columns[0]
			got := string(*c.Default)
			if again, err := canon.Append(nil, c, canon.Delivered, []byte(got)); err != nil || string(again) != got {
				t.Errorf("%s %q became %q, of which canon makes %q, %v", typ, text, got, again, err)
			}
			if same, err := canon.Append(nil, c, canon.Record, []byte(text)); err == nil && string(same) != got {
				t.Errorf("%s %q became %q, and a record's %q", typ, text, got, same)
			}
		}
		if taken == 0 {
			t.Errorf("no default of %s is taken", column)
		}
	}
}
