package redrive_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/transform"
	"icehose/transform/redrive"
)

const pipelineText = `version: 1
database: shop
source: {engine: postgresql, position: postgres, nulls: included}
exclude: ["audit.%"]
tables:
  - source: public.orders
    mode: mirror
    key: [region, id]
    columns:
      - {name: id, type: long}
      - {name: region, type: string, source: REGION}
      - {name: total, type: "decimal(12,2)"}
  - {source: public.notes, mode: mirror, columns: [{name: note, type: string}]}
  - source: public.log
    mode: changelog
    key: [id]
    columns:
      - {name: id, type: long}
      - {name: text, type: string}
  - {source: public.twin_a, mode: changelog, columns: [{name: a, type: string}]}
  - {source: public.twin_b, mode: changelog, columns: [{name: a, type: string}]}
`

func original(operation, schema, table, data string, more ...string) string {
	text := `{"data":` + data + `,`
	for _, m := range more {
		text += m + ","
	}
	text += fmt.Sprintf(`"metadata":{"timestamp":"2026-01-02T03:04:05.000000Z","record-type":"data","operation":%q,"partition-key-type":"primary-key",`+
		`"partition-key-value":"%s.%s.7","schema-name":%q,"table-name":%q`, operation, schema, table, schema, table)
	if operation != "load" {
		text += `,"transaction-id":5,"transaction-record-id":1,"stream-position":"00000001/00000001.2.00000001/00000001"`
	}
	return text + "}}"
}

func object(code, arn, raw string) string {
	return fmt.Sprintf(`{"attemptsMade":4,"arrivalTimestamp":1650162905387,"errorCode":%q,"errorMessage":"m","attemptEndingTimestamp":1650162999999,"rawData":%q%s}`,
		code, base64.StdEncoding.EncodeToString([]byte(raw)), arn)
}

func failures(t *testing.T, name, in string) []redrive.Failure {
	t.Helper()
	var out []redrive.Failure
	for f, err := range redrive.Read(strings.NewReader(in), name) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	return out
}

func TestRead(t *testing.T) {
	t.Parallel()
	raw := []byte("raw")
	good := original("load", "public", "log", `{"id":1,"text":"t"}`)
	for _, test := range []struct {
		name, file, in string
		want           []redrive.Failure
	}{
		{"lambdaARN", "x", object("Lambda.FunctionError", `,"lambdaARN":"arn"`, "raw"), []redrive.Failure{
			{Kind: redrive.ProcessingFailed, Code: "Lambda.FunctionError", Tries: 4, Arrived: 1650162905387, Raw: raw, Line: 1},
		}},
		{"lambdaArn, code of nobody", "x", object("6553445559", `,"lambdaArn":"arn"`, "raw"), []redrive.Failure{
			{Kind: redrive.ProcessingFailed, Code: "6553445559", Tries: 4, Arrived: 1650162905387, Raw: raw, Line: 1},
		}},
		{"no arn", "iceberg-failed/x", object("Lambda.MissingRecordId", "", "raw"), []redrive.Failure{
			{Kind: redrive.ProcessingFailed, Code: "Lambda.MissingRecordId", Tries: 4, Arrived: 1650162905387, Raw: raw, Line: 1},
		}},
		{
			"Iceberg", "x", `{"attemptsMade":"2","errorCode":"Iceberg.NoSuchTable","EventId":"e","SubsequenceNumber":0,"ApproximateArrivalTimestamp":"17","rawData":"cmF3"}`,
			[]redrive.Failure{{Kind: redrive.IcebergFailed, Code: "Iceberg.NoSuchTable", Tries: 2, Arrived: 17, Raw: raw, Line: 1}},
		},
		{"by the name of the file", "errors/processing-failed/2026/x", `{"errorCode":"S3.AccessDenied","rawData":"cmF3"}`, []redrive.Failure{
			{Kind: redrive.ProcessingFailed, Code: "S3.AccessDenied", Raw: raw, Line: 1},
		}},
		{"by its code", "x", `{"errorCode":"S3.AccessDenied","rawData":"cmF3"}`, []redrive.Failure{
			{Kind: redrive.IcebergFailed, Code: "S3.AccessDenied", Raw: raw, Line: 1},
		}},
		{"Iceberg, with an ARN", "x", object("Iceberg.NoSuchTable", `,"lambdaArn":"arn"`, "raw"), []redrive.Failure{
			{Kind: redrive.IcebergFailed, Code: "Iceberg.NoSuchTable", Tries: 4, Arrived: 1650162905387, Raw: raw, Line: 1},
		}},
		{"an ARN under iceberg-failed", "processing-failed-bucket/iceberg-failed/x", object("S3.AccessDenied", `,"lambdaArn":"arn"`, "raw"), []redrive.Failure{
			{Kind: redrive.IcebergFailed, Code: "S3.AccessDenied", Tries: 4, Arrived: 1650162905387, Raw: raw, Line: 1},
		}},
		{"by its code, under the other name", "processing-failed/x", object("Iceberg.NoSuchTable", "", "raw"), []redrive.Failure{
			{Kind: redrive.IcebergFailed, Code: "Iceberg.NoSuchTable", Tries: 4, Arrived: 1650162905387, Raw: raw, Line: 1},
		}},
		{"by its record", "x", `{"rawData":"` + base64.StdEncoding.EncodeToString([]byte(good)) + `"}`, []redrive.Failure{
			{Kind: redrive.ProcessingFailed, Raw: []byte(good), Line: 1},
		}},
		{"by its record, with a code of nobody", "x", object("S3.AccessDenied", "", good), []redrive.Failure{
			{Kind: redrive.ProcessingFailed, Code: "S3.AccessDenied", Tries: 4, Arrived: 1650162905387, Raw: []byte(good), Line: 1},
		}},
		{"by the prefix of its table", "errors/tables/shop.log/2026/x", object("S3.AccessDenied", `,"lambdaArn":"arn"`, "raw"), []redrive.Failure{
			{Kind: redrive.IcebergFailed, Code: "S3.AccessDenied", Tries: 4, Arrived: 1650162905387, Raw: raw, Table: "shop.log", Line: 1},
		}},
		{"with the name of its table", "tables/shop.log/x", object("Iceberg.X", `,"destinationDatabaseName":"lake","destinationTableName":"log"`, "raw"), []redrive.Failure{
			{Kind: redrive.IcebergFailed, Code: "Iceberg.X", Tries: 4, Arrived: 1650162905387, Raw: raw, Table: "lake.log", Line: 1},
		}},
		{"a file that is called as a table", "tables/shop.log", object("Iceberg.X", "", "raw"), []redrive.Failure{
			{Kind: redrive.IcebergFailed, Code: "Iceberg.X", Tries: 4, Arrived: 1650162905387, Raw: raw, Line: 1},
		}},
		{"no record", "x", `{"errorCode":"Iceberg.Conflict","files":["s3://a"]}` + "\n{\"rawData\":\"?\"}\n{\"rawData\":\"cmF3\"}\n{\"cut\n7", []redrive.Failure{
			{Kind: redrive.Unrecognized, Code: "Iceberg.Conflict", Line: 1},
			{Kind: redrive.Unrecognized, Line: 2},
			{Kind: redrive.Unrecognized, Raw: raw, Line: 3},
			{Kind: redrive.Unrecognized, Line: 4},
			{Kind: redrive.Unrecognized, Line: 5},
		}},
		{"values of other kinds", "x", `{"errorCode":6553445559,"attemptsMade":"x","lambdaArn":7,"rawData":"cmF3"}` + "\n" +
			`{"errorCode":["Lambda.X"],"rawData":"cmF3","lambdaARN":"arn"}` + "\n" + `{"errorCode":"Lambda.X","rawData":[1,2]}` + "\n" + `{"errorCode":"Lambda.X","rawData":""}`, []redrive.Failure{
			{Kind: redrive.ProcessingFailed, Code: "6553445559", Raw: raw, Line: 1},
			{Kind: redrive.ProcessingFailed, Raw: raw, Line: 2},
			{Kind: redrive.Unrecognized, Code: "Lambda.X", Line: 3},
			{Kind: redrive.ProcessingFailed, Code: "Lambda.X", Raw: []byte{}, Line: 4},
		}},
		{"nothing between", "x", object("Lambda.FunctionError", "", "a") + object("Lambda.FunctionError", "", "b"), []redrive.Failure{
			{Kind: redrive.ProcessingFailed, Code: "Lambda.FunctionError", Tries: 4, Arrived: 1650162905387, Raw: []byte("a"), Line: 1},
			{Kind: redrive.ProcessingFailed, Code: "Lambda.FunctionError", Tries: 4, Arrived: 1650162905387, Raw: []byte("b"), Line: 1},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, failures(t, test.file, test.in)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, err := io.WriteString(z, test.in)
			if err := errors.Join(err, z.Close()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, failures(t, test.file, packed.String())); diff != "" {
				t.Errorf("compressed (-want +got):\n%s", diff)
			}
		})
	}
	broken := errors.New("disk on fire")
	for _, err := range redrive.Read(iotest.ErrReader(broken), "x") {
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
}

func planner(t *testing.T, mode catalog.Mode, mirrors ...string) *redrive.Planner {
	t.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte(pipelineText))
	if err != nil {
		t.Fatal(err)
	}
	tr, err := transform.New(p, transform.Options{Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	return redrive.NewPlanner(p, tr, mirrors...)
}

func TestDecide(t *testing.T) {
	t.Parallel()
	order := `{"id":7,"REGION":"e\u00fc","total":"1.5"}`
	changelog := catalog.Changelog
	key := func(texts ...string) redrive.Key {
		return redrive.Key{Table: "public.orders", Columns: []string{"region", "id"}, Key: texts}
	}
	meta := `"cdc_position":"p","cdc_committed_at":null`
	logMeta := meta + `,"cdc_operation":"load","cdc_old_key":null,"cdc_absent":null`
	for _, test := range []struct {
		name string
		kind redrive.Kind
		in   string // the lake table that the object names
		raw  string
		mode catalog.Mode
		want string // "action table reason column"
		keys []redrive.Key
		sent string // partition key of the entry
		row  string // database.table
	}{
		{name: "changelog", kind: redrive.ProcessingFailed, raw: original("load", "public", "log", `{"id":1,"text":"t"}`), want: "send public.log - -", sent: "public.log.7"},
		{name: "changelog that still fails", kind: redrive.ProcessingFailed, raw: original("insert", "public", "log", `{"id":1}`), want: "repair public.log missing_column text"},
		{name: "mirror", kind: redrive.ProcessingFailed, raw: original("update", "public", "orders", order), want: "reconcile public.orders - -", keys: []redrive.Key{key("eü", "7")}},
		{
			name: "mirror that still fails", kind: redrive.ProcessingFailed, raw: original("update", "public", "orders", `{"id":"07","REGION":"x","total":"y"}`),
			want: "reconcile public.orders invalid_value total", keys: []redrive.Key{key("x", "7")},
		},
		{
			name: "mirror whose key changed", kind: redrive.ProcessingFailed, raw: original("update", "public", "orders", order, `"before-image":{"id":6}`),
			want: "reconcile public.orders - -", keys: []redrive.Key{key("eü", "7"), key("eü", "6")},
		},
		{
			name: "delete with its key before", kind: redrive.ProcessingFailed, raw: original("delete", "public", "orders", `{"total":null}`, `"before-image":{"id":6,"REGION":"x"}`),
			want: "reconcile public.orders - -", keys: []redrive.Key{key("x", "6")},
		},
		{
			name: "mirror without its key", kind: redrive.ProcessingFailed, raw: original("update", "public", "orders", `{"id":null,"REGION":"x","total":1}`),
			want: "reconcile public.orders missing_key id", keys: []redrive.Key{{Table: "public.orders", All: true}},
		},
		{
			name: "mirror of a table without a key", kind: redrive.ProcessingFailed, raw: original("insert", "public", "notes", `{"note":"n"}`),
			want: "reconcile public.notes - -", keys: []redrive.Key{{Table: "public.notes", All: true}},
		},
		{
			// Another stream delivers it as a mirror, and would get the record too.
			name: "mirror in the file, changelog of this stream", kind: redrive.ProcessingFailed, mode: changelog, raw: original("update", "public", "orders", order),
			want: "reconcile public.orders - -", keys: []redrive.Key{key("eü", "7")},
		},
		{
			name: "changelog in the file, mirror of this stream", kind: redrive.ProcessingFailed, mode: catalog.Mirror, raw: original("update", "public", "log", `{"id":1,"text":"t"}`),
			want: "reconcile public.log - -", keys: []redrive.Key{{Table: "public.log", Columns: []string{"id"}, Key: []string{"1"}}},
		},
		{name: "dropped", kind: redrive.ProcessingFailed, raw: original("insert", "audit", "x", `{}`), want: "nothing audit.x excluded -"},
		{name: "unknown table", kind: redrive.ProcessingFailed, raw: original("insert", "public", "nowhere", `{}`), want: "repair public.nowhere unknown_table -"},
		{name: "damaged", kind: redrive.ProcessingFailed, raw: `{"data":`, want: "repair - invalid_json -"},
		{name: "empty", kind: redrive.ProcessingFailed, raw: ``, want: "repair - invalid_json -"},
		{name: "changelog row", kind: redrive.IcebergFailed, raw: `{"id":1,"text":"t",` + logMeta + `}`, want: "write_row public.log - -", row: "shop.log"},
		{name: "mirror row", kind: redrive.IcebergFailed, raw: `{"id":1,"region":"e\u00fc","total":"1.50",` + meta + `}`, want: "reconcile public.orders - -", keys: []redrive.Key{key("eü", "1")}},
		{
			name: "mirror row without a key", kind: redrive.IcebergFailed, raw: `{"id":null,"region":"x","total":null,` + meta + `}`,
			want: "reconcile public.orders - -", keys: []redrive.Key{{Table: "public.orders", All: true}},
		},
		{name: "keyless mirror row", kind: redrive.IcebergFailed, raw: `{"note":"x",` + meta + `}`, want: "reconcile public.notes - -", keys: []redrive.Key{{Table: "public.notes", All: true}}},
		{name: "row of two tables", kind: redrive.IcebergFailed, raw: `{"a":"x",` + logMeta + `}`, want: "unclear - many_table -"},
		{name: "row of two tables, of which the object names one", kind: redrive.IcebergFailed, in: "shop.twin_b", raw: `{"a":"x",` + logMeta + `}`, want: "write_row public.twin_b - -", row: "shop.twin_b"},
		{name: "row of another stream's table", kind: redrive.IcebergFailed, in: "history.log", raw: `{"id":1,"text":"t",` + logMeta + `}`, want: "unclear - no_table -"},
		{
			name: "changelog row beyond a response", kind: redrive.ProcessingFailed, raw: original("load", "public", "log", `{"id":1,"text":"`+strings.Repeat("x", 5<<20)+`"}`),
			want: "repair public.log response_too_large -",
		},
		{name: "row of no table", kind: redrive.IcebergFailed, raw: `{"b":1}`, want: "unclear - no_table -"},
		{name: "not a row", kind: redrive.IcebergFailed, raw: `[]`, want: "unclear - no_record -"},
		{name: "unrecognized", kind: redrive.Unrecognized, raw: `{}`, want: "unclear - no_record -"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := planner(t, test.mode)
			f := redrive.Failure{Kind: test.kind, Raw: []byte(test.raw), Table: test.in}
			item := p.Decide(f)
			if got := words(string(item.Action), item.Table, string(item.Reason), item.Column); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if diff := cmp.Diff(test.keys, item.Keys); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			if item.Entry.PartitionKey != test.sent {
				t.Errorf("partition key %q, want %q", item.Entry.PartitionKey, test.sent)
			}
			if (item.Action == redrive.Send) != (item.Entry.Data != nil && string(item.Entry.Data) == test.raw) || (item.Action == redrive.Send) != (len(item.Entry.ID) == 64) {
				t.Errorf("action %s with entry %q %q", item.Action, item.Entry.ID, item.Entry.Data)
			}
			if many := item.Reason == redrive.ManyTable; many != slices.Equal(item.Candidates, []string{"shop.twin_a", "shop.twin_b"}) || !many && item.Candidates != nil {
				t.Errorf("candidates %v", item.Candidates)
			}
			if got := item.Row.Database + "." + item.Row.Table; got != test.row && (got != "." || test.row != "") {
				t.Errorf("row of %s, want %s", got, test.row)
			}
			if again := p.Decide(f); again.Action != redrive.Repeated || len(again.Keys) > 0 || again.Entry.ID != "" {
				t.Errorf("the same bytes again: %+v", again)
			}
		})
	}
}

// A changelog that another stream delivers as a mirror is never sent: that
// stream would get the record too.
func TestDecideForOtherStreams(t *testing.T) {
	t.Parallel()
	log := redrive.Failure{Kind: redrive.ProcessingFailed, Raw: []byte(original("load", "public", "log", `{"id":1,"text":"t"}`))}
	if item := planner(t, catalog.Changelog, "public.twin_a").Decide(log); item.Action != redrive.Send {
		t.Errorf("another table is a mirror: %s", item.Action)
	}
	item := planner(t, catalog.Changelog, "public.twin_a", "public.log").Decide(log)
	want := []redrive.Key{{Table: "public.log", Columns: []string{"id"}, Key: []string{"1"}}}
	if diff := cmp.Diff(want, item.Keys); diff != "" || item.Action != redrive.Reconcile || item.Entry.Data != nil {
		t.Errorf("%s, keys (-want +got):\n%s", item.Action, diff)
	}
}

func words(parts ...string) string {
	for i, p := range parts {
		if p == "" {
			parts[i] = "-"
		}
	}
	return strings.Join(parts, " ")
}

func TestDecideWithoutPipeline(t *testing.T) {
	t.Parallel()
	p := redrive.NewPlanner(nil, nil)
	if item := p.Decide(redrive.Failure{Kind: redrive.ProcessingFailed, Raw: []byte("x")}); item.Action != redrive.Unclear || item.Entry.Data != nil {
		t.Errorf("got %+v", item)
	}
	if item := p.Decide(redrive.Failure{Code: "x"}); item.Action != redrive.Unclear || item.Reason != redrive.NoRecord {
		t.Errorf("got %+v", item)
	}
}

// The partition key is the one DMS used, as far as a record tells it.
func TestPartitionKey(t *testing.T) {
	t.Parallel()
	p := planner(t, "")
	base := original("load", "public", "log", `{"id":1,"text":"t"}`)
	for _, test := range []struct{ name, raw, want string }{
		{"schema-table", strings.Replace(strings.Replace(base, "primary-key", "schema-table", 1), `"partition-key-value":"public.log.7",`, "", 1), "public.log"},
		{"not told", strings.Replace(base, `"partition-key-value":"public.log.7",`, "", 1), ""},
		{"too long", strings.Replace(base, "public.log.7", strings.Repeat("ü", 257), 1), ""},
		{"just fits", strings.Replace(base, "public.log.7", strings.Repeat("ü", 256), 1), strings.Repeat("ü", 256)},
	} {
		item := p.Decide(redrive.Failure{Kind: redrive.ProcessingFailed, Raw: []byte(test.raw)})
		if test.want == "" {
			test.want = item.Entry.ID
		}
		if item.Action != redrive.Send || item.Entry.PartitionKey != test.want {
			t.Errorf("%s: %s with %q", test.name, item.Action, item.Entry.PartitionKey)
		}
	}
}

// FuzzDecide: any object gives a decision, and only records of changelogs
// that the transform takes are ever sent.
func FuzzDecide(f *testing.F) {
	f.Add([]byte(object("Lambda.FunctionError", "", original("load", "public", "log", `{"id":1,"text":"t"}`))), "x")
	f.Add([]byte(object("Iceberg.NoSuchTable", "", `{"id":1}`)), "iceberg-failed")
	f.Add([]byte(`{"rawData":"e30=","lambdaArn":null,"attemptsMade":{}}`), "processing-failed")
	f.Fuzz(func(t *testing.T, in []byte, name string) {
		p := planner(t, "")
		for failure, err := range redrive.Read(bytes.NewReader(in), name) {
			if err != nil {
				return
			}
			item := p.Decide(failure)
			if item.Action == "" || (item.Action == redrive.Send) != (item.Entry.Data != nil) || (item.Action == redrive.Reconcile) != (len(item.Keys) > 0) {
				t.Fatalf("%+v", item)
			}
			if item.Action == redrive.Send && item.Table == "public.orders" {
				t.Fatal("a mirror's record is sent")
			}
		}
	})
}

// The key of a row that Iceberg refused is canonical whatever form its bytes have.
func TestKeysOfBytes(t *testing.T) {
	t.Parallel()
	p, err := catalog.Parse("pipeline.yaml", []byte(`version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables: [{source: public.t, mode: mirror, key: [k], columns: [{name: k, type: binary}]}]
`))
	if err != nil {
		t.Fatal(err)
	}
	for form, text := range map[transform.BinaryForm]string{transform.Hexadecimal: "00ffab", transform.Base64: "AP+r"} {
		tr, err := transform.New(p, transform.Options{Binary: form})
		if err != nil {
			t.Fatal(err)
		}
		item := redrive.NewPlanner(p, tr).Decide(redrive.Failure{
			Kind: redrive.IcebergFailed, Code: "x", Raw: []byte(`{"k":"` + text + `","cdc_position":"p","cdc_committed_at":null}`),
		})
		if len(item.Keys) != 1 || item.Keys[0].All || item.Keys[0].Key[0] != "00ffab" {
			t.Errorf("%s: %+v", form, item)
		}
		item = redrive.NewPlanner(p, tr).Decide(redrive.Failure{
			Kind: redrive.IcebergFailed, Code: "x", Raw: []byte(`{"k":"neither","cdc_position":"p","cdc_committed_at":null}`),
		})
		if form == transform.Base64 && (len(item.Keys) != 1 || !item.Keys[0].All) {
			t.Errorf("of another form: %+v", item)
		}
	}
}
