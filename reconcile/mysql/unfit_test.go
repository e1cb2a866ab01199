//go:build mariadb

package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/mysql"
	"icehose/reconcile/reconciletest"
)

// A value that the lake's type cannot hold is a difference of its row, whether
// the server digests it or not, and rows that are lost beside it are found.
func TestUnfitValues(t *testing.T) {
	shop(t, "CREATE TABLE t (id bigint PRIMARY KEY, note date, flag tinyint(1)); SET sql_mode = ''; "+
		"INSERT INTO t SELECT seq, CASE seq WHEN 7 THEN '0000-00-00' ELSE '2026-11-01' END, CASE seq WHEN 8 THEN 2 ELSE 1 END FROM seq_0_to_99")
	p, err := catalog.Parse("pipeline.yaml", []byte(strings.Replace(oneTable, "note, type: string}", "note, type: date}\n      - {name: flag, type: boolean}", 1)))
	if err != nil {
		t.Fatal(err)
	}
	lake := []reconciletest.Row{reconciletest.MakeRow("7", "2026-11-08", "true"), reconciletest.MakeRow("8", "2026-11-01", "true"), reconciletest.MakeRow("9", "2026-11-01", "true")}
	for _, o := range []mysql.Options{{}, {Stream: true}} {
		report, err := reconcile.Run(t.Context(), p, open(t, server.DSN(""), o), &reconciletest.Memory{Tables: reconciletest.Tables{p.Tables[0].Source: lake}}, reconcile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := report.Tables[0]
		if got.Verdict != reconcile.Different || got.Counts != (reconcile.Counts{Missing: 97, Differs: 2}) || got.Unfit != 2 || got.Why != "" {
			t.Errorf("stream %v: %s %+v, %d unfit: %s", o.Stream, got.Verdict, got.Counts, got.Unfit, got.Why)
		}
	}
}

// So is one of a table without a key, whose rows the server puts in buckets by
// texts of its own.
func TestUnfitValuesWithoutKey(t *testing.T) {
	db := shop(t, "CREATE TABLE t (id bigint, note date); SET sql_mode = ''; INSERT INTO t SELECT seq, IF(seq < 9, '0000-00-00', '2026-11-01') FROM seq_0_to_2999")
	if _, err := db.ExecContext(t.Context(), "ANALYZE TABLE t"); err != nil {
		t.Fatal(err)
	}
	p, err := catalog.Parse("pipeline.yaml", []byte(strings.NewReplacer("note, type: string", "note, type: date", "mode: mirror", "mode: changelog", "    key: [id]\n", "").Replace(oneTable)))
	if err != nil {
		t.Fatal(err)
	}
	var lake []reconciletest.Row
	for id := range 2990 {
		lake = append(lake, reconciletest.MakeRow(fmt.Sprint(id+9), "2026-11-01"))
	}
	for _, o := range []mysql.Options{{}, {Stream: true}} {
		report, err := reconcile.Run(t.Context(), p, open(t, server.DSN(""), o), &reconciletest.Memory{Tables: reconciletest.Tables{p.Tables[0].Source: lake}}, reconcile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := report.Tables[0]
		if got.Verdict != reconcile.Different || got.Counts != (reconcile.Counts{Missing: 10}) || got.Unfit != 9 || got.Buckets < 2 || got.Why != "" {
			t.Errorf("stream %v: %s %+v, %d unfit in %d buckets: %s", o.Stream, got.Verdict, got.Counts, got.Unfit, got.Buckets, got.Why)
		}
	}
}
