//go:build postgres

package postgres_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/internal/pgtest"
	"icehose/reconcile"
	"icehose/reconcile/postgres"
	"icehose/reconcile/reconciletest"
	load "icehose/sink/load/postgres"
)

// loaded returns the rows of a load, whose texts are canonical here.
func loaded(t *testing.T, dsn string, table *catalog.Table) (rows []reconciletest.Row) {
	t.Helper()
	s, err := load.Open(t.Context(), dsn, table, load.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it only read
	for _, part := range s.Parts {
		for texts, err := range part(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			var row []string
			for _, text := range texts {
				row = append(row, string(text))
			}
			rows = append(rows, reconciletest.MakeRow(row...))
		}
	}
	return rows
}

// sorted returns rows in one order.
func sorted(rows []reconciletest.Row) []reconciletest.Row {
	return slices.SortedFunc(slices.Values(rows), func(a, b reconciletest.Row) int { return strings.Compare(a[0].Text, b[0].Text) })
}

// What is compared, and what a repair would write, is what a load and the log
// have: of the columns that the pipeline file means, and of an ordinary table
// without the rows of tables that inherit from it.
func TestReadsWhatALoadDoes(t *testing.T) {
	for _, tt := range []struct {
		name, create, columns string
		want                  []reconciletest.Row
	}{
		{
			"a spelling that another column takes", `CREATE TABLE t (id int PRIMARY KEY, "Name" int, name int); INSERT INTO t VALUES (1, 10, 20), (2, 30, 40)`,
			"{name: id, type: int}, {name: name_b, source: name, type: int}, {name: name, type: int}",
			[]reconciletest.Row{reconciletest.MakeRow("1", "20", "10"), reconciletest.MakeRow("2", "40", "30")},
		},
		{
			"a spelling that an excluded column takes", `CREATE TABLE t (id int PRIMARY KEY, name int, "NAME" int); INSERT INTO t VALUES (1, 10, 20)`,
			"{name: id, type: int}, {name: old, source: name, type: int, exclude: true}, {name: name, type: int}",
			[]reconciletest.Row{reconciletest.MakeRow("1", "20")},
		},
		{
			"a key whose name another column has", `CREATE TABLE t ("ID" int PRIMARY KEY, id int); INSERT INTO t VALUES (1, 2)`,
			"{name: id, type: int}, {name: id_b, source: id, type: int}",
			[]reconciletest.Row{reconciletest.MakeRow("1", "2")},
		},
		{
			"a parent", `CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE child (more text) INHERITS (t); CREATE TABLE grandchild () INHERITS (child);
				INSERT INTO t VALUES (1, 10), (2, 20); INSERT INTO child VALUES (1, 11), (3, 30); INSERT INTO grandchild VALUES (4, 40)`,
			"{name: id, type: int}, {name: v, type: int}",
			[]reconciletest.Row{reconciletest.MakeRow("1", "10"), reconciletest.MakeRow("2", "20")},
		},
		{
			"partitions", `CREATE TABLE t (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (2);
				CREATE TABLE high PARTITION OF t FOR VALUES FROM (2) TO (9) PARTITION BY RANGE (id); CREATE TABLE higher PARTITION OF high FOR VALUES FROM (2) TO (9);
				INSERT INTO t VALUES (1, 10), (2, 20)`,
			"{name: id, type: int}, {name: v, type: int}",
			[]reconciletest.Row{reconciletest.MakeRow("1", "10"), reconciletest.MakeRow("2", "20")},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dsn, conn := server.NewDatabase(t)
			pgtest.Execute(t, conn, tt.create)
			p := pipeline(t, oneTable[:strings.Index(oneTable, "    columns:")]+"    columns: ["+tt.columns+"]\n")
			table := p.Tables[0]
			if diff := cmp.Diff(tt.want, sorted(loaded(t, dsn, table))); diff != "" {
				t.Errorf("a load (-want +got):\n%s", diff)
			}
			for _, o := range []postgres.Options{{}, {Stream: true}} {
				readsRows(t, open(t, dsn, o), p, tt.want)
			}
		})
	}
}

// readsRows checks the rows of the one table of p as a reader has them: in a
// comparison, all of them, and by key.
func readsRows(t *testing.T, r *postgres.Reader, p *catalog.Pipeline, want []reconciletest.Row) {
	t.Helper()
	table := p.Tables[0]
	report, err := reconcile.Run(t.Context(), p, r, &reconciletest.Memory{Tables: reconciletest.Tables{table.Source: want}}, reconcile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Tables[0]; got.Verdict != reconcile.Equal || got.Source.Rows == nil || *got.Source.Rows != uint64(len(want)) {
		t.Errorf("compared: %s, %+v, %s", got.Verdict, got.Counts, got.Why)
	}
	keys, err := reconcile.NewKeys(table, [][]string{{"1"}, {"2"}, {"3"}, {"4"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, part := range map[string]reconcile.Part{"all": {Buckets: 1}, "by key": {Buckets: 1, Keys: keys}} {
		var rows []reconciletest.Row
		values, ok := view(t, r, table, false).(reconcile.ValueView)
		if !ok {
			t.Fatal("the view tells no values")
		}
		for texts, err := range values.Values(t.Context(), part) {
			if err != nil {
				t.Fatal(err)
			}
			var row []string
			for _, text := range texts {
				row = append(row, string(text))
			}
			rows = append(rows, reconciletest.MakeRow(row...))
		}
		if diff := cmp.Diff(want, sorted(rows)); diff != "" {
			t.Errorf("values, %s (-want +got):\n%s", name, diff)
		}
	}
}
