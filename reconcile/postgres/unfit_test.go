//go:build postgres

package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"icehose/reconcile"
	"icehose/reconcile/postgres"
	"icehose/reconcile/reconciletest"
)

// A value that the lake's type cannot hold is a difference of its row, whether
// the server digests it or not, and rows that are lost beside it are found.
func TestUnfitValues(t *testing.T) {
	dsn, conn := newDatabase(t)
	execute(t, conn, `CREATE TABLE t (id bigint PRIMARY KEY, note date);
		INSERT INTO t SELECT g, CASE g WHEN 7 THEN 'infinity' ELSE date '2026-11-01' + g END FROM generate_series(0, 99) g`)
	p := pipeline(t, strings.NewReplacer("note, type: string", "note, type: date").Replace(oneTable))
	lake := []reconciletest.Row{reconciletest.MakeRow("7", "2026-11-08")}
	for _, o := range []postgres.Options{{}, {Stream: true}} {
		report, err := reconcile.Run(t.Context(), p, open(t, dsn, o), &reconciletest.Memory{Tables: reconciletest.Tables{p.Tables[0].Source: lake}}, reconcile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := report.Tables[0]
		if got.Verdict != reconcile.Different || got.Counts != (reconcile.Counts{Missing: 99, Differs: 1}) || got.Unfit != 1 || got.Why != "" {
			t.Errorf("stream %v: %s %+v, %d unfit: %s", o.Stream, got.Verdict, got.Counts, got.Unfit, got.Why)
		}
	}
}

// So is one of a table without a key, whose rows the server puts in buckets by
// texts of its own.
func TestUnfitValuesWithoutKey(t *testing.T) {
	dsn, conn := newDatabase(t)
	execute(t, conn, `CREATE TABLE t (id bigint, note date); INSERT INTO t SELECT g, CASE WHEN g < 9 THEN 'infinity' ELSE date '2026-11-01' END FROM generate_series(0, 2999) g; ANALYZE t`)
	p := pipeline(t, strings.NewReplacer("note, type: string", "note, type: date", "mode: mirror", "mode: changelog", "    key: [id]\n", "").Replace(oneTable))
	var lake []reconciletest.Row
	for id := range 2990 {
		lake = append(lake, reconciletest.MakeRow(fmt.Sprint(id+9), "2026-11-01"))
	}
	for _, o := range []postgres.Options{{}, {Stream: true}} {
		report, err := reconcile.Run(t.Context(), p, open(t, dsn, o), &reconciletest.Memory{Tables: reconciletest.Tables{p.Tables[0].Source: lake}}, reconcile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := report.Tables[0]
		if got.Verdict != reconcile.Different || got.Counts != (reconcile.Counts{Missing: 10}) || got.Unfit != 9 || got.Buckets < 2 || got.Why != "" {
			t.Errorf("stream %v: %s %+v, %d unfit in %d buckets: %s", o.Stream, got.Verdict, got.Counts, got.Unfit, got.Buckets, got.Why)
		}
	}
}
