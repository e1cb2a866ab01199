package lake_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/reconcile"
	"icehose/reconcile/lake"
	"icehose/reconcile/reconciletest"
)

var _ lake.Store = (*fakeStore)(nil)

func TestReader(t *testing.T) {
	reconciletest.TestReader(t, func(t *testing.T, p *catalog.Pipeline, tables reconciletest.Tables) reconcile.Reader {
		store := newFakeStore()
		for name, rows := range tables {
			store.put(name, lakeRows(reconciletest.Table(t, p, name), rows))
		}
		return lake.Open(store)
	})
}

// A view stays at its snapshot; a new one is at the newest.
func TestSnapshotIsPinned(t *testing.T) {
	p := reconciletest.Pipeline(t)
	table := reconciletest.Table(t, p, reconciletest.Lines)
	one, two := []reconciletest.Row{reconciletest.MakeRow("n", "d", "1")}, []reconciletest.Row{reconciletest.MakeRow("n", "d", "2")}
	store := newFakeStore()
	store.put(table.Source, lakeRows(table, one))
	r := lake.Open(store)
	first := view(t, r, table)
	want := reconcile.Pinned{Moment: "snapshot 1", Rows: 1, Newest: reconcile.Newest{
		Position: cdc.Position(position(5)), Committed: time.Date(2026, 10, 5, 1, 2, 3, 0, time.UTC),
	}}
	if diff := cmp.Diff(want, first.Pinned()); diff != "" {
		t.Errorf("pinned (-want +got):\n%s", diff)
	}
	scans := len(store.scanned)
	if _, err := r.Open(t.Context(), table, false); err != nil || len(store.scanned) > scans {
		t.Errorf("a view that is not exact reads %v of a snapshot that is known, %v", store.scanned[scans:], err)
	}
	before, err := r.State(t.Context(), p.Tables)
	if err != nil || !before.Time.Equal(want.Newest.Committed) {
		t.Errorf("state %+v, %v", before, err)
	}
	store.put(table.Source, lakeRows(table, two))
	if after, err := r.State(t.Context(), p.Tables); err != nil || after.Mark == before.Mark {
		t.Errorf("a new snapshot leaves the mark as it was, %v", err)
	}
	for _, tt := range []struct {
		name string
		view reconcile.View
		rows []reconciletest.Row
	}{{"pinned", first, one}, {"new", view(t, r, table), two}} {
		got, err := tt.view.Digests(t.Context(), all(1))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(reconciletest.Expected(t, table, tt.rows, 1), got); diff != "" {
			t.Errorf("%s view: digests differ (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A row that was written before its column existed means the column's default,
// where the source has no NULL that it could be.
func TestDefaultOfLaterColumn(t *testing.T) {
	p, err := catalog.Parse("pipeline.yaml", []byte(`version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - source: public.t
    mode: mirror
    key: [id]
    columns:
      - {name: id, type: long}
      - {name: strict, type: "decimal(6,2)", not_null: true, default: 5.00}
      - {name: loose, type: string}
`))
	if err != nil {
		t.Fatal(err)
	}
	table := p.Tables[0]
	store := newFakeStore()
	old := reconciletest.Row{{Text: "1"}, reconciletest.Null(), reconciletest.Null()}
	store.put(table.Source, lakeRows(table, []reconciletest.Row{old}))
	got, err := view(t, lake.Open(store), table).Digests(t.Context(), all(1))
	if err != nil {
		t.Fatal(err)
	}
	want := reconciletest.Expected(t, table, []reconciletest.Row{{{Text: "1"}, {Text: "5.00"}, reconciletest.Null()}}, 1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("digests differ (-want +got):\n%s", diff)
	}
}

// A lake table without a snapshot has no rows.
func TestNoSnapshot(t *testing.T) {
	p := reconciletest.Pipeline(t)
	store := newFakeStore()
	for _, name := range []string{reconciletest.Lines, reconciletest.Changes} {
		table := reconciletest.Table(t, p, name)
		store.snapshots[name] = nil
		v := view(t, lake.Open(store), table)
		if diff := cmp.Diff(reconcile.Pinned{Moment: "no snapshot"}, v.Pinned()); diff != "" {
			t.Errorf("pinned (-want +got):\n%s", diff)
		}
		got, err := v.Digests(t.Context(), all(2))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(reconciletest.Expected(t, table, nil, 2), got); diff != "" {
			t.Errorf("digests differ (-want +got):\n%s", diff)
		}
	}
}

// Only what is compared is read.
func TestColumnsOfScan(t *testing.T) {
	p := reconciletest.Pipeline(t)
	for name, want := range map[string][]string{
		reconciletest.Lines:   {"note", "doc", "line"},
		reconciletest.Changes: {"id", "note", "amount", catalog.ColumnPosition, catalog.ColumnOperation, catalog.ColumnOldKey, catalog.ColumnAbsent},
	} {
		store := newFakeStore()
		store.put(name, nil)
		if _, err := view(t, lake.Open(store), reconciletest.Table(t, p, name)).Digests(t.Context(), all(1)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]string{{catalog.ColumnCommittedAt}, {catalog.ColumnPosition}, want}, store.scanned); diff != "" {
			t.Errorf("%s: columns differ (-want +got):\n%s", name, diff)
		}
	}
}

// A changelog means what its fold says: key changes, columns that a change did
// not carry, an explicit null, a delete and an insert after it.
func TestChangelogIsFolded(t *testing.T) {
	p := reconciletest.Pipeline(t)
	table := reconciletest.Table(t, p, reconciletest.Changes)
	row := func(id, note, amount string) reconciletest.Row {
		r := reconciletest.MakeRow(id, note, amount)
		for i := range r {
			if r[i].Text == "NULL" {
				r[i] = reconciletest.Null()
			}
		}
		return r
	}
	tests := []struct {
		name    string
		changes []reconciletest.Row
		want    []reconciletest.Row
	}{
		{
			"absent column keeps its value",
			[]reconciletest.Row{
				change(table, row("1", "big", "1.00"), 1, cdc.Load, "", ""),
				change(table, row("1", "NULL", "2.00"), 2, cdc.Update, "", "note"),
			},
			[]reconciletest.Row{row("1", "big", "2.00")},
		},
		{
			"explicit null wins",
			[]reconciletest.Row{
				change(table, row("1", "NULL", "2.00"), 2, cdc.Update, "", ""),
				change(table, row("1", "big", "1.00"), 1, cdc.Insert, "", ""),
			},
			[]reconciletest.Row{row("1", "NULL", "2.00")},
		},
		{
			"two absent columns",
			[]reconciletest.Row{
				change(table, row("1", "NULL", "NULL"), 2, cdc.Update, "", "note,amount"),
				change(table, row("1", "big", "1.00"), 1, cdc.Insert, "", ""),
			},
			[]reconciletest.Row{row("1", "big", "1.00")},
		},
		{
			"key change takes the old row away",
			[]reconciletest.Row{
				change(table, row("1", "n", "1.00"), 1, cdc.Insert, "", ""),
				change(table, row("2", "n", "1.00"), 2, cdc.Update, `["1"]`, ""),
			},
			[]reconciletest.Row{row("2", "n", "1.00")},
		},
		{
			"key change that left a column out, after a later row of its old key",
			[]reconciletest.Row{
				change(table, row("1", "later", "9.00"), 3, cdc.Insert, "", ""),
				change(table, row("2", "NULL", "1.00"), 2, cdc.Update, `["1"]`, "note"),
				change(table, row("1", "big", "1.00"), 1, cdc.Insert, "", ""),
			},
			[]reconciletest.Row{row("2", "big", "1.00"), row("1", "later", "9.00")},
		},
		{
			"inserted again after a delete",
			[]reconciletest.Row{
				change(table, row("1", "second", "2.00"), 3, cdc.Insert, "", ""),
				change(table, row("1", "NULL", "NULL"), 2, cdc.Delete, "", ""),
				change(table, row("1", "first", "1.00"), 1, cdc.Insert, "", ""),
			},
			[]reconciletest.Row{row("1", "second", "2.00")},
		},
		{
			"a column that no change carries is NULL",
			[]reconciletest.Row{change(table, row("1", "NULL", "2.00"), 2, cdc.Update, "", "note")},
			[]reconciletest.Row{row("1", "NULL", "2.00")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := newFakeStore()
			store.put(table.Source, tt.changes)
			got, err := view(t, lake.Open(store), table).Digests(t.Context(), all(4))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(reconciletest.Expected(t, table, tt.want, 4), got); diff != "" {
				t.Errorf("digests differ (-want +got):\n%s", diff)
			}
		})
	}
}

// A row's stamp is its position: a row that changed and changed back has
// another one.
func TestStamps(t *testing.T) {
	p := reconciletest.Pipeline(t)
	for _, name := range []string{reconciletest.Lines, reconciletest.Changes, reconciletest.History} {
		table := reconciletest.Table(t, p, name)
		row := map[string]reconciletest.Row{
			reconciletest.Lines: reconciletest.MakeRow("1", "2", "3"), reconciletest.Changes: reconciletest.MakeRow("1", "2", "3.00"), reconciletest.History: reconciletest.MakeRow("1", "2.00"),
		}[name]
		store := newFakeStore()
		store.put(name, []reconciletest.Row{change(table, row, 7, cdc.Insert, "", "")})
		n := 0
		for got, err := range view(t, lake.Open(store), table).Rows(t.Context(), all(1)) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; string(got.Stamp) != position(7) {
				t.Errorf("%s: stamp %q, want %q", name, got.Stamp, position(7))
			}
		}
		if n != 1 {
			t.Errorf("%s: %d rows", name, n)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	p := reconciletest.Pipeline(t)
	table := reconciletest.Table(t, p, reconciletest.Changes)
	good := change(table, reconciletest.MakeRow("1", "n", "1.00"), 1, cdc.Insert, "", "")
	with := func(column int, text string) reconciletest.Row {
		row := slices.Clone(good)
		row[column] = reconciletest.Value{Text: text, Null: text == "NULL"}
		return row
	}
	const pos, op, old, absent = 3, 5, 6, 7
	tests := []struct {
		name string
		row  reconciletest.Row
		want string
	}{
		{"position", with(pos, "hush"), "column cdc_position: not a position"},
		{"no position", with(pos, "NULL"), "column cdc_position: not a position"},
		{"operation", with(op, "hush"), "column cdc_operation: not an operation"},
		{"control", with(op, "control"), "column cdc_operation: not an operation"},
		{"no operation", with(op, "NULL"), "column cdc_operation: not an operation"},
		{"old key", with(old, "hush"), "column cdc_old_key: not a JSON array of strings"},
		{"old key of numbers", with(old, "[1]"), "column cdc_old_key: not a JSON array of strings"},
		{"old key of two", with(old, `["hush","hush"]`), "column cdc_old_key: 2 texts for 1 key columns"},
		{"absent", with(absent, "note,hush!"), "cdc_absent is not a list of names of columns"},
		{"null key", with(0, "NULL"), "key column id is null"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := newFakeStore()
			store.put(table.Source, []reconciletest.Row{tt.row})
			_, err := view(t, lake.Open(store), table).Digests(t.Context(), all(1))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "lake.changes") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("the error has a value: %v", err)
			}
		})
	}
}

func TestStoreErrorsArePassedOn(t *testing.T) {
	p := reconciletest.Pipeline(t)
	for _, name := range []string{reconciletest.Lines, reconciletest.Changes} {
		table := reconciletest.Table(t, p, name)
		var rows []reconciletest.Row
		for range 3 * batchRows {
			rows = append(rows, reconciletest.MakeRow("1", "2", "3.00"))
		}
		if name == reconciletest.Lines {
			for i := range rows {
				rows[i][2].Text = "3"
			}
		}
		store := newFakeStore()
		store.put(name, lakeRows(table, rows))
		r := lake.Open(store)
		v := view(t, r, table)
		store.fail = errors.New("file is gone")
		if _, err := r.Open(t.Context(), table, true); !errors.Is(err, store.fail) {
			t.Errorf("%s: Open: %v", name, err)
		}
		if _, err := v.Digests(t.Context(), all(1)); !errors.Is(err, store.fail) {
			t.Errorf("%s: Digests: %v", name, err)
		}
		store.fail, store.drop = nil, table.Columns[1].Name
		if _, err := v.Digests(t.Context(), all(1)); err == nil || !strings.Contains(err.Error(), "0 columns called "+store.drop) {
			t.Errorf("%s: a lake without a column: %v", name, err)
		}
	}
}

func TestUnknownMode(t *testing.T) {
	table := *reconciletest.Table(t, reconciletest.Pipeline(t), reconciletest.Lines)
	table.Mode = "both"
	store := newFakeStore()
	store.put(table.Source, nil)
	if _, err := view(t, lake.Open(store), &table).Digests(t.Context(), all(1)); err == nil || !strings.Contains(err.Error(), `no write mode "both"`) {
		t.Errorf("a mode that is none: %v", err)
	}
}

// view opens a table, until the test ends.
func view(t testing.TB, r reconcile.Reader, table *catalog.Table) reconcile.View {
	t.Helper()
	v, err := r.Open(t.Context(), table, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

// all is every row, in so many buckets.
func all(buckets int) reconcile.Part { return reconcile.Part{Buckets: buckets} }
