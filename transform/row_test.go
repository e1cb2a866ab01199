package transform_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/transform"
)

const (
	position1  = "0000.00000001000000010000000100000001.1.0000000000000001"
	committed1 = "2026-01-02T03:04:04.000001Z"
	// loadTie is metadata.timestamp 2026-01-02T03:04:05.000001Z in
	// microseconds, shard 1, sequence 1000.
	loadTie = "06475ef64cf341" + "00000001" + "000000000000000000000000000000000000000000003e8"
)

// metadata is what every row of change number 1 ends with.
func metadata(more string) string {
	return fmt.Sprintf(`"cdc_position":%q,"cdc_committed_at":%q%s}`, position1, committed1, more)
}

// changelogEnd is what a changelog row ends with.
func changelogEnd(operation, oldKey, absent string) string {
	return metadata(fmt.Sprintf(`,"cdc_operation":%q,"cdc_old_key":%s,"cdc_absent":%s`, operation, oldKey, absent))
}

// only returns the row's text of one column, with its name.
func only(row, column string) string {
	_, rest, ok := strings.Cut(row, `"`+column+`":`)
	if !ok {
		return ""
	}
	names := []string{
		`,"i":`, `,"b":`, `,"f":`, `,"d":`, `,"n":`, `,"day":`, `,"at":`, `,"ts":`, `,"tz":`, `,"s":`, `,"c":`, `,"u":`, `,"x":`, `,"y":`,
		`,"rounded":`, `,"nulled":`, `,"replaced":`, `,"secret":`, `,"hidden":`, `,"renamed":`, `,"cdc_position":`,
	}
	for _, n := range names {
		if before, _, ok := strings.Cut(rest, n); ok {
			rest = before
		}
	}
	return rest
}

func TestRows(t *testing.T) {
	tests := []struct {
		name   string
		record string
		mode   catalog.Mode
		want   string
	}{
		{
			"mirror", change("insert", "orders", `{"note":"n","total":"1.5","extra":1,"id":7}`, 1), "",
			`{"id":7,"note":"n","total":"1.50",` + metadata(""),
		},
		{
			"any spelling", change("insert", "orders", `{"NOTE":"n","Total":-0.5,"ID":7}`, 1), "",
			`{"id":7,"note":"n","total":"-0.50",` + metadata(""),
		},
		{
			"the last of one name", change("insert", "orders", `{"id":7,"note":"a","note":null,"total":1,"note":"b"}`, 1), "",
			`{"id":7,"note":"b","total":"1.00",` + metadata(""),
		},
		{
			"empty is not null", change("insert", "orders", `{"id":7,"note":"","total":null}`, 1), "",
			`{"id":7,"note":"","total":null,` + metadata(""),
		},
		{
			"delete carries its key", change("delete", "orders", `{"id":7,"note":"n","total":"1.5"}`, 1), "",
			`{"id":7,"note":null,"total":null,` + metadata(""),
		},
		{
			"changelog", change("update", "log", `{"id":7,"note":"n","total":"1.5"}`, 1), "",
			`{"id":7,"note":"n","total":"1.50",` + changelogEnd("update", "null", "null"),
		},
		{
			"absent columns are listed", change("update", "log", `{"id":7,"total":"1.5"}`, 1), "",
			`{"id":7,"note":null,"total":"1.50",` + changelogEnd("update", "null", `"note"`),
		},
		{
			"changelog delete", change("delete", "log", `{"id":7,"note":"n"}`, 1), "",
			`{"id":7,"note":null,"total":null,` + changelogEnd("delete", "null", "null"),
		},
		{
			"delete with its key in the before-image", change("delete", "orders", `{"id":null,"note":null,"total":null}`, 1, `"before-image":{"id":7}`), "",
			`{"id":7,"note":null,"total":null,` + metadata(""),
		},
		{
			"a key in the record counts before that of a before-image", change("delete", "orders", `{"id":7}`, 1, `"before-image":{"id":8}`), "",
			`{"id":7,"note":null,"total":null,` + metadata(""),
		},
		{
			"a keyless delete keeps what it has", change("delete", "keyless_log", `{"id":7,"note":"n"}`, 1), "",
			`{"id":7,"note":"n","total":null,` + changelogEnd("delete", "null", "null"),
		},
		{
			"old key", change("update", "log", `{"id":7,"note":"n","total":1}`, 1, `"before-image":{"id":"06"}`), "",
			`{"id":7,"note":"n","total":"1.00",` + changelogEnd("update", `"[\"6\"]"`, "null"),
		},
		{
			"the same key in two spellings", change("update", "log", `{"id":7,"note":"n","total":1}`, 1, `"before-image":{"id":"07"}`), "",
			`{"id":7,"note":"n","total":"1.00",` + changelogEnd("update", "null", "null"),
		},
		{
			"an empty before-image", change("update", "log", `{"id":7,"note":"n","total":1}`, 1, `"before-image":{}`), "",
			`{"id":7,"note":"n","total":"1.00",` + changelogEnd("update", "null", "null"),
		},
		{
			"a load has no commit time", change("load", "orders", `{"id":7,"note":"n","total":"1.5"}`, 1), "",
			`{"id":7,"note":"n","total":"1.50","cdc_position":"0000.00000000000000000000000000000000.0.` + loadTie + `","cdc_committed_at":null}`,
		},
		{
			"nor when the endpoint writes one", strings.Replace(change("load", "orders", `{"id":7,"note":"n","total":"1.5"}`, 1),
				`"metadata":{`, `"metadata":{"commit-timestamp":"2026-01-02T03:04:04.000000Z",`, 1), "",
			`{"id":7,"note":"n","total":"1.50","cdc_position":"0000.00000000000000000000000000000000.0.` + loadTie + `","cdc_committed_at":null}`,
		},
		{
			"changelog load", change("load", "log", `{"id":7,"note":"n","total":"1.5"}`, 1), "",
			`{"id":7,"note":"n","total":"1.50","cdc_position":"0000.00000000000000000000000000000000.0.` + loadTie +
				`","cdc_committed_at":null,"cdc_operation":"load","cdc_old_key":null,"cdc_absent":null}`,
		},
		{
			"mode of the stream", change("insert", "orders", `{"id":7,"note":"n","total":"1.5"}`, 1), catalog.Changelog,
			`{"id":7,"note":"n","total":"1.50",` + changelogEnd("insert", "null", "null"),
		},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			r := newTransformer(t, pipelineText, transform.Options{Mode: c.mode}).Batch(records(c.record))[0]
			if diff := cmp.Diff(c.want, string(r.Row.Data)); diff != "" {
				t.Errorf("row differs (%s %s) (-want +got):\n%s", r.Reason, r.Column, diff)
			}
		})
	}
}

// A composite key change keeps the parts that the before-image leaves out, in
// key order, escaped twice.
func TestOldKeyOfSeveralColumns(t *testing.T) {
	record := change("update", "lines", `{"line":"b\"","order_id":1}`, 1, `"before-image":{"line":"a\"\u0001é"}`)
	r := newTransformer(t, pipelineText, transform.Options{}).Batch(records(record))[0]
	want := `"cdc_old_key":"[\"1\",\"a\\\"\\u0001é\"]"`
	if !strings.Contains(string(r.Row.Data), want) {
		t.Errorf("row %s has no %s", r.Row.Data, want)
	}
	if r.OldKeyLeft {
		t.Error("a changelog leaves no old key behind")
	}
}

// One changed part makes another key, whatever part comes after it.
func TestOldKeyWithOnePartChanged(t *testing.T) {
	record := change("update", "lines", `{"line":"b","order_id":1}`, 1, `"before-image":{"order_id":2,"line":"b"}`)
	r := newTransformer(t, pipelineText, transform.Options{}).Batch(records(record))[0]
	if want := `"cdc_old_key":"[\"2\",\"b\"]"`; !strings.Contains(string(r.Row.Data), want) {
		t.Errorf("row %s has no %s", r.Row.Data, want)
	}
}

// Commit times of one batch, in the same second and in others.
func TestCommitTimes(t *testing.T) {
	times := []string{"2026-01-02T03:04:04.000001Z", "2026-01-02T03:04:04.999999Z", "2026-01-02T03:04:05.000000Z", "1969-12-31T23:59:59.900000Z"}
	var texts []string
	for _, at := range times {
		texts = append(texts, strings.Replace(change("insert", "history", row, 1), committed1, at, 1))
	}
	for i, r := range newTransformer(t, pipelineText, transform.Options{}).Batch(records(texts...)) {
		if want := `"cdc_committed_at":"` + times[i] + `"`; !strings.Contains(string(r.Row.Data), want) {
			t.Errorf("row %s has no %s", r.Row.Data, want)
		}
	}
}

func TestOldKeyLeft(t *testing.T) {
	tests := []struct {
		name    string
		records []transform.Record
		want    []bool
	}{
		{"key changed", records(change("update", "orders", row, 1, `"before-image":{"id":6}`)), []bool{true}},
		{"key not changed", records(change("update", "orders", row, 1, `"before-image":{"id":7,"note":"old"}`)), []bool{false}},
		{"key unknown", records(change("update", "orders", row, 1, `"before-image":{"id":null}`)), []bool{false}},
		{"key that is none", records(change("update", "orders", row, 1, `"before-image":{"id":"x"}`)), []bool{true}},
		{"superseded", records(change("update", "orders", row, 1, `"before-image":{"id":6}`), change("update", "orders", row, 2)), []bool{true, false}},
		{"an insert has no old key", records(change("insert", "orders", row, 1, `"before-image":{"id":6}`)), []bool{false}},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			var got []bool
			for _, r := range newTransformer(t, pipelineText, transform.Options{}).Batch(c.records) {
				got = append(got, r.OldKeyLeft)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("old keys differ (-want +got):\n%s", diff)
			}
		})
	}
}

// A mirror delivers the row under its new key.
func TestOldKeyIsNotTheRowOfAMirror(t *testing.T) {
	r := newTransformer(t, pipelineText, transform.Options{}).Batch(records(change("update", "orders", row, 1, `"before-image":{"id":6}`)))[0]
	if diff := cmp.Diff(`{"id":7,"note":"n","total":"1.50",`+metadata(""), string(r.Row.Data)); diff != "" {
		t.Errorf("row differs (-want +got):\n%s", diff)
	}
}

// A changelog cannot deliver a key change whose old key it cannot write: a
// fold would keep the old row.
func TestOldKeyThatIsNoneFailsInChangelog(t *testing.T) {
	r := newTransformer(t, pipelineText, transform.Options{}).Batch(records(change("update", "log", row, 1, `"before-image":{"id":"x"}`)))[0]
	if got, want := summary(&r), "ProcessingFailed invalid_value id -"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestValues(t *testing.T) {
	tests := []struct{ column, in, want string }{
		{"i", `"-2147483648"`, `-2147483648`},
		{"i", `7.000`, `7`},
		{"i", `-0`, `0`},
		{"id", `-9223372036854775808`, `-9223372036854775808`},
		{"b", `"true"`, `true`},
		{"b", `0`, `false`},
		{"f", `2.20000005`, `2.20000005`},
		{"d", `1E-130`, `1E-130`},
		{"d", `-0`, `-0`},
		{"d", `"0.10"`, `0.10`},
		{"d", `"+1.5"`, `1.5`},
		{"d", `"01.5"`, `1.5`},
		{"d", `123456789012345678901234567890.5`, `123456789012345678901234567890.5`},
		{"n", `"1234567890123456789012345678901234.5678"`, `"1234567890123456789012345678901234.5678"`},
		{"n", `-0.0`, `"0.0000"`},
		{"n", `1.10`, `"1.1000"`},
		{"rounded", `"1.25"`, `"1.3"`},
		{"nulled", `2147483648`, `null`},
		{"day", `"2018-01-02"`, `"2018-01-02"`},
		{"at", `"18:56:15.096"`, `"18:56:15.096000"`},
		{"ts", `"2026-01-02T03:04:05Z"`, `"2026-01-02T03:04:05.000000"`},
		{"tz", `"2026-01-02T03:04:05.1+02:00"`, `"2026-01-02T01:04:05.100000Z"`},
		{"s", `"a\u0000\u001f\"\\\/\n\u00e9\ud83d\ude00é😀"`, `"a\u0000\u001f\"\\/\né😀é😀"`},
		{"s", `"\b\t\n\f\r\u000B"`, `"\b\t\n\f\r\u000b"`},
		{"s", `"\u0008\u0009\u000a\u000C\u000d"`, `"\b\t\n\f\r"`},
		{"c", `"\u000a\r "`, `"\n\r"`},
		{"s", `{ "a":["\u000a",1.0], "a":null}`, `"{ \"a\":[\"\\u000a\",1.0], \"a\":null}"`},
		{"s", "[\n\t]", `"[\n\t]"`},
		{"c", `[1]`, `"[1]"`},
		{"replaced", `["\ud83d"]`, `"[\"\\ud83d\"]"`},
		{"s", `"\u0061"`, `"a"`},
		{"s", `12.50`, `"12.50"`},
		{"s", `""`, `""`},
		{"c", `"B   "`, `"B"`},
		{"u", `"21C5521C-0000-4000-8000-00000000000A"`, `"21c5521c-0000-4000-8000-00000000000a"`},
		{"x", `"0x0AFF"`, `"0aff"`},
		{"y", `"0aFF00"`, `"0aff00"`},
		{"replaced", `"a\ud83d"`, "\"a\uFFFD\""},
		// echo -n 42 | sha256sum
		{"secret", `"042"`, `"73475cb40a568e8da8a045ced110137e159f890ac4da883b6b17dc651b3a8049"`},
		{"secret", `null`, `null`},
		{"hidden", `"not even a number"`, `null`},
		{"renamed", `"wrong name"`, `null`},
	}
	tr := newTransformer(t, pipelineText, transform.Options{})
	for _, c := range tests {
		t.Run(c.column+" "+c.in, func(t *testing.T) {
			data := fmt.Sprintf(`{"id":1,%q:%s}`, c.column, c.in)
			if c.column == "id" {
				data = fmt.Sprintf(`{"id":%s}`, c.in)
			}
			r := tr.Batch(records(change("insert", "typed", data, 1)))[0]
			if got := only(string(r.Row.Data), c.column); got != c.want {
				t.Errorf("got %s (%s %s), want %s", got, r.Reason, r.Column, c.want)
			}
			checkResult(t, &r)
		})
	}
	r := tr.Batch(records(change("insert", "typed", `{"id":1,"Old Name":"x","gone":{}}`, 1)))[0]
	if got := only(string(r.Row.Data), "renamed"); got != `"x"` {
		t.Errorf("column found by its source spelling: got %s (%s)", got, r.Reason)
	}
}

// A text of control characters, each of which the source may write in two
// bytes, must not outgrow the record: the response has a limit.
func TestRowOfControlCharactersIsNotLonger(t *testing.T) {
	tr := newTransformer(t, pipelineText, transform.Options{})
	for _, escape := range []string{`\b`, `\t`, `\n`, `\f`, `\r`, `\"`, `\\`, `\/`, `\u0000`, `\u000a`, `\u001f`, `\u0022`, `\u005c`, `\u00e9`} {
		text := `"` + strings.Repeat(escape, 1000) + `"`
		for _, column := range []string{"s", "c"} {
			r := tr.Batch(records(change("insert", "typed", fmt.Sprintf(`{"id":1,%q:%s}`, column, text), 1)))[0]
			if got := only(string(r.Row.Data), column); got == "" || len(got) > len(text) {
				t.Errorf("column %s: 1000 of %s have %d bytes in a row (%s), %d in the record", column, escape, len(got), r.Reason, len(text))
			}
		}
	}
}

func TestPositions(t *testing.T) {
	epochs := strings.Replace(pipelineText, "tables:", "epochs: [{epoch: 3, since: 2026-01-02T00:00:00Z}]\ntables:", 1)
	late := strings.Replace(change("load", "reloaded", row, 1), "2026-01-02", "2026-02-02", 1)
	kinds := func(kind string) string {
		return strings.Replace(pipelineText, "position: postgres", "position: "+kind, 1)
	}
	at := func(position string) string {
		return strings.Replace(change("update", "orders", row, 1), `"00000001/00000001.2.00000001/00000001"`, position, 1)
	}
	tests := []struct{ name, file, record, want string }{
		{"change", pipelineText, change("update", "orders", row, 1), position1},
		{"epoch by commit time", epochs, change("update", "orders", row, 1), "0003" + position1[4:]},
		{"first load", epochs, change("load", "orders", row, 1), "0000.00000000000000000000000000000000.0." + loadTie},
		{"announced load", pipelineText, late, "0000.00000000000000010000000000000001.0.0649ce93619341" + loadTie[14:]},
		{"announced load in an epoch", epochs, late, "0003.00000000000000010000000000000001.0.0649ce93619341" + loadTie[14:]},
		{
			"column", pipelineText, change("insert", "numbered", `{"id":7,"SEQ":"20260205124524000000000000050700869"}`, 0),
			"0000.0003e6e7bd755a8f88ce63947685a245.1.0000000000000001",
		},
		{"none", pipelineText, change("insert", "lines", `{"order_id":1,"line":"a"}`, 1), "0000.00000000000000000000000000000000.1." + loadTie},
		{"sqlserver", kinds("sqlserver"), at(`"0000002A:000001F4:0003"`), "0000.0000000000000000002a000001f40003.1.0000000000000001"},
		{"oracle", kinds("oracle"), at(`"1158789012"`), "0000.0000000000000000000000004511b794.1.0000000000000001"},
		{"oracle, a number", kinds("oracle"), at(`1158789012`), "0000.0000000000000000000000004511b794.1.0000000000000001"},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			r := newTransformer(t, c.file, transform.Options{}).Batch(records(c.record))[0]
			_, got, _ := strings.Cut(string(r.Row.Data), `"cdc_position":"`)
			got, _, _ = strings.Cut(got, `"`)
			if got != c.want {
				t.Errorf("position %s (%s), want %s", got, r.Reason, c.want)
			}
		})
	}
}

func TestDrift(t *testing.T) {
	same := `{"table-def":{"columns":{"ID":{"type":"INT64"},"note":{},"total":{}},"primary-key":["ID"]}}`
	other := `{"table-def":{"columns":{"id":{},"zeta":{},"beta":{},"gamma":{},"delta":{},"eta":{},"alpha":{},"total":{}}}}`
	tests := []struct {
		name, record string
		want         *transform.Drift
	}{
		{"the create-table of a load", control("create-table", "orders", same), nil},
		{"a create-table with other columns", control("create-table", "orders", other), &transform.Drift{
			Table: "public.orders", Statement: "create-table", Defined: true, Unknown: []string{"alpha", "beta", "delta", "eta", "gamma", "zeta"}, Missing: []string{"note"},
		}},
		{"a create-table without details", control("create-table", "orders", "null"), &transform.Drift{Table: "public.orders", Statement: "create-table"}},
		{
			"any other DDL that ends with the same columns", control("column-type-change", "orders", same),
			&transform.Drift{Table: "public.orders", Statement: "column-type-change", Defined: true},
		},
		{"any other DDL", control("add-column", "orders", `{"what":"ever"}`), &transform.Drift{Table: "public.orders", Statement: "add-column"}},
		{"drop", control("drop-table", "orders", `{}`), &transform.Drift{Table: "public.orders", Statement: "drop-table"}},
		{"a marker of the task", control("restart", "orders", `{}`), nil},
		{"an unknown table", control("add-column", "nowhere", `{}`), nil},
		{"excluded columns are known", control("create-table", "typed",
			`{"table-def":{"columns":{"id":1,"i":1,"b":1,"f":1,"d":1,"n":1,"day":1,"at":1,"ts":1,"tz":1,"s":1,"c":1,"u":1,"x":1,"y":1,`+
				`"rounded":1,"nulled":1,"replaced":1,"secret":1,"hidden":1,"gone":1,"Old Name":1}}}`), nil},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			r := newTransformer(t, pipelineText, transform.Options{}).Batch(records(c.record))[0]
			if diff := cmp.Diff(c.want, r.Drift); diff != "" {
				t.Errorf("drift differs (-want +got):\n%s", diff)
			}
		})
	}
}

// DDL on a table of a changelog stream raises its drift too.
func TestDriftInChangelog(t *testing.T) {
	r := newTransformer(t, pipelineText, transform.Options{Mode: catalog.Changelog}).Batch(records(control("drop-column", "orders", "{}")))[0]
	if diff := cmp.Diff(&transform.Drift{Table: "public.orders", Statement: "drop-column"}, r.Drift); diff != "" {
		t.Errorf("drift differs (-want +got):\n%s", diff)
	}
}

func TestOptions(t *testing.T) {
	r := newTransformer(t, pipelineText, transform.Options{Database: "raw", Suffix: "_changes"}).Batch(records(change("insert", "orders", row, 1)))[0]
	if got := r.Row.Table.Database() + "." + r.Row.Table.Name(); got != "raw.orders_changes" {
		t.Errorf("delivered to %s", got)
	}
	for name, o := range map[string]transform.Options{
		"mode":                      {Mode: "both"},
		"suffix":                    {Suffix: "-x"},
		"mirror without a position": {Mode: catalog.Mirror},
	} {
		if _, err := transform.New(parsePipeline(t, pipelineText), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
