package merge_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink/iceberg"
	"icehose/sink/merge"
	"icehose/sink/merge/mergetest"
)

func pipeline(t testing.TB, text string) *catalog.Pipeline {
	t.Helper()
	p, err := catalog.Parse("merge.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func open(t testing.TB, dir string) *iceberg.Store {
	t.Helper()
	store, err := iceberg.Open(t.Context(), dir, iceberg.Options{Sync: func(*os.File) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// current reads the current table.
func current(t testing.TB, store *iceberg.Store, def *catalog.Table) map[string]mergetest.Current {
	t.Helper()
	table, err := store.OpenTable(t.Context(), def.Current())
	if err != nil {
		t.Fatal(err)
	}
	columns, _ := def.Current().LakeColumns()
	all := make([]int, len(columns))
	for i := range columns {
		all[i] = i
	}
	rows := make(map[string]mergetest.Current)
	for row, err := range table.Scan(t.Context(), all) {
		if err != nil {
			t.Fatal(err)
		}
		var c mergetest.Current
		for i, v := range row {
			switch {
			case columns[i].Name == catalog.ColumnUnresolved:
				c.Unresolved = strings.FieldsFunc(string(v), func(r rune) bool { return r == ',' })
			case v == nil:
				c.Values = append(c.Values, "NULL")
			default:
				c.Values = append(c.Values, string(v))
			}
		}
		key := mergetest.KeyOf(def, c.Values)
		if _, twice := rows[key]; twice {
			t.Fatalf("row %q is there twice", key)
		}
		rows[key] = c
	}
	return rows
}

func run(t testing.TB, store *iceberg.Store, def *catalog.Table) *merge.Result {
	t.Helper()
	result, err := merge.Local(t.Context(), store, def, merge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func names(def *catalog.Table) []string {
	columns, data := def.LakeColumns()
	out := make([]string, data)
	for i := range out {
		out[i] = columns[i].Name
	}
	return out
}

func appendRows(t testing.TB, store *iceberg.Store, def *catalog.Table, rows ...[][]byte) {
	t.Helper()
	if err := mergetest.Append(t.Context(), store, def, rows...); err != nil {
		t.Fatal(err)
	}
}

// After every run the current table is what a fold of everything so far gives,
// whatever the order of delivery.
func TestLocalIsTheFoldAfterEveryRun(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "keyed")
	for seed := range uint64(4) {
		store := open(t, t.TempDir())
		var log [][][]byte
		for tenant := range 20 {
			rows := mergetest.Log(seed, tenant)
			if tenant%2 == 1 {
				rows = mergetest.Copies(seed, rows)
			}
			for _, row := range rows {
				log = append(log, row.Lake())
			}
		}
		r := rand.New(rand.NewPCG(seed, 7))
		r.Shuffle(len(log), func(i, j int) { log[i], log[j] = log[j], log[i] })
		var late int64
		for from := 0; from < len(log); {
			to := min(len(log), from+1+r.IntN(len(log)/4))
			appendRows(t, store, def, log[from:to]...)
			result := run(t, store, def)
			late += result.Late
			if result.Read != int64(to-from) {
				t.Errorf("seed %d: %d rows read, want %d: only what is new", seed, result.Read, to-from)
			}
			from = to
			want, err := mergetest.Fold(def, log[:to])
			if err != nil {
				t.Fatal(err)
			}
			if diff := mergetest.Diff(want, current(t, store, def), true, names(def)); diff != "" {
				t.Fatalf("seed %d, after %d of %d rows:\n%s", seed, to, len(log), diff)
			}
		}
		if late == 0 {
			t.Errorf("seed %d: no row was late: the test shows little", seed)
		}
		if again := run(t, store, def); again.Read+again.Changed+again.Deleted != 0 {
			t.Errorf("seed %d: a run without anything new did %+v", seed, again)
		}
	}
}

// A column that was added, with a default for older rows, is in every row of the
// current table after the next run, also in those of keys that nothing touches;
// and so is a default that was changed.
func TestColumnsChange(t *testing.T) {
	t.Parallel()
	store := open(t, t.TempDir())
	before := pipeline(t, mergetest.Before()).ByTarget("d", "keyed")
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "keyed")
	other := pipeline(t, strings.Replace(mergetest.Pipeline, `default: "new'"`, "default: other", 1)).ByTarget("d", "keyed")
	var log [][][]byte
	for tenant := range 3 {
		for _, row := range mergetest.Log(9, tenant) {
			log = append(log, row.Lake())
		}
	}
	half := len(log) / 2
	for i, row := range log[:half] {
		appendRows(t, store, before, mergetest.RowBefore(row))
		log[i] = mergetest.NullGrade(row)
	}
	run(t, store, before)
	appendRows(t, store, def, log[half:]...)
	for _, def := range []*catalog.Table{def, other} {
		if result := run(t, store, def); result.From != 0 || result.Changed == 0 {
			t.Errorf("%+v, want every key folded anew", result)
		}
		want, err := mergetest.Fold(def, log)
		if err != nil {
			t.Fatal(err)
		}
		if diff := mergetest.Diff(want, current(t, store, def), true, names(def)); diff != "" {
			t.Fatal(diff)
		}
		if result := run(t, store, def); result.From == 0 {
			t.Errorf("%+v, want nothing done again", result)
		}
	}
}

// Without a note of the columns every key is folded anew.
func TestColumnsNotNoted(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	store := open(t, t.TempDir())
	appendRows(t, store, def, mergetest.Traps()[0].Steps[0].Rows[0].Lake())
	run(t, store, def)
	merge.RemoveColumnsNote(t, store, def)
	if result := run(t, store, def); result.From != 0 || result.Read != 1 {
		t.Errorf("%+v, want every key folded anew", result)
	}
	if result := run(t, store, def); result.From == 0 {
		t.Errorf("%+v, want nothing done again", result)
	}
}

func TestTraps(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	for _, trap := range mergetest.Traps() {
		t.Run(trap.Name, func(t *testing.T) {
			t.Parallel()
			store := open(t, t.TempDir())
			for n, step := range trap.Steps {
				var rows [][][]byte
				for _, row := range step.Rows {
					rows = append(rows, row.Lake())
				}
				appendRows(t, store, def, rows...)
				run(t, store, def)
				got := make(map[string]string)
				for _, c := range current(t, store, def) {
					got[c.Values[0]] = c.Values[1]
				}
				if diff := cmp.Diff(step.Want, got); diff != "" {
					t.Fatalf("step %d (-want +got):\n%s", n+1, diff)
				}
			}
		})
	}
}

func TestLocalWithoutKey(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "unkeyed")
	for seed := range uint64(10) {
		store := open(t, t.TempDir())
		log := mergetest.UnkeyedLog(seed)
		log = append(log, mergetest.UnkeyedAgain(log)...)
		for n := range 4 {
			to := len(log) * (n + 1) / 4
			appendRows(t, store, def, log[len(log)*n/4:to]...)
			run(t, store, def)
			want, err := mergetest.Fold(def, log[:to])
			if err != nil {
				t.Fatal(err)
			}
			if diff := mergetest.Diff(want, current(t, store, def), true, names(def)); diff != "" {
				t.Fatalf("seed %d, after %d rows:\n%s", seed, to, diff)
			}
		}
	}
}

// A current table that has no rows was not restored: Athena may begin one with
// a snapshot of none.
func TestEmptyCurrentTable(t *testing.T) {
	t.Parallel()
	p := pipeline(t, strings.Replace(mergetest.Pipeline, "readers: [icehose, spark, trino, athena]", "readers: [pyiceberg]", 1)) // copies on write
	def := p.ByTarget("d", "plain")
	store := open(t, t.TempDir())
	rows := mergetest.Traps()[0].Steps[0].Rows
	appendRows(t, store, def, rows[0].Lake())
	run(t, store, def)
	appendRows(t, store, def, rows[1].Lake()) // its delete
	run(t, store, def)
	merge.RemoveNotes(t, store, def)
	if result := run(t, store, def); result.From != 0 || result.Read != 2 {
		t.Errorf("%+v, want a first merge", result)
	}
}

// Rebuild puts right whatever was there.
func TestRebuild(t *testing.T) {
	t.Parallel()
	for name, log := range map[string][][][]byte{"plain": nil, "unkeyed": mergetest.UnkeyedLog(5)} {
		def := pipeline(t, mergetest.Pipeline).ByTarget("d", name)
		if log == nil {
			for _, row := range mergetest.Traps()[0].Steps[0].Rows {
				log = append(log, row.Lake())
			}
		}
		store := open(t, t.TempDir())
		appendRows(t, store, def, log...)
		run(t, store, def)
		want := current(t, store, def)
		// A row that no change speaks of.
		ghost := slices.Clone(log[0][:len(log[0])-3])
		ghost[0] = []byte("77")
		ghost[len(ghost)-2] = []byte(strings.Replace(string(ghost[len(ghost)-2]), "0", "f", 1))
		if name == "plain" {
			ghost = slices.Insert(ghost, len(ghost)-2, nil)
		}
		appendRows(t, store, def.Current(), ghost)
		merge.RemoveNotes(t, store, def)
		if _, err := merge.Local(t.Context(), store, def, merge.Options{Rebuild: true}); err != nil {
			t.Fatal(err)
		}
		got := current(t, store, def)
		if !maps.EqualFunc(want, got, func(a, b mergetest.Current) bool { return slices.Equal(a.Values, b.Values) }) {
			t.Errorf("%s: after a rebuild: %v, want %v", name, got, want)
		}
	}
}

// A note counts only if its snapshot did what it says: one that a fenced merge
// commits with nothing in it does not.
func TestNoteOfAFencedMerge(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	rows := mergetest.Traps()[0].Steps[0].Rows
	for name, test := range map[string]struct {
		onto func(parent string) map[string]string
		read int64
	}{
		"made upon another snapshot":     {func(string) map[string]string { return map[string]string{merge.PropertyOnto: "17"} }, 1},
		"older, and nothing in it":       {func(string) map[string]string { return nil }, 1},
		"made upon the one that is read": {func(parent string) map[string]string { return map[string]string{merge.PropertyOnto: parent} }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t, t.TempDir())
			appendRows(t, store, def, rows[0].Lake())
			run(t, store, def)
			appendRows(t, store, def, rows[1].Lake())
			notes := test.onto(fmt.Sprint(newest(t, store, def.Current())))
			if notes == nil {
				notes = make(map[string]string)
			}
			notes[merge.PropertyMerged] = fmt.Sprint(newest(t, store, def))
			merge.CommitNotes(t, store, def, notes)
			if result := run(t, store, def); result.Read != test.read {
				t.Errorf("%+v, want %d rows read", result, test.read)
			}
		})
	}
}

// newest is the newest snapshot of a table.
func newest(t testing.TB, store *iceberg.Store, def *catalog.Table) int64 {
	t.Helper()
	table, err := store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier(def.Database(), def.Name()))
	if err != nil {
		t.Fatal(err)
	}
	return table.CurrentSnapshot().SnapshotID
}

// Positions that fall while commit times rise are counted.
func TestPositionsRegress(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	at := func(position, minute int) [][]byte {
		row := mergetest.PlainRow{
			Position: cdc.ChangePosition(0, cdc.Body{Hi: uint64(position), Lo: 1}, 1), Operation: cdc.Update, ID: position,
			Committed: mergetest.Start().Add(time.Duration(minute) * time.Minute),
		}
		return row.Lake()
	}
	store := open(t, t.TempDir())
	for _, test := range []struct {
		name string
		rows [][][]byte
		want int64
	}{
		{"the first", [][][]byte{at(5, 0), at(9, 20)}, 0},
		{"late", [][][]byte{at(4, 0)}, 0},
		{"a clock that was set back", [][][]byte{at(8, 34)}, 0},
		{"back in time", [][][]byte{at(1, 36), at(2, 37), at(3, 10)}, 2},
		{"nothing new", nil, 0},
		{"on it goes", [][][]byte{at(3, 50)}, 1},
		{"both at once", [][][]byte{at(100, 60), at(4, 90)}, 1},
		{"both at once, first seen", [][][]byte{at(200, 100), at(150, 120)}, 0},
		{"and then known", [][][]byte{at(151, 121)}, 1},
	} {
		if len(test.rows) > 0 {
			appendRows(t, store, def, test.rows...)
		}
		result := run(t, store, def)
		if result.Regressed != test.want {
			t.Errorf("%s: %+v, want %d regressed", test.name, result, test.want)
		}
		if warned := len(result.Warnings) == 1 && strings.Contains(result.Warnings[0], "a clock that was wrong"); warned != (test.name == "both at once, first seen") {
			t.Errorf("%s: warnings %q: only what one run alone cannot tell is one", test.name, result.Warnings)
		}
	}
}
