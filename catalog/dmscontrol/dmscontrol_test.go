package dmscontrol_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/catalogtest"
	"icehose/catalog/dmscontrol"
	"icehose/cdc/kinesis"
)

func TestConformance(t *testing.T) {
	_, want := catalogtest.PostgreSQL()
	got, err := dmscontrol.Read(catalog.PostgreSQL, kinesis.Read(bytes.NewReader(catalogtest.Control())))
	if err != nil {
		t.Fatal(err)
	}
	catalogtest.Check(t, want, got)
}

// The types are DMS's, and each has a mapping.
func TestTypes(t *testing.T) {
	s, err := dmscontrol.Read(catalog.PostgreSQL, kinesis.Read(bytes.NewReader(catalogtest.Control())))
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, c := range s.Table("sales", "Orders").Columns {
		m, err := catalog.MapType(s.Words, c)
		if err != nil {
			t.Fatal(err)
		}
		got[c.Declared] = m.Type.String()
	}
	want := map[string]string{
		"INT64": "long", "NUMERIC(12,2)": "decimal(12,2)", "NUMERIC(28,6)": "decimal(28,6)", "STRING(52)": "string", "STRING(64)": "string",
		"NCLOB": "string", "STRING(120)": "string", "STRING(1)": "string", "TIMESTAMP": "timestamp", "TIME": "time", "STRING(17)": "string",
		"STRING(12)": "string", "BOOL": "boolean", "CLOB": "string",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
}

// The recorded stream of TPC-C defines its nine tables.
func TestRecordedStream(t *testing.T) {
	file, err := kinesis.Open("../../testdata/events/tpcc/events.ndjson.zst")
	if err != nil {
		t.Fatal(err)
	}
	s, err := dmscontrol.Read(catalog.PostgreSQL, kinesis.Read(file))
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	keys := make(map[string]string)
	for _, table := range s.Tables {
		keys[table.FullName()] = strings.Join(table.Key, ",")
	}
	want := map[string]string{
		"public.warehouse": "w_id", "public.district": "d_w_id,d_id", "public.customer": "c_w_id,c_d_id,c_id", "public.history": "",
		"public.orders": "o_w_id,o_d_id,o_id", "public.new_order": "no_w_id,no_d_id,no_o_id", "public.item": "i_id", "public.stock": "s_w_id,s_i_id",
		"public.order_line": "ol_w_id,ol_d_id,ol_o_id,ol_number",
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("tables and keys (-want +got):\n%s", diff)
	}
}

func TestAlterations(t *testing.T) {
	got, err := dmscontrol.Alterations(kinesis.Read(bytes.NewReader(catalogtest.Control())))
	if err != nil {
		t.Fatal(err)
	}
	want := []dmscontrol.Alteration{
		{Operation: "rename-column", Table: "sales.pair", BuiltAt: time.Date(2026, 2, 11, 8, 15, 14, 0, time.UTC)},
		{Operation: "add-column", Table: "sales.Orders", BuiltAt: time.Date(2026, 2, 11, 9, 0, 0, 0, time.UTC)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alterations (-want +got):\n%s", diff)
	}
	if _, err := dmscontrol.Alterations(kinesis.Read(strings.NewReader("{}"))); err == nil {
		t.Error("a file that is no stream was read")
	}
}

// The task's own tables are none of the source's, however they are spelled.
func TestInternalTables(t *testing.T) {
	var stream strings.Builder
	for i, table := range []string{"awsdms_status", "AWSDMS_STATUS", "orders"} {
		for _, operation := range []string{"create-table", "add-column"} {
			data, err := json.Marshal(`{"control":{"table-def":{"columns":{"a":{"type":"INT32"}}}},"metadata":{"timestamp":"2026-02-11T08:15:28.901000Z",` +
				`"record-type":"control","operation":"` + operation + `","partition-key-type":"task-id","schema-name":"a","table-name":"` + table + `"}}`)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&stream, `{"shardId":"s","sequenceNumber":"%d","partitionKey":"p","data":%s}`+"\n", i, data)
		}
	}
	s, err := dmscontrol.Read(catalog.Oracle, kinesis.Read(strings.NewReader(stream.String())))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tables) != 1 || s.Table("a", "orders") == nil {
		t.Errorf("tables %+v, want a.orders alone", s.Tables)
	}
	altered, err := dmscontrol.Alterations(kinesis.Read(strings.NewReader(stream.String())))
	if err != nil {
		t.Fatal(err)
	}
	if len(altered) != 1 || altered[0].Table != "a.orders" {
		t.Errorf("alterations %+v, want that of a.orders alone", altered)
	}
}

// FuzzColumns: no body of a control record makes the reader fail in another
// way than by an error.
func FuzzColumns(f *testing.F) {
	for _, s := range []string{`{"a":{"type":"INT32"}}`, `{}`, `[]`, `null`, `{"a":1}`, `{"a":{"type":"NUMERIC","precision":-1,"scale":99}}`, `{"a":{"type":"x"},"a":{"type":"y"}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, columns string) {
		data, err := json.Marshal(`{"control":{"table-def":{"columns":` + columns + `}},"metadata":{"timestamp":"2026-02-11T08:15:28.901000Z","record-type":"control","operation":"create-table","partition-key-type":"task-id","schema-name":"a","table-name":"b"}}`)
		if err != nil {
			t.Fatal(err)
		}
		s, err := dmscontrol.Read(catalog.MySQL, kinesis.Read(strings.NewReader(`{"shardId":"s","sequenceNumber":"7","partitionKey":"p","data":`+string(data)+`}`)))
		if (err == nil) != (s != nil && len(s.Tables[0].Columns) > 0) {
			t.Errorf("schema %v, error %v", s, err)
		}
	})
}

func TestReadRefuses(t *testing.T) {
	record := func(control, operation string) string {
		return `{"shardId":"s","sequenceNumber":"7","partitionKey":"p","data":"{` + control + `\"metadata\":{\"timestamp\":\"2026-02-11T08:15:28.901000Z\",\"record-type\":\"control\",\"operation\":\"` +
			operation + `\",\"partition-key-type\":\"task-id\",\"schema-name\":\"a\",\"table-name\":\"b\"}}"}` + "\n"
	}
	for name, test := range map[string]struct{ text, want string }{
		"nothing":         {"", "no control record defines a table"},
		"no details":      {record("", "create-table"), "IncludeControlDetails=true"},
		"only a change":   {record(`\"control\":{\"table-def\":{\"columns\":{\"x\":{\"type\":\"INT32\"}}}},`, "add-column"), "no control record defines a table"},
		"columns":         {record(`\"control\":{\"table-def\":{\"columns\":[]}},`, "create-table"), "record 7 of shard s: create-table of a.b: table-def"},
		"no type":         {record(`\"control\":{\"table-def\":{\"columns\":{\"x\":{}}}},`, "create-table"), "column x has no type"},
		"key is no field": {record(`\"control\":{\"table-def\":{\"columns\":{\"x\":{\"type\":\"INT32\"}},\"primary-key\":[\"y\"]}},`, "create-table"), "primary-key names y"},
		"not a stream":    {"{}", "line 1"},
	} {
		_, err := dmscontrol.Read(catalog.MySQL, kinesis.Read(strings.NewReader(test.text)))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
