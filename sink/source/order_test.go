package source_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"icehose/sink"
	"icehose/sink/source"
)

// bare are records without sequence numbers.
func bare(from, to int) string {
	var b strings.Builder
	for n := from; n < to; n++ {
		fmt.Fprintf(&b, `{"shardId":"a","data":"a/%d"}`+"\n", n)
	}
	return b.String()
}

// The files of a folder are in the order of the stream, as far as their names can
// tell: by the numbers in them where sequence numbers show it, else by the alphabet.
func TestOrderOfAFolder(t *testing.T) {
	t.Parallel()
	const (
		behind = "; nothing was delivered"
		byName = "their names do not sort as they follow each other: give each file by its name, "
	)
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string // the data of the records in their order, or how the error ends
	}{
		{"numbers", map[string]string{"p-1": records(0, 1), "p-2": records(1, 2), "p-10": records(2, 3), "p-11": records(3, 4)}, "a/0 a/1 a/2 a/3"},
		{"compressed ones too", map[string]string{"p-9.gz": records(0, 2), "p-10.zst": records(2, 3), "p-11": records(3, 4)}, "a/0 a/1 a/2 a/3"},
		{"numbers of any length", map[string]string{"p-99999999999999999999": records(0, 1), "p-100000000000000000000": records(1, 2)}, "a/0 a/1"},
		{"the alphabet, where that is the order", map[string]string{"p-10": records(0, 1), "p-2": records(1, 2)}, "a/0 a/1"},
		{"hexadecimal", map[string]string{"0f": records(0, 1), "10": records(1, 2), "1a": records(2, 3)}, "a/0 a/1 a/2"},
		{
			"names with zeros before",
			map[string]string{"p-01": records(0, 1), "p-2": records(1, 2), "p-10": records(2, 3), "p-010": records(3, 4)},
			byName + "DIR/p-10 before DIR/p-010" + behind,
		},
		{"zeros do not count", map[string]string{"p-2": records(0, 1), "p-009": records(1, 2), "p-10": records(2, 3)}, "a/0 a/1 a/2"},
		{"neither", map[string]string{"monday": records(0, 1), "friday": records(1, 2)}, byName + "DIR/monday before DIR/friday" + behind},
		{"without sequence numbers, as ever", map[string]string{"p-10": bare(0, 1), "p-2": bare(1, 2)}, "a/0 a/1"},
		{"a shard of its own for each file", map[string]string{"p-10": record("b", 0), "p-2": record("a", 0)}, "b/0 a/0"},
		{"shards that alternate", map[string]string{"p-2": record("a", 0) + record("b", 0), "p-10": record("b", 1) + record("a", 1)}, "a/0 b/0 b/1 a/1"},
		{"empty ones", map[string]string{"p-2": records(0, 1), "p-10": records(1, 2), "p-3": "", "p-20": ""}, "a/0 a/1"},
		{"behind what holds no record", map[string]string{"p-2": "{cut\n\n" + records(0, 1), "p-10": records(1, 2)}, "{cut a/0 a/1"},
		{
			"a copy among them",
			map[string]string{"p-1": records(0, 1), "p-1.gz": records(0, 1), "p-2": records(1, 2), "p-10": records(2, 3)},
			"the files probably have the same records: give one of them" + behind,
		},
		{
			"without sequence numbers in part",
			map[string]string{"p-2": records(0, 1) + bare(1, 2), "p-10": records(2, 3) + bare(3, 4)},
			"shard a has records without a decimal sequence number, and files that do not come by the alphabet: nothing tells their order: give each file by its name",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range tt.files {
				write(t, filepath.Join(dir, name), text)
			}
			f := &source.Files{Names: []string{filepath.Join(dir, "*")}}
			var got []string
			for r, err := range f.Records(t.Context(), nil) {
				if err != nil {
					got = append(got, "error: "+strings.ReplaceAll(err.Error(), dir, "DIR"))
					break
				}
				got = append(got, string(r.Data))
			}
			if text := strings.Join(got, " "); text != tt.want && (!strings.HasSuffix(text, tt.want) || !strings.Contains(text, "error: ")) {
				t.Errorf("got %q, want %q", text, tt.want)
			}
			if early := f.Check(t.Context()); (early != nil) != strings.HasSuffix(tt.want, behind) {
				t.Errorf("check: %v", early)
			}
		})
	}
}

// A wrong order that the first records show is refused before anything is yielded,
// and where it matters: with what was handled it depends on what comes behind.
func TestOrderIsCheckedFirst(t *testing.T) {
	t.Parallel()
	const wrong = "error: read records: "
	at := func(n int) map[string]sink.Offset {
		return map[string]sink.Offset{"a": {Shard: "a", Ordinal: uint64(n), Sequence: fmt.Sprint(100 + n)}} //nolint:gosec // small
	}
	for _, tt := range []struct {
		name     string
		files    []string // of this order
		after    map[string]sink.Offset
		resumes  bool
		redriven bool
		refused  bool
		n        int // records, otherwise
	}{
		{name: "in order", files: []string{records(0, 3), records(3, 5)}, n: 5},
		{name: "not in order", files: []string{records(3, 5), records(0, 3)}, refused: true},
		{name: "not side by side", files: []string{records(3, 5), record("b", 0), "", records(0, 3)}, refused: true},
		{name: "another shard of the file", files: []string{record("b", 7) + record("a", 3), record("a", 0)}, refused: true},
		{name: "behind a line that is none", files: []string{records(3, 5), "text\n" + records(0, 3)}, refused: true},
		{name: "all was handled, not in order", files: []string{records(3, 5), records(0, 3)}, after: at(4), refused: true},
		{name: "failures are in no order", files: []string{records(3, 5), records(0, 3)}, redriven: true, n: 5},
		{name: "continue, all handled", files: []string{records(3, 5), records(0, 3)}, resumes: true, after: at(4), refused: true},
		{name: "continue, the earlier one is handled", files: []string{records(3, 5), records(0, 3)}, resumes: true, after: at(2), refused: true},
		{name: "continue, half of the earlier one", files: []string{records(3, 5), records(0, 3)}, resumes: true, after: at(1), refused: true},
		{name: "continue, nothing is handled", files: []string{records(3, 5), records(0, 3)}, resumes: true, refused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			f := &source.Files{Continue: tt.resumes, Redriven: tt.redriven}
			for i, text := range tt.files {
				f.Names = append(f.Names, write(t, filepath.Join(dir, fmt.Sprintf("%c.gz", 'z'-i)), text))
			}
			got := read(t, f, tt.after)
			switch {
			case !tt.refused && (len(got) != tt.n || tt.n > 0 && strings.HasPrefix(got[tt.n-1], "error")):
				t.Errorf("got %q, want %d", got, tt.n)
			case tt.refused && (len(got) != 1 || !strings.HasPrefix(got[0], wrong) || !strings.Contains(got[0], ".gz before DIR/z.gz")):
				t.Errorf("got %q", got)
			}
			if err := f.Check(t.Context()); errors.Is(err, source.ErrOrder) != tt.refused {
				t.Errorf("check: %v", err)
			}
		})
	}
}

// many are more records of shard b than the first look at a file shows.
func many() string {
	var b strings.Builder
	for n := range 400 {
		b.WriteString(record("b", n))
	}
	return b.String()
}

// Where the first records of files tell nothing, those behind them do: which names
// sort as files follow each other, and that they do not.
func TestOrderThatFirstRecordsHide(t *testing.T) {
	t.Parallel()
	if len(many()) <= 16<<10 {
		t.Fatal("the first look shows all of them")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "p-9"), records(0, 3))
	write(t, filepath.Join(dir, "p-10"), many()+records(3, 5))
	got := read(t, &source.Files{Names: []string{filepath.Join(dir, "*")}}, nil)
	if len(got) != 405 || !strings.HasSuffix(got[0], "=a/0") || !strings.HasSuffix(got[404], "=a/4") {
		t.Errorf("%d records: %q to %q", len(got), got[0], got[len(got)-1])
	}
}

// A run that found files in a wrong order after others were committed is not gone
// on with by --continue: what stands behind would count as handled.
func TestContinueBehindAWrongOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := &source.Files{Continue: true, Names: []string{
		write(t, filepath.Join(dir, "first"), many()+records(3, 5)), write(t, filepath.Join(dir, "second"), records(0, 3)),
	}}
	for _, after := range []map[string]sink.Offset{nil, {"a": {Shard: "a", Ordinal: 1, Sequence: "104"}, "b": {Shard: "b", Ordinal: 399, Sequence: "499"}}} {
		got := read(t, f, after)
		if last := got[len(got)-1]; !strings.Contains(last, source.ErrOrder.Error()) {
			t.Errorf("%d records, the last one %q", len(got), last)
		}
	}
}

// A lake that was filled in the order of the alphabet, before sequence numbers had
// to ascend, is not taken for one of the other order.
func TestOrderOfALakeThatWasFilledBefore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "p-2.json"), records(0, 3))
	write(t, filepath.Join(dir, "p-10.json"), records(3, 5))
	sequences := []int{103, 104, 100, 101, 102}
	for n, sequence := range sequences {
		after := map[string]sink.Offset{"a": {Shard: "a", Ordinal: uint64(n), Sequence: fmt.Sprint(sequence)}} //nolint:gosec // small
		got := read(t, &source.Files{Names: []string{dir}}, after)
		if len(got) != 1 || !strings.HasSuffix(got[0], "not the stream that the lake was filled from") {
			t.Errorf("%d records: got %q", n+1, got)
		}
	}
}

// A followed folder gets to its tenth file.
func TestFollowNumberedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := func(n int) string { return filepath.Join(dir, fmt.Sprintf("p-%d.ndjson", n)) }
	var steps []func()
	for n := 1; n <= 12; n++ {
		steps = append(steps,
			func() { add(t, name(n), nil) }, func() { add(t, name(n), []byte(record("a", n))[:9]) }, func() { add(t, name(n), []byte(record("a", n))[9:]) })
	}
	got := follow(t, steps, dir)
	if len(got) != 12 || got[11] != "a#11@112=a/12" {
		t.Errorf("got %q", got)
	}
}

// A file that is empty when the order is looked for waits for its place, also when
// it gets a record before it would be read.
func TestFollowEmptyNumberedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "p-1.ndjson"), record("a", 0))
	write(t, filepath.Join(dir, "p-2.ndjson"), record("a", 1))
	tenth := write(t, filepath.Join(dir, "p-10.ndjson"), "")
	var got []string
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks := 0
	f := &source.Files{Names: []string{dir}, Follow: true, Wait: func(ctx context.Context) error {
		if looks++; looks == 3 {
			cancel()
		}
		return ctx.Err()
	}}
	for r, err := range f.Records(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, text(r)); len(got) == 1 {
			add(t, tenth, []byte(record("a", 2)))
		}
	}
	if diff := cmp.Diff([]string{"a#0@100=a/0", "a#1@101=a/1", "a#2@102=a/2"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The order of names is one: nothing is before itself, and what is before another
// is before all that are behind it. Where no numbers of different length meet it
// is that of the alphabet.
func TestCompareNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.StringMatching(`[a/]?[019]{0,3}[-b]?[019]{0,2}`)
		a, b, c := name.Draw(rt, "a"), name.Draw(rt, "b"), name.Draw(rt, "c")
		ab, ba, bc, ac := source.CompareNumbers(a, b), source.CompareNumbers(b, a), source.CompareNumbers(b, c), source.CompareNumbers(a, c)
		if ab != -ba || (ab == 0) != (a == b) || ab <= 0 && bc <= 0 && ac > 0 {
			rt.Errorf("%q %q %q: %d %d %d %d", a, b, c, ab, ba, bc, ac)
		}
		same := rapid.StringMatching(`[ab][0-9]{3}[-/][0-9]{2}`)
		x, y := same.Draw(rt, "x"), same.Draw(rt, "y")
		if source.CompareNumbers(x, y) != strings.Compare(x, y) {
			rt.Errorf("%q %q", x, y)
		}
	})
}

// More files than are kept open grow, and are told apart.
func TestFollowManyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := func(n int) string { return filepath.Join(dir, fmt.Sprintf("%03d.json", n)) }
	var steps []func()
	for round := range 3 {
		steps = append(steps, func() {
			for n := range 150 {
				add(t, name(n), []byte(record(fmt.Sprint("s", n), round)))
			}
		})
	}
	steps = append(steps, func() { add(t, name(3), []byte(record("s3", 3))); rename(t, name(3), name(3)+".done") })
	got := follow(t, steps, dir)
	if len(got) != 451 || !strings.Contains(got[450], "003.json: not the file any more that was followed: ") {
		t.Errorf("%d, the last %q", len(got), got[len(got)-1])
	}
}

// The look ahead reads no more of a file than it needs, and nothing of what can be
// read only once.
func TestOrderOfLargeFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := write(t, filepath.Join(dir, "x.zst"), records(0, 2000))
	whole, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	// What is broken further on is told when it is read.
	second := filepath.Join(dir, "y.zst")
	if err := os.WriteFile(second, whole[:len(whole)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	third := write(t, filepath.Join(dir, "z.zst"), records(3000, 3001))
	if err := (&source.Files{Names: []string{third, second}}).Check(t.Context()); !errors.Is(err, source.ErrOrder) {
		t.Errorf("got %v", err)
	}
	if err := (&source.Files{Names: []string{second, third}}).Check(t.Context()); err != nil {
		t.Errorf("got %v", err)
	}
}
