package lake_test

import (
	"testing"

	"icehose/reconcile"
	"icehose/reconcile/lake"
	"icehose/reconcile/reconciletest"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// A table whose snapshot expires while it is compared is inconclusive, and
// says so; the others are decided.
func TestExpiredSnapshot(t *testing.T) {
	p := reconciletest.Pipeline(t)
	for _, expired := range []string{reconciletest.Lines, reconciletest.Changes} {
		t.Run(expired, func(t *testing.T) {
			store, err := iceberg.Open(t.Context(), t.TempDir(), iceberg.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			rows := reconciletest.Tables{
				reconciletest.Typed: nil, reconciletest.History: {reconciletest.MakeRow("a", "1.00")},
				reconciletest.Lines:   {reconciletest.MakeRow("n", "d", "1"), reconciletest.MakeRow("n", "d", "2")},
				reconciletest.Changes: {reconciletest.MakeRow("1", "n", "1.00"), reconciletest.MakeRow("2", "n", "1.00")},
			}
			for name, some := range rows {
				fill(t, store, reconciletest.Table(t, p, name), some)
			}
			reader := &reconciletest.Disturbed{Reader: lake.Open(store), Table: expired, Before: true, Do: func() error {
				table := reconciletest.Table(t, p, expired)
				opened, err := store.OpenTable(t.Context(), table)
				if err != nil {
					return err
				}
				b := &sink.Batch{Parent: "second", ID: "third", Properties: map[string]string{sink.PropertyCommit: "third"}, Inserts: sink.NewRows(texts(lakeRows(table, rows[expired]))...)}
				if err := opened.Commit(t.Context(), b); err != nil {
					return err
				}
				_, err = store.Maintain(t.Context(), table, iceberg.Maintenance{Retention: iceberg.Retention{KeepSnapshots: 1, SnapshotAge: -1}, SkipCompact: true, SkipOrphans: true})
				return err
			}}
			report, err := reconcile.Run(t.Context(), p, &reconciletest.Memory{Tables: rows}, reader, reconcile.Options{})
			if err != nil {
				t.Fatal(err)
			}
			reconciletest.CheckInconclusive(t, report, map[string]string{expired: " has expired while it was read"})
		})
	}
}
