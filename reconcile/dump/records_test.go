package dump_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"icehose/reconcile/dump"
)

// readAll reads a file of text for the columns of the table parse returns.
func readAll(t *testing.T, file, text string) (rows []string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for row, failed := range dump.ReadFile(t.Context(), path, parse(t).PlaceColumns) {
		if failed != nil {
			return rows, failed
		}
		var texts []string
		for _, v := range row {
			if v == nil {
				v = []byte("NULL")
			}
			texts = append(texts, string(v))
		}
		rows = append(rows, strings.Join(texts, "|"))
	}
	return rows, nil
}

// Programs of Windows begin UTF-8 with a mark, which is no part of a name; one
// in a value is the value's.
func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	const mark = "\uFEFF"
	for name, test := range map[string]struct{ file, text, want string }{
		"csv":               {"t.csv", mark + "id,Note,amount\n1," + mark + "n,2\n", "1|" + mark + "n|2"},
		"csv, quoted names": {"t.csv", mark + "\"id\",\"Note\",\"amount\"\r\n1,,2\r\n", "1|NULL|2"},
		"ndjson":            {"t.ndjson", mark + `{"id":"1","Note":null,"amount":"2"}`, "1|NULL|2"},
		"nothing else":      {"t.ndjson", mark, ""},
	} {
		rows, err := readAll(t, test.file, test.text)
		if got := strings.Join(rows, "\n"); got != test.want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, test.want)
		}
	}
	dir := t.TempDir()
	for file, text := range map[string]string{"public.t.csv": mark + "id,Note,amount\n1,n,2\n", "public.t.ndjson": mark + `{"id":"1","Note":"n","amount":"2"}`} {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := digest(t, dir); got != 1 {
			t.Errorf("%s: reconcile reads %d rows, want 1", file, got)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// digest counts the rows that reconcile reads.
func digest(t *testing.T, dir string) (rows uint64) {
	t.Helper()
	r, err := dump.Open(dir, dump.Options{Final: true})
	if err != nil {
		t.Fatal(err)
	}
	digests, err := view(t, r, parse(t)).Digests(t.Context(), all(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range digests {
		rows += d.Count
	}
	return rows
}

func TestReadFileRefuses(t *testing.T) {
	t.Parallel()
	const hint = "want a string at byte 6, or null: values are the database's texts (value::text), numbers and booleans in quotes too"
	for name, test := range map[string]struct{ file, text, want string }{
		"header without rows":   {"t.csv", "id,wrong\n", "t.csv: line 1: the source has no column note"},
		"no header":             {"t.csv", "", "t.csv: line 1: no header"},
		"a mark and no header":  {"t.csv", "\uFEFF", "t.csv: line 1: no header"},
		"number":                {"t.ndjson", `{"id":1}`, "line 1: " + hint},
		"boolean":               {"t.ndjson", `{"id":true}`, "line 1: " + hint},
		"object":                {"t.ndjson", `{"id":{"a":"b"}}`, "line 1: " + hint},
		"a column twice":        {"t.ndjson", `{"id":"1","Note":"n","amount":"2","id":"2"}`, "column id: the source has it twice"},
		"a mark in the middle":  {"t.ndjson", "\n\uFEFF" + `{"id":"1"}`, "line 2: want an object"},
		"a mark before a quote": {"t.csv", "\uFEFF\uFEFF\"id\",Note,amount\n", "a quote in a field without quotes"},
	} {
		if _, err := readAll(t, test.file, test.text); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}
