package load_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon"
	"icehose/sink"
	"icehose/sink/load"
)

const tables = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- source: s.mirror
  mode: mirror
  key: [id]
  columns:
  - {name: id, type: long}
  - {name: gone, type: string, exclude: true}
  - {name: price, type: "decimal(5,2)", allow_lossy: [round]}
  - {name: day, type: date, allow_lossy: ["null"]}
  - {name: secret, type: string, mask: sha256}
  - {name: hidden, type: string, mask: "null"}
  - {name: text, type: string, allow_lossy: [replace]}
  - {name: code, type: string, source_type: "character(4)"}
  - {name: raw, type: binary}
- source: s.log
  mode: changelog
  key: [id]
  columns: [{name: id, type: long}]
- source: s.pairs
  mode: mirror
  key: [b, a]
  columns: [{name: a, type: string}, {name: b, type: string}]
- source: s.strict
  mode: mirror
  key: [id]
  columns:
  - {name: id, type: long}
  - {name: v, type: string, not_null: true}
  - {name: n, type: int, not_null: true, default: 7}
  - {name: lost, type: date, not_null: true, allow_lossy: ["null"]}
  - {name: hidden, type: string, not_null: true, mask: "null"}
- source: s.days
  mode: changelog
  columns: [{name: day, type: date}]
- source: s.heap
  mode: changelog
  columns: [{name: v, type: string}]
`

func table(t testing.TB, name string) *catalog.Table {
	t.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte(tables))
	if err != nil {
		t.Fatal(err)
	}
	return p.BySource("s", name)
}

// A target keeps what it is given.
type target struct {
	mu        sync.Mutex
	rows      [][]string
	note      *sink.LoadNote
	discarded bool
	commit    error
}

func (g *target) Write(_ context.Context, rows iter.Seq2[[][]byte, error]) error {
	for row, err := range rows {
		if err != nil {
			return err
		}
		g.mu.Lock()
		g.rows = append(g.rows, texts(row))
		g.mu.Unlock()
	}
	return nil
}

func (g *target) Commit(_ context.Context, note sink.LoadNote) error {
	if g.commit == nil {
		g.note = &note
	}
	return g.commit
}

func (g *target) Discard(ctx context.Context) error {
	g.discarded = true
	return ctx.Err()
}

// nowhere is a target that keeps nothing.
type nowhere struct{ load.Target }

func (nowhere) Write(_ context.Context, rows iter.Seq2[[][]byte, error]) error {
	for _, err := range rows {
		if err != nil {
			return err
		}
	}
	return nil
}

func (nowhere) Commit(context.Context, sink.LoadNote) error { return nil }

func (nowhere) Discard(context.Context) error { return nil }

// texts copies a row; null is "NULL".
func texts(row [][]byte) []string {
	out := make([]string, len(row))
	for i, v := range row {
		if out[i] = string(v); v == nil {
			out[i] = "NULL"
		}
	}
	return out
}

// part yields rows of texts; "NULL" is null.
func part(rows ...[]string) load.Part {
	return func(context.Context) iter.Seq2[[][]byte, error] {
		return func(yield func([][]byte, error) bool) {
			for _, row := range rows {
				values := make([][]byte, len(row))
				for i, text := range row {
					if text != "NULL" {
						values[i] = []byte(text)
					}
				}
				if !yield(values, nil) {
					return
				}
			}
		}
	}
}

var (
	floor    = cdc.Body{Hi: 0x16B3748}
	since    = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	position = "0003.00000000016b37480000000000000000.0."
)

func snapshot(parts ...load.Part) *load.Snapshot {
	return &load.Snapshot{Floor: floor, Since: since, Form: canon.Postgres, Parts: parts}
}

func TestRun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		table string
		parts []load.Part
		want  [][]string // without the position's tie
	}{
		"every kind of column": {
			table: "mirror",
			parts: []load.Part{part(
				[]string{"7", "1.005", "infinity", "abc", "seen by nobody", "a\xffb", "xy  ", `\x00FF`},
				[]string{"-8", "NULL", "2026-02-03", "NULL", "NULL", "", "", `\x`},
			)},
			want: [][]string{
				{"7", "1.01", "NULL", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "NULL", "a\ufffdb", "xy", "00ff", position, "NULL"},
				{"-8", "NULL", "2026-02-03", "NULL", "NULL", "", "", "", position, "NULL"},
			},
		},
		"changelog": {
			table: "log", parts: []load.Part{part([]string{"1"}), part(), part([]string{"2"})},
			want: [][]string{{"1", position, "NULL", "load", "NULL", "NULL"}, {"2", position, "NULL", "load", "NULL", "NULL"}},
		},
		"no rows": {table: "log"},
		"nulls that not_null does not mean": {
			table: "strict", parts: []load.Part{part([]string{"1", "", "7", "infinity", "NULL"})},
			want: [][]string{{"1", "", "7", "NULL", "NULL", position, "NULL"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got target
			note, err := load.Run(t.Context(), table(t, test.table), 3, snapshot(test.parts...), &got, load.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range got.rows {
				for i, text := range row {
					if strings.HasPrefix(text, position) {
						if row[i] = position; !cdc.Position(text).Valid() || text != string(note.Position) {
							t.Errorf("position %s, note %s", text, note.Position)
						}
					}
				}
			}
			if diff := cmp.Diff(test.want, got.rows); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			want := sink.LoadNote{Position: note.Position, Since: since, Rows: int64(len(test.want))}
			if got.note == nil || !cmp.Equal(want, *got.note) || !cmp.Equal(want, note) || got.discarded {
				t.Errorf("committed %+v, returned %+v, want %+v, discarded %t", got.note, note, want, got.discarded)
			}
		})
	}
}

// Every row of a table without a key has a position of its own, above that of
// the load and below every change from the floor on.
func TestRunKeyless(t *testing.T) {
	t.Parallel()
	var got target
	parts := make([]load.Part, 9)
	for i := range parts {
		parts[i] = part([]string{"same"}, []string{"same"}, []string{"same"})
	}
	note, err := load.Run(t.Context(), table(t, "heap"), 3, snapshot(parts...), &got, load.Options{Parallel: 4})
	if err != nil {
		t.Fatal(err)
	}
	var positions []string
	for _, row := range got.rows {
		positions = append(positions, row[1])
	}
	slices.Sort(positions)
	if len(slices.Compact(positions)) != 27 || positions[0] < string(note.Position) || positions[26] >= string(cdc.ChangePosition(3, floor, 0)) {
		t.Errorf("positions %v of a load at %s", positions, note.Position)
	}
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("the source is gone")
	for name, test := range map[string]struct {
		table string
		part  load.Part
		names []string
		mend  error
		want  string
	}{
		"value that does not fit": {table: "log", part: part([]string{"1"}, []string{"9223372036854775808"}), want: "coerce id to long: out_of_range: change the column's type"},
		"zero date":               {table: "days", part: part([]string{"2024-00-10"}), want: "out_of_range: a date whose year, month or day is zero (WHERE 0 IN (YEAR(day), MONTH(day), DAYOFMONTH(day)) finds such rows): change"},
		"text that is no value":   {table: "log", part: part([]string{"hidden"}), want: "coerce id to long: invalid_value: look at the column's type"},
		"key is null":             {table: "log", part: part([]string{"NULL"}), want: "key column id is null"},
		"null where none is":      {table: "strict", part: part([]string{"1", "NULL", "7", "2026-02-03", "x"}), want: `column v is null, but not_null in the pipeline file: write an empty text with quotes ("") in CSV`},
		"null for a default":      {table: "strict", part: part([]string{"1", "v", "NULL", "2026-02-03", "x"}), want: "column n is null, but not_null"},
		"null, no value lost":     {table: "strict", part: part([]string{"1", "v", "7", "NULL", "x"}), want: "column lost is null, but not_null"},
		"too few values":          {table: "log", part: part([]string{}), want: "0 values for 1 columns"},
		"not text":                {table: "heap", part: part([]string{"\xff"}), want: "invalid_utf8: let it be replaced with allow_lossy: [replace]"},
		"a file's name":           {table: "log", part: part([]string{"1"}, []string{"x"}), names: []string{"g.csv", "h.csv"}, want: "load table s.log: h.csv: row 2: coerce id"},
		"source breaks off": {table: "heap", want: "load table s.heap: the source is gone", part: func(context.Context) iter.Seq2[[][]byte, error] {
			return func(yield func([][]byte, error) bool) { _ = yield([][]byte{{'x'}}, nil) && yield(nil, broken) }
		}},
		"commit fails": {table: "heap", part: part(), mend: broken, want: "load table s.heap: the source is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := target{commit: test.mend}
			s := snapshot(part(), test.part)
			s.Names = test.names
			_, err := load.Run(t.Context(), table(t, test.table), 0, s, &got, load.Options{Parallel: 2})
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hidden") {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if !got.discarded || got.note != nil {
				t.Errorf("discarded %t, committed %v", got.discarded, got.note)
			}
		})
	}
}

// An interrupt ends a load, and what it wrote is discarded all the same.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	endless := func(ctx context.Context) iter.Seq2[[][]byte, error] {
		return func(yield func([][]byte, error) bool) {
			for n := 0; ; n++ {
				if n == 5000 {
					cancel()
				}
				if !yield([][]byte{{'x'}}, nil) {
					return
				}
			}
		}
	}
	var got target
	_, err := load.Run(ctx, table(t, "heap"), 0, snapshot(endless, endless), &got, load.Options{Parallel: 2})
	if !errors.Is(err, context.Canceled) || !got.discarded || got.note != nil {
		t.Errorf("error %v, discarded %t, committed %v", err, got.discarded, got.note)
	}
}

// The rate is that of all readers together, by a clock that the test moves.
func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows := slices.Repeat([][]string{{"x"}}, 10_000)
		started := now()
		var got target
		told := int64(0)
		var mu sync.Mutex
		_, err := load.Run(t.Context(), table(t, "heap"), 0, snapshot(part(rows...), part(rows...)), &got, load.Options{
			Parallel: 2, Rate: 1000, Now: now,
			Progress: func(n int64) { mu.Lock(); defer mu.Unlock(); told += n },
		})
		if took := now().Sub(started); err != nil || took < 19*time.Second || took > 21*time.Second || told != 20_000 {
			t.Errorf("20,000 rows at 1,000 a second took %s, %d told, %v", took, told, err)
		}
	})
}

func now() time.Time { return time.Now() } //nolint:forbidigo // the clock of the bubble
