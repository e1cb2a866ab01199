//go:build postgres

package postgres_test

import (
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/lake"
	"icehose/reconcile/postgres"
	"icehose/reconcile/reconciletest"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// A thousand seeded faults between a real PostgreSQL and a real Iceberg table:
// every one is found, with its kind and key, and none is invented; whether the
// server digests the rows or they are streamed.
func TestThousandFaults(t *testing.T) {
	p := pipeline(t, reconciletest.FaultPipeline)
	for seed := range uint64(5) {
		source, rows, want := reconciletest.Faults(seed, 200, true)
		dsn, conn := server.NewDatabase(t)
		fill(t, conn, p, reconciletest.Tables{"public.t": source})
		lakeReader := lake.Open(faultLake(t, p.Tables[0], rows))
		for _, o := range []postgres.Options{{}, {Stream: true}} {
			report, err := reconcile.Run(t.Context(), p, open(t, dsn, o), lakeReader, reconcile.Options{MaxFindings: 10_000})
			if err != nil {
				t.Fatal(err)
			}
			got := report.Tables[0]
			reconciletest.SortFindings(got.Findings)
			if diff := gocmp.Diff(want, got.Findings); diff != "" || got.Verdict != reconcile.Different || got.Why != "" {
				t.Errorf("seed %d, stream %v: %s, %q, findings differ (-want +got):\n%s", seed, o.Stream, got.Verdict, got.Why, diff)
			}
		}
	}
}

// faultLake writes the lake's rows in two commits.
func faultLake(t *testing.T, table *catalog.Table, lakeRows []reconciletest.Row) *iceberg.Store {
	t.Helper()
	store, err := iceberg.Open(t.Context(), t.TempDir(), iceberg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	opened, err := store.OpenTable(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][][]byte
	for _, row := range lakeRows {
		var texts [][]byte
		for _, v := range row {
			value := append([]byte{}, v.Text...)
			if v.Null {
				value = nil
			}
			texts = append(texts, value)
		}
		rows = append(rows, append(texts, []byte("0000.00000000000000010000000000000001.1.0000000000000001"), []byte("2026-01-01T00:00:00.000000Z")))
	}
	parent := ""
	for i, part := range [][][][]byte{rows[:len(rows)/2], rows[len(rows)/2:]} {
		id := fmt.Sprint("commit-", i)
		err := opened.Commit(t.Context(), &sink.Batch{Parent: parent, ID: id, Properties: map[string]string{sink.PropertyCommit: id}, Inserts: sink.NewRows(part...)})
		if err != nil {
			t.Fatal(err)
		}
		parent = id
	}
	return store
}
