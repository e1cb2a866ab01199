package transform_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/transform"
)

// What Explain says of each cell of the outcome table agrees with what Batch
// made of it: the row is put together from the explained columns, and a column
// that fails is the one that is refused.
func TestExplainAgrees(t *testing.T) {
	t.Parallel()
	for _, c := range outcomeCases() {
		if c.room != nil {
			continue
		}
		if c.file == "" {
			c.file = pipelineText
		}
		tr := newTransformer(t, c.file, transform.Options{Mode: c.mode})
		for _, r := range c.records {
			want := tr.Batch([]transform.Record{r})[0]
			e := tr.Explain(r)
			if diff := cmp.Diff(summary(&want), summary(&e.Result)); diff != "" {
				t.Errorf("%s: result (-batch +explain):\n%s", c.name, diff)
			}
			checkExplanation(t, c.name, &e)
		}
	}
}

func checkExplanation(t *testing.T, name string, e *transform.Explanation) {
	t.Helper()
	if (e.Change == nil) != (e.Rule == transform.RuleNone) {
		t.Errorf("%s: rule %q with change %t", name, e.Rule, e.Change != nil)
	}
	if (e.Table == nil) != (e.Rule != transform.RuleTable) {
		t.Errorf("%s: rule %q with table %t", name, e.Rule, e.Table != nil)
	}
	if e.Result.Column != "" {
		at := -1
		for i := range e.Columns {
			if e.Columns[i].Column.Name == e.Result.Column {
				at = i
			}
		}
		if at < 0 || e.Columns[at].Handling != transform.Refused || e.Columns[at].Reason != e.Result.Reason {
			t.Errorf("%s: column %s is not explained as refused for %s: %+v", name, e.Result.Column, e.Result.Reason, e.Columns)
		}
	}
	if e.Result.Outcome != transform.Ok {
		return
	}
	if e.Position == "" {
		t.Errorf("%s: delivered without a position", name)
	}
	var row map[string]json.RawMessage
	if err := json.Unmarshal(e.Result.Row.Data, &row); err != nil {
		t.Fatal(err)
	}
	for _, c := range e.Columns {
		if c.Handling == transform.LeftOut {
			if _, ok := row[c.Column.Name]; ok {
				t.Errorf("%s: excluded column %s is in the row", name, c.Column.Name)
			}
			continue
		}
		if !bytes.Equal(c.Row, row[c.Column.Name]) {
			t.Errorf("%s: column %s is explained as %s, the row has %s", name, c.Column.Name, c.Row, row[c.Column.Name])
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	file := strings.Replace(pipelineText, "tables:\n", `tables:
  - source: public.shown
    mode: mirror
    key: [id]
    columns:
      - {name: id, type: long, source: ID}
      - {name: gone, type: string, exclude: true}
      - {name: secret, type: string, mask: "null"}
      - {name: empty, type: string}
      - {name: note, type: string, may_be_unchanged: true}
      - {name: total, type: "decimal(12,2)"}
`, 1)
	tr := newTransformer(t, file, transform.Options{})
	for _, test := range []struct {
		name, record string
		rule         transform.Rule
		handlings    string // of the columns
		ignored      []string
	}{
		{
			"update", change("update", "shown", `{"ID":1,"gone":"g","secret":"s","empty":null,"total":1.5,"more":1,"id":9}`, 1),
			transform.RuleTable, "taken excluded null-masked null refused:partial_row taken",
			[]string{"more", "id"},
		},
		{"insert", change("insert", "shown", `{"ID":1,"secret":null,"empty":"","note":"n","total":"x"}`, 1), transform.RuleTable, "taken excluded null-masked taken taken refused:invalid_value", nil},
		{"delete", change("delete", "shown", `{"note":"n"}`, 1, `"before-image":{"ID":4}`), transform.RuleTable, "before:taken excluded null-masked not_kept not_kept not_kept", nil},
		{"unknown", change("insert", "nowhere", `{}`, 1), transform.RuleUnknown, "", nil},
		{"excluded", strings.Replace(change("insert", "t", `{}`, 1), `"public"`, `"audit"`, 1), transform.RuleExclude, "", nil},
		{"control", control("add-column", "shown", "{}"), transform.RuleControl, "", nil},
		{"internal", change("insert", "awsdms_history", `{}`, 1), transform.RuleInternal, "", nil},
		{"damaged", `{"data":`, transform.RuleNone, "", nil},
	} {
		e := tr.Explain(records(test.record)[0])
		var words []string
		for _, c := range e.Columns {
			word := string(c.Handling)
			if c.Handling == transform.Masked {
				word = "null-masked"
			}
			if c.Reason != "" {
				word += ":" + string(c.Reason)
			}
			if c.FromBefore {
				word = "before:" + word
			}
			words = append(words, word)
		}
		if e.Rule != test.rule || strings.Join(words, " ") != test.handlings {
			t.Errorf("%s: rule %q, columns %s", test.name, e.Rule, strings.Join(words, " "))
		}
		if diff := cmp.Diff(test.ignored, e.Ignored); diff != "" {
			t.Errorf("%s: ignored (-want +got):\n%s", test.name, diff)
		}
		if (e.Decode != nil) != (test.name == "damaged") {
			t.Errorf("%s: decode error %v", test.name, e.Decode)
		}
	}
}

func TestExplainTellsUnchangedFromAbsent(t *testing.T) {
	t.Parallel()
	tr := newTransformer(t, pipelineText, transform.Options{Mode: catalog.Changelog})
	e := tr.Explain(records(change("update", "orders", `{"id":7,"total":1}`, 1))[0])
	if e.Columns[1].Handling != transform.Unchanged || string(e.Columns[1].Row) != "null" {
		t.Errorf("an unchanged column: %+v", e.Columns[1])
	}
	e = tr.Explain(records(change("update", "sparse", `{"id":7}`, 1))[0])
	if last := e.Columns[len(e.Columns)-1]; last.Handling != transform.WasAbsent {
		t.Errorf("an absent column: %+v", last)
	}
	// The before-image of a table without a key is not looked at.
	e = tr.Explain(records(change("update", "keyless_log", row, 1, `"before-image":{"id":1,"ID":2}`))[0])
	if e.Result.Outcome != transform.Ok || e.Columns[0].Handling != transform.Taken {
		t.Errorf("a keyless table's before-image: %s, %+v", e.Result.Outcome, e.Columns[0])
	}
	if e := tr.Explain(transform.Record{ID: "x", Unread: transform.InvalidBase64}); e.Result.Reason != transform.InvalidBase64 || e.Change != nil {
		t.Errorf("an unread record: %+v", e)
	}
}

// A former key that is at fault is what is refused, with what stands in the
// before-image; a delete's null key is taken from there.
func TestExplainBefore(t *testing.T) {
	t.Parallel()
	tr := newTransformer(t, pipelineText, transform.Options{Mode: catalog.Changelog})
	for _, test := range []struct{ name, record, want string }{
		{"invalid", change("update", "orders", row, 1, `"before-image":{"ID":"x"}`), `before:refused:invalid_value ID "x"`},
		{"ambiguous", change("update", "orders", row, 1, `"before-image":{"id":7,"ID":8}`), `before:refused:ambiguous_column ID 8`},
		{"ambiguous in a delete", change("delete", "orders", row, 1, `"before-image":{"id":7,"ID":8}`), `before:refused:ambiguous_column ID 8`},
		{"null in a delete", change("delete", "orders", `{"id":null}`, 1, `"before-image":{"id":7}`), `before:taken: id 7`},
		{"not asked for one", change("insert", "orders", row, 1, `"before-image":{"id":"x","ID":8}`), `taken: id 7`},
	} {
		e := tr.Explain(records(test.record)[0])
		c := e.Columns[0]
		got := string(c.Handling) + ":" + string(c.Reason) + " " + c.Field + " " + string(c.Value.Raw)
		if c.FromBefore {
			got = "before:" + got
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
		checkExplanation(t, test.name, &e)
	}
}

// What the metadata columns of a changelog tell is explained as it stands in
// the row, and nothing of a mirror's or of a record that fails.
func TestExplainMetadata(t *testing.T) {
	t.Parallel()
	moved := change("update", "orders", `{"id":7,"total":1}`, 1, `"before-image":{"id":6}`)
	e := newTransformer(t, pipelineText, transform.Options{Mode: catalog.Changelog}).Explain(records(moved)[0])
	var delivered struct {
		OldKey string `json:"cdc_old_key"`
		Absent string `json:"cdc_absent"`
	}
	if err := json.Unmarshal(e.Result.Row.Data, &delivered); err != nil {
		t.Fatal(err)
	}
	if e.OldKey != delivered.OldKey || e.OldKey != `["6"]` || e.Absent != delivered.Absent || e.Absent == "" {
		t.Errorf("explained as %q and %q, the row has %q and %q", e.OldKey, e.Absent, delivered.OldKey, delivered.Absent)
	}
	e = newTransformer(t, pipelineText, transform.Options{Mode: catalog.Changelog}).Explain(records(change("update", "orders", row, 1, `"before-image":{"id":7}`))[0])
	if e.OldKey != "" || e.Absent != "" {
		t.Errorf("the key did not change: %q, %q", e.OldKey, e.Absent)
	}
	e = newTransformer(t, pipelineText, transform.Options{}).Explain(records(change("update", "orders", row, 1, `"before-image":{"id":6}`))[0])
	if e.OldKey != "" || !e.Result.OldKeyLeft {
		t.Errorf("a mirror has no such column: %q, %+v", e.OldKey, e.Result)
	}
}

// names: fold finds a table by any spelling, include: drops what it does not name.
func TestNamesAndInclude(t *testing.T) {
	t.Parallel()
	folding := strings.Replace(pipelineText, "tables:\n", "names: fold\ninclude: [\"PUBLIC.%\"]\ntables:\n", 1)
	shout := func(record string) string {
		return strings.NewReplacer(`"public"`, `"Public"`, `"orders"`, `"ORDERS"`, `"tmp_a_old"`, `"TMP_A_OLD"`).Replace(record)
	}
	for _, test := range []struct{ name, file, record, want, table string }{
		{"folded", folding, shout(change("insert", "orders", row, 1)), "Ok - - update", "public.orders"},
		{"folded, as it stands in the file", folding, change("insert", "orders", row, 1), "Ok - - update", "public.orders"},
		{"exact", pipelineText, shout(change("insert", "orders", row, 1)), "ProcessingFailed unknown_table - -", "Public.ORDERS"},
		{"folded and excluded", folding, shout(change("insert", "tmp_a_old", row, 1)), "Dropped excluded - -", "Public.TMP_A_OLD"},
		{"included, not described", folding, change("insert", "nowhere", row, 1), "ProcessingFailed unknown_table - -", "public.nowhere"},
		{"not included", folding, strings.Replace(change("insert", "orders", row, 1), `"public"`, `"other"`, 1), "Dropped excluded - -", "other.orders"},
		{"not included control", folding, strings.Replace(control("drop-table", "orders", "{}"), `"public"`, `"other"`, 1), "Dropped excluded - -", "other.orders"},
	} {
		got := newTransformer(t, test.file, transform.Options{}).Batch(records(test.record))[0]
		if summary(&got) != test.want || got.Table != test.table {
			t.Errorf("%s: got %s of %s", test.name, summary(&got), got.Table)
		}
	}
}
