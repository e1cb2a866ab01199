package sink_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink"
)

func change(n uint64) cdc.Position { return cdc.ChangePosition(0, cdc.Body{Lo: n}, 1) }

// loaded is the position of row n of a load with the given floor.
func loaded(t interface{ Fatal(...any) }, floor uint64, n int) cdc.Position {
	p, err := cdc.LoadPosition(0, cdc.Body{Lo: floor}, time.UnixMicro(int64(n)), cdc.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func texts(values ...string) [][]byte {
	out := make([][]byte, len(values))
	for i, v := range values {
		if v != "NULL" {
			out[i] = []byte(v)
		}
	}
	return out
}

func textColumns(n int) []catalog.Column {
	return slices.Repeat([]catalog.Column{{Type: catalog.Type{Kind: catalog.String}}}, n)
}

// folded adds the rows, again if need be, and renders the result.
func folded(t interface{ Fatal(...any) }, key []int, columns int, rows []sink.FoldRow) []string {
	return foldedInto(t, newFolder(key, columns, false), rows)
}

func newFolder(key []int, columns int, distinct bool) *sink.Folder {
	f := sink.NewFolder(key, textColumns(columns))
	if distinct {
		f.Distinct()
	}
	return f
}

func foldedInto(t interface{ Fatal(...any) }, f *sink.Folder, rows []sink.FoldRow) []string {
	for passes := 1; passes == 1 || f.Again(); passes++ {
		if passes > 2 {
			t.Fatal("a third pass is asked for")
		}
		for _, r := range rows {
			f.Add(r)
		}
	}
	var out []string
	for row, err := range f.Rows() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rowString(row.Position, row.Values, row.Unknown))
	}
	slices.Sort(out)
	return out
}

func rowString(p cdc.Position, values [][]byte, unknown []int) string {
	parts := make([]string, len(values))
	for i, v := range values {
		switch {
		case slices.Contains(unknown, i):
			parts[i] = "?"
		case v == nil:
			parts[i] = "NULL"
		default:
			parts[i] = fmt.Sprintf("%q", v)
		}
	}
	return string(p) + " " + strings.Join(parts, " ")
}

func TestFold(t *testing.T) {
	t.Parallel()
	insert := func(n uint64, values ...string) sink.FoldRow {
		return sink.FoldRow{Position: change(n), Operation: cdc.Insert, Values: texts(values...)}
	}
	update := func(n uint64, values ...string) sink.FoldRow {
		r := insert(n, values...)
		r.Operation = cdc.Update
		for i, v := range values {
			if v == "ABSENT" {
				r.Values[i] = nil
				r.Absent = append(r.Absent, i)
			}
		}
		return r
	}
	moved := func(from string, r sink.FoldRow) sink.FoldRow {
		r.OldKey = texts(from)
		return r
	}
	remove := func(n uint64, key string) sink.FoldRow {
		return sink.FoldRow{Position: change(n), Operation: cdc.Delete, Values: texts(key, "NULL", "NULL")}
	}
	for _, test := range []struct {
		name string
		in   []sink.FoldRow
		want []string // position number and values
	}{
		{"nothing", nil, nil},
		{"latest wins", []sink.FoldRow{insert(1, "k", "a", "b"), update(2, "k", "c", "d")}, []string{`2 "k" "c" "d"`}},
		{"delete removes", []sink.FoldRow{insert(1, "k", "a", "b"), remove(2, "k")}, nil},
		{"insert after delete", []sink.FoldRow{insert(1, "k", "a", "b"), remove(2, "k"), insert(3, "k", "c", "d")}, []string{`3 "k" "c" "d"`}},
		{"absent column stays", []sink.FoldRow{insert(1, "k", "a", "b"), update(2, "k", "c", "ABSENT")}, []string{`2 "k" "c" "b"`}},
		{
			"absent over several changes",
			[]sink.FoldRow{insert(1, "k", "a", "b"), update(2, "k", "ABSENT", "c"), update(3, "k", "d", "ABSENT"), update(4, "k", "ABSENT", "ABSENT")},
			[]string{`4 "k" "d" "c"`},
		},
		{"explicit null counts", []sink.FoldRow{insert(1, "k", "a", "b"), update(2, "k", "c", "NULL"), update(3, "k", "d", "ABSENT")}, []string{`3 "k" "d" NULL`}},
		{"never carried", []sink.FoldRow{update(2, "k", "c", "ABSENT")}, []string{`2 "k" "c" ?`}},
		{
			"not beyond a delete",
			[]sink.FoldRow{insert(1, "k", "a", "b"), remove(2, "k"), update(3, "k", "c", "ABSENT")},
			[]string{`3 "k" "c" ?`},
		},
		{"key change ends the old key", []sink.FoldRow{insert(1, "k", "a", "b"), moved("k", update(2, "m", "c", "d"))}, []string{`2 "m" "c" "d"`}},
		{"key change inherits", []sink.FoldRow{insert(1, "k", "a", "b"), moved("k", update(2, "m", "c", "ABSENT"))}, []string{`2 "m" "c" "b"`}},
		{
			"key change inherits from what the old key was, not from what it became",
			[]sink.FoldRow{insert(1, "k", "a", "b"), moved("k", update(2, "m", "c", "ABSENT")), insert(3, "k", "x", "y"), remove(4, "k"), insert(5, "k", "z", "z")},
			[]string{`2 "m" "c" "b"`, `5 "k" "z" "z"`},
		},
		{
			"key change over a former row of the new key",
			[]sink.FoldRow{insert(1, "m", "x", "y"), remove(2, "m"), insert(3, "k", "a", "b"), moved("k", update(4, "m", "c", "ABSENT"))},
			[]string{`4 "m" "c" "b"`},
		},
		{
			"chain of key changes",
			[]sink.FoldRow{
				insert(1, "k", "a", "b"), moved("k", update(2, "m", "ABSENT", "ABSENT")), moved("m", update(3, "n", "c", "ABSENT")),
				moved("n", update(4, "k", "ABSENT", "ABSENT")), update(5, "k", "e", "ABSENT"),
			},
			[]string{`5 "k" "e" "b"`},
		},
		{
			"key change after a delete of the old key that was followed by a partial row",
			[]sink.FoldRow{insert(1, "k", "a", "b"), remove(2, "k"), update(3, "k", "x", "ABSENT"), moved("k", update(4, "m", "c", "ABSENT"))},
			[]string{`4 "m" "c" ?`},
		},
		{"same old key is no key change", []sink.FoldRow{insert(1, "k", "a", "b"), moved("k", update(2, "k", "c", "ABSENT"))}, []string{`2 "k" "c" "b"`}},
		{"null differs from empty", []sink.FoldRow{insert(1, "k", "", "NULL")}, []string{`1 "k" "" NULL`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var want []string
			for _, w := range test.want {
				n, rest, _ := strings.Cut(w, " ")
				want = append(want, string(change(uint64(n[0]-'0')))+" "+rest)
			}
			slices.Sort(want)
			rapid.Check(t, func(t *rapid.T) {
				// Any order, and some rows twice.
				in := rapid.Permutation(slices.Concat(test.in, test.in[:len(test.in)/2])).Draw(t, "in")
				if diff := gocmp.Diff(want, folded(t, []int{0}, 3, in)); diff != "" {
					t.Fatalf("rows (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestFoldIsDeterministic: even rows that share a position give one result in
// any order.
func TestFoldIsDeterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rows := foldRows(t)
		for i := range rows {
			rows[i].Position = change(rapid.Uint64Range(0, 4).Draw(t, "position"))
		}
		distinct := rapid.Bool().Draw(t, "distinct")
		fold := func(rows []sink.FoldRow) []string { return foldedInto(t, newFolder([]int{0}, 4, distinct), rows) }
		once := fold(rows)
		other := fold(rapid.Permutation(slices.Concat(rows, rows)).Draw(t, "order"))
		if diff := gocmp.Diff(once, other); diff != "" {
			t.Fatalf("another order gives other rows:\n%s", diff)
		}
	})
}

// TestFoldAtOnePosition: rows of one change that another pipeline file has made
// others of are one, which carries what one of them carries, and the greatest of
// what they give.
func TestFoldAtOnePosition(t *testing.T) {
	t.Parallel()
	fill := catalog.Literal("5")
	columns := []catalog.Column{
		{Type: catalog.Type{Kind: catalog.String}},
		{Type: catalog.Type{Kind: catalog.Int}},
		{Type: catalog.Type{Kind: catalog.Int}, Default: &fill},
		{Type: catalog.Type{Kind: catalog.String}},
	}
	rows := []sink.FoldRow{
		{Position: change(1), Operation: cdc.Insert, Values: texts("k", "1", "1", "old")},
		{Position: change(2), Operation: cdc.Update, Values: texts("k", "9", "NULL", "NULL"), Absent: []int{3}},
		{Position: change(2), Operation: cdc.Update, Values: texts("k", "10", "NULL", "a")}, // null, which means 5
		{Position: change(2), Operation: cdc.Update, Values: texts("k", "-7", "3", "NULL")},
	}
	want := []string{string(change(2)) + ` "k" "10" NULL "a"`}
	rapid.Check(t, func(t *rapid.T) {
		f := sink.NewFolder([]int{0}, columns)
		for _, r := range rapid.Permutation(slices.Concat(rows, rows)).Draw(t, "order") {
			f.Add(r)
		}
		var got []string
		for row, err := range f.Rows() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, rowString(row.Position, row.Values, row.Unknown))
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("rows (-want +got):\n%s", diff)
		}
	})
}

// TestFoldDistinct: where positions repeat, each row is a change of its own, and a row
// of the fold is never part of one and part of another.
func TestFoldDistinct(t *testing.T) {
	t.Parallel()
	columns := append(textColumns(3), catalog.Column{Name: catalog.ColumnCommittedAt, Type: catalog.Type{Kind: catalog.String}})
	update := func(n uint64, committed string, values ...string) sink.FoldRow {
		r := sink.FoldRow{Position: change(n), Operation: cdc.Update, Values: texts(append(values, committed)...)}
		for i, v := range values {
			if v == "ABSENT" {
				r.Values[i], r.Absent = nil, append(r.Absent, i)
			}
		}
		return r
	}
	for _, test := range []struct {
		name string
		key  []int
		in   []sink.FoldRow
		want string
	}{
		{"committed later", []int{0}, []sink.FoldRow{update(1, "t1", "k", "open", "z"), update(1, "t2", "k", "closed", "a")}, `"k" "closed" "a" "t2"`},
		{"committed at once", []int{0}, []sink.FoldRow{update(1, "t1", "k", "a", "z"), update(1, "t1", "k", "b", "y")}, `"k" "b" "y" "t1"`},
		{"null is the least", []int{0}, []sink.FoldRow{update(1, "t1", "k", "NULL", "z"), update(1, "t1", "k", "a", "y")}, `"k" "a" "y" "t1"`},
		{"what the later left out the earlier has", []int{0}, []sink.FoldRow{update(1, "t1", "k", "open", "BIG"), update(1, "t2", "k", "closed", "ABSENT")}, `"k" "closed" "BIG" "t2"`},
		{"not of another position", []int{0}, []sink.FoldRow{update(0, "t9", "k", "x", "x"), update(1, "t1", "k", "a", "b"), update(1, "t0", "k", "c", "d")}, `"k" "a" "b" "t1"`},
		{"without a key", nil, []sink.FoldRow{update(1, "t1", "k", "a", "z"), update(1, "t2", "j", "b", "y")}, `"j" "b" "y" "t2"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				f := sink.NewFolder(test.key, columns)
				f.Distinct()
				for _, r := range rapid.Permutation(slices.Concat(test.in, test.in)).Draw(t, "in") {
					if test.key == nil {
						r.Operation = cdc.Insert
					}
					f.Add(r)
				}
				var got []string
				for row, err := range f.Rows() {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, rowString("", row.Values, row.Unknown))
				}
				if diff := gocmp.Diff([]string{" " + test.want}, got); diff != "" {
					t.Fatalf("rows (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestFoldAsksForASecondPass: what a key was before its row moved away is
// forgotten if the move is added last, and Rows must not make it up.
func TestFoldAsksForASecondPass(t *testing.T) {
	t.Parallel()
	rows := []sink.FoldRow{
		{Position: change(9), Operation: cdc.Insert, Values: texts("k", "new")},
		{Position: change(1), Operation: cdc.Insert, Values: texts("k", "old")},
		{Position: change(5), Operation: cdc.Update, Values: texts("m", "NULL"), OldKey: texts("k"), Absent: []int{1}},
	}
	f := sink.NewFolder([]int{0}, textColumns(2))
	for _, r := range rows {
		f.Add(r)
	}
	for _, err := range f.Rows() {
		if !errors.Is(err, sink.ErrFoldAgain) {
			t.Fatalf("rows after one pass: %v", err)
		}
	}
	want := []string{string(change(5)) + ` "m" "old"`, string(change(9)) + ` "k" "new"`}
	if diff := gocmp.Diff(want, folded(t, []int{0}, 2, rows)); diff != "" {
		t.Fatalf("rows (-want +got):\n%s", diff)
	}
}

func TestFoldWithoutKey(t *testing.T) {
	t.Parallel()
	row := func(p cdc.Position, value string) sink.FoldRow {
		operation := cdc.Insert
		if p.IsLoad() {
			operation = cdc.Load
		}
		return sink.FoldRow{Position: p, Operation: operation, Values: texts(value)}
	}
	for _, test := range []struct {
		name string
		in   []sink.FoldRow
		want []string
	}{
		{"equal rows are different rows", []sink.FoldRow{row(change(1), "a"), row(change(2), "a")}, []string{"a", "a"}},
		{"first load and changes", []sink.FoldRow{row(loaded(t, 0, 1), "a"), row(loaded(t, 0, 2), "b"), row(change(0), "c"), row(change(1), "d")}, []string{"a", "b", "c", "d"}},
		{
			"a newer load stands for all below its floor",
			[]sink.FoldRow{
				row(loaded(t, 0, 1), "a"), row(change(1), "b"), row(change(5), "c"), row(change(6), "d"),
				row(loaded(t, 5, 1), "A"), row(loaded(t, 5, 2), "B"), row(loaded(t, 3, 1), "x"),
			},
			[]string{"A", "B", "d"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				f := sink.NewFolder(nil, textColumns(1))
				for _, r := range rapid.Permutation(slices.Concat(test.in, test.in)).Draw(t, "in") {
					f.Add(r)
				}
				var got []string
				for row, err := range f.Rows() {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, string(row.Values[0]))
				}
				slices.Sort(got)
				if diff := gocmp.Diff(test.want, got); diff != "" {
					t.Fatalf("rows (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestFoldRefuses(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func() *sink.Folder{
		"update without key": func() *sink.Folder {
			f := sink.NewFolder(nil, textColumns(1))
			f.Add(sink.FoldRow{Position: change(1), Operation: cdc.Update, Values: texts("a")})
			return f
		},
		"control": func() *sink.Folder {
			f := sink.NewFolder([]int{0}, textColumns(1))
			f.Add(sink.FoldRow{Position: change(1), Operation: cdc.Control, Values: texts("a")})
			return f
		},
	} {
		errs := 0
		for _, err := range f().Rows() {
			if err != nil {
				errs++
			}
		}
		if errs != 1 {
			t.Errorf("%s: %d errors, want 1", name, errs)
		}
	}
}
