package dump_test

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/reconcile/dump"
)

func canonRow(_ testing.TB, texts ...string) canon.Hash {
	var row []byte
	for _, text := range texts {
		row = canon.AppendField(row, []byte(text))
	}
	return canon.HashRow(row)
}

// anyText is a table whose two columns take any text.
func anyText(t testing.TB) *catalog.Table {
	p, err := catalog.Parse("pipeline.yaml", []byte(`version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - source: public.t
    mode: changelog
    columns:
      - {name: a, type: string}
      - {name: b, type: string}
`))
	if err != nil {
		t.Fatal(err)
	}
	return p.Tables[0]
}

func digestOf(t *testing.T, file string, text []byte) (canon.Digest, error) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := dump.Open(dir, dump.Options{Final: true})
	if err != nil {
		t.Fatal(err)
	}
	digests, err := view(t, r, anyText(t)).Digests(t.Context(), all(1))
	if err != nil {
		return canon.Digest{}, err
	}
	return digests[0], nil
}

// FuzzNDJSON: a line is read exactly when the standard library reads it as an
// object of the two columns, and then as the same texts.
func FuzzNDJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":"1","b":null}`, `{"b":"","a":"\u00e9\ud83e\uddca"}`, `{"a":"\ud800","b":"x"}`, `{"a":"\\","b":"\""}`,
		`{"a":"1","b":"2",}`, `{"a":"1" "b":"2"}`, `{"a":"1","b":nul}`, `{"a":1,"b":2}`, `{"a":"1","b":"2"}x`, `{`, `"`, `{"a`, `{"a":"\u12`, `null`, ``,
		"{\"a\":\"\x00\",\"b\":\"\xff\"}", `{"A":"1","B":"2"}`, `{"a":"1","a":"2","b":"3"}`, `{"a":nullnull,"b":null}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\n") {
			return // one line is the unit here
		}
		got, err := digestOf(t, "public.t.ndjson", []byte(line))
		var want map[string]*string
		wantErr := json.Unmarshal([]byte(line), &want)
		if err != nil {
			return // stricter than the standard library: names, numbers, surrogates, UTF-8
		}
		if strings.Trim(line, " \t\r\f\v\u0085\u00a0") == "" {
			if got.Count != 0 {
				t.Fatalf("an empty line has %d rows", got.Count)
			}
			return
		}
		if wantErr != nil {
			t.Fatalf("read what is not JSON: %v", wantErr)
		}
		texts := map[string]*string{}
		for name, text := range want {
			texts[strings.ToLower(name)] = text
		}
		var row []byte
		for _, name := range []string{"a", "b"} {
			text, ok := texts[name]
			switch {
			case !ok:
				t.Fatalf("read a line without column %s", name)
			case text == nil:
				row = canon.AppendNull(row)
			default:
				row = canon.AppendField(row, []byte(*text))
			}
		}
		var digest canon.Digest
		digest.Add(canon.HashRow(row))
		if got != digest {
			t.Fatal("other texts than the standard library reads")
		}
	})
}

// FuzzCSV: what is read has the texts that the standard library reads.
func FuzzCSV(f *testing.F) {
	for _, seed := range []string{
		"a,b\n1,2\n", "b,a\n\"\",\n", "a,b\n\"x\"\"y\",\"1\n2\"\n", "a,b\n1\n", "a,b\n\"1,2\n", "a,b\n1,2\"\n", "a,b\n\"1\"2,3\n",
		"a,b\r\n1,2\r\n", "a,b\n1,2\r", "", "a", "a,b", "a,b\n\n", "a,a\n1,2\n", "\"a\",b\n\\N,\\.\n", "a,b\n\xff,2\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := digestOf(t, "public.t.csv", []byte(text))
		if err != nil || strings.Contains(text, "\r") || strings.Contains(text, "\n\n") || strings.HasPrefix(text, "\n") {
			return // the standard library passes over empty lines and carriage returns
		}
		if !utf8.ValidString(text) {
			t.Fatal("read what is not UTF-8")
		}
		in := csv.NewReader(strings.NewReader(text))
		rows, err := in.ReadAll()
		if err != nil {
			t.Fatalf("read what the standard library does not: %v", err)
		}
		if strings.Contains(text, `""`) {
			return // it does not tell the empty text from NULL either
		}
		at := 0 // where column a is
		if strings.EqualFold(rows[0][1], "a") {
			at = 1
		}
		var want canon.Digest
		for _, fields := range rows[1:] {
			var row []byte
			for _, field := range []string{fields[at], fields[1-at]} {
				if field == "" {
					row = canon.AppendNull(row)
				} else {
					row = canon.AppendField(row, []byte(field))
				}
			}
			want.Add(canon.HashRow(row))
		}
		if got != want {
			t.Fatal("other texts than the standard library reads")
		}
	})
}
