package load_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"icehose/sink/load"
)

// numbers yields one row for each number from low to below high, as rows of s.log.
func numbers(low, high int) load.Part {
	return func(context.Context) iter.Seq2[[][]byte, error] {
		return func(yield func([][]byte, error) bool) {
			var text []byte
			for n := low; n < high; n++ {
				if text = strconv.AppendInt(text[:0], int64(n), 10); !yield([][]byte{text}, nil) {
					return
				}
			}
		}
	}
}

// A key that occurs twice fails the load, wherever its rows are, in memory or
// not; what has no key may have the same row often.
func TestKeys(t *testing.T) {
	t.Parallel()
	const named = ", such as one of g.csv and one of h.csv: give each row once, or name columns"
	for name, test := range map[string]struct {
		table string
		parts []load.Part
		names []string
		trust bool
		want  string // error; "" for none
	}{
		"all differ":                     {table: "log", parts: []load.Part{numbers(0, 600), numbers(600, 1800)}},
		"within a part":                  {table: "log", parts: []load.Part{part([]string{"1"}, []string{"2"}, []string{"1"})}, want: "the key (id) is not unique: rows with the key of an earlier one: 1: name columns"},
		"in two parts":                   {table: "log", parts: []load.Part{numbers(0, 800), numbers(799, 1600)}, names: []string{"g.csv", "h.csv"}, want: "the key (id) is not unique: rows with the key of an earlier one: 1" + named},
		"all of it":                      {table: "log", parts: []load.Part{numbers(0, 800), numbers(0, 800)}, names: []string{"g.csv", "h.csv"}, want: "rows with the key of an earlier one: 800" + named},
		"twice in one file":              {table: "log", parts: []load.Part{numbers(0, 5), part([]string{"7"}, []string{"7"}, []string{"7"})}, names: []string{"g.csv", "h.csv"}, want: "rows with the key of an earlier one: 2, such as two of h.csv: give each row once"},
		"two texts of one key":           {table: "log", parts: []load.Part{part([]string{"1"}, []string{"01.0"})}, want: "not unique"},
		"a mirror":                       {table: "mirror", parts: []load.Part{part(mirrorRow("7"), mirrorRow("7"))}, want: "load table s.mirror: the key (id) is not unique"},
		"two columns":                    {table: "pairs", parts: []load.Part{part([]string{"1", "23"}, []string{"12", "3"}, []string{"1", "3"})}},
		"two columns, twice":             {table: "pairs", parts: []load.Part{part([]string{"1", "23"}, []string{"12", "3"}, []string{"1", "23"})}, want: "the key (b, a) is not unique"},
		"not looked at":                  {table: "log", parts: []load.Part{numbers(0, 4), numbers(0, 4)}, trust: true},
		"without a key":                  {table: "heap", parts: []load.Part{part([]string{"x"}, []string{"x"})}},
		"a value that is not of the key": {table: "mirror", parts: []load.Part{part(mirrorRow("7"), mirrorRow("8"))}},
	} {
		for _, memory := range []int{0, 2, 700} { // of all; of next to nothing; of a part
			t.Run(name+"/"+strconv.Itoa(memory), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				var got target
				s := snapshot(test.parts...)
				s.Names = test.names
				_, err := load.Run(t.Context(), table(t, test.table), 3, s, &got, load.Options{Parallel: 2, TrustKey: test.trust, KeyMemory: memory, KeyDir: dir})
				if test.want == "" && (err != nil || got.note == nil) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !got.discarded || got.note != nil) {
					t.Errorf("error %v, want %q; committed %v, discarded %t", err, test.want, got.note, got.discarded)
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
					t.Errorf("left over: %v, %v", left, err)
				}
			})
		}
	}
}

func mirrorRow(id string) []string { return []string{id, "1", "2026-02-03", "a", "b", "c", "d", `\x`} }

// A key of few values is known for a wrong one before all rows were read, and
// before they crowd memory.
func TestKeysOfFewValues(t *testing.T) {
	t.Parallel()
	const rows = 1_000_000
	read := 0
	few := func(context.Context) iter.Seq2[[][]byte, error] {
		return func(yield func([][]byte, error) bool) {
			for read < rows && yield([][]byte{strconv.AppendInt(nil, int64(read%2), 10)}, nil) {
				read++
			}
		}
	}
	var got target
	_, err := load.Run(t.Context(), table(t, "log"), 3, snapshot(few), &got, load.Options{KeyMemory: 1000, KeyDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "rows with the key of an earlier one: at least ") || got.note != nil || read > rows/10 {
		t.Errorf("error %v after %d rows, committed %v", err, read, got.note)
	}
}

// Without a place for what memory does not take nothing is loaded.
func TestKeysWithoutRoom(t *testing.T) {
	t.Parallel()
	var got target
	dir := filepath.Join(t.TempDir(), "gone")
	_, err := load.Run(t.Context(), table(t, "log"), 3, snapshot(numbers(0, 3000)), &got, load.Options{KeyMemory: 1000, KeyDir: dir})
	if err == nil || !strings.Contains(err.Error(), "note keys in "+dir) || !strings.Contains(err.Error(), "--trust-key") || got.note != nil {
		t.Errorf("error %v, committed %v", err, got.note)
	}
}

// What the check of keys costs, beside nothing but reading the rows.
func BenchmarkKeys(b *testing.B) {
	for _, rows := range []int{1_000_000, 10_000_000} {
		for name, o := range map[string]load.Options{
			"unchecked": {TrustKey: true}, "checked": {},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, rows), func(b *testing.B) {
				o.Parallel = 2
				for b.Loop() {
					if _, err := load.Run(b.Context(), table(b, "log"), 3, snapshot(numbers(0, rows/2), numbers(rows/2, rows)), nowhere{}, o); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
			})
		}
	}
}
