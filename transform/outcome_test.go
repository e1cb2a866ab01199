package transform_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/transform"
)

// An outcomeCase is one cell of the outcome table, or one reason.
type outcomeCase struct {
	name    string
	records []transform.Record
	mode    catalog.Mode
	file    string // pipeline text, by default pipelineText
	room    transform.Room
	want    []string // "Outcome reason column operation", one a record
}

const row = `{"id":7,"note":"n","total":"1.5"}`

func outcomeCases() []outcomeCase {
	one := func(text string) []transform.Record { return records(text) }
	changelog := catalog.Changelog
	dropping := strings.Replace(pipelineText, "tables:", "on_unknown_table: drop\ntables:", 1)
	late := strings.Replace(change("load", "reloaded", row, 1), "2026-01-02", "2026-02-02", 1)
	noMetadata := `{"data":{}}`
	noDetails := strings.Replace(change("update", "orders", row, 1), `"transaction-record-id":1,`, "", 1)
	internal := strings.Replace(change("update", "awsdms_status", `{"a":1}`, 1), `"schema-name":"public"`, `"schema-name":""`, 1)
	return []outcomeCase{
		// load
		{name: "mirror load", records: one(change("load", "orders", row, 1)), want: []string{"Ok - - insert"}},
		{name: "mirror load upsert", records: one(change("load", "upserted", row, 1)), want: []string{"Ok - - update"}},
		{name: "mirror load before the announced one", records: one(change("load", "reloaded", row, 1)), want: []string{"Ok - - insert"}},
		{name: "mirror load with floor", records: one(late), want: []string{"Ok - - update"}},
		{name: "changelog load", records: one(change("load", "log", row, 1)), want: []string{"Ok - - insert"}},
		{
			name: "load without a key, although loads are upserts", file: strings.Replace(pipelineText, "source: public.history, mode: mirror,", "source: public.history, mode: mirror, on_load: upsert,", 1),
			records: one(change("load", "history", row, 1)), want: []string{"Ok - - insert"},
		},
		{name: "changelog load with floor", mode: changelog, records: one(late), want: []string{"Ok - - insert"}},
		// insert
		{name: "mirror insert", records: one(change("insert", "orders", row, 1)), want: []string{"Ok - - update"}},
		{name: "mirror insert opted out", records: one(change("insert", "inserted", row, 1)), want: []string{"Ok - - insert"}},
		{name: "changelog insert", records: one(change("insert", "log", row, 1)), want: []string{"Ok - - insert"}},
		// update
		{name: "mirror update", records: one(change("update", "orders", row, 1)), want: []string{"Ok - - update"}},
		{name: "changelog update", records: one(change("update", "log", row, 1)), want: []string{"Ok - - insert"}},
		// delete
		{name: "mirror delete", records: one(change("delete", "orders", `{"id":7,"note":null}`, 1)), want: []string{"Ok - - delete"}},
		{name: "changelog delete", records: one(change("delete", "log", `{"id":7}`, 1)), want: []string{"Ok - - insert"}},
		{
			name: "delete ignores what is not the key", records: one(change("delete", "orders", `{"id":7,"total":"nonsense"}`, 1)),
			want: []string{"Ok - - delete"},
		},
		{
			name: "delete with its key in the before-image", records: one(change("delete", "orders", `{"note":null}`, 1, `"before-image":{"id":7}`)),
			want: []string{"Ok - - delete"},
		},
		// control
		{name: "control of a known table", records: one(control("add-column", "orders", "{}")), want: []string{"Dropped control - -"}},
		{name: "control of an unknown table", records: one(control("create-table", "nowhere", "{}")), want: []string{"Dropped control - -"}},
		{name: "control in a changelog", mode: changelog, records: one(control("drop-table", "orders", "{}")), want: []string{"Dropped control - -"}},
		// internal, excluded, unknown
		{name: "internal table", records: one(internal), want: []string{"Dropped internal_table - -"}},
		{name: "internal table in a schema", records: one(change("insert", "awsdms_history", `{}`, 1)), want: []string{"Dropped internal_table - -"}},
		{name: "internal table in capitals", records: one(change("insert", "AWSDMS_STATUS", `{}`, 1)), want: []string{"Dropped internal_table - -"}},
		{
			name: "control of an internal table", records: one(control("create-table", "awsdms_apply_exceptions", "{}")),
			want: []string{"Dropped internal_table - -"},
		},
		{
			name: "excluded schema", records: one(strings.Replace(change("insert", "t", `{}`, 1), `"schema-name":"public"`, `"schema-name":"audit"`, 1)),
			want: []string{"Dropped excluded - -"},
		},
		{name: "excluded pattern", records: one(change("insert", "tmp_a_old", `{}`, 1)), want: []string{"Dropped excluded - -"}},
		{name: "excluded pattern of several parts", records: one(change("insert", "a_x_b_y", `{}`, 1)), want: []string{"Dropped excluded - -"}},
		{name: "parts in another order", records: one(change("insert", "b_x_a_y", `{}`, 1)), want: []string{"ProcessingFailed unknown_table - -"}},
		{name: "a part missing", records: one(change("insert", "a_x_y", `{}`, 1)), want: []string{"ProcessingFailed unknown_table - -"}},
		{name: "not quite excluded", records: one(change("insert", "tmp_a_older", `{}`, 1)), want: []string{"ProcessingFailed unknown_table - -"}},
		{
			name: "excluded although described", file: strings.Replace(pipelineText, `"audit.%"`, `"public.orders"`, 1),
			records: one(change("insert", "orders", row, 1)), want: []string{"Dropped excluded - -"},
		},
		{name: "unknown table", records: one(change("insert", "nowhere", row, 1)), want: []string{"ProcessingFailed unknown_table - -"}},
		{name: "unknown table in another case", records: one(change("insert", "Orders", row, 1)), want: []string{"ProcessingFailed unknown_table - -"}},
		{name: "unknown table dropped", file: dropping, records: one(change("insert", "nowhere", row, 1)), want: []string{"Dropped unknown_table - -"}},
		{name: "internal table in a changelog", mode: changelog, records: one(internal), want: []string{"Dropped internal_table - -"}},
		{
			name: "excluded although described, in a changelog", mode: changelog, file: strings.Replace(pipelineText, `"audit.%"`, `"public.orders"`, 1),
			records: one(change("insert", "orders", row, 1)), want: []string{"Dropped excluded - -"},
		},
		{name: "excluded in a changelog", mode: changelog, records: one(change("insert", "tmp_a_old", `{}`, 1)), want: []string{"Dropped excluded - -"}},
		{
			name: "unknown table in a changelog", mode: changelog, records: one(change("insert", "nowhere", row, 1)),
			want: []string{"ProcessingFailed unknown_table - -"},
		},
		// tables without a key
		{name: "keyless load", records: one(change("load", "history", row, 1)), want: []string{"Ok - - insert"}},
		{name: "keyless insert", records: one(change("insert", "history", row, 1)), want: []string{"Ok - - insert"}},
		{name: "keyless update", records: one(change("update", "history", row, 1)), want: []string{"ProcessingFailed no_key - -"}},
		{name: "keyless delete", records: one(change("delete", "history", row, 1)), want: []string{"ProcessingFailed no_key - -"}},
		{name: "keyless changelog update", records: one(change("update", "keyless_log", row, 1)), want: []string{"Ok - - insert"}},
		{name: "keyless changelog delete", records: one(change("delete", "keyless_log", row, 1)), want: []string{"Ok - - insert"}},
		// keys
		{name: "key missing", records: one(change("insert", "orders", `{"note":"n","total":1}`, 1)), want: []string{"ProcessingFailed missing_key id -"}},
		{name: "key null", records: one(change("delete", "orders", `{"id":null}`, 1)), want: []string{"ProcessingFailed missing_key id -"}},
		{
			name: "key null in a changelog", records: one(change("update", "log", `{"id":null,"note":"n","total":1}`, 1)),
			want: []string{"ProcessingFailed missing_key id -"},
		},
		// partial rows and missing columns
		{name: "unchanged column absent", records: one(change("update", "orders", `{"id":7,"total":1}`, 1)), want: []string{"ProcessingFailed partial_row note -"}},
		{
			name: "unchanged column absent in a changelog", mode: changelog, records: one(change("update", "orders", `{"id":7,"total":1}`, 1)),
			want: []string{"Ok - - insert"},
		},
		{
			name: "null is a value where unchanged is absent", records: one(change("update", "orders", `{"id":7,"note":null,"total":1}`, 1)),
			want: []string{"Ok - - update"},
		},
		{
			name: "unchanged column null", records: one(change("update", "nullish", `{"id":7,"note":null,"total":1}`, 1)),
			want: []string{"ProcessingFailed partial_row note -"},
		},
		{
			name: "column missing where unchanged is null", records: one(change("update", "nullish", `{"id":7,"total":1}`, 1)),
			want: []string{"ProcessingFailed missing_column note -"},
		},
		{
			name: "column missing where unchanged is null and nulls are left out", records: one(change("update", "sparse_nullish", `{"id":7}`, 1)),
			want: []string{"ProcessingFailed partial_row note -"},
		},
		{
			name: "a column that is always written", records: one(change("update", "orders", `{"id":7,"note":"n"}`, 1)),
			want: []string{"ProcessingFailed missing_column total -"},
		},
		{
			name: "null in a column that is always written", records: one(change("update", "nullish", `{"id":7,"note":"n","total":null}`, 1)),
			want: []string{"Ok - - update"},
		},
		{name: "an insert is never partial", records: one(change("insert", "nullish", `{"id":7,"note":null,"total":1}`, 1)), want: []string{"Ok - - update"}},
		{name: "column missing", records: one(change("insert", "orders", `{"id":7,"note":"n"}`, 1)), want: []string{"ProcessingFailed missing_column total -"}},
		{name: "column missing where nulls are left out", records: one(change("update", "sparse", `{"id":7}`, 1)), want: []string{"Ok - - update"}},
		{
			name: "two spellings", records: one(change("insert", "orders", `{"id":7,"ID":8,"note":"n","total":1}`, 1)),
			want: []string{"ProcessingFailed ambiguous_column id -"},
		},
		{name: "one spelling twice", records: one(change("insert", "orders", `{"id":7,"id":8,"note":"n","total":1}`, 1)), want: []string{"Ok - - update"}},
		{
			name: "two spellings in the before-image", records: one(change("update", "orders", row, 1, `"before-image":{"id":7,"ID":8}`)),
			want: []string{"ProcessingFailed ambiguous_column id -"},
		},
		// damage
		{name: "not JSON", records: one(`{"data":`), want: []string{"ProcessingFailed invalid_json - -"}},
		{name: "empty", records: one(``), want: []string{"ProcessingFailed invalid_json - -"}},
		{name: "not of DMS", records: one(noMetadata), want: []string{"ProcessingFailed invalid_json - -"}},
		{name: "unread", records: []transform.Record{{ID: "id-0", Unread: transform.InvalidBase64}}, want: []string{"ProcessingFailed invalid_base64 - -"}},
		{
			name: "no stream position", records: one(strings.Replace(change("update", "orders", row, 1), "stream-position", "x", 1)),
			want: []string{"ProcessingFailed no_position - -"},
		},
		{name: "no record number", records: one(noDetails), want: []string{"ProcessingFailed no_position - -"}},
		{
			name: "load without its time", records: one(strings.Replace(change("load", "orders", row, 1), "2026-01-02", "never", 1)),
			want: []string{"ProcessingFailed no_position - -"},
		},
		{
			name: "epochs need a commit time", file: strings.Replace(pipelineText, "tables:", "epochs: [{epoch: 1, since: 2026-01-01T00:00:00Z}]\ntables:", 1),
			records: one(strings.Replace(change("update", "orders", row, 1), "commit-timestamp", "x", 1)), want: []string{"ProcessingFailed no_position - -"},
		},
		{name: "position column", records: one(change("insert", "numbered", `{"id":7,"SEQ":"12"}`, 1)), want: []string{"Ok - - update"}},
		{name: "position column empty", records: one(change("insert", "numbered", `{"id":7,"SEQ":""}`, 1)), want: []string{"ProcessingFailed no_position - -"}},
		{name: "no position declared", records: one(change("update", "lines", `{"order_id":1,"line":"a"}`, 1)), want: []string{"Ok - - insert"}},
		{
			name: "no position declared and no time", records: one(strings.Replace(change("update", "lines", `{"order_id":1,"line":"a"}`, 1), `"timestamp"`, `"x"`, 1)),
			want: []string{"ProcessingFailed no_position - -"},
		},
		{
			name: "position column without a record number", want: []string{"Ok - - update"},
			records: one(strings.Replace(change("insert", "numbered", `{"id":7,"SEQ":"12"}`, 1), `"transaction-record-id"`, `"x"`, 1)),
		},
		// values
		{name: "not a number", records: one(change("insert", "orders", `{"id":"seven","note":"n","total":1}`, 1)), want: []string{"ProcessingFailed invalid_value id -"}},
		{
			name: "too large", records: one(change("insert", "orders", `{"id":9223372036854775808,"note":"n","total":1}`, 1)),
			want: []string{"ProcessingFailed out_of_range id -"},
		},
		{name: "not exact", records: one(change("insert", "orders", `{"id":7,"note":"n","total":1.005}`, 1)), want: []string{"ProcessingFailed inexact total -"}},
		{
			name: "damaged integer", records: one(change("insert", "orders", `{"id":1.2e+18,"note":"n","total":1}`, 1)),
			want: []string{"ProcessingFailed damaged_number id -"},
		},
		{
			name: "half a surrogate pair", records: one(change("insert", "orders", `{"id":7,"note":"\ud83d","total":1}`, 1)),
			want: []string{"ProcessingFailed invalid_utf8 note -"},
		},
		{
			name: "half a surrogate pair in a char", records: one(change("insert", "typed", `{"id":7,"c":"\ud83d"}`, 1)),
			want: []string{"ProcessingFailed invalid_utf8 c -"},
		},
		{name: "object of text", records: one(change("insert", "orders", `{"id":7,"note":{"a":1},"total":1}`, 1)), want: []string{"Ok - - update"}},
		{name: "array of text", records: one(change("insert", "orders", `{"id":7,"note":[1],"total":1}`, 1)), want: []string{"Ok - - update"}},
		{name: "object", records: one(change("insert", "orders", `{"id":7,"note":"","total":{"a":1}}`, 1)), want: []string{"ProcessingFailed unsupported_form total -"}},
		{name: "array", records: one(change("insert", "orders", `{"id":[7],"note":"","total":1}`, 1)), want: []string{"ProcessingFailed unsupported_form id -"}},
		{name: "number of a fixed", records: one(change("insert", "typed", `{"id":7,"x":1234}`, 1)), want: []string{"ProcessingFailed unsupported_form x -"}},
		{name: "number of bytes", records: one(change("insert", "typed", `{"id":7,"y":1234}`, 1)), want: []string{"ProcessingFailed unsupported_form y -"}},
		{name: "number of two bytes", records: one(change("insert", "typed", `{"id":7,"x":1234}`, 1)), want: []string{"ProcessingFailed unsupported_form x -"}},
		{
			name: "number that no double reaches", records: one(change("insert", "typed", `{"id":7,"d":1`+strings.Repeat("0", 309)+`}`, 1)),
			want: []string{"ProcessingFailed out_of_range d -"},
		},
		{
			name: "delete whose key is null in both images", records: one(change("delete", "orders", `{"id":null}`, 1, `"before-image":{"id":null}`)),
			want: []string{"ProcessingFailed missing_key id -"},
		},
		{name: "infinity", records: one(change("insert", "typed", `{"id":7,"f":"-Infinity"}`, 1)), want: []string{"ProcessingFailed out_of_range f -"}},
		{name: "NaN", records: one(change("insert", "typed", `{"id":7,"d":"NaN"}`, 1)), want: []string{"ProcessingFailed out_of_range d -"}},
		// several changes of one key
		{
			name: "the newest wins", records: records(change("insert", "orders", row, 1), change("update", "orders", row, 2)),
			want: []string{"Dropped superseded - -", "Ok - - update"},
		},
		{
			name: "an old one comes late", records: records(change("delete", "orders", row, 2), change("update", "orders", row, 1)),
			want: []string{"Ok - - delete", "Dropped superseded - -"},
		},
		{
			name: "of equals the later wins", records: records(change("update", "orders", row, 1), change("update", "orders", row, 1)),
			want: []string{"Dropped superseded - -", "Ok - - update"},
		},
		{
			name: "a load loses to a change", records: records(change("update", "orders", row, 1), change("load", "orders", row, 2)),
			want: []string{"Ok - - update", "Dropped superseded - -"},
		},
		{
			name: "a failed one does not supersede", records: records(change("update", "orders", row, 1), change("update", "orders", `{"id":7,"total":1}`, 2)),
			want: []string{"Ok - - update", "ProcessingFailed partial_row note -"},
		},
		{
			name: "insert over insert stays one", records: records(change("insert", "inserted", row, 1), change("insert", "inserted", row, 2)),
			want: []string{"Dropped superseded - -", "Ok - - insert"},
		},
		{
			name: "insert over delete replaces", records: records(change("delete", "inserted", row, 1), change("insert", "inserted", row, 2)),
			want: []string{"Dropped superseded - -", "Ok - - update"},
		},
		{
			name: "insert over a late delete replaces", records: records(change("insert", "inserted", row, 2), change("delete", "inserted", row, 1)),
			want: []string{"Ok - - update", "Dropped superseded - -"},
		},
		{
			name:    "insert over insert over delete replaces",
			records: records(change("delete", "inserted", row, 1), change("insert", "inserted", row, 2), change("insert", "inserted", row, 3)),
			want:    []string{"Dropped superseded - -", "Dropped superseded - -", "Ok - - update"},
		},
		{
			name: "one key in two spellings", records: records(change("update", "orders", row, 1), change("update", "orders", `{"id":"07","note":"n","total":1}`, 2)),
			want: []string{"Dropped superseded - -", "Ok - - update"},
		},
		{
			name: "equal keys of two tables", records: records(change("update", "orders", row, 1), change("update", "upserted", row, 2)),
			want: []string{"Ok - - update", "Ok - - update"},
		},
		{
			name: "no collapse in a changelog", mode: changelog, records: records(change("insert", "orders", row, 1), change("update", "orders", row, 2)),
			want: []string{"Ok - - insert", "Ok - - insert"},
		},
		{
			name: "no collapse without a key", records: records(change("insert", "history", row, 1), change("insert", "history", row, 1)),
			want: []string{"Ok - - insert", "Ok - - insert"},
		},
		// room
		{
			name: "does not fit", room: fixedRoom{limit: 25, echo: 10, row: 15}, records: records(change("insert", "history", row, 1), change("insert", "history", row, 2)),
			want: []string{"Ok - - insert", "ProcessingFailed response_too_large - -"},
		},
		{
			name: "what does not fit does not supersede", room: fixedRoom{limit: 25, echo: 10, row: 16},
			records: records(change("load", "orders", row, 1), change("update", "orders", row, 2)),
			want:    []string{"ProcessingFailed response_too_large - -", "ProcessingFailed response_too_large - -"},
		},
		{
			name: "superseding gives room back", room: fixedRoom{limit: 25, echo: 10, row: 15},
			records: records(change("insert", "orders", row, 1), change("update", "orders", row, 2)),
			want:    []string{"Dropped superseded - -", "Ok - - update"},
		},
	}
}

type fixedRoom struct{ limit, echo, row int }

func (r fixedRoom) Limit() int                  { return r.limit }
func (r fixedRoom) Echo(int) int                { return r.echo }
func (r fixedRoom) Row(int, *transform.Row) int { return r.row }

func TestOutcomes(t *testing.T) {
	for _, c := range outcomeCases() {
		t.Run(c.name, func(t *testing.T) {
			if c.file == "" {
				c.file = pipelineText
			}
			tr := newTransformer(t, c.file, transform.Options{Mode: c.mode})
			var got []string
			for i, r := range tr.BatchWithin(c.records, c.room) {
				if r.ID != c.records[i].ID {
					t.Errorf("result %d answers %s", i, r.ID)
				}
				got = append(got, summary(&r))
				checkResult(t, &r)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("outcomes differ (-want +got):\n%s", diff)
			}
		})
	}
}

// Every reason of the closed list is the outcome of some case, and no case
// ends for a reason that is not in it.
func TestEveryReasonHasACase(t *testing.T) {
	listed := make(map[string]bool)
	for _, r := range transform.Reasons() {
		if listed[string(r)] {
			t.Errorf("reason %s is listed twice", r)
		}
		listed[string(r)] = true
	}
	seen := make(map[string]bool)
	for _, c := range outcomeCases() {
		for _, w := range c.want {
			if reason := strings.Fields(w)[1]; reason != "-" {
				seen[reason] = true
			}
		}
	}
	if diff := cmp.Diff(listed, seen); diff != "" {
		t.Errorf("reasons and cases differ (-listed +seen):\n%s", diff)
	}
}

func summary(r *transform.Result) string {
	word := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	operation := "-"
	if r.Row.Table != nil {
		operation = r.Row.Operation.String()
	}
	return strings.Join([]string{string(r.Outcome), word(string(r.Reason)), word(r.Column), operation}, " ")
}

// checkResult checks what holds for every result.
func checkResult(t *testing.T, r *transform.Result) {
	t.Helper()
	if (r.Outcome == transform.Ok) != (r.Reason == "") || (r.Outcome == transform.Ok) != (r.Row.Table != nil) {
		t.Errorf("%s: outcome %s with reason %q and table %v", r.ID, r.Outcome, r.Reason, r.Row.Table != nil)
	}
	if r.Outcome != transform.Ok {
		return
	}
	var got map[string]any
	if err := json.Unmarshal(r.Row.Data, &got); err != nil {
		t.Fatalf("%s: row is not a JSON object: %v", r.ID, err)
	}
	columns, _ := r.Row.Table.LakeColumns()
	for _, c := range columns {
		if _, ok := got[c.Name]; !ok {
			t.Errorf("%s: row has no %s", r.ID, c.Name)
		}
	}
	if len(got) != len(columns) {
		t.Errorf("%s: row has %d columns, the table %d", r.ID, len(got), len(columns))
	}
}
