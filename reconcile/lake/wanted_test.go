package lake_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/reconcile"
	"icehose/reconcile/lake"
	"icehose/reconcile/reconciletest"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// A strictStore yields no row that it was not asked for.
type strictStore struct {
	*fakeStore
	yielded int // rows
}

func (s *strictStore) ScanKeys(ctx context.Context, t *catalog.Table, snapshotID int64, columns []string, column string, values []string, orSet string) iter.Seq2[arrow.RecordBatch, error] {
	lakeColumns, _ := t.LakeColumns()
	at := func(name string) int {
		return slices.IndexFunc(lakeColumns, func(c catalog.Column) bool { return c.Name == name })
	}
	var kept []reconciletest.Row
	for _, row := range s.snapshots[t.Source][snapshotID-1] {
		if len(values) > 0 && slices.Contains(values, row[at(column)].Text) || orSet != "" && !row[at(orSet)].Null {
			kept = append(kept, row)
		}
	}
	s.yielded += len(kept)
	some := newFakeStore()
	some.put(t.Source, kept)
	return some.Scan(ctx, t, 1, columns)
}

// randomChanges are changes of some keys: some move a row to another key, some
// leave columns out.
func randomChanges(t *rapid.T, table *catalog.Table) []reconciletest.Row {
	var rows []reconciletest.Row
	key := func(name string) string { return strconv.Itoa(rapid.IntRange(0, 9).Draw(t, name)) }
	for n := range rapid.IntRange(1, 60).Draw(t, "changes") {
		id, oldKey, absent := key("id"), "", ""
		operation := rapid.SampledFrom([]cdc.Operation{cdc.Insert, cdc.Update, cdc.Update, cdc.Delete}).Draw(t, "operation")
		row := reconciletest.MakeRow(id, fmt.Sprint("note ", n), fmt.Sprintf("%d.00", n))
		if operation == cdc.Update {
			if old := key("old key"); old != id && rapid.Bool().Draw(t, "moves") {
				oldKey = fmt.Sprintf("[%q]", old)
			}
			if absent = rapid.SampledFrom([]string{"", "note", "amount", "note,amount"}).Draw(t, "absent"); absent != "" {
				for i, name := range []string{"id", "note", "amount"} {
					if i > 0 && (absent == name || absent == "note,amount") {
						row[i] = reconciletest.Null()
					}
				}
			}
		}
		rows = append(rows, change(table, row, n+1, operation, oldKey, absent))
	}
	return rapid.Permutation(rows).Draw(t, "order")
}

type hashed struct{ key, hash, stamp string }

func read(t *rapid.T, r reconcile.Reader, table *catalog.Table, part reconcile.Part) []hashed {
	t.Helper()
	v, err := r.Open(t.Context(), table, false)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close() //nolint:errcheck // it only read
	rows := []hashed{}
	for row, err := range v.Rows(t.Context(), part) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, hashed{string(row.Key), fmt.Sprint(row.Hash), string(row.Stamp)})
	}
	slices.SortFunc(rows, cmpHashed)
	return rows
}

func cmpHashed(a, b hashed) int {
	if a.key < b.key {
		return -1
	}
	return 1
}

// A part of a changelog has the rows that it has when all is read, whatever the
// store leaves out, also where rows moved from key to key.
func TestPartsOfChangelog(t *testing.T) {
	p := reconciletest.Pipeline(t)
	table := reconciletest.Table(t, p, reconciletest.Changes)
	rapid.Check(t, func(t *rapid.T) {
		store := &strictStore{fakeStore: newFakeStore()}
		store.put(table.Source, randomChanges(t, table))
		r := lake.Open(store)
		const buckets = 4
		whole := read(t, r, table, reconcile.Part{Buckets: buckets})
		parts := []hashed{}
		for b := range buckets {
			parts = append(parts, read(t, r, table, reconcile.Part{Buckets: buckets, Only: []int{b}})...)
		}
		slices.SortFunc(parts, cmpHashed)
		if diff := cmp.Diff(whole, parts, cmp.AllowUnexported(hashed{})); diff != "" {
			t.Errorf("buckets one by one (-whole +parts):\n%s", diff)
		}
		var texts [][]string
		wanted := map[string]bool{}
		for _, key := range rapid.SliceOfN(rapid.IntRange(0, 9), 1, 3).Draw(t, "keys") {
			texts = append(texts, []string{strconv.Itoa(key)})
			wanted["1:"+strconv.Itoa(key)] = true
		}
		keys, err := reconcile.NewKeys(table, texts)
		if err != nil {
			t.Fatal(err)
		}
		some := slices.DeleteFunc(slices.Clone(whole), func(h hashed) bool { return !wanted[h.key] })
		if diff := cmp.Diff(some, read(t, r, table, reconcile.Part{Buckets: 1, Keys: keys}), cmp.AllowUnexported(hashed{})); diff != "" {
			t.Errorf("some keys (-whole +keys):\n%s", diff)
		}
	})
}

// A reading of some keys asks the store for no others; a changelog is read in
// parts, because its fold is held in memory.
func TestKeysAreAskedFor(t *testing.T) {
	p := reconciletest.Pipeline(t)
	for name, sliced := range map[string]bool{reconciletest.Changes: true, reconciletest.Typed: false} {
		table := reconciletest.Table(t, p, name)
		store := &strictStore{fakeStore: newFakeStore()}
		var rows []reconciletest.Row
		for n := range 100 {
			row := make(reconciletest.Row, len(table.Columns))
			for i := range row {
				row[i] = reconciletest.Null()
			}
			row[0] = reconciletest.Value{Text: strconv.Itoa(n)}
			rows = append(rows, change(table, row, n+1, cdc.Insert, "", ""))
		}
		store.put(name, rows)
		v := view(t, lake.Open(store), table)
		keys, err := reconcile.NewKeys(table, [][]string{{"7"}, {"42"}, {"1000"}})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range v.Rows(t.Context(), reconcile.Part{Buckets: 1, Keys: keys}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 2 || store.yielded != 2 {
			t.Errorf("%s: %d rows, of %d that the store read; want 2 of 2", name, n, store.yielded)
		}
		if got := v.Pinned().Slice > 0; got != sliced {
			t.Errorf("%s: a bound of a slice %v, want %v", name, got, sliced)
		}
	}
}

// The store leaves out files that have none of the keys, and no row of them,
// whether deletes act on it or not.
func TestScanKeys(t *testing.T) {
	p := reconciletest.Pipeline(t)
	table := reconciletest.Table(t, p, reconciletest.Lines)
	store, err := iceberg.Open(t.Context(), t.TempDir(), iceberg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // it is thrown away
	opened, err := store.OpenTable(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	parent := ""
	for commit := range 5 { // each has lines of its own, and takes one away from the first
		var rows []reconciletest.Row
		for n := range 300 {
			rows = append(rows, change(table, reconciletest.MakeRow("note", "doc", strconv.Itoa(commit*1000+n)), commit*1000+n+1, cdc.Insert, "", ""))
		}
		batch := &sink.Batch{Parent: parent, ID: fmt.Sprint(commit), Properties: map[string]string{sink.PropertyCommit: fmt.Sprint(commit)}, Inserts: sink.NewRows(texts(rows)...)}
		if commit > 0 {
			batch.Deletes = sink.NewRows([][]byte{[]byte(strconv.Itoa(commit)), []byte("doc")})
		}
		if err := opened.Commit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		parent = batch.ID
	}
	r := lake.Open(store)
	for name, tt := range map[string]struct {
		keys [][]string
		most int
		want int
	}{
		"one":                 {[][]string{{"2007", "doc"}}, 1, 1},
		"some of two files":   {[][]string{{"2007", "doc"}, {"2008", "doc"}, {"4001", "doc"}, {"4001", "other"}}, 3, 3},
		"one that is deleted": {[][]string{{"3", "doc"}, {"9", "doc"}}, 1, 1},
		"none":                {[][]string{{"777777", "doc"}}, 0, 0},
		"more than are named": {manyLines(1000, 300), 300, 300},
	} {
		keys, err := reconcile.NewKeys(table, tt.keys)
		if err != nil {
			t.Fatal(err)
		}
		var values []string
		for _, key := range keys.Texts() {
			values = append(values, key[0])
		}
		read := 0
		for batch, err := range store.ScanKeys(t.Context(), table, 0, []string{"line"}, "line", values, "") {
			if err != nil {
				t.Fatal(err)
			}
			read += int(batch.NumRows())
		}
		got := 0
		for _, err := range view(t, r, table).Rows(t.Context(), reconcile.Part{Buckets: 1, Keys: keys}) {
			if err != nil {
				t.Fatal(err)
			}
			got++
		}
		if got != tt.want || read > tt.most {
			t.Errorf("%s: %d rows, %d read; want %d, and at most %d read", name, got, read, tt.want, tt.most)
		}
	}
}

func manyLines(from, n int) (keys [][]string) {
	for i := range n {
		keys = append(keys, []string{strconv.Itoa(from + i), "doc"})
	}
	return keys
}

var _ lake.KeyScanner = (*iceberg.Store)(nil)
