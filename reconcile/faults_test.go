package reconcile_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"icehose/reconcile"
	"icehose/reconcile/reconciletest"
)

// A fault damages the lake's copy of the row of one key (for some, of two
// keys), and returns what Run must say about it.
type fault func(d *damage, key int) []reconcile.Finding

// A damage is a lake under construction: the rows of each key.
type damage struct {
	t      *rapid.T
	rows   map[int][]reconciletest.Row
	unused []int // keys without a fault
	next   int   // a key that the source does not have
}

// row of a key, with the columns of reconciletest.Changes: every value is
// different from every other row's.
func changesRow(key int) reconciletest.Row {
	return reconciletest.MakeRow(strconv.Itoa(key), fmt.Sprintf("note of %d", key), fmt.Sprintf("%d.%02d", key%10000, key%100))
}

func finding(kind reconcile.Kind, key int, rows uint64) reconcile.Finding {
	return reconcile.Finding{Kind: kind, Key: []string{strconv.Itoa(key)}, Rows: rows}
}

// another takes one more key that has no fault yet.
func (d *damage) another() (key int, ok bool) {
	if len(d.unused) == 0 {
		return 0, false
	}
	key = d.unused[0]
	d.unused = d.unused[1:]
	return key, true
}

func missing(d *damage, key int) []reconcile.Finding {
	delete(d.rows, key)
	return []reconcile.Finding{finding(reconcile.Missing, key, 1)}
}

func extra(d *damage, _ int) []reconcile.Finding {
	key := d.next
	d.next++
	n := rapid.IntRange(1, 3).Draw(d.t, "extra rows")
	d.rows[key] = slices.Repeat([]reconciletest.Row{changesRow(key)}, n)
	return []reconcile.Finding{finding(reconcile.Extra, key, uint64(n))}
}

func duplicate(d *damage, key int) []reconcile.Finding {
	n := rapid.IntRange(1, 3).Draw(d.t, "copies")
	for range n {
		d.rows[key] = append(d.rows[key], slices.Clone(d.rows[key][0]))
	}
	return []reconcile.Finding{finding(reconcile.Duplicate, key, uint64(n))}
}

// staleCopy leaves an older version beside the right row.
func staleCopy(d *damage, key int) []reconcile.Finding {
	old := slices.Clone(d.rows[key][0])
	old[1].Text = "older"
	d.rows[key] = append(d.rows[key], old)
	return []reconcile.Finding{finding(reconcile.Duplicate, key, 1)}
}

// staleTwice has two rows of the key, neither of them right.
func staleTwice(d *damage, key int) []reconcile.Finding {
	d.rows[key][0][1].Text = "older"
	d.rows[key] = append(d.rows[key], slices.Clone(d.rows[key][0]))
	return []reconcile.Finding{finding(reconcile.Differs, key, 1), finding(reconcile.Duplicate, key, 1)}
}

// set changes one value of the row.
func set(column int, v reconciletest.Value) fault {
	return func(d *damage, key int) []reconcile.Finding {
		d.rows[key][0][column] = v
		return []reconcile.Finding{finding(reconcile.Differs, key, 1)}
	}
}

// nullForEmpty needs a source that has the empty text, which emptyNote made.
func nullForEmpty(d *damage, key int) []reconcile.Finding {
	d.rows[key][0][1] = reconciletest.Null()
	return []reconcile.Finding{finding(reconcile.Differs, key, 1)}
}

func swappedColumns(d *damage, key int) []reconcile.Finding {
	row := d.rows[key][0]
	row[1], row[2] = row[2], row[1]
	return []reconcile.Finding{finding(reconcile.Differs, key, 1)}
}

// swappedRows gives two rows each other's values: every column of the table
// holds the same values as before.
func swappedRows(d *damage, key int) []reconcile.Finding {
	other, ok := d.another()
	if !ok {
		return missing(d, key)
	}
	a, b := d.rows[key][0], d.rows[other][0]
	a[1], b[1] = b[1], a[1]
	return []reconcile.Finding{finding(reconcile.Differs, key, 1), finding(reconcile.Differs, other, 1)}
}

// lostAndTwice keeps the number of rows: one missing, another there twice.
func lostAndTwice(d *damage, key int) []reconcile.Finding {
	other, ok := d.another()
	if !ok {
		return missing(d, key)
	}
	delete(d.rows, key)
	d.rows[other] = append(d.rows[other], slices.Clone(d.rows[other][0]))
	return []reconcile.Finding{finding(reconcile.Missing, key, 1), finding(reconcile.Duplicate, other, 1)}
}

// lostAndExtra keeps the number of rows: one key in place of another.
func lostAndExtra(d *damage, key int) []reconcile.Finding {
	return append(missing(d, key), extra(d, key)...)
}

var faults = map[string]fault{
	"missing": missing, "extra": extra, "duplicate": duplicate, "stale copy": staleCopy, "stale twice": staleTwice,
	"other text": set(1, reconciletest.Value{Text: "other"}), "last digit": set(2, reconciletest.Value{Text: "99999.99"}),
	"text for blank": set(1, reconciletest.Value{Text: " "}), "null": set(2, reconciletest.Null()), "null for empty": nullForEmpty,
	"swapped columns": swappedColumns, "swapped rows": swappedRows, "lost and twice": lostAndTwice, "lost and extra": lostAndExtra,
}

func byKey(a, b reconcile.Finding) int {
	return cmp.Or(slices.Compare(a.Key, b.Key), cmp.Compare(a.Kind, b.Kind))
}

// Every fault is found, with its kind and key, and nothing else is. Every
// fault is injected alone and together with others.
func TestFaultsAreFound(t *testing.T) {
	names := slices.Sorted(maps.Keys(faults))
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 1200).Draw(t, "rows")
		d := &damage{t: t, rows: map[int][]reconciletest.Row{}, next: n}
		var source []reconciletest.Row
		chosen := rapid.SliceOfN(rapid.SampledFrom(names), 1, 8).Draw(t, "faults")
		for key := range n {
			d.unused = append(d.unused, key)
		}
		d.unused = rapid.Permutation(d.unused).Draw(t, "order")
		emptyNotes := map[int]bool{}
		keys := make([]int, len(chosen))
		for i, name := range chosen {
			key, ok := d.another()
			if !ok {
				chosen, keys = chosen[:i], keys[:i]
				break
			}
			keys[i] = key
			emptyNotes[key] = name == "null for empty"
		}
		for key := range n {
			row := changesRow(key)
			if emptyNotes[key] {
				row[1].Text = ""
			}
			source = append(source, row)
			d.rows[key] = []reconciletest.Row{slices.Clone(row)}
		}
		want := []reconcile.Finding{}
		for i, name := range chosen {
			want = append(want, faults[name](d, keys[i])...)
			seen[name]++
		}
		var lake []reconciletest.Row
		for _, key := range slices.Sorted(maps.Keys(d.rows)) {
			lake = append(lake, d.rows[key]...)
		}
		slices.Reverse(lake)

		report := run(t, source, lake, reconcile.Options{
			MaxRows: rapid.SampledFrom([]int{0, 1, 700}).Draw(t, "rows in memory"),
		}, rapid.SampledFrom([]int64{0, 1, 40_000}).Draw(t, "guess"))
		got := slices.Clone(report.Findings)
		slices.SortFunc(got, byKey)
		slices.SortFunc(want, byKey)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("findings differ (-want +got):\n%s", diff)
		}
		if report.Verdict != reconcile.Different || report.Why != "" || report.UnreadBuckets != 0 {
			t.Errorf("verdict %s, why %q, %d buckets unread", report.Verdict, report.Why, report.UnreadBuckets)
		}
		c := report.Counts
		if uint64(len(source))-c.Missing+c.Extra+c.Duplicate != uint64(len(lake)) {
			t.Errorf("%d rows and %d rows are not %+v apart", len(source), len(lake), c)
		}
	})
	for _, name := range names {
		if seen[name] == 0 {
			t.Errorf("fault %q was never injected", name)
		}
	}
}

// Equal sets never differ, whatever their order and the buckets.
func TestEqualSetsAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var source []reconciletest.Row
		for key := range rapid.IntRange(0, 1200).Draw(t, "rows") {
			source = append(source, changesRow(key))
		}
		lake := slices.Clone(source)
		if len(lake) > 0 {
			cut := rapid.IntRange(0, len(lake)-1).Draw(t, "cut")
			lake = append(slices.Clone(lake[cut:]), lake[:cut]...)
			slices.Reverse(lake)
		}
		report := run(t, source, lake, reconcile.Options{}, rapid.SampledFrom([]int64{0, 1, 40_000}).Draw(t, "guess"))
		if report.Verdict != reconcile.Equal || report.DifferingBuckets != 0 || report.Counts != (reconcile.Counts{}) {
			t.Errorf("equal rows are %+v", report)
		}
	})
}

// Of a table without a key the findings are the difference of two multisets.
func TestKeylessFindings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", ""}), 0, 40)
		var sides [2][]reconciletest.Row
		counts := [2]map[string]int{{}, {}}
		for side := range sides {
			for _, text := range texts.Draw(t, "texts") {
				sides[side] = append(sides[side], reconciletest.MakeRow(text, "1.00"))
				counts[side][text]++
			}
		}
		p := reconciletest.Pipeline(t)
		table := reconciletest.Table(t, p, reconciletest.History)
		var want []reconcile.Finding
		for _, text := range []string{"a", "b", "c", "d", ""} {
			row := reconciletest.ExpectedRow(t, table, reconciletest.MakeRow(text, "1.00"), 1)
			f := reconcile.Finding{Key: []string{fmt.Sprintf("%x", row.Key)}}
			source, lake := counts[0][text], counts[1][text]
			switch {
			case source > lake:
				f.Kind, f.Rows = reconcile.Missing, uint64(source-lake)
			case lake > source && source == 0:
				f.Kind, f.Rows = reconcile.Extra, uint64(lake)
			case lake > source:
				f.Kind, f.Rows = reconcile.Duplicate, uint64(lake-source)
			default:
				continue
			}
			want = append(want, f)
		}
		report := runTable(t, reconciletest.History, sides[0], sides[1], reconcile.Options{}, rapid.SampledFrom([]int64{0, 40_000}).Draw(t, "guess"))
		got := slices.Clone(report.Findings)
		slices.SortFunc(got, byKey)
		slices.SortFunc(want, byKey)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("findings differ (-want +got):\n%s", diff)
		}
	})
}

// Keys of several columns are told apart and named part by part, in key order.
func TestCompositeKeyIsNamed(t *testing.T) {
	source := []reconciletest.Row{reconciletest.MakeRow("n", "1", "11"), reconciletest.MakeRow("n", "11", "1"), reconciletest.MakeRow("n", "a:b", "3")}
	lake := []reconciletest.Row{reconciletest.MakeRow("n", "11", "1"), reconciletest.MakeRow("n", "", "4")}
	report := runTable(t, reconciletest.Lines, source, lake, reconcile.Options{}, 0)
	want := []reconcile.Finding{
		{Kind: reconcile.Missing, Key: []string{"11", "1"}, Rows: 1},
		{Kind: reconcile.Missing, Key: []string{"3", "a:b"}, Rows: 1},
		{Kind: reconcile.Extra, Key: []string{"4", ""}, Rows: 1},
	}
	got := slices.Clone(report.Findings)
	slices.SortFunc(got, byKey)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("findings differ (-want +got):\n%s", diff)
	}
}

// A source that has a key twice shows a pipeline file with a wrong key.
func TestSourceWithoutUniqueKey(t *testing.T) {
	a, b := changesRow(1), changesRow(1)
	b[1].Text = "second"
	report := runTable(t, reconciletest.Changes, []reconciletest.Row{a, b}, []reconciletest.Row{b}, reconcile.Options{}, 0)
	want := []reconcile.Finding{finding(reconcile.Missing, 1, 1)}
	if diff := gocmp.Diff(want, report.Findings); diff != "" {
		t.Errorf("findings differ (-want +got):\n%s", diff)
	}
}

// testingT is what a *rapid.T and a *testing.T have in common.
type testingT interface {
	reconciletest.T
	Context() context.Context
}

func run(t testingT, source, lake []reconciletest.Row, o reconcile.Options, guess int64) reconcile.TableReport {
	t.Helper()
	return runTable(t, reconciletest.Changes, source, lake, o, guess)
}

func runTable(t testingT, name string, source, lake []reconciletest.Row, o reconcile.Options, guess int64) reconcile.TableReport {
	t.Helper()
	o.Tables = []string{name}
	report, err := reconcile.Run(t.Context(), reconciletest.Pipeline(t), memory(name, source, guess), memory(name, lake, guess), o)
	if err != nil {
		t.Fatal(err)
	}
	return report.Tables[0]
}

func memory(name string, rows []reconciletest.Row, guess int64) *reconciletest.Memory {
	return &reconciletest.Memory{Tables: reconciletest.Tables{name: rows}, Guess: guess}
}
