package dump_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/reconcile/dump"
)

const moneyPipeline = `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - source: public.t
    mode: mirror
    key: [id]
    columns:
      - {name: id, type: int}
      - {name: price, type: "decimal(23,4)", source_type: money}
      - {name: text, type: string, source_type: money}
      - {name: untyped, type: "decimal(23,4)"}
`

// Money in a file is the number that a live source is asked for, in each column
// that can have it; where the language is not certain, the file is refused, and
// never a row that differs.
func TestMoney(t *testing.T) {
	p, err := catalog.Parse("pipeline.yaml", []byte(moneyPipeline))
	if err != nil {
		t.Fatal(err)
	}
	table := p.Tables[0]
	for _, tt := range []struct{ text, want string }{
		{"12.34", "12.34"},
		{"-12.34", "-12.34"},
		{"$12.34", "12.34"},
		{"$0.00", "0.00"},
		{"-$1,234.50", "-1234.50"},
		{"-$92,233,720,368,547,758.08", "-92233720368547758.08"},
		{"12,34 €", ""},
		{"12.34 €", ""},
		{"€12.34", ""},
		{"$1.234", ""},
		{"$1,234", ""},
		{"$12,34.00", ""},
		{"$,123.00", ""},
		{"$1234.00", ""},
		{"$.50", ""},
		{"$1.2x", ""},
		{"R$ 1.234,50", ""},
		{"(1,234.50)", ""},
		{"1,234.50", ""},
	} {
		for _, ext := range []string{".csv", ".ndjson"} {
			text := func(value string) string {
				if ext == ".csv" {
					return "id,price,text,untyped\n1,\"" + value + "\",\"" + value + "\",\"" + value + "\"\n2,,,\n"
				}
				return `{"id":"1","price":"` + value + `","text":"` + value + `","untyped":"` + value + `"}` + "\n" + `{"id":"2","price":null,"text":null,"untyped":null}` + "\n"
			}
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "public.t"+ext), text(tt.text))
			r, err := dump.Open(dir, dump.Options{Final: true})
			if err != nil {
				t.Fatal(err)
			}
			got, err := view(t, r, table).Digests(t.Context(), all(1))
			if tt.want == "" {
				if err == nil || !strings.Contains(err.Error(), `public.t`+ext+`: line `) || !strings.Contains(err.Error(), `column "price"`) || !strings.Contains(err.Error(), "price::numeric") ||
					strings.Contains(err.Error(), tt.text) {
					t.Errorf("%s %s: %v", ext, tt.text, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s %s: %v", ext, tt.text, err)
				continue
			}
			plain := t.TempDir()
			writeFile(t, filepath.Join(plain, "public.t"+ext), text(tt.want))
			if r, err = dump.Open(plain, dump.Options{Final: true}); err != nil {
				t.Fatal(err)
			}
			want, err := view(t, r, table).Digests(t.Context(), all(1))
			if err != nil || got[0] != want[0] {
				t.Errorf("%s %s is not %s: %v", ext, tt.text, tt.want, err)
			}
		}
	}
}

// What is no amount is judged as before: NaN of a numeric, and the texts of
// MySQL, which has no money.
func TestNoMoney(t *testing.T) {
	p, err := catalog.Parse("pipeline.yaml", []byte(moneyPipeline))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		row    string
		engine catalog.Engine
		want   string
	}{
		{`{"id":"1","price":null,"text":null,"untyped":"NaN"}`, catalog.PostgreSQL, ""},
		{`{"id":"1","price":"NaN","text":null,"untyped":null}`, catalog.PostgreSQL, "price::numeric"},
		{`{"id":"1","price":null,"text":"$1,234","untyped":null}`, catalog.MySQL, ""},
	} {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "public.t.ndjson"), tt.row)
		r, err := dump.Open(dir, dump.Options{Final: true, Engine: tt.engine})
		if err != nil {
			t.Fatal(err)
		}
		_, err = view(t, r, p.Tables[0]).Digests(t.Context(), all(1))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.row, err)
		}
	}
}

// A load of the same file has the same numbers.
func TestAmounts(t *testing.T) {
	p, err := catalog.Parse("pipeline.yaml", []byte(moneyPipeline))
	if err != nil {
		t.Fatal(err)
	}
	read := func(text string) (rows [][]string, err error) {
		path := filepath.Join(t.TempDir(), "t.csv")
		writeFile(t, path, text)
		for row, failed := range dump.Amounts(p.Tables[0], dump.ReadFile(context.Background(), path, p.Tables[0].PlaceColumns)) {
			if failed != nil {
				return nil, failed
			}
			var texts []string
			for _, value := range row {
				texts = append(texts, string(value))
			}
			rows = append(rows, texts)
		}
		return rows, nil
	}
	rows, err := read("untyped,text,price,id\n\"$1,234.50\",$2.00,-$3.00,4\n5.5,6.00,7,8\n,,,9\n")
	if err != nil || len(rows) != 3 || strings.Join(rows[0], " ") != "4 -3.00 2.00 1234.50" || strings.Join(rows[1], " ") != "8 7 6.00 5.5" || strings.Join(rows[2], " ") != "9   " {
		t.Errorf("rows %q, %v", rows, err)
	}
	if _, err := read("untyped,text,price,id\n1,2,\"3,00 €\",4\n"); err == nil || !strings.Contains(err.Error(), `column "price"`) {
		t.Errorf("an amount in euros: %v", err)
	}
}
