package transform_test

import (
	"strings"
	"testing"

	"icehose/transform"
)

const requiredText = `version: 1
database: lake
source: {engine: postgresql, position: postgres, nulls: omitted}
tables:
  - source: public.strict
    mode: MODE
    key: [id]
    columns:
      - {name: id, type: long}
      - {name: name, type: string, not_null: true}
      - {name: note, type: string}
      - {name: body, type: string, not_null: true, may_be_unchanged: true}
      - {name: later, type: int, not_null: true, default: 7}
      - {name: words, type: string, not_null: true, default: none}
`

// Where an endpoint leaves nulls out, a column that has no nulls is missing
// because its text was empty, or because it was lost: neither is null.
func TestMissingWhereNothingIsNull(t *testing.T) {
	const whole = `{"id":1,"name":"n","note":"m","body":"b","later":8,"words":"w"}`
	without := func(names ...string) string {
		text := whole
		for _, n := range names {
			from := strings.Index(text, `,"`+n+`"`)
			to := from + 1 + strings.IndexAny(text[from+1:], ",}")
			text = text[:from] + text[to:]
		}
		return text
	}
	tests := []struct {
		name, operation, data  string
		mirror, changelog, row string // outcome, reason and column in each mode; part of the row
	}{
		{"whole", "insert", whole, "Ok", "Ok", `"name":"n"`},
		{"nullable", "insert", without("note"), "Ok", "Ok", `"note":null`},
		{"insert", "insert", without("name"), "ProcessingFailed missing_column name", "ProcessingFailed missing_column name", ""},
		{"load", "load", without("name"), "ProcessingFailed missing_column name", "ProcessingFailed missing_column name", ""},
		{"update", "update", without("name"), "ProcessingFailed missing_column name", "ProcessingFailed missing_column name", ""},
		{"unchanged", "update", without("body"), "ProcessingFailed partial_row body", "Ok", `"body":null`},
		{"unchanged in an insert", "insert", without("body"), "ProcessingFailed missing_column body", "ProcessingFailed missing_column body", ""},
		{"delete", "delete", `{"id":1}`, "Ok", "Ok", `"name":null`},
		{"before the column was added", "insert", without("later"), "Ok", "Ok", `"later":null`},
		{"a text with a default may have been empty", "insert", without("words"), "ProcessingFailed missing_column words", "ProcessingFailed missing_column words", ""},
		{"an explicit null is the source's", "insert", strings.Replace(whole, `"name":"n"`, `"name":null`, 1), "Ok", "Ok", `"name":null`},
	}
	for _, test := range tests {
		for mode, want := range map[string]string{"mirror": test.mirror, "changelog": test.changelog} {
			t.Run(test.name+"/"+mode, func(t *testing.T) {
				tr := newTransformer(t, strings.Replace(requiredText, "MODE", mode, 1), transform.Options{})
				got := tr.Batch(records(change(test.operation, "strict", test.data, 1)))[0]
				if outcome := strings.TrimSpace(string(got.Outcome) + " " + strings.TrimSpace(string(got.Reason)+" "+got.Column)); outcome != want {
					t.Errorf("got %s, want %s", outcome, want)
				}
				if got.Outcome == transform.Ok && !strings.Contains(string(got.Row.Data), test.row) {
					t.Errorf("got the row %s, want %s in it", got.Row.Data, test.row)
				}
			})
		}
	}
}

// A number in exponent form was in a double. A text of all its digits, which is
// what numeric without a precision becomes, cannot be made of it.
func TestExponentInATextOfDigits(t *testing.T) {
	const file = `version: 1
database: lake
source: {engine: postgresql, position: postgres, nulls: included}
tables:
  - source: public.t
    mode: mirror
    key: [id]
    columns: [{name: id, type: long}, {name: a, type: string, source_type: SOURCE, MORE}]
`
	tests := []struct{ name, source, more, value, want string }{
		{"number", "numeric", "not_null: false", `1.2345678901234568e+20`, "damaged_number"},
		{"capital", "numeric", "not_null: false", `1E5`, "damaged_number"},
		{"text", "numeric", "not_null: false", `"1.5e+20"`, "damaged_number"},
		{"escaped text", "numeric", "not_null: false", `"1\u0065+20"`, "damaged_number"},
		{"masked", "numeric", "mask: sha256", `1.5e+20`, "damaged_number"},
		{"more digits than a decimal has", `"numeric(50,2)"`, "not_null: false", `1.5e+40`, "damaged_number"},
		{"of MySQL", `"decimal(65,2) unsigned"`, "not_null: false", `1.5e+40`, "damaged_number"},
		{"in the words of DMS", `"dms:NUMERIC(50,2)"`, "not_null: false", `1.5e+40`, "damaged_number"},
		{"digits", "numeric", "not_null: false", `123456789012345678901.5`, `"a":"123456789012345678901.5"`},
		{"quoted digits", "numeric", "not_null: false", `"123456789012345678901.50"`, `"a":"123456789012345678901.50"`},
		{"NaN", "numeric", "not_null: false", `"NaN"`, `"a":"NaN"`},
		{"a text", "text", "not_null: false", `"1e5"`, `"a":"1e5"`},
		{"a text that is a number", "jsonb", "not_null: false", `1e5`, `"a":"1e5"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tr := newTransformer(t, strings.NewReplacer("SOURCE", test.source, "MORE", test.more).Replace(file), transform.Options{})
			got := tr.Batch(records(change("insert", "t", `{"id":1,"a":`+test.value+`}`, 1)))[0]
			if string(got.Reason) != test.want && !strings.Contains(string(got.Row.Data), test.want) {
				t.Errorf("got %q and the row %s, want %s", got.Reason, got.Row.Data, test.want)
			}
		})
	}
}
