package dmssim_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/internal/dmssim"
)

func known(text string) dmssim.Datum { return dmssim.Datum{State: dmssim.Known, Text: text} }

var (
	null      = dmssim.Datum{State: dmssim.Null}
	unknown   = dmssim.Datum{State: dmssim.Unknown}
	unchanged = dmssim.Datum{State: dmssim.Unchanged}
)

// films is the table of the captured create-table record in the facts.
func films() *dmssim.Table {
	return &dmssim.Table{Schema: "public", Name: "films", Key: []string{"code"}, Columns: []dmssim.Column{
		{Name: "code", Kind: dmssim.Char, Length: 5},
		{Name: "title", Kind: dmssim.Varchar, Length: 40},
		{Name: "did", Kind: dmssim.Integer},
		{Name: "date_prod", Kind: dmssim.Date, Nullable: true},
		{Name: "kind", Kind: dmssim.Varchar, Length: 10, Nullable: true},
		{Name: "len", Kind: dmssim.Interval, Nullable: true},
	}}
}

// foo is the table of the captured changes.
func foo() *dmssim.Table {
	return &dmssim.Table{Schema: "public", Name: "foo", Key: []string{"id"}, Columns: []dmssim.Column{
		{Name: "id", Kind: dmssim.Integer},
		{Name: "name", Kind: dmssim.Text, Nullable: true},
		{Name: "age", Kind: dmssim.Integer, Nullable: true},
		{Name: "attributes", Kind: dmssim.JSONB, Nullable: true},
	}}
}

func at(text string) time.Time {
	t, err := time.Parse(dmssim.TimeLayout, text)
	if err != nil {
		panic(err)
	}
	return t
}

func unformatted(change func(*dmssim.Settings)) dmssim.Settings {
	s := dmssim.Defaults()
	s.MessageFormat = dmssim.JSONUnformatted
	if change != nil {
		change(&s)
	}
	return s
}

// everything is the settings of the public captures.
func everything(s *dmssim.Settings) {
	s.IncludeTransactionDetails, s.IncludePartitionValue, s.PartitionIncludeSchemaTable = true, true, true
	s.IncludeControlDetails, s.IncludeNullAndEmpty, s.EnableBeforeImage = true, true, true
}

func change(op dmssim.Operation, previous dmssim.RecordID, row, before []dmssim.Datum) *dmssim.Message {
	return &dmssim.Message{
		Table: foo(), Operation: op, Built: at("2024-07-29T00:58:17.983670Z"), Row: row, Before: before,
		Transaction: &dmssim.Transaction{
			RecordID: dmssim.RecordID{Transaction: 1140, Record: 2}, Previous: previous,
			Committed: at("2024-07-29T00:58:17.974340Z"), StreamPosition: "00000002/7C007178.3.00000002/7C007178",
		},
	}
}

// TestData has one case for each documented shape of a data record. The
// expected texts are written by hand.
func TestData(t *testing.T) {
	jane := []dmssim.Datum{known("46"), known("Jane"), known("31"), known(`{"baz": "qux"}`)}
	first, next := dmssim.RecordID{}, dmssim.RecordID{Transaction: 1139, Record: 1}
	load := &dmssim.Message{
		Table: foo(), Operation: dmssim.Load, Built: at("2024-07-29T00:58:17.000000Z"), Row: []dmssim.Datum{known("42"), known(""), null, null},
	}
	detail := `"transaction-id":1140,"transaction-record-id":2,"prev-transaction-id":1139,"prev-transaction-record-id":1,` +
		`"commit-timestamp":"2024-07-29T00:58:17.974340Z","stream-position":"00000002/7C007178.3.00000002/7C007178"}}`
	metadata := func(op string) string {
		return `"metadata":{"timestamp":"2024-07-29T00:58:17.983670Z","record-type":"data","operation":"` + op +
			`","partition-key-type":"schema-table","schema-name":"public","table-name":"foo",`
	}
	tests := []struct {
		name     string
		settings dmssim.Settings
		message  *dmssim.Message
		want     string
	}{
		{
			"load, nothing set", unformatted(nil), load,
			`{"data":{"id":42},"metadata":{"timestamp":"2024-07-29T00:58:17.000000Z","record-type":"data","operation":"load","partition-key-type":"primary-key","schema-name":"public","table-name":"foo"}}`,
		},
		{
			"load, everything set", unformatted(everything), load,
			`{"data":{"id":42,"name":"","age":null,"attributes":null},"metadata":{"timestamp":"2024-07-29T00:58:17.000000Z","record-type":"data","operation":"load","partition-key-type":"primary-key","partition-key-value":"public.foo.42","schema-name":"public","table-name":"foo"}}`,
		},
		{
			"load, formatted", dmssim.Defaults(), load,
			"{\n\t\"data\":\t{\n\t\t\"id\":\t42\n\t},\n\t\"metadata\":\t{\n\t\t\"timestamp\":\t\"2024-07-29T00:58:17.000000Z\",\n\t\t\"record-type\":\t\"data\",\n\t\t\"operation\":\t\"load\",\n\t\t\"partition-key-type\":\t\"primary-key\",\n\t\t\"schema-name\":\t\"public\",\n\t\t\"table-name\":\t\"foo\"\n\t}\n}",
		},
		{
			"insert without details has a transaction id", unformatted(nil), change(dmssim.Insert, next, jane, nil),
			`{"data":{"id":46,"name":"Jane","age":31,"attributes":"{\"baz\": \"qux\"}"},` + metadata("insert") + `"transaction-id":1140}}`,
		},
		{
			"first change of a task has no previous", unformatted(everything), change(dmssim.Insert, first, jane, nil),
			`{"data":{"id":46,"name":"Jane","age":31,"attributes":"{\"baz\": \"qux\"}"},` + metadata("insert") +
				`"transaction-id":1140,"transaction-record-id":2,"commit-timestamp":"2024-07-29T00:58:17.974340Z","stream-position":"00000002/7C007178.3.00000002/7C007178"}}`,
		},
		{
			"update has an empty before-image", unformatted(everything), change(dmssim.Update, next, jane, nil),
			`{"data":{"id":46,"name":"Jane","age":31,"attributes":"{\"baz\": \"qux\"}"},"before-image":{},` + metadata("update") + detail,
		},
		{
			"update of the key has the old one", unformatted(everything),
			change(dmssim.Update, next, jane, []dmssim.Datum{known("45"), unknown, unknown, unknown}),
			`{"data":{"id":46,"name":"Jane","age":31,"attributes":"{\"baz\": \"qux\"}"},"before-image":{"id":45},` + metadata("update") + detail,
		},
		{
			"old values as columns", unformatted(func(s *dmssim.Settings) { s.BeforeImageColumnPrefix = "BI_" }),
			change(dmssim.Update, next, jane, []dmssim.Datum{known("45"), unknown, unknown, unknown}),
			`{"data":{"id":46,"name":"Jane","age":31,"attributes":"{\"baz\": \"qux\"}","BI_id":45},` + metadata("update") + `"transaction-id":1140}}`,
		},
		{
			"before-image of all but large objects", unformatted(func(s *dmssim.Settings) {
				s.EnableBeforeImage, s.BeforeImageFieldName, s.BeforeImageColumnFilter = true, "old", "non-lob"
			}),
			change(dmssim.Update, next, jane, []dmssim.Datum{known("46"), known("Jan"), known("30"), null}),
			`{"data":{"id":46,"name":"Jane","age":31,"attributes":"{\"baz\": \"qux\"}"},"old":{"id":46,"age":30},` + metadata("update") + `"transaction-id":1140}}`,
		},
		{
			"unchanged value is absent", unformatted(everything), change(dmssim.Update, next, []dmssim.Datum{known("46"), unchanged, null, null}, nil),
			`{"data":{"id":46,"age":null,"attributes":null},"before-image":{},` + metadata("update") + detail,
		},
		{
			"unchanged value is null", unformatted(func(s *dmssim.Settings) { everything(s); s.UnchangedTOAST = dmssim.TOASTNull }),
			change(dmssim.Update, next, []dmssim.Datum{known("46"), unchanged, null, null}, nil),
			`{"data":{"id":46,"name":null,"age":null,"attributes":null},"before-image":{},` + metadata("update") + detail,
		},
		{
			"delete has the key and nulls", unformatted(everything), change(dmssim.Delete, next, []dmssim.Datum{known("45"), unknown, unknown, unknown}, nil),
			`{"data":{"id":45,"name":null,"age":null,"attributes":null},` + metadata("delete") + detail,
		},
		{
			"delete has the key only", unformatted(nil), change(dmssim.Delete, next, []dmssim.Datum{known("45"), unknown, unknown, unknown}, nil),
			`{"data":{"id":45},` + metadata("delete") + `"transaction-id":1140}}`,
		},
		{
			"text is UTF-8 with JSON's escapes only", unformatted(nil),
			change(dmssim.Insert, next, []dmssim.Datum{known("1"), known("ТИТОВ 漢 \"a\\b/\" \x01\t\n\r\b\f"), null, null}, nil),
			`{"data":{"id":1,"name":"ТИТОВ 漢 \"a\\b/\" \u0001\t\n\r\b\f"},` + metadata("insert") + `"transaction-id":1140}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.settings.Validate(); err != nil {
				t.Fatal(err)
			}
			got := tt.settings.AppendData(nil, tt.message, tt.settings.PartitionKey(tt.message))
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			if !json.Valid(got) {
				t.Error("the record is not JSON")
			}
		})
	}
}

func TestControl(t *testing.T) {
	built := at("2025-06-21T12:06:50.218696Z")
	metadata := `"metadata":{"timestamp":"2025-06-21T12:06:50.218696Z","record-type":"control","operation":"create-table","partition-key-type":"task-id","partition-key-value":"DZ6OKLFYA5BWVG4RYROQUHXU4E","schema-name":"public","table-name":"films"}}`
	keyless := films()
	keyless.Key, keyless.Columns = nil, keyless.Columns[:1]
	tests := []struct {
		name     string
		settings dmssim.Settings
		table    *dmssim.Table
		op       dmssim.Operation
		want     string
	}{
		{
			"create-table as captured", unformatted(everything), films(), dmssim.CreateTable,
			`{"control":{"table-def":{"columns":{"code":{"type":"STRING","length":5,"nullable":false},"title":{"type":"STRING","length":40,"nullable":false},"did":{"type":"INT32","nullable":false},"date_prod":{"type":"DATE32","nullable":true},"kind":{"type":"STRING","length":10,"nullable":true},"len":{"type":"STRING","length":17,"nullable":true}},"primary-key":["code"]}},` + metadata,
		},
		{
			"create-table without a key", unformatted(everything), keyless, dmssim.CreateTable,
			`{"control":{"table-def":{"columns":{"code":{"type":"STRING","length":5,"nullable":false}}}},` + metadata,
		},
		{
			"drop-table as captured", unformatted(everything), films(), dmssim.DropTable,
			`{"control":{},"metadata":{"timestamp":"2025-06-21T12:06:50.218696Z","record-type":"control","operation":"drop-table","partition-key-type":"task-id","partition-key-value":"DZ6OKLFYA5BWVG4RYROQUHXU4E","schema-name":"public","table-name":"films"}}`,
		},
		{
			"without details there is metadata only", unformatted(nil), films(), dmssim.CreateTable,
			`{"metadata":{"timestamp":"2025-06-21T12:06:50.218696Z","record-type":"control","operation":"create-table","partition-key-type":"task-id","schema-name":"public","table-name":"films"}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			key := dmssim.ControlKey("DZ6OKLFYA5BWVG4RYROQUHXU4E", tt.table)
			if want := "DZ6OKLFYA5BWVG4RYROQUHXU4E.public.films"; key.Key != want {
				t.Errorf("partition key %q, want %q", key.Key, want)
			}
			got := tt.settings.AppendControl(nil, &dmssim.Message{Table: tt.table, Operation: tt.op, Built: built}, key)
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFormattedControlIsJSON(t *testing.T) {
	s := dmssim.Defaults()
	everything(&s)
	for _, op := range []dmssim.Operation{dmssim.CreateTable, dmssim.DropTable} {
		got := s.AppendControl(nil, &dmssim.Message{Table: films(), Operation: op, Built: at("2025-06-21T12:06:50.218696Z")}, dmssim.ControlKey("T", films()))
		if !json.Valid(got) {
			t.Errorf("%s: not JSON: %s", op, got)
		}
	}
}

func TestPartitionKey(t *testing.T) {
	two := foo()
	two.Key = []string{"age", "id"}
	keyless := foo()
	keyless.Key = nil
	row := []dmssim.Datum{known("42"), known("Jane"), known("31"), null}
	transaction := &dmssim.Transaction{RecordID: dmssim.RecordID{Transaction: 77, Record: 1}}
	mapping := func(kind dmssim.PartitionKeyType, name string) dmssim.Settings {
		return unformatted(func(s *dmssim.Settings) {
			s.ObjectMappings = map[string]dmssim.ObjectMapping{"public.foo": {PartitionKeyType: kind, PartitionKeyName: name}}
		})
	}
	key := func(kind dmssim.PartitionKeyType, value, hashed string) dmssim.PartitionKey {
		return dmssim.PartitionKey{Type: kind, Value: value, Key: hashed}
	}
	tests := []struct {
		name     string
		settings dmssim.Settings
		message  dmssim.Message
		want     dmssim.PartitionKey
	}{
		{"load by default", unformatted(nil), dmssim.Message{Table: foo(), Operation: dmssim.Load}, key(dmssim.PrimaryKeyPartition, "42", "42")},
		{"load with schema and table", unformatted(everything), dmssim.Message{Table: foo(), Operation: dmssim.Load}, key(dmssim.PrimaryKeyPartition, "public.foo.42", "public.foo.42")},
		{"key of two columns, in key order", unformatted(everything), dmssim.Message{Table: two, Operation: dmssim.Load}, key(dmssim.PrimaryKeyPartition, "public.foo.31.42", "public.foo.31.42")},
		{"load without a key", unformatted(everything), dmssim.Message{Table: keyless, Operation: dmssim.Load}, key(dmssim.SchemaTablePartition, "", "public.foo")},
		{"change by default", unformatted(everything), dmssim.Message{Table: foo(), Operation: dmssim.Update, Transaction: transaction}, key(dmssim.SchemaTablePartition, "", "public.foo")},
		{
			"change applied in parallel", unformatted(func(s *dmssim.Settings) { s.ParallelApplyThreads = 4 }),
			dmssim.Message{Table: foo(), Operation: dmssim.Update, Transaction: transaction},
			key(dmssim.PrimaryKeyPartition, "42", "42"),
		},
		{"mapped to the primary key", mapping(dmssim.PrimaryKeyPartition, ""), dmssim.Message{Table: foo(), Operation: dmssim.Delete, Transaction: transaction}, key(dmssim.PrimaryKeyPartition, "42", "42")},
		{"mapped to the table", mapping(dmssim.SchemaTablePartition, ""), dmssim.Message{Table: foo(), Operation: dmssim.Load}, key(dmssim.SchemaTablePartition, "", "public.foo")},
		{"mapped to the transaction", mapping(dmssim.TransactionPartition, ""), dmssim.Message{Table: foo(), Operation: dmssim.Insert, Transaction: transaction}, key(dmssim.TransactionPartition, "77", "77")},
		{"a load has no transaction", mapping(dmssim.TransactionPartition, ""), dmssim.Message{Table: foo(), Operation: dmssim.Load}, key(dmssim.SchemaTablePartition, "", "public.foo")},
		{"mapped to a constant", mapping(dmssim.ConstantPartition, "all"), dmssim.Message{Table: foo(), Operation: dmssim.Load}, key(dmssim.ConstantPartition, "all", "all")},
		{"mapped to a column", mapping(dmssim.AttributeName, "name"), dmssim.Message{Table: foo(), Operation: dmssim.Load}, key(dmssim.AttributeName, "Jane", "Jane")},
		{"mapped to a column that is null", mapping(dmssim.AttributeName, "attributes"), dmssim.Message{Table: foo(), Operation: dmssim.Load}, key(dmssim.SchemaTablePartition, "", "public.foo")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.message.Row = row
			if diff := cmp.Diff(tt.want, tt.settings.PartitionKey(&tt.message)); diff != "" {
				t.Errorf("partition key (-want +got):\n%s", diff)
			}
		})
	}
}
