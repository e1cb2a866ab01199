package dump_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/cdc/kinesis"
	"icehose/reconcile"
	"icehose/reconcile/dump"
	"icehose/reconcile/reconciletest"
)

// postgresText renders a canonical text as PostgreSQL would.
func postgresText(c *catalog.Column, text string) string {
	switch c.Type.Kind {
	case catalog.Boolean:
		return text[:1]
	case catalog.Timestamp:
		return strings.Replace(text, "T", " ", 1)
	case catalog.TimestampTZ:
		return strings.Replace(strings.TrimSuffix(text, "Z"), "T", " ", 1) + "+00"
	case catalog.Fixed, catalog.Binary:
		return `\x` + text
	case catalog.Int, catalog.Long, catalog.Float, catalog.Double, catalog.Decimal, catalog.Date, catalog.Time, catalog.String, catalog.UUID:
	}
	return text
}

// ndjsonText writes the columns of odd rows in another order.
func ndjsonText(table *catalog.Table, rows []reconciletest.Row) string {
	var b strings.Builder
	for n, row := range rows {
		b.WriteString("{")
		for i := range row {
			at := (i + n) % len(row)
			text := []byte("null")
			if !row[at].Null {
				text, _ = json.Marshal(postgresText(table.Columns[at], row[at].Text))
			}
			fmt.Fprintf(&b, "%s%q: %s", strings.Repeat(", ", min(i, 1)), table.Columns[at].Name, text)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// csvText quotes as COPY does: what needs it, and the empty text.
func csvText(table *catalog.Table, rows []reconciletest.Row) string {
	var b strings.Builder
	for i, c := range table.Columns {
		b.WriteString(strings.Repeat(",", min(i, 1)) + c.Name)
	}
	b.WriteString("\n")
	for _, row := range rows {
		for i, v := range row {
			b.WriteString(strings.Repeat(",", min(i, 1)))
			if v.Null {
				continue
			}
			switch text := postgresText(table.Columns[i], v.Text); {
			case text == "" || strings.ContainsAny(text, "\",\r\n"):
				b.WriteString(`"` + strings.ReplaceAll(text, `"`, `""`) + `"`)
			default:
				b.WriteString(text)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	f, err := kinesis.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReader(t *testing.T) {
	formats := map[string]func(*catalog.Table, []reconciletest.Row) string{
		".ndjson": ndjsonText, ".ndjson.zst": ndjsonText, ".ndjson.gz": ndjsonText, ".csv": csvText, ".csv.zst": csvText,
	}
	for ext, text := range formats {
		t.Run(ext, func(t *testing.T) {
			reconciletest.TestReader(t, func(t *testing.T, p *catalog.Pipeline, tables reconciletest.Tables) reconcile.Reader {
				dir := t.TempDir()
				for name, rows := range tables {
					writeFile(t, filepath.Join(dir, name+ext), text(reconciletest.Table(t, p, name), rows))
				}
				r, err := dump.Open(dir, dump.Options{Final: true})
				if err != nil {
					t.Fatal(err)
				}
				return r
			})
		})
	}
}

const pipeline = `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - source: public.t
    mode: mirror
    key: [id]
    columns:
      - {name: id, type: int}
      - {name: note, source: Note, type: string}
      - {name: secret, type: string, exclude: true}
      - {name: amount, type: "decimal(4,1)"}
`

func parse(t testing.TB) *catalog.Table {
	t.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte(pipeline))
	if err != nil {
		t.Fatal(err)
	}
	return p.Tables[0]
}

func TestReaderRefuses(t *testing.T) {
	const good = `{"id":"1","Note":"n","amount":"1.5"}`
	tests := []struct{ name, file, text, want string }{
		{"not an object", ".ndjson", good + "\n[1]", "t.ndjson: line 2: want an object at byte 0"},
		{"not a string", ".ndjson", `{"id":1}`, "line 1: want a string at byte 6"},
		{"nested", ".ndjson", `{"id":{}}`, "line 1: want a string at byte 6"},
		{"ends early", ".ndjson", `{"id":"1"`, "line 1: want a comma or the end of the object at byte 9"},
		{"string does not end", ".ndjson", `{"id":"1`, "line 1: a string does not end at byte 8"},
		{"two objects", ".ndjson", good + good, "want the end of the line"},
		{"trailing comma", ".ndjson", `{"id":"1",}`, "want a string"},
		{"bad escape", ".ndjson", `{"id":"\x"}`, "no such escape"},
		{"half a surrogate", ".ndjson", `{"id":"\ud800"}`, "half a surrogate pair"},
		{"not UTF-8", ".ndjson", "{\"id\":\"\xff\"}", "not UTF-8"},
		{"control character", ".ndjson", "{\"id\":\"\x01\"}", "control character"},
		{"empty object", ".ndjson", "{}", `column "id" is missing`},
		{"missing column", ".ndjson", good + "\n\n" + `{"id":"1","amount":"1"}`, `line 3: column "note" is missing`},
		{"unknown column", ".ndjson", `{"id":"1","Note":"n","amount":"1","more":"x"}`, `column "more" is not in the pipeline file`},
		{"column twice", ".ndjson", `{"id":"1","Note":"n","amount":"1","id":"2"}`, `column "id" occurs twice`},
		{"column twice, two spellings", ".ndjson", `{"id":"1","Note":"n","amount":"1","ID":"2"}`, `column "id" occurs twice, in two spellings`},
		{"excluded column twice", ".ndjson", `{"id":"1","Note":"n","amount":"1","secret":"a","secret":"b"}`, `column "secret" occurs twice`},
		{"declared spelling", ".ndjson", `{"id":"1","note":"n","amount":"1"}`, `column "note" is not in the pipeline file`},
		{"damaged value", ".csv", "id,Note,amount\n1,caf\xe9,2\n", "line 2: coerce note to string: invalid_utf8"},
		{"null key", ".ndjson", `{"id":null,"Note":"n","amount":"1"}`, "line 1: encode row: key column id is null"},
		{"no header", ".csv", "", "line 1: no header"},
		{"missing column in header", ".csv", "id,Note\n1,n\n", `column "amount" is missing`},
		{"missing column in header, no rows", ".csv", "id,Note\n", `line 1: column "amount" is missing`},
		{"too few fields", ".csv", "id,Note,amount\n1,n,2\n1,n\n", "t.csv: line 3: 2 fields under a header of 3"},
		{"too many fields", ".csv", "id,Note,amount\n1,n,2,3\n", "line 2: 4 fields under a header of 3"},
		{"line of a record after a line break", ".csv", "id,Note,amount\n1,\"a\nb\",2\n2,caf\xe9,2\n", "line 4: coerce note"},
		{"quote does not end", ".csv", "id,Note,amount\n1,\"n,2\n", "a quoted field does not end"},
		{"quote in the middle", ".csv", "id,Note,amount\n1,n\"n,2\n", "a quote in a field without quotes"},
		{"text behind quote", ".csv", "id,Note,amount\n1,\"n\"n,2\n", "text behind a closing quote"},
		{"carriage return", ".csv", "id,Note,amount\n1,n\rn,2\n", "a carriage return outside quotes"},
		{"not compressed", ".ndjson.gz", good, "gzip"},
	}
	table := parse(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "public.t"+tt.file), []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := dump.Open(dir, dump.Options{Final: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := view(t, r, table).Digests(t.Context(), all(4)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Digests: %v, want %q", err, tt.want)
			}
			var last error
			for _, err := range view(t, r, table).Rows(t.Context(), all(4)) {
				last = err
			}
			if last == nil || !strings.Contains(last.Error(), tt.want) {
				t.Errorf("Rows: %v, want %q", last, tt.want)
			}
		})
	}
}

// Errors name no value of a row.
func TestErrorsHaveNoValues(t *testing.T) {
	table := parse(t)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "public.t.ndjson"), `{"id":null,"Note":"hush","amount":"hush"}`)
	r, err := dump.Open(dir, dump.Options{Final: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := view(t, r, table).Digests(t.Context(), all(1)); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("error with a value, or none: %v", err)
	}
}

func TestFiles(t *testing.T) {
	const good = `{"id":"1","Note":"n","amount":"1.5"}`
	table := parse(t)
	tests := []struct {
		name  string
		files []string
		o     dump.Options
		want  string
	}{
		{"none", nil, dump.Options{Final: true}, "no file public.t.ndjson or public.t.csv"},
		{"another table's", []string{"public.tt.ndjson"}, dump.Options{Final: true}, "no file public.t.ndjson"},
		{"two", []string{"public.t.ndjson", "public.t.ndjson.zst"}, dump.Options{Final: true}, "both public.t.ndjson and public.t.ndjson.zst are there"},
		{"two formats", []string{"public.t.ndjson", "public.t.csv"}, dump.Options{Final: true}, "both public.t.ndjson and public.t.csv are there"},
		{"CSV of MySQL", []string{"public.t.csv"}, dump.Options{Final: true, Engine: catalog.MySQL}, "PostgreSQL's form only"},
		{"not final", nil, dump.Options{}, "must be declared final"},
		{"unknown engine", nil, dump.Options{Final: true, Engine: catalog.Oracle}, `the texts of engine "oracle" have no known form`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range tt.files {
				writeFile(t, filepath.Join(dir, name), good)
			}
			r, err := dump.Open(dir, tt.o)
			if err == nil {
				_, err = r.Open(t.Context(), table, false)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, good)
	for _, dir := range []string{file, file + "s"} {
		if _, err := dump.Open(dir, dump.Options{Final: true}); err == nil {
			t.Errorf("Open of %s, not a directory: no error", filepath.Base(dir))
		}
	}
	escape := *table
	escape.Source = "../public.t"
	r, err := dump.Open(filepath.Dir(file), dump.Options{Final: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Open(t.Context(), &escape, false); err == nil || !strings.Contains(err.Error(), "does not fit a file") {
		t.Errorf("a name with a slash: %v", err)
	}
}

// A line longer than the reader's buffer, CRLF line ends and a MySQL dump are
// read like any other.
func TestFormsOfOneRow(t *testing.T) {
	table := parse(t)
	long := strings.Repeat("n", 200_000)
	want := reconciletest.Expected(t, table, nil, 1)
	hash := canonRow(t, "1", long, "1.5")
	want[0].Add(hash)
	tests := []struct {
		name, file, text string
		engine           catalog.Engine
	}{
		{"ndjson", ".ndjson", `{"id":"1","Note":"` + long + `","amount":"1.50"}`, catalog.PostgreSQL},
		{"escapes", ".ndjson", ` { "\u0069d" : "1" , "Note" : "\u006e` + long[1:] + `" , "amount" : "1.5" } ` + "\r\n", catalog.MariaDB},
		{"csv", ".csv", "ID,Note,amount\r\n\"1\"," + long + ",+1.5", catalog.PostgreSQL},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "public.t"+tt.file), tt.text)
			r, err := dump.Open(dir, dump.Options{Final: true, Engine: tt.engine})
			if err != nil {
				t.Fatal(err)
			}
			got, err := view(t, r, table).Digests(t.Context(), all(1))
			if err != nil {
				t.Fatal(err)
			}
			if got[0] != want[0] {
				t.Errorf("digest %v, want %v", got[0], want[0])
			}
		})
	}
}

// view opens a table, until the test ends.
func view(t testing.TB, r reconcile.Reader, table *catalog.Table) reconcile.View {
	t.Helper()
	v, err := r.Open(t.Context(), table, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

// all is every row, in so many buckets.
func all(buckets int) reconcile.Part { return reconcile.Part{Buckets: buckets} }
