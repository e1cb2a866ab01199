package transform_test

import (
	"fmt"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/transform"
)

// pipelineText has one table for each cell of the outcome table.
const pipelineText = `version: 1
database: shop
source: {engine: postgresql, position: postgres, nulls: included, unchanged: absent}
exclude: ["audit.%", "public.tmp_%_old", "%.a_%_b_%"]
tables:
  - source: public.orders
    mode: mirror
    key: [id]
    columns: &orders
      - {name: id, type: long}
      - {name: note, type: string, may_be_unchanged: true}
      - {name: total, type: "decimal(12,2)"}
  - {source: public.upserted, mode: mirror, key: [id], on_load: upsert, columns: *orders}
  - {source: public.inserted, mode: mirror, key: [id], on_insert: insert, columns: *orders}
  - source: public.reloaded
    mode: mirror
    key: [id]
    loads: [{floor: "00000000000000010000000000000001", since: 2026-02-01T00:00:00Z}]
    columns: *orders
  - {source: public.nullish, mode: mirror, key: [id], unchanged: "null", columns: *orders}
  - {source: public.sparse_nullish, mode: mirror, key: [id], nulls: omitted, unchanged: "null", columns: *orders}
  - {source: public.sparse, mode: mirror, key: [id], nulls: omitted, unchanged: never, columns: *orders}
  - {source: public.history, mode: mirror, columns: *orders}
  - {source: public.log, mode: changelog, key: [id], columns: *orders}
  - {source: public.keyless_log, mode: changelog, columns: *orders}
  - {source: public.lines, mode: changelog, key: [order_id, line], position: none, columns: [{name: order_id, type: long}, {name: line, type: string}]}
  - {source: public.numbered, mode: mirror, key: [id], position: "column:SEQ", columns: [{name: id, type: long}]}
  - source: public.typed
    mode: mirror
    key: [id]
    nulls: omitted
    columns:
      - {name: id, type: long}
      - {name: i, type: int}
      - {name: b, type: boolean}
      - {name: f, type: float}
      - {name: d, type: double}
      - {name: n, type: "decimal(38,4)"}
      - {name: day, type: date}
      - {name: at, type: time}
      - {name: ts, type: timestamp}
      - {name: tz, type: timestamptz}
      - {name: s, type: string}
      - {name: c, type: string, source_type: character(4)}
      - {name: u, type: uuid}
      - {name: x, type: "fixed[2]"}
      - {name: y, type: binary}
      - {name: rounded, type: "decimal(4,1)", allow_lossy: [round]}
      - {name: nulled, type: int, allow_lossy: ["null"]}
      - {name: replaced, type: string, allow_lossy: [replace]}
      - {name: secret, type: long, mask: sha256}
      - {name: hidden, type: long, mask: "null"}
      - {name: gone, type: long, exclude: true}
      - {name: renamed, type: string, source: "Old Name"}
`

func parsePipeline(tb testing.TB, text string) *catalog.Pipeline {
	tb.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func newTransformer(tb testing.TB, text string, o transform.Options) *transform.Transformer {
	tb.Helper()
	t, err := transform.New(parsePipeline(tb, text), o)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// change writes a DMS record: operation, table in schema public, data, and the
// number that makes its position. More are further top-level members.
func change(operation, table, data string, number int, more ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"data":%s,`, data)
	for _, m := range more {
		b.WriteString(m + ",")
	}
	fmt.Fprintf(&b, `"metadata":{"timestamp":"2026-01-02T03:04:05.%06dZ","record-type":"data","operation":%q,`, number, operation)
	fmt.Fprintf(&b, `"partition-key-type":"primary-key","schema-name":"public","table-name":%q`, table)
	if operation != "load" {
		fmt.Fprintf(&b, `,"transaction-id":%d,"transaction-record-id":1,"commit-timestamp":"2026-01-02T03:04:04.%06dZ"`, number, number)
		fmt.Fprintf(&b, `,"stream-position":"00000001/%08X.2.00000001/%08X"`, number, number)
	}
	b.WriteString("}}")
	return b.String()
}

func control(name, table, body string) string {
	return fmt.Sprintf(`{"control":%s,"metadata":{"timestamp":"2026-01-02T03:04:05.000000Z","record-type":"control","operation":%q,`+
		`"partition-key-type":"task-id","schema-name":"public","table-name":%q}}`, body, name, table)
}

func records(texts ...string) []transform.Record {
	out := make([]transform.Record, len(texts))
	for i, text := range texts {
		out[i] = transform.Record{
			ID: fmt.Sprintf("id-%d", i), Data: []byte(text),
			Origin: cdc.Origin{Shard: "shardId-000000000001", Sequence: fmt.Sprint(1000 + i)},
		}
	}
	return out
}
