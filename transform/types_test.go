package transform_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/transform"
)

// Every Iceberg type from every form that a source's value can have in a
// record: what the row holds, or why the record fails.
func TestEveryTypeFromEveryForm(t *testing.T) {
	t.Parallel()
	forms := []string{
		`true`, `1`, `1.50`, `1.2e+18`, `"1"`, `"1.50"`, `"true"`, `"2026-02-11"`, `"2026-02-11T08:20:11.093377Z"`, `"18:56:15.096"`,
		`"21c5521c-a6d4-4b35-9d2b-9a1e5c0f9a11"`, `"0xABCD"`, `"text"`, `{"a": 1}`, `[1, 2]`,
	}
	for _, test := range []struct {
		typ  string
		want []string // by form
	}{
		{"boolean", []string{
			`true`, `true`, `invalid_value`, `invalid_value`, `true`, `invalid_value`, `true`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `unsupported_form`, `unsupported_form`,
		}},
		{"int", []string{
			`invalid_value`, `1`, `inexact`, `damaged_number`, `1`, `inexact`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `unsupported_form`, `unsupported_form`,
		}},
		{"long", []string{
			`invalid_value`, `1`, `inexact`, `damaged_number`, `1`, `inexact`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `unsupported_form`, `unsupported_form`,
		}},
		{"float", []string{
			`invalid_value`, `1`, `1.50`, `1.2e+18`, `1`, `1.50`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `unsupported_form`, `unsupported_form`,
		}},
		{"double", []string{
			`invalid_value`, `1`, `1.50`, `1.2e+18`, `1`, `1.50`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `unsupported_form`, `unsupported_form`,
		}},
		{"decimal(20,2)", []string{
			`invalid_value`, `"1.00"`, `"1.50"`, `damaged_number`, `"1.00"`, `"1.50"`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `unsupported_form`, `unsupported_form`,
		}},
		{"date", []string{
			`invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `"2026-02-11"`, `inexact`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `unsupported_form`, `unsupported_form`,
		}},
		{"time", []string{
			`invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `"18:56:15.096000"`, `invalid_value`, `invalid_value`, `invalid_value`, `unsupported_form`, `unsupported_form`,
		}},
		{"timestamp", []string{
			`invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `"2026-02-11T00:00:00.000000"`, `"2026-02-11T08:20:11.093377"`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `unsupported_form`, `unsupported_form`,
		}},
		{"timestamptz", []string{
			`invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `"2026-02-11T00:00:00.000000Z"`, `"2026-02-11T08:20:11.093377Z"`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `unsupported_form`, `unsupported_form`,
		}},
		{"string", []string{
			`"true"`, `"1"`, `"1.50"`, `"1.2e+18"`, `"1"`, `"1.50"`, `"true"`, `"2026-02-11"`, `"2026-02-11T08:20:11.093377Z"`, `"18:56:15.096"`, `"21c5521c-a6d4-4b35-9d2b-9a1e5c0f9a11"`, `"0xABCD"`, `"text"`, `"{\"a\": 1}"`, `"[1, 2]"`,
		}},
		{"uuid", []string{
			`invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `"21c5521c-a6d4-4b35-9d2b-9a1e5c0f9a11"`, `invalid_value`, `invalid_value`, `unsupported_form`, `unsupported_form`,
		}},
		{"fixed[2]", []string{
			`invalid_value`, `unsupported_form`, `unsupported_form`, `unsupported_form`, `invalid_value`, `invalid_value`, `invalid_value`, `out_of_range`, `invalid_value`, `out_of_range`, `out_of_range`, `"abcd"`, `invalid_value`, `unsupported_form`, `unsupported_form`,
		}},
		{"binary", []string{
			`invalid_value`, `unsupported_form`, `unsupported_form`, `unsupported_form`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `invalid_value`, `"abcd"`, `invalid_value`, `unsupported_form`, `unsupported_form`,
		}},
	} {
		transformer := newTransformer(t, fmt.Sprintf(`version: 1
database: shop
source: {engine: postgresql, position: postgres}
tables: [{source: public.t, mode: changelog, columns: [{name: v, type: %q}]}]
`, test.typ), transform.Options{})
		var got []string
		for _, form := range forms {
			result := transformer.Batch(records(change("insert", "t", `{"v":`+form+`}`, 1)))[0]
			value := string(result.Reason)
			if result.Outcome == transform.Ok {
				var row map[string]json.RawMessage
				if err := json.Unmarshal(result.Row.Data, &row); err != nil {
					t.Fatal(err)
				}
				value = string(row["v"])
			}
			got = append(got, value)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.typ, diff)
		}
	}
}

// A padded type loses the blanks at its end, however they are written; no
// length of a column's name changes what its row says.
func TestBlanksAndLongNames(t *testing.T) {
	t.Parallel()
	for _, length := range []int{1, 27, 28, 29, 30, 31, 32, 33, 64} {
		name := strings.Repeat("n", length)
		transformer := newTransformer(t, fmt.Sprintf(`version: 1
database: shop
source: {engine: postgresql, position: postgres}
tables: [{source: public.t, mode: changelog, columns: [{name: c, type: string, source_type: character(4)}, {name: %s, type: string}]}]
`, name), transform.Options{})
		for value, want := range map[string]string{
			`"ab  "`: "ab", `"    "`: "", `""`: "", `" a"`: " a", `"a\u0020 "`: "a", `"\" "`: `"`, `"a\n "`: "a\n", `"é "`: "é", `12`: "12",
		} {
			result := transformer.Batch(records(change("insert", "t", `{"c":`+value+`,"`+name+`":`+value+`}`, 1)))[0]
			var row map[string]*string
			if err := json.Unmarshal(result.Row.Data, &row); err != nil {
				t.Fatalf("%s: %v: %s", value, err, result.Reason)
			}
			if row["c"] == nil || *row["c"] != want || row[name] == nil || strings.TrimRight(*row[name], " ") != want {
				t.Errorf("name of %d bytes, %s: got %s", length, value, result.Row.Data)
			}
		}
	}
}
