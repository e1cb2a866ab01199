package catalog_test

import (
	"strings"
	"testing"

	"icehose/catalog"
)

// A default is taken in the spellings that sources themselves have, however
// YAML writes it; what is refused is told with an example that is taken.
func TestDefaultSpellings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ typ, written, want string }{
		{"boolean", "t", "true"},
		{"boolean", "FALSE", "false"},
		{"boolean", "T", ""},
		{"boolean", "F", ""},
		{"int", "+5", "5"},
		{"int", "many", ""},
		{"long", "0x2a", ""},
		{"float", ".5", "0.5"},
		{"double", "many", ""},
		{"decimal(9,2)", ".5", "0.50"},
		{"decimal(9,2)", "-5.", "-5.00"},
		{"decimal(9,2)", ".", ""},
		{"date", "2024-01-31", "2024-01-31"},
		{"date", "2024-01-31 10:30:00", ""},
		{"time", "'10:30'", "10:30:00.000000"},
		{"time", "'10:30:01.5'", "10:30:01.500000"},
		{"time", "'10:30+02'", ""},
		{"time", "'10'", ""},
		{"timestamp", "2024-01-01 10:30", "2024-01-01T10:30:00.000000"},
		{"timestamp", "2024-01-01 00:00:00+00", "2024-01-01T00:00:00.000000"},
		{"timestamp", "2024-01-01 00:00:00+01", ""},
		{"timestamptz", "2024-01-01 00:00:00+00", "2024-01-01T00:00:00.000000Z"},
		{"timestamptz", "2024-01-01 00:00:00.25-07", "2024-01-01T07:00:00.250000Z"},
		{"timestamptz", "2024-01-01 00:00:00+0530", "2023-12-31T18:30:00.000000Z"},
		{"timestamptz", "2024-01-01T00:00:00+05:30", "2023-12-31T18:30:00.000000Z"},
		{"timestamptz", "2024-01-01 00:00:00 CET", ""},
		{"timestamptz", "2024-01-01 00:00:00+5", ""},
		{"string", "|\n          some\n          text", "some\ntext\n"},
		{"string", "|-\n          some\n          text", "some\ntext"},
		{"string", ">-\n          some\n          text", "some text"},
		{"string", "&a text", "text"},
		{"int", ">-\n          42", "42"},
		{"uuid", "A0EEBC999C0B4EF8BB6D6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
		{"uuid", "a0eebc99-9c0b4ef8bb6d6bb9bd380a11", ""},
		{"fixed[2]", `\x6162`, "6162"},
		{"fixed[2]", `\x61`, ""},
		{"binary", `\x6162`, "6162"},
		{"binary", "0X6162", "6162"},
		{"binary", `\x0x61`, ""},
	} {
		text := func(value string) []byte {
			return []byte(minimal + "      - name: c\n        type: " + test.typ + "\n        not_null: true\n        default: " + value + "\n")
		}
		p, err := catalog.Parse("f", text(test.written))
		if test.want != "" {
			if err != nil {
				t.Error(err)
			} else if got := string(*p.Tables[0].Columns[2].Default); got != test.want {
				t.Errorf("%s %s became %q, want %q", test.typ, test.written, got, test.want)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s %s became %q", test.typ, test.written, *p.Tables[0].Columns[2].Default)
			continue
		}
		_, example, _ := strings.Cut(err.Error(), "not a value of "+test.typ+", such as ")
		example, _, _ = strings.Cut(example, ", got ")
		example, _, _ = strings.Cut(example, " with ")
		if _, again := catalog.Parse("f", text("'"+example+"'")); again != nil {
			t.Errorf("%v: but %v", err, again)
		}
	}
}

// A floor is read as a default is: by its value, not by the mark before it.
func TestFloorSpellings(t *testing.T) {
	t.Parallel()
	const floor = "00000000000000160000000000000000"
	for _, written := range []string{floor, "'" + floor + "'", "&f " + floor, ">-\n          " + floor} {
		p, err := catalog.Parse("f", []byte(minimal+"    loads:\n      - floor: "+written+"\n        since: 2026-01-01T00:00:00Z\n"))
		if err != nil {
			t.Error(err)
		} else if got := p.Tables[0].Loads[0].Floor.String(); got != floor {
			t.Errorf("%s became %s", written, got)
		}
	}
}
