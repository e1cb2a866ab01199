//go:build interop

package interop_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/artifact"
	"icehose/cdc"
	"icehose/sink/merge/mergetest"
)

// Retention removes rows, and none that a fold or a history of the time that it
// leaves needs, whenever it cuts and however often it runs; nor one that a merge of
// what came after the last one needs.
func TestTranslatedRetention(t *testing.T) {
	dialects(t, func(t *testing.T, x *translated) {
		for _, table := range []string{"keyed", "unkeyed"} {
			def := x.pipeline.ByTarget("d", table)
			x.view(t, def, "current")
			x.view(t, def, "history")
			x.native(t, "CREATE TABLE d."+table+"_folded AS SELECT * FROM d."+table+"_current LIMIT 0")
			log := deliverCopies(7000, 60)
			if table == "unkeyed" {
				log = mergetest.UnkeyedLog(9)
			}
			half := len(log) / 2
			x.append(t, def, log[:half])
			x.merge(t, def)
			x.append(t, def, log[half:])
			want := rows(t, x.engine, def, "d."+table+"_current")
			for n := 1; n <= 9; n++ {
				cut := mergetest.Start().AddDate(0, 0, 5*n)
				if table == "unkeyed" {
					cut = mergetest.Start().Add(time.Duration(2*n) * time.Hour)
				}
				x.retain(t, def, log, cut, want)
			}
			left := *x.native(t, "SELECT count(*) FROM d."+table)[0][0]
			t.Logf("%s: %s of %d rows left", table, left, len(log))
			if left == fmt.Sprint(len(log)) {
				t.Errorf("%s: retention removed nothing", table)
			}
			// What is new to a merge is what is left of it.
			x.native(t, "DELETE FROM d."+table+"_added AS new WHERE NOT EXISTS (SELECT 1 FROM d."+table+" AS kept WHERE kept = new)")
			x.merge(t, def)
			if diff := mergetest.Diff(fold(t, def, log), rows(t, x.engine, def, "d."+table+"_folded"), false, names(def)); diff != "" {
				t.Errorf("%s: the next merge:\n%s", table, diff)
			}
		}
	})
}

// retain runs retention with a cut; no current row may change by it, nor one as of
// the cut or a later time, and no row with a later time may go.
func (x *translated) retain(t *testing.T, def *catalog.Table, log [][][]byte, cut time.Time, want map[string]mergetest.Current) {
	t.Helper()
	name, at := "d."+def.Name(), cut.Format("2006-01-02 15:04:05")
	var asOf []string
	for _, days := range []int{0, 3, 40} {
		asOf = append(asOf, artifact.AsOfTime(x.dialect, def, cut.AddDate(0, 0, days).Format("2006-01-02 15:04:05")))
	}
	var then []map[string]mergetest.Current
	for _, query := range asOf {
		then = append(then, historyRows(t, x.engine, def, query))
	}
	for n, s := range artifact.Retention(x.dialect, def, "TIMESTAMP '"+at+" UTC'") {
		x.run(t, s)
		if diff := cmp.Diff(want, rows(t, x.engine, def, name+"_current")); diff != "" {
			t.Fatalf("%s: cut at %s, after statement %d (-before +after):\n%s", name, at, n+1, diff)
		}
	}
	for i, query := range asOf {
		if diff := cmp.Diff(then[i], historyRows(t, x.engine, def, query)); diff != "" {
			t.Fatalf("%s: cut at %s: %s (-before +after):\n%s", name, at, query, diff)
		}
	}
	all := 0
	for _, row := range log {
		if string(row[len(row)-4]) >= strings.Replace(at, " ", "T", 1) {
			all++
		}
	}
	if got := *x.native(t, "SELECT count(*) FROM "+name+" WHERE cdc_committed_at >= '"+at+"+00'")[0][0]; got != fmt.Sprint(all) {
		t.Errorf("%s: cut at %s: %s younger rows are left, want all %d", name, at, got, all)
	}
}

// loaded is a row of the table plain as a load brings it.
func loaded(t *testing.T, floor uint64, id int, v string) [][]byte {
	t.Helper()
	position, err := cdc.LoadPosition(0, cdc.Body{Hi: floor, Lo: floor}, mergetest.Start().Add(time.Duration(floor)*time.Hour), cdc.Origin{Sequence: fmt.Sprint(id)})
	if err != nil {
		t.Fatal(err)
	}
	row := mergetest.PlainRow{Position: position, Operation: cdc.Load, ID: id, V: &v}
	return row.Lake()
}

// changed is a row of the table plain as a change brings it, at an hour.
func changed(position uint64, operation cdc.Operation, id int, v string, hour int) [][]byte {
	row := mergetest.PlainRow{
		Position: cdc.ChangePosition(0, cdc.Body{Hi: position, Lo: position}, 1), Operation: operation, ID: id, V: &v,
		Committed: mergetest.Start().Add(time.Duration(hour) * time.Hour),
	}
	return row.Lake()
}

// A loaded row goes once something has replaced it for long enough, and so does
// what deletes it; nothing goes before.
func TestTranslatedRetentionOfLoads(t *testing.T) {
	dialects(t, func(t *testing.T, x *translated) {
		def := x.pipeline.ByTarget("d", "plain")
		x.view(t, def, "current")
		x.native(t, "CREATE TABLE d.plain_folded AS SELECT * FROM d.plain_current LIMIT 0")
		x.append(t, def, [][][]byte{
			loaded(t, 0, 1, "updated"), changed(4, cdc.Update, 1, "now", 4),
			loaded(t, 0, 2, "deleted"), changed(5, cdc.Delete, 2, "", 5),
			loaded(t, 0, 3, "loaded again"), loaded(t, 6, 3, "now"),
			loaded(t, 0, 4, "only loaded"),
		})
		for _, test := range []struct{ hour, left int }{{3, 7}, {5, 6}, {6, 4}, {7, 3}, {7, 3}} {
			cut := mergetest.Start().Add(time.Duration(test.hour) * time.Hour).Format("2006-01-02 15:04:05")
			for _, s := range artifact.Retention(x.dialect, def, "TIMESTAMP '"+cut+" UTC'") {
				x.run(t, s)
			}
			if left := *x.native(t, "SELECT count(*) FROM d.plain")[0][0]; left != fmt.Sprint(test.left) {
				t.Errorf("cut at %d hours: %s rows are left, want %d", test.hour, left, test.left)
			}
		}
	})
}

func TestTranslatedHistory(t *testing.T) {
	dialects(t, func(t *testing.T, x *translated) {
		def := x.pipeline.ByTarget("d", "keyed")
		x.view(t, def, "history")
		log := deliverCopies(8000, 40)
		x.append(t, def, log)
		ats := []int{0, 1, len(log) / 2, len(log) - 1}
		first := slices.IndexFunc(log, func(row [][]byte) bool { return timeOf(t, def, row) == "" })
		checkHistory(t, x.engine, x.dialect, def, log, append(ats, first)...)
	})
}

// The history of a table without a key has every load, and what came after it.
func TestTranslatedHistoryWithoutKey(t *testing.T) {
	dialects(t, func(t *testing.T, x *translated) {
		def := x.pipeline.ByTarget("d", "unkeyed")
		x.view(t, def, "history")
		for seed := range uint64(6) {
			x.native(t, "DELETE FROM d.unkeyed")
			log := mergetest.UnkeyedLog(seed)
			x.append(t, def, log)
			var ats []int
			for at := range log {
				ats = append(ats, at)
			}
			checkHistory(t, x.engine, x.dialect, def, log, ats...)
		}
	})
}

// Clocks step: times need not follow positions. As of a time a key has one row,
// that of the highest position among those committed by then.
func TestTranslatedHistoryOfClocks(t *testing.T) {
	dialects(t, func(t *testing.T, x *translated) {
		def := x.pipeline.ByTarget("d", "plain")
		x.view(t, def, "history")
		log := [][][]byte{
			changed(1, cdc.Insert, 1, "a", 5), changed(2, cdc.Update, 1, "b", 20), changed(3, cdc.Update, 1, "c", 10), // as of 12: c alone
		}
		r := rand.New(rand.NewPCG(1, 2))
		for n := range uint64(60) {
			operation := []cdc.Operation{cdc.Insert, cdc.Update, cdc.Update, cdc.Delete}[r.IntN(4)]
			log = append(log, changed(n+4, operation, 2+r.IntN(6), fmt.Sprint("v", n), r.IntN(30)))
		}
		x.append(t, def, log)
		var ats []int
		for at := range log {
			ats = append(ats, at)
		}
		checkHistory(t, x.engine, x.dialect, def, log, ats...)
		got := historyRows(t, x.engine, def, artifact.AsOfTime(x.dialect, def, "2026-01-01 12:00:00"))
		if v := got["1"].Values[1]; v != "c" {
			t.Errorf("as of 12 hours: %s, want c", v)
		}
	})
}

func TestTranslatedErasure(t *testing.T) {
	dialects(t, func(t *testing.T, x *translated) {
		def := x.pipeline.ByTarget("d", "keyed")
		x.view(t, def, "current")
		x.append(t, def, deliver(100, 4))
		x.native(t, "CREATE TABLE d.keyed_folded AS SELECT * FROM d.keyed_current")
		text := strings.NewReplacer("${id}", "'w'", "${tenant}", "101").Replace(statement(t, x.pipeline, string(x.dialect)+"/d.keyed.erase.sql"))
		deletes := 0
		for _, s := range statements(text) {
			if strings.HasPrefix(s, "DELETE FROM") {
				x.run(t, s)
				deletes++
			}
		}
		if deletes != 2 {
			t.Fatalf("%d statements delete, want 2", deletes)
		}
		for _, from := range []string{"d.keyed", "d.keyed_folded"} {
			if n := *x.native(t, "SELECT count(*) FROM "+from+" WHERE id = 'w' AND tenant = 101")[0][0]; n != "0" {
				t.Errorf("%s still has %s rows of the person", from, n)
			}
			if n := *x.native(t, "SELECT count(*) FROM "+from+" WHERE id = 'w'")[0][0]; n == "0" {
				t.Errorf("%s has lost the rows of others", from)
			}
		}
		if n := *x.native(t, "SELECT count(*) FROM d.keyed WHERE cdc_old_key = '[\"w\",\"101\"]'")[0][0]; n != "0" {
			t.Errorf("%s rows still tell the old key", n)
		}
	})
}
