//go:build postgres

package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"icehose/internal/pgtest"
	"icehose/reconcile"
	"icehose/reconcile/postgres"
	"icehose/reconcile/reconciletest"
)

// A value that the lake's type cannot hold is a difference of its row, whether
// the server digests it or not, and rows that are lost beside it are found.
func TestUnfitValues(t *testing.T) {
	dsn, conn := server.NewDatabase(t)
	pgtest.Execute(t, conn, `CREATE TABLE t (id bigint PRIMARY KEY, note date);
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

// So is one in a key, in whatever bucket the server puts it, and in whatever way
// the rows are read.
func TestUnfitValuesInKey(t *testing.T) {
	for _, tt := range []struct{ source, lake, value, other, key string }{
		{"date", "date", "'infinity'", "'2026-11-01'::date + g", "infinity"},
		{"timestamp", "timestamp", "'0044-03-15 00:00:00 BC'", "'2026-11-01'::timestamp + g * interval '1 h'", "0044-03-15 00:00:00 BC"},
		{"timestamptz", "timestamptz", "'-infinity'", "'2026-11-01Z'::timestamptz + g * interval '1 h'", "-infinity"},
		{"time", "time", "'24:00:00'", "'00:00'::time + g * interval '1 s'", "24:00:00"},
		{"numeric(9,2)", "\"decimal(9,2)\"", "'NaN'", "g", "NaN"},
		{"bytea", "\"fixed[4]\"", "'\\x00ff'", "int4send(g)", "\\x00ff"},
		{"text", "long", "'none'", "g::text", "none"},
	} {
		t.Run(tt.source, func(t *testing.T) {
			dsn, conn := server.NewDatabase(t)
			pgtest.Execute(t, conn, fmt.Sprintf(`CREATE TABLE t (id %s PRIMARY KEY, note date); INSERT INTO t SELECT %s, '2026-11-01' FROM generate_series(1, 999) g;
				INSERT INTO t VALUES (%s, '2026-11-02'); ANALYZE t`, tt.source, tt.other, tt.value))
			p := pipeline(t, strings.NewReplacer("id, type: long", "id, type: "+tt.lake, "note, type: string", "note, type: date").Replace(oneTable))
			for name, o := range map[string]reconcile.Options{
				"whole": {}, "in slices": {SliceRows: 300}, "lately": {Since: &reconcile.Since{Column: "note", From: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)}},
			} {
				for _, how := range []postgres.Options{{}, {Stream: true}} {
					want := reconcile.Counts{Missing: 1000}
					if o.Since != nil {
						want.Missing = 1
					}
					o.MaxFindings = 3000
					report, err := reconcile.Run(t.Context(), p, open(t, dsn, how), &reconciletest.Memory{Tables: reconciletest.Tables{p.Tables[0].Source: nil}}, o)
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
	dsn, conn := server.NewDatabase(t)
	pgtest.Execute(t, conn, `CREATE TABLE t (id bigint, note date); INSERT INTO t SELECT g, CASE WHEN g < 9 THEN 'infinity' ELSE date '2026-11-01' END FROM generate_series(0, 2999) g; ANALYZE t`)
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
