package reconciletest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/reconcile"
)

// An Open makes a reader of the given tables, of which p may describe more.
type Open func(t *testing.T, p *catalog.Pipeline, tables Tables) reconcile.Reader

// TestReader is the suite. Every reader must digest the same rows to the same
// digests.
func TestReader(t *testing.T, open Open) {
	TestReaderOf(t, func(*catalog.Column, Value) bool { return true }, open)
}

// TestReaderOf is the suite for a source that lacks some values: those that do
// not fit are NULL.
func TestReaderOf(t *testing.T, fits func(*catalog.Column, Value) bool, open Open) {
	typed := typedRows()
	columns := Table(t, Pipeline(t), Typed).Columns
	for _, row := range typed {
		for i := range row {
			if !fits(columns[i], row[i]) {
				row[i] = Null()
			}
		}
	}
	t.Run("every type", func(t *testing.T) { testRows(t, open, Typed, typed) })
	t.Run("composite key", func(t *testing.T) { testRows(t, open, Lines, lineRows()) })
	t.Run("no key", func(t *testing.T) { testRows(t, open, History, historyRows()) })
	t.Run("changelog", func(t *testing.T) { testRows(t, open, Changes, changeRows(300)) })
	t.Run("no rows", func(t *testing.T) { testRows(t, open, Typed, nil) })
	t.Run("order", func(t *testing.T) { testOrder(t, open) })
	t.Run("every value counts", func(t *testing.T) { testEveryValueCounts(t, open, typed) })
	t.Run("agrees with memory", func(t *testing.T) { testRun(t, open, typed) })
	t.Run("values", func(t *testing.T) { testValues(t, open, typed) })
	t.Run("stops early", func(t *testing.T) { testStopsEarly(t, open) })
	t.Run("table is not there", func(t *testing.T) { testNoTable(t, open) })
	t.Run("cancelled", func(t *testing.T) { testCancelled(t, open) })
	t.Run("several goroutines", func(t *testing.T) { testConcurrent(t, open, typed) })
}

// typedRows has NULL, empty and boundary values of every type.
func typedRows() []Row {
	null := make(Row, 16)
	for i := range null {
		null[i] = Null()
	}
	null[0] = Value{Text: "-9223372036854775808"}
	return []Row{
		MakeRow("1", "true", "-2147483648", "1.5", "0.1", "1234567890.12", "1234567890123456789012345678.0123456789", "2026-10-05",
			"23:59:59.999999", "2026-10-05T01:02:03.000004", "2026-10-05T01:02:03.000004Z", "plain", "more",
			"123e4567-e89b-12d3-a456-426614174000", "00ff10ab", "00ff"),
		MakeRow("9223372036854775807", "false", "2147483647", "-3.4028235e+38", "5e-324", "-0.01", "-0.0000000001", "0001-01-01",
			"00:00:00.000000", "0001-01-01T00:00:00.000000", "9999-12-31T23:59:59.999999Z", "", "x",
			"00000000-0000-0000-0000-000000000000", "00000000", ""),
		MakeRow("0", "true", "0", "NaN", "Infinity", "0.00", "0.0000000000", "9999-12-31",
			"12:00:00.000000", "1969-12-31T23:59:59.999999", "1969-12-31T23:59:59.999999Z", "tab\tquote\"comma,back\\slash", "line\nbreak\r\n",
			"ffffffff-ffff-ffff-ffff-ffffffffffff", "ffffffff", "5c4e"),
		MakeRow("-1", "false", "7", "-Infinity", "-1.7976931348623157e+308", "0.10", "0.1000000000", "1582-10-15",
			"00:00:00.000001", "2026-02-28T23:59:59.999999", "2026-03-29T01:30:00.000000Z", `\N`, "日本語 🧊 e\u0301",
			"123e4567-e89b-12d3-a456-426614174001", "01020304", "aa"),
		null,
	}
}

// lineRows has keys whose parts would be the same if they were only joined.
func lineRows() []Row {
	var rows []Row
	for _, doc := range []string{"", "1", "11", "1:1", "N:", "a b"} {
		for _, line := range []string{"1", "11", "111", "-1"} {
			rows = append(rows, MakeRow("of "+doc, doc, line))
		}
	}
	return append(rows, Row{Null(), {Text: "no note"}, {Text: "5"}})
}

// historyRows has the same row more than once, and nothing but NULL.
func historyRows() []Row {
	rows := []Row{{Null(), Null()}, {Null(), Null()}, {{Text: ""}, Null()}}
	for i := range 40 {
		rows = append(rows, MakeRow("d"+strconv.Itoa(i%7), fmt.Sprintf("%d.25", i%3)))
	}
	return rows
}

func changeRows(n int) []Row {
	rows := make([]Row, 0, n)
	for i := range n {
		rows = append(rows, MakeRow(strconv.Itoa(i), "n"+strconv.Itoa(i%10), fmt.Sprintf("%d.50", i)))
	}
	return rows
}

// testRows checks digests and rows against what the suite computes itself.
func testRows(t *testing.T, open Open, name string, rows []Row) {
	p := Pipeline(t)
	table := Table(t, p, name)
	r := open(t, p, Tables{name: rows})
	v := view(t, r, table)
	pinned := v.Pinned()
	closed(t, v)
	if pinned.Moment == "" || pinned.Rows < 0 {
		t.Errorf("Pin says %+v", pinned)
	}
	for _, buckets := range []int{1, 8, 64} {
		want := Expected(t, table, rows, buckets)
		if diff := cmp.Diff(want, digests(t, r, table, reconcile.Part{Buckets: buckets})); diff != "" {
			t.Errorf("digests of %d buckets differ (-want +got):\n%s", buckets, diff)
		}
		testParts(t, r, table, rows, buckets)
	}
}

// testParts reads parts of the rows, by bucket and by key.
func testParts(t *testing.T, r reconcile.Reader, table *catalog.Table, rows []Row, buckets int) {
	t.Helper()
	odd, even, middle := []int{}, []int{}, []int{}
	for b := range buckets {
		if b >= buckets/4 && b <= buckets/2 {
			middle = append(middle, b)
		}
		if b%2 == 1 {
			odd = append(odd, b)
		} else {
			even = append(even, b)
		}
	}
	for _, only := range [][]int{odd, even, middle, {}, nil} {
		var wantRows []reconcile.Row
		wantDigests := make([]canon.Digest, buckets)
		for _, row := range rows {
			if want := ExpectedRow(t, table, row, buckets); only == nil || slices.Contains(only, want.Bucket) {
				wantRows = append(wantRows, want)
				wantDigests[want.Bucket].Add(want.Hash)
			}
		}
		part := reconcile.Part{Buckets: buckets, Only: only}
		if diff := cmp.Diff(sorted(wantRows), collect(t, r, table, part)); diff != "" {
			t.Errorf("rows of buckets %v of %d differ (-want +got):\n%s", only, buckets, diff)
		}
		if diff := cmp.Diff(wantDigests, digests(t, r, table, part)); diff != "" {
			t.Errorf("digests of buckets %v of %d differ (-want +got):\n%s", only, buckets, diff)
		}
	}
	testKeys(t, r, table, rows, buckets)
}

// testKeys reads every other key, and one that is not there; by it the version
// column.
func testKeys(t *testing.T, r reconcile.Reader, table *catalog.Table, rows []Row, buckets int) {
	t.Helper()
	if len(table.Key) == 0 {
		return
	}
	texts := [][]string{}
	var want []reconcile.Row
	version := slices.IndexFunc(table.Columns, func(c *catalog.Column) bool { return c.Name == table.Key[0] })
	for n, row := range rows {
		if n%2 == 0 {
			continue
		}
		var key []string
		for _, i := range table.KeyColumns() {
			key = append(key, row[i].Text)
		}
		texts = append(texts, key)
		expected := ExpectedRow(t, table, row, buckets)
		expected.Version = []byte(row[version].Text)
		want = append(want, expected)
	}
	absent := make([]string, len(table.Key))
	for i := range absent {
		absent[i] = "424242"
	}
	keys, err := reconcile.NewKeys(table, append(texts, absent))
	if err != nil {
		t.Fatal(err)
	}
	got := collect(t, r, table, reconcile.Part{Buckets: buckets, Keys: keys, Version: table.Key[0]})
	if diff := cmp.Diff(sorted(want), got); diff != "" {
		t.Errorf("rows of chosen keys differ (-want +got):\n%s", diff)
	}
}

// testOrder: the order of rows does not matter.
func testOrder(t *testing.T, open Open) {
	p := Pipeline(t)
	table := Table(t, p, Changes)
	rows := changeRows(100)
	want := digests(t, open(t, p, Tables{Changes: rows}), table, reconcile.Part{Buckets: 8})
	slices.Reverse(rows)
	if diff := cmp.Diff(want, digests(t, open(t, p, Tables{Changes: rows}), table, reconcile.Part{Buckets: 8})); diff != "" {
		t.Errorf("reversed rows have other digests:\n%s", diff)
	}
}

// testEveryValueCounts: another value in any one column, or NULL where a value
// was, is another digest.
func testEveryValueCounts(t *testing.T, open Open, typed []Row) {
	p := Pipeline(t)
	table := Table(t, p, Typed)
	first, second := typed[0], typed[1]
	want := digests(t, open(t, p, Tables{Typed: {first}}), table, reconcile.Part{Buckets: 1})
	for i := range first {
		changed := slices.Clone(first)
		changed[i] = second[i]
		if cmp.Equal(want, digests(t, open(t, p, Tables{Typed: {changed}}), table, reconcile.Part{Buckets: 1})) {
			t.Errorf("another value of column %s is not seen", table.Columns[i].Name)
		}
	}
	note := slices.IndexFunc(table.Columns, func(c *catalog.Column) bool { return c.Name == "note" })
	empty, null, swapped := slices.Clone(first), slices.Clone(first), slices.Clone(first)
	empty[note] = Value{}
	null[note] = Null()
	swapped[note], swapped[note+1] = swapped[note+1], swapped[note]
	if cmp.Equal(digests(t, open(t, p, Tables{Typed: {empty}}), table, reconcile.Part{Buckets: 1}), digests(t, open(t, p, Tables{Typed: {null}}), table, reconcile.Part{Buckets: 1})) {
		t.Error("NULL is the same as the empty text")
	}
	if cmp.Equal(want, digests(t, open(t, p, Tables{Typed: {swapped}}), table, reconcile.Part{Buckets: 1})) {
		t.Error("swapped columns are not seen")
	}
}

// testRun compares the reader with rows in memory, on either side.
func testRun(t *testing.T, open Open, typed []Row) {
	p := Pipeline(t)
	tables := Tables{Typed: typed, Lines: lineRows(), History: historyRows(), Changes: changeRows(1500)}
	r, memory := open(t, p, tables), &Memory{Tables: tables}
	for name, sides := range map[string][2]reconcile.Reader{"as source": {r, memory}, "as lake": {memory, r}} {
		report, err := reconcile.Run(t.Context(), p, sides[0], sides[1], reconcile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range report.Tables {
			if table.Verdict != reconcile.Equal {
				t.Errorf("%s: %s is %s: %s %+v", name, table.Table, table.Verdict, table.Why, table.Counts)
			}
		}
	}
}

func testStopsEarly(t *testing.T, open Open) {
	p := Pipeline(t)
	table := Table(t, p, Changes)
	r := open(t, p, Tables{Changes: changeRows(100)})
	v := view(t, r, table)
	for _, err := range v.Rows(t.Context(), reconcile.Part{Buckets: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	closed(t, v)
	if got := len(collect(t, r, table, reconcile.Part{Buckets: 1})); got != 100 {
		t.Errorf("after a reading that stopped early: %d rows, want 100", got)
	}
}

// testNoTable: a table that is not there is an error, not an empty table.
func testNoTable(t *testing.T, open Open) {
	p := Pipeline(t)
	r := open(t, p, Tables{Changes: changeRows(1)})
	report, err := reconcile.Run(t.Context(), p, r, &Memory{Tables: Tables{Lines: nil}}, reconcile.Options{Tables: []string{Lines}})
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Tables[0]; got.Verdict != reconcile.Inconclusive || got.Why == "" {
		t.Errorf("a table that is not there: %s, why %q", got.Verdict, got.Why)
	}
}

func testCancelled(t *testing.T, open Open) {
	p := Pipeline(t)
	table := Table(t, p, Changes)
	r := open(t, p, Tables{Changes: changeRows(100)})
	v := view(t, r, table)
	defer closed(t, v)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Digests(ctx, reconcile.Part{Buckets: 4}); err == nil {
		t.Error("Digests under a cancelled context: no error")
	}
	var failed bool
	for _, err := range v.Rows(ctx, reconcile.Part{Buckets: 4}) {
		failed = failed || err != nil
	}
	if !failed {
		t.Error("Rows under a cancelled context: no error")
	}
}

func testConcurrent(t *testing.T, open Open, typed []Row) {
	p := Pipeline(t)
	tables := Tables{Typed: typed, Lines: lineRows(), History: historyRows(), Changes: changeRows(300)}
	r := open(t, p, tables)
	var wg sync.WaitGroup
	for range 2 {
		for name, rows := range tables {
			wg.Go(func() {
				table := Table(t, p, name)
				v, err := r.Open(t.Context(), table, false)
				if err != nil {
					t.Error(err)
					return
				}
				defer v.Close() //nolint:errcheck // it only read
				got, err := v.Digests(t.Context(), reconcile.Part{Buckets: 16})
				if err != nil {
					t.Error(err)
				} else if diff := cmp.Diff(Expected(t, table, rows, 16), got); diff != "" {
					t.Errorf("digests of %s differ (-want +got):\n%s", name, diff)
				}
			})
		}
	}
	wg.Wait()
}

// view opens a table. Views are closed as soon as they were used: a reader
// may have few connections.
func view(t *testing.T, r reconcile.Reader, table *catalog.Table) reconcile.View {
	t.Helper()
	v, err := r.Open(t.Context(), table, false)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func closed(t *testing.T, v reconcile.View) {
	t.Helper()
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}

func digests(t *testing.T, r reconcile.Reader, table *catalog.Table, part reconcile.Part) []canon.Digest {
	t.Helper()
	v := view(t, r, table)
	defer closed(t, v)
	got, err := v.Digests(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// collect returns copies of the rows, sorted, without their stamps.
func collect(t *testing.T, r reconcile.Reader, table *catalog.Table, part reconcile.Part) []reconcile.Row {
	t.Helper()
	v := view(t, r, table)
	defer closed(t, v)
	var rows []reconcile.Row
	for row, err := range v.Rows(t.Context(), part) {
		if err != nil {
			t.Fatal(err)
		}
		row.Key, row.Stamp, row.Version = bytes.Clone(row.Key), nil, bytes.Clone(row.Version)
		rows = append(rows, row)
	}
	return sorted(rows)
}

func sorted(rows []reconcile.Row) []reconcile.Row {
	slices.SortFunc(rows, func(a, b reconcile.Row) int {
		if c := bytes.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		return bytes.Compare(fmt.Appendf(nil, "%016x%016x", a.Hash.Hi, a.Hash.Lo), fmt.Appendf(nil, "%016x%016x", b.Hash.Hi, b.Hash.Lo))
	})
	return rows
}
