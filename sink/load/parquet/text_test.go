package parquet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	pq "github.com/apache/arrow-go/v18/parquet"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/sink/load/parquet"
)

// oneColumn returns a table with a column v beside its key, id.
func oneColumn(t *testing.T, column string) *catalog.Table {
	t.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte(`{version: 1, database: lake, source: {engine: postgresql, position: postgres},
		tables: [{source: s.t, mode: mirror, key: [id], columns: [{name: id, type: long}, {name: v, `+column+`}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return p.BySource("s", "t")
}

// values returns the canonical texts of column v of a file, or the first error.
func values(t *testing.T, path string, def *catalog.Table, o parquet.Options) (out []string, err error) {
	t.Helper()
	parts, _, err := parquet.Open([]string{path}, def, o)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		for row, err := range part.Rows(t.Context()) {
			if err != nil {
				return nil, err
			}
			if row[1] == nil {
				out = append(out, "NULL")
				continue
			}
			text, err := canon.Append(nil, def.Columns[1], canon.Delivered, row[1])
			if err != nil {
				return nil, err
			}
			out = append(out, string(text))
		}
	}
	return out, nil
}

// What is bytes in the file goes into bytes alone, and nothing else does: it
// would be taken for its hexadecimal digits.
func TestTypes(t *testing.T) {
	t.Parallel()
	const (
		marked = "column v: the file has bytes that are not marked as text, and the column is "
		way    = ": give it the type binary, or take such bytes for text with --binary-as-string"
	)
	binary, text, fixed := arrow.BinaryTypes.Binary, arrow.BinaryTypes.String, arrow.DataType(&arrow.FixedSizeBinaryType{ByteWidth: 2})
	sixteen := arrow.DataType(&arrow.FixedSizeBinaryType{ByteWidth: 16})
	const bytes16 = `[{"id":1,"v":"AAECAwQFBgcICQoLDA0ODw=="}]`
	dictionary := func(value arrow.DataType) arrow.DataType {
		return &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: value}
	}
	for name, test := range map[string]struct {
		typ    arrow.DataType
		column string
		rows   string // JSON; bytes in base64
		option bool
		want   string // texts, or an error
	}{
		"bytes, string":                    {binary, "type: string", `[{"id":1,"v":"aGVsbG8="}]`, false, marked + "string" + way},
		"bytes, int":                       {binary, "type: int", `[{"id":1,"v":"MQ=="}]`, false, marked + "int" + way},
		"bytes, string, told":              {binary, "type: string", `[{"id":1,"v":"aGVsbG8="},{"id":2},{"id":3,"v":""}]`, true, "hello NULL "},
		"bytes, string, told, no text":     {binary, "type: string", `[{"id":1,"v":"AP8="}]`, true, "coerce v to string: invalid_utf8"},
		"bytes, int, told":                 {arrow.BinaryTypes.LargeBinary, "type: int", `[{"id":1,"v":"MQ=="}]`, true, "1"},
		"bytes, binary":                    {binary, "type: binary", `[{"id":1,"v":"AP8="}]`, false, "00ff"},
		"bytes, binary, told":              {binary, "type: binary", `[{"id":1,"v":"AP8="}]`, true, "00ff"},
		"bytes, fixed":                     {binary, `type: "fixed[2]"`, `[{"id":1,"v":"AP8="}]`, false, "00ff"},
		"bytes, uuid":                      {binary, "type: uuid", bytes16, false, "00010203-0405-0607-0809-0a0b0c0d0e0f"},
		"bytes that nobody sees":           {binary, `type: string, mask: "null"`, `[{"id":1}]`, false, "NULL"},
		"text, binary":                     {text, "type: binary", `[{"id":1,"v":"deadbeef"}]`, false, "column v: the file has utf8, and the column is binary, which is read of bytes alone: write bytes, or change the column's type"},
		"large text, fixed":                {arrow.BinaryTypes.LargeString, `type: "fixed[2]"`, `[{"id":1,"v":"00ff"}]`, true, "and the column is fixed[2], which"},
		"number, binary":                   {arrow.PrimitiveTypes.Int32, "type: binary", `[{"id":1,"v":12}]`, false, "the file has int32, and the column is binary"},
		"number, uuid":                     {arrow.PrimitiveTypes.Int32, "type: uuid", `[{"id":1,"v":12}]`, false, "the file has int32, and the column is uuid"},
		"text, int":                        {text, "type: int", `[{"id":1,"v":"12"}]`, false, "12"},
		"bytes of one length, string":      {fixed, "type: string", `[{"id":1,"v":"aGU="}]`, false, "column v: the file has fixed_size_binary[2], and the column is string"},
		"bytes of one length, told":        {fixed, "type: string", `[{"id":1,"v":"aGU="}]`, true, "the file has fixed_size_binary[2], and the column is string"},
		"bytes of one length, binary":      {fixed, "type: binary", `[{"id":1,"v":"AP8="}]`, false, "00ff"},
		"sixteen bytes, uuid":              {sixteen, "type: uuid", bytes16, false, "00010203-0405-0607-0809-0a0b0c0d0e0f"},
		"list":                             {arrow.ListOf(text), "type: string", `[{"id":1,"v":["a"]}]`, false, "column v is nested"},
		"half a float":                     {arrow.FixedWidthTypes.Float16, "type: float", `[{"id":1,"v":1}]`, false, "column v: a float16 is not read"},
		"dictionary":                       {dictionary(text), "type: string", `[{"id":1,"v":"b"},{"id":2},{"id":3,"v":"a"},{"id":4,"v":"b"}]`, false, "b NULL a b"},
		"dictionary of bytes":              {dictionary(binary), "type: string", `[{"id":1,"v":"aGVsbG8="}]`, false, marked + "string" + way},
		"dictionary of bytes, told":        {dictionary(binary), "type: string", `[{"id":1,"v":"aGVsbG8="}]`, true, "hello"},
		"dictionary of numbers":            {dictionary(arrow.PrimitiveTypes.Int64), "type: int", `[{"id":1,"v":7},{"id":2}]`, false, "7 NULL"},
		"day before the first year":        {arrow.FixedWidthTypes.Date32, "type: date", `[{"id":1,"v":-719529}]`, false, "coerce v to date: out_of_range"},
		"moment before the first year":     {arrow.FixedWidthTypes.Timestamp_us, "type: timestamptz", `[{"id":1,"v":-62167219200000001}]`, false, "coerce v to timestamptz: out_of_range"},
		"day before the first year, text":  {arrow.FixedWidthTypes.Date32, "type: string", `[{"id":1,"v":-719469}]`, false, "0001-02-29 BC"},
		"day after the last year":          {arrow.FixedWidthTypes.Date32, "type: date", `[{"id":1,"v":2932897}]`, false, "coerce v to date: out_of_range"},
		"time of the day's last moment":    {arrow.FixedWidthTypes.Time64us, "type: time", `[{"id":1,"v":86399999999}]`, false, "23:59:59.999999"},
		"time of 24:00":                    {arrow.FixedWidthTypes.Time64us, "type: time", `[{"id":1,"v":86400000000}]`, false, "coerce v to time: out_of_range"},
		"time of 24:00 in milliseconds":    {arrow.FixedWidthTypes.Time32ms, "type: time", `[{"id":1,"v":86400000}]`, false, "coerce v to time: out_of_range"},
		"time of a span":                   {arrow.FixedWidthTypes.Time64ns, "type: time", `[{"id":1,"v":3020399000000000}]`, false, "coerce v to time: out_of_range"},
		"time before midnight":             {arrow.FixedWidthTypes.Time64us, "type: time", `[{"id":1,"v":-1}]`, false, "coerce v to time: out_of_range"},
		"time as a text":                   {arrow.FixedWidthTypes.Time32ms, "type: string", `[{"id":1,"v":-3600001},{"id":2,"v":1}]`, false, "-01:00:00.001000000 00:00:00.001000000"},
		"time of the least number of them": {arrow.FixedWidthTypes.Time64us, "type: time", `[{"id":1,"v":-9223372036854775808}]`, false, "coerce v to time: out_of_range"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := writeNumbers(t, test.typ, test.rows)
			got, err := values(t, path, oneColumn(t, test.column), parquet.Options{BinaryAsString: test.option})
			if text := strings.Join(got, " "); err == nil && text != test.want || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q, %v; want %q", text, err, test.want)
			}
		})
	}
}

// writeNumbers writes a file with columns id and v. Dates and times are given as
// the numbers that a file has, since their texts cannot be out of range.
func writeNumbers(t *testing.T, typ arrow.DataType, rows string) string {
	t.Helper()
	number := arrow.DataType(nil)
	switch typ.ID() { //nolint:exhaustive // the others have texts
	case arrow.DATE32, arrow.TIME32:
		number = arrow.PrimitiveTypes.Int32
	case arrow.TIME64, arrow.TIMESTAMP:
		number = arrow.PrimitiveTypes.Int64
	}
	id := arrow.Field{Name: "id", Type: arrow.PrimitiveTypes.Int64}
	if number == nil {
		return writeFile(t, []arrow.Field{id, {Name: "v", Type: typ, Nullable: true}}, rows)
	}
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{id, {Name: "v", Type: number, Nullable: true}}, nil), strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	data := batch.Column(1).Data()
	v := array.MakeFromData(array.NewData(typ, data.Len(), data.Buffers(), nil, data.NullN(), 0))
	def := arrow.NewSchema([]arrow.Field{id, {Name: "v", Type: typ, Nullable: true}}, nil)
	return writeBatch(t, def, array.NewRecordBatch(def, []arrow.Array{batch.Column(0), v}, batch.NumRows()))
}

// ENUM and JSON annotate text, by the format's own specification; BSON does not.
func TestAnnotatedBytes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		logical schema.LogicalType
		want    string
	}{
		"enum": {schema.EnumLogicalType{}, "hello"},
		"json": {schema.JSONLogicalType{}, "hello"},
		"bson": {schema.BSONLogicalType{}, "not marked as text"},
	} {
		id := schema.NewInt64Node("id", pq.Repetitions.Required, -1)
		v, err := schema.NewPrimitiveNodeLogical("v", pq.Repetitions.Required, test.logical, pq.Types.ByteArray, -1, -1)
		if err != nil {
			t.Fatal(err)
		}
		root, err := schema.NewGroupNode("schema", pq.Repetitions.Required, schema.FieldList{id, v}, -1)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "rows.parquet")
		out, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := file.NewParquetWriter(out, root)
		group, err := w.AppendRowGroupChecked()
		for range 2 {
			var column file.ColumnChunkWriter
			if err == nil {
				column, err = group.NextColumn()
			}
			switch c := column.(type) {
			case *file.Int64ColumnChunkWriter:
				_, err = c.WriteBatch([]int64{1}, nil, nil)
			case *file.ByteArrayColumnChunkWriter:
				_, err = c.WriteBatch([]pq.ByteArray{pq.ByteArray("hello")}, nil, nil)
			}
			if err == nil {
				err = column.Close()
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := values(t, path, oneColumn(t, "type: string"), parquet.Options{})
		if text := fmt.Sprint(got, err); !strings.Contains(text, test.want) {
			t.Errorf("%s: got %s, want %q", name, text, test.want)
		}
	}
}
