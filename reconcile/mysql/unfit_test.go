//go:build mariadb

package mysql_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

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

// So is one in a key, in whatever bucket the server puts it, and in whatever way
// the rows are read.
func TestUnfitValuesInKey(t *testing.T) {
	for _, tt := range []struct{ source, lake, value, other, key string }{
		{"date", "date", "'0000-00-00'", "DATE'2026-11-01' + INTERVAL seq DAY", "0000-00-00"},
		{"datetime", "timestamp", "'2026-00-01'", "TIMESTAMP'2026-11-01 00:00:00' + INTERVAL seq HOUR", "2026-00-01 00:00:00"},
		{"varbinary(9)", "\"fixed[4]\"", "X'00ff'", "UNHEX(LPAD(HEX(seq), 8, '0'))", "00FF"},
		{"varchar(9)", "long", "'none'", "seq", "none"},
	} {
		t.Run(tt.source, func(t *testing.T) {
			shop(t, fmt.Sprintf("SET sql_mode = ''; CREATE TABLE t (id %s PRIMARY KEY, note date); INSERT INTO t SELECT %s, '2026-11-01' FROM seq_1_to_999; "+
				"INSERT INTO t VALUES (%s, '2026-11-02'); ANALYZE TABLE t", tt.source, tt.other, tt.value))
			p, err := catalog.Parse("pipeline.yaml", []byte(strings.NewReplacer("id, type: long", "id, type: "+tt.lake, "note, type: string", "note, type: date").Replace(oneTable)))
			if err != nil {
				t.Fatal(err)
			}
			for name, o := range map[string]reconcile.Options{
				"whole": {}, "in slices": {SliceRows: 300}, "lately": {Since: &reconcile.Since{Column: "note", From: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)}},
			} {
				for _, how := range []mysql.Options{{}, {Stream: true}} {
					want := reconcile.Counts{Missing: 1000}
					if o.Since != nil {
						want.Missing = 1
					}
					o.MaxFindings = 3000
					report, err := reconcile.Run(t.Context(), p, open(t, server.DSN(""), how), &reconciletest.Memory{Tables: reconciletest.Tables{p.Tables[0].Source: nil}}, o)
					if err != nil {
						t.Fatal(err)
					}
					got := report.Tables[0]
					if got.Verdict != reconcile.Different || got.Counts != want || got.Unfit != 1 || got.Why != "" {
						t.Errorf("%s, stream %v: %s %+v, %d unfit: %s", name, how.Stream, got.Verdict, got.Counts, got.Unfit, got.Why)
					}
					for _, f := range got.Findings {
						if f.Unfit != (f.Key[0] == tt.key) {
							t.Errorf("%s, stream %v: finding %+v", name, how.Stream, f)
						}
					}
				}
			}
		})
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
