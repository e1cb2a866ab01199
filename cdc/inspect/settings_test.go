package inspect_test

import (
	"bytes"
	"testing"

	"icehose/cdc/capture"
	"icehose/cdc/inspect"
)

func setting(r *inspect.Report, name string) string {
	for _, s := range r.Settings {
		if s.Name == name {
			return s.Value
		}
	}
	return "-"
}

func TestSettings(t *testing.T) {
	t.Parallel()
	pretty := stream(rec{op: "load", id: 1})
	pretty[0].Data = bytes.ReplaceAll(pretty[0].Data, []byte(`,"metadata"`), []byte(",\n\t\"metadata\""))
	other := stream(rec{op: "update", id: 1, tx: 5, noImage: true})
	other[0].Data = bytes.Replace(other[0].Data, []byte(`,"metadata"`), []byte(`,"old":{"id":2},"metadata"`), 1)
	for _, test := range []struct {
		name    string
		records []capture.Record
		setting string
		want    string
	}{
		{"one line", stream(calm()...), "MessageFormat", "json-unformatted"},
		{"pretty", pretty, "MessageFormat", "json"},
		{"both", append(stream(calm()...), pretty...), "MessageFormat", "mixed"},
		{"details", stream(calm()...), "IncludeTransactionDetails", "true"},
		{"no details", stream(rec{op: "insert", tx: 3, lessMeta: true}), "IncludeTransactionDetails", "false"},
		{"loads say nothing of details", stream(rec{op: "load"}), "IncludeTransactionDetails", "unknown"},
		{"key value", stream(calm()...), "IncludePartitionValue", "true"},
		{"key value of schema-table says nothing", stream(rec{op: "load", keyType: "schema-table"}), "IncludePartitionValue", "unknown"},
		{"no key value", stream(rec{op: "load", keyType: "transaction-id"}), "IncludePartitionValue", "false"},
		{"qualified", stream(calm()...), "PartitionIncludeSchemaTable", "true"},
		{"control details", stream(calm()...), "IncludeControlDetails", "true"},
		{"alter", stream(rec{op: "add-column", control: "{}"}), "IncludeTableAlterOperations", "true"},
		{"no alter", stream(calm()...), "IncludeTableAlterOperations", "unknown"},
		{"nulls", stream(calm()...), "IncludeNullAndEmpty", "true"},
		{"no nulls", stream(rec{op: "load", data: `{"a":1}`}, rec{op: "load", data: `{}`}), "IncludeNullAndEmpty", "false"},
		{"perhaps nulls", stream(rec{op: "load", data: `{"a":1}`}), "IncludeNullAndEmpty", "unknown"},
		{"before", stream(calm()...), "EnableBeforeImage", "true"},
		{"before of the key", stream(calm()...), "BeforeImage ColumnFilter", "pk-only"},
		{"before is the key", stream(rec{op: "update", tx: 5, before: `{"id":1}`}), "BeforeImage ColumnFilter", "pk-only"},
		{"before of more", stream(rec{op: "update", tx: 5, before: `{"id":1,"v":2}`}), "BeforeImage ColumnFilter", "all or non-lob"},
		{"before as columns", stream(rec{op: "update", tx: 5, noImage: true, data: `{"id":1,"BI_id":2}`}), "add-before-image-columns", "BI_"},
		{"before of another name", other, "BeforeImage FieldName", "old"},
		{"no before", stream(rec{op: "update", tx: 5, noImage: true}), "EnableBeforeImage", "false"},
		{"booleans", stream(rec{op: "load", data: `{"a":true}`}), "MapBooleanAsBoolean", "true"},
		{"text booleans", stream(rec{op: "load", data: `{"a":"false"}`}), "MapBooleanAsBoolean", "false"},
		{"large integers", stream(rec{op: "load", data: `{"a":1.2E18}`}), "UseLargeIntegerValue", "false"},
		{"integers of 17 digits", stream(rec{op: "load", data: `{"a":1.2e16}`}), "UseLargeIntegerValue", "false"},
		{"a small double", stream(rec{op: "load", data: `{"a":1.2e15,"b":1e-17,"c":1e200}`}), "UseLargeIntegerValue", "unknown"},
		{"schema-table changes", stream(rec{op: "insert", tx: 3, keyType: "schema-table"}), "ParallelApplyThreads", "0"},
		{"task tables", stream(rec{op: "insert", tx: 1, table: "awsdms_history"}), "ControlTablesSettings", "seen"},
	} {
		if got := setting(report(inspect.Options{}, test.records), test.setting); got != test.want {
			t.Errorf("%s: %s is %s, want %s", test.name, test.setting, got, test.want)
		}
	}
}
