package parquet_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/google/go-cmp/cmp"

	pq "github.com/apache/arrow-go/v18/parquet"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/sink/load/parquet"
)

const pipeline = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- source: s.all
  mode: mirror
  key: [id]
  columns:
  - {name: id, type: long}
  - {name: small, type: int}
  - {name: price, type: "decimal(12,4)"}
  - {name: single, type: float}
  - {name: flag, type: boolean}
  - {name: day, type: date}
  - {name: clock, type: time}
  - {name: local, type: timestamp}
  - {name: moment, type: timestamptz}
  - {name: ref, type: uuid}
  - {name: raw, type: binary}
  - {name: text, type: string}
`

// Columns of narrower and wider types than those of the lake, in another order
// and another spelling, in several row groups.
func TestOpen(t *testing.T) {
	t.Parallel()
	fields := []arrow.Field{
		{Name: "TEXT", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "more", Type: arrow.PrimitiveTypes.Int8, Nullable: true},
		{Name: "id", Type: arrow.PrimitiveTypes.Int32},
		{Name: "small", Type: arrow.PrimitiveTypes.Uint16, Nullable: true},
		{Name: "price", Type: &arrow.Decimal128Type{Precision: 9, Scale: 2}, Nullable: true},
		{Name: "single", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "flag", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "day", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
		{Name: "clock", Type: arrow.FixedWidthTypes.Time32ms, Nullable: true},
		{Name: "local", Type: &arrow.TimestampType{Unit: arrow.Nanosecond}, Nullable: true},
		{Name: "moment", Type: arrow.FixedWidthTypes.Timestamp_ms, Nullable: true},
		{Name: "ref", Type: &arrow.FixedSizeBinaryType{ByteWidth: 16}, Nullable: true},
		{Name: "raw", Type: arrow.BinaryTypes.Binary, Nullable: true},
	}
	const rows = `[
		{"TEXT":"two\nlines","id":7,"small":65535,"price":"-1.50","single":0.1,"flag":true,"day":"2024-02-29","clock":"12:34:56.789",
		 "local":"2026-01-02T03:04:05.000001","moment":"2026-01-02T03:04:05.5Z","ref":"AAECAwQFBgcICQoLDA0ODw==","raw":"AP8="},
		{"TEXT":"","id":-8,"raw":""}
	]`
	path := writeFile(t, fields, rows)
	p, err := catalog.Parse("pipeline.yaml", []byte(pipeline))
	if err != nil {
		t.Fatal(err)
	}
	def := p.BySource("s", "all")
	parts, n, err := parquet.Open([]string{path, path}, def, parquet.Options{})
	if err != nil || n != 4 || len(parts) != 4 {
		t.Fatalf("%d parts of %d rows, %v", len(parts), n, err)
	}
	var got [][]string
	for i, part := range parts[:2] {
		if part.Name != path+", row group "+strconv.Itoa(i) {
			t.Errorf("part %d is called %s", i, part.Name)
		}
		for row, err := range part.Rows(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, canonical(t, def, row))
		}
	}
	want := [][]string{
		{
			"7", "65535", "-1.5000", "0.1", "true", "2024-02-29", "12:34:56.789000", "2026-01-02T03:04:05.000001", "2026-01-02T03:04:05.500000Z",
			"00010203-0405-0607-0809-0a0b0c0d0e0f", "00ff", "two\nlines",
		},
		append(append([]string{"-8"}, slices.Repeat([]string{"NULL"}, 9)...), "", ""),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// canonical gives the texts the form that a load gives them.
func canonical(t *testing.T, def *catalog.Table, row [][]byte) []string {
	t.Helper()
	var out []string
	for i, c := range def.Columns {
		if row[i] == nil {
			out = append(out, "NULL")
			continue
		}
		text, err := canon.Append(nil, c, canon.Delivered, row[i])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
	return out
}

// writeFile writes a file with one row in each row group.
func writeFile(t *testing.T, fields []arrow.Field, rows string) string {
	t.Helper()
	schema := arrow.NewSchema(fields, nil)
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	return writeBatch(t, schema, batch)
}

func writeBatch(t *testing.T, schema *arrow.Schema, batch arrow.RecordBatch) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.parquet")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := pqarrow.NewFileWriter(schema, out, pq.NewWriterProperties(pq.WithMaxRowGroupLength(1)), pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(batch); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	p, err := catalog.Parse("pipeline.yaml", []byte(strings.Replace(pipeline, "name: small, type: int", "name: small, type: string", 1)))
	if err != nil {
		t.Fatal(err)
	}
	def := p.BySource("s", "all")
	for name, test := range map[string]struct {
		fields []arrow.Field
		rows   string
		want   string
	}{
		"missing column": {fields: []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int32}}, rows: `[{"id":1}]`, want: "the source has no column small"},
	} {
		path := writeFile(t, test.fields, test.rows)
		if _, _, err := parquet.Open([]string{path}, def, parquet.Options{}); err == nil || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
	damaged := filepath.Join(t.TempDir(), "damaged.parquet")
	if err := os.WriteFile(damaged, []byte("no Parquet"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := parquet.Open([]string{damaged}, def, parquet.Options{}); err == nil {
		t.Error("a damaged file is opened")
	}
}
