package reconcile_test

import (
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/reconciletest"
)

// What is late is not different, what is lost is, and what cannot be told is
// neither.
func TestSettle(t *testing.T) {
	differs := []reconcile.Finding{finding(reconcile.Differs, 7, 1)}
	type want struct {
		verdict                        reconcile.Verdict
		findings                       []reconcile.Finding
		inFlight, unsettled, undecided int
	}
	tests := []struct {
		name    string
		prepare func(*world)
		options reconcile.Options
		want    want
	}{
		{"nothing differs", func(*world) {}, reconcile.Options{}, want{verdict: reconcile.Equal}},
		{"late", func(w *world) {
			w.setSource(7, "new")
			w.after(4*time.Second, func(w *world) { w.setLake(7, "new", begin) })
		}, reconcile.Options{}, want{verdict: reconcile.Equal, inFlight: 1}},
		{"very late: the lake stands still while the source moves on", func(w *world) {
			w.setSource(7, "new")
			for i := range 200 {
				w.after(time.Duration(i)*time.Second, func(w *world) { w.setSource(100+i, noted(100+i, "more")[1].Text) })
			}
			for i := range 200 {
				w.after(150*time.Second, func(w *world) { w.setLake(100+i, "more", begin.Add(150*time.Second)) })
			}
			w.after(150*time.Second, func(w *world) { w.setLake(7, "new", begin.Add(150*time.Second)) })
		}, reconcile.Options{Retries: 200}, want{verdict: reconcile.Equal, inFlight: 1}},
		{"lost, and the lake goes on", func(w *world) {
			w.setSource(7, "new")
			for i := 1; i < 60; i++ {
				w.after(time.Duration(i)*time.Second, func(w *world) {
					w.setSource(50, "at "+w.now.String())
					w.setLake(50, "at "+w.now.String(), w.now)
				})
			}
		}, reconcile.Options{}, want{verdict: reconcile.Different, findings: differs}},
		{"lost, and nothing moves", func(w *world) { w.setSource(7, "new") }, reconcile.Options{}, want{verdict: reconcile.Different, findings: differs}},
		{"lost, or the sink is dead", func(w *world) {
			w.setSource(7, "new")
			for i := 1; i < 600; i++ {
				w.after(time.Duration(i)*time.Second, func(w *world) { w.setSource(50, "at "+w.now.String()) })
			}
		}, reconcile.Options{Retries: 8}, want{verdict: reconcile.Inconclusive, undecided: 1}},
		{"keeps changing", func(w *world) {
			w.setSource(7, "new")
			for i := 1; i < 600; i++ {
				w.after(time.Duration(i)*time.Second, func(w *world) {
					w.setSource(7, "at "+w.now.String())
					w.setLake(50, noted(50, "other")[1].Text, w.now)
					w.setLake(50, changesRow(50)[1].Text, w.now)
				})
			}
		}, reconcile.Options{Retries: 6}, want{verdict: reconcile.Inconclusive, unsettled: 1}},
		{"changes, then is lost", func(w *world) {
			w.setSource(7, "new")
			w.after(5*time.Second, func(w *world) { w.setSource(7, "newer") })
		}, reconcile.Options{}, want{verdict: reconcile.Different, findings: differs}},
		{"the lake was ahead", func(w *world) {
			w.setLake(7, "new", begin)
			w.after(time.Second, func(w *world) { w.setSource(7, "new") })
		}, reconcile.Options{}, want{verdict: reconcile.Equal, inFlight: 1}},
		{"changes once, or the sink is dead", func(w *world) {
			w.setSource(7, "new")
			w.after(5*time.Second, func(w *world) { w.setSource(7, "newer") })
			for i := 1; i < 600; i++ {
				w.after(time.Duration(i)*time.Second, func(w *world) { w.setSource(50, "at "+w.now.String()) })
			}
		}, reconcile.Options{Retries: 8}, want{verdict: reconcile.Inconclusive, undecided: 1}},
		{"a finding outweighs what is unsettled", func(w *world) {
			w.setSource(7, "new")
			for i := 1; i < 600; i++ {
				w.after(time.Duration(i)*time.Second, func(w *world) {
					w.setSource(9, "at "+w.now.String())
					w.setLake(50, changesRow(50)[1].Text, w.now)
				})
			}
			w.setSource(9, "first")
		}, reconcile.Options{}, want{verdict: reconcile.Different, findings: differs, unsettled: 1}},
		{"a connection is lost and comes back", func(w *world) {
			w.setSource(7, "new")
			w.after(time.Second, func(w *world) { w.failing = 2 })
		}, reconcile.Options{}, want{verdict: reconcile.Different, findings: differs}},
		{"the connection stays lost", func(w *world) {
			w.setSource(7, "new")
			w.after(time.Second, func(w *world) { w.failing = 1 << 30 })
		}, reconcile.Options{Retries: 5}, want{verdict: reconcile.Inconclusive, undecided: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.prepare(w)
			got := w.run(t, tt.options)
			have := want{got.Verdict, got.Findings, got.InFlight, got.Unsettled, got.Undecided}
			if diff := gocmp.Diff(tt.want, have, gocmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("after %d looks, why %q (-want +got):\n%s", w.waits, got.Why, diff)
			}
			if (got.Verdict == reconcile.Inconclusive) != (got.Why != "") && got.Verdict != reconcile.Different {
				t.Errorf("%s, why %q", got.Verdict, got.Why)
			}
		})
	}
}

// A row that changes and changes back is not mistaken for one that stood still.
func TestSettleNeedsTheLakeToBePast(t *testing.T) {
	w := newWorld()
	w.setSource(7, "b")
	w.newest = begin.Add(-time.Minute)
	for i := 1; i < 40; i++ { // the lake holds everything up to 15 s ago
		w.after(time.Duration(i)*time.Second, func(w *world) {
			w.setSource(50, "x")
			if lagged := w.now.Add(-15 * time.Second); lagged.After(begin) {
				w.setLake(7, "b", lagged)
				w.setLake(50, "x", lagged)
			}
		})
	}
	if got := w.run(t, reconcile.Options{Settle: 2 * time.Second}); got.Verdict != reconcile.Equal || got.InFlight == 0 {
		t.Errorf("a lag of 15 s with a settle time of 2 s: %s %+v %s", got.Verdict, got.Counts, got.Why)
	}
}

// Tables of a lake are committed apart: one of them going on says nothing of
// another, until it is ahead by more than they ever are.
func TestSettleTablesApart(t *testing.T) {
	const idle = 15 * time.Minute
	late := newWorld()
	late.setSource(7, "new")
	var notYet []int
	for i := 1; i < 3600; i++ {
		late.after(time.Duration(i)*time.Second, func(w *world) { // a write a second, and a commit of this table every 300 s
			key := 100 + i%400
			w.setSource(key, "at "+w.now.String())
			notYet = append(notYet, key)
			if i%120 == 0 { // the other table: what is a minute old
				w.others = w.now.Add(-time.Minute)
			}
			if i%300 != 0 {
				return
			}
			for _, key := range append(notYet, 7) {
				w.setLake(key, w.source[key][1].Text, w.now)
			}
			notYet = nil
		})
	}
	if got := late.run(t, reconcile.Options{Settle: 30 * time.Second, Idle: idle, Retries: 40}); got.Counts.Total() > 0 || got.InFlight == 0 {
		t.Errorf("a table that is committed every 300 s: %s %+v, %d in flight, %s", got.Verdict, got.Counts, got.InFlight, got.Why)
	}
	for _, tt := range []struct {
		name  string
		ahead time.Duration
		want  reconcile.Verdict
	}{{"not ahead enough", idle - time.Minute, reconcile.Inconclusive}, {"ahead", 2 * idle, reconcile.Different}} {
		lost := newWorld()
		lost.setSource(7, "new")
		for i := 1; i < 120; i++ {
			lost.after(time.Duration(i)*time.Minute, func(w *world) {
				w.marks[0]++
				w.others = begin.Add(min(tt.ahead, w.now.Sub(begin)))
			})
		}
		if got := lost.run(t, reconcile.Options{Settle: 30 * time.Second, Idle: idle, Retries: 40}); got.Verdict != tt.want || got.Undecided+int(got.Counts.Total()) != 1 {
			t.Errorf("a lost change in a table without others, the other tables %s: %s %+v, %s", tt.name, got.Verdict, got.Counts, got.Why)
		}
	}
}

// What the lake was seen to be late replaces a settle time that is less.
func TestSettleMeasuresTheLag(t *testing.T) {
	w := newWorld()
	w.setSource(7, "new")
	for i := 1; i < 30; i++ {
		w.after(time.Duration(i)*time.Minute, func(w *world) { // a shard's change is a commit later than another's
			w.setSource(50, "x")
			w.setLake(50, "x", w.now)
			if i == 2 {
				w.setLake(7, "new", w.now)
			}
		})
	}
	if got := w.run(t, reconcile.Options{Settle: 5 * time.Second, Idle: 15 * time.Minute, Retries: 30}); got.Verdict != reconcile.Equal || got.InFlight != 1 {
		t.Errorf("commits every minute, a settle time of 5 s: %s %+v %s", got.Verdict, got.Counts, got.Why)
	}
}

// A row that goes back and forth, and is behind in the lake, looks the same at
// every look where the source has no stamps. The lake has them.
func TestSettleRowsThatGoBackAndForth(t *testing.T) {
	w := newWorld()
	w.setSource(7, "a")
	w.setLake(7, "b", begin.Add(-time.Second))
	for i := 1; i < 600; i++ {
		w.after(time.Duration(i)*time.Second, func(w *world) {
			w.marks[0]++
			w.stamp++ // the lake's row was "a" meanwhile, as the source's was "b"
			w.setLake(50, changesRow(50)[1].Text, w.now)
		})
	}
	if got := w.run(t, reconcile.Options{}); got.Verdict != reconcile.Inconclusive || got.Unsettled != 1 {
		t.Errorf("%s %+v %s", got.Verdict, got.Counts, got.Why)
	}
}

// A load that is not finished makes findings inconclusive, and proves nothing
// against equal rows.
func TestOpenLoad(t *testing.T) {
	p := reconciletest.Pipeline(t)
	table := reconciletest.Table(t, p, reconciletest.Changes)
	table.Loads = []catalog.LoadStart{{Since: begin, Finished: true}, {Since: begin}}
	rows := []reconciletest.Row{changesRow(1), changesRow(2)}
	for _, tt := range []struct {
		lake []reconciletest.Row
		want reconcile.Verdict
	}{{rows, reconcile.Equal}, {rows[:1], reconcile.Inconclusive}, {append(rows, changesRow(3)), reconcile.Inconclusive}} {
		report, err := reconcile.Run(t.Context(), p, memory(table.Source, rows, 0), memory(table.Source, tt.lake, 0), reconcile.Options{Tables: []string{table.Source}})
		if err != nil {
			t.Fatal(err)
		}
		got := report.Tables[0]
		if got.Verdict != tt.want || tt.want == reconcile.Inconclusive && !strings.Contains(got.Why, "load") {
			t.Errorf("%d rows in the lake: %s, %s; want %s", len(tt.lake), got.Verdict, got.Why, tt.want)
		}
	}
}

// Stale rows say how far they are behind, the oldest first.
func TestStale(t *testing.T) {
	p, err := catalog.Parse("pipeline.yaml", []byte(`version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - {source: s.t, mode: mirror, key: [id], columns: [{name: id, type: long}, {name: at, type: timestamptz}, {name: n, type: "decimal(12,2)"}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	row := func(id, at, n string) reconciletest.Row {
		return reconciletest.MakeRow(id, "2026-11-01T"+at+".000000Z", n)
	}
	source := []reconciletest.Row{row("1", "00:00:10", "5.00"), row("2", "00:01:00", "7.50"), row("3", "00:00:00", "1.00"), row("4", "00:00:00", "1.00"), row("5", "00:00:05", "9.00")}
	lake := []reconciletest.Row{row("1", "00:00:09", "4.00"), row("2", "00:00:30", "7.25"), row("3", "00:00:01", "2.00"), row("5", "00:00:05", "8.00")}
	type stale struct {
		Kind   reconcile.Kind
		Key    string
		Behind reconcile.Behind
	}
	for column, want := range map[string][]stale{
		"at": {{reconcile.Stale, "1", reconcile.Behind{Seconds: 1}}, {reconcile.Stale, "2", reconcile.Behind{Seconds: 30}}, {reconcile.Differs, "3", reconcile.Behind{}}, {reconcile.Missing, "4", reconcile.Behind{}}, {reconcile.Differs, "5", reconcile.Behind{}}},
		"n":  {{reconcile.Stale, "1", reconcile.Behind{Versions: "1"}}, {reconcile.Stale, "2", reconcile.Behind{Versions: "0.250000"}}, {reconcile.Stale, "5", reconcile.Behind{Versions: "1"}}, {reconcile.Differs, "3", reconcile.Behind{}}, {reconcile.Missing, "4", reconcile.Behind{}}},
		"":   {{reconcile.Differs, "1", reconcile.Behind{}}, {reconcile.Differs, "2", reconcile.Behind{}}, {reconcile.Differs, "3", reconcile.Behind{}}, {reconcile.Missing, "4", reconcile.Behind{}}, {reconcile.Differs, "5", reconcile.Behind{}}},
	} {
		report, err := reconcile.Run(t.Context(), p, memory("s.t", source, 0), memory("s.t", lake, 0), reconcile.Options{Version: column})
		if err != nil {
			t.Fatal(err)
		}
		var got []stale
		for _, f := range report.Tables[0].Findings {
			s := stale{Kind: f.Kind, Key: f.Key[0]}
			if f.Behind != nil {
				s.Behind = reconcile.Behind{Seconds: f.Behind.Seconds, Versions: f.Behind.Versions}
			}
			got = append(got, s)
		}
		if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(reconcile.Behind{}), gocmp.FilterPath(func(p gocmp.Path) bool { return strings.HasPrefix(p.Last().String(), ".l") }, gocmp.Ignore())); diff != "" {
			t.Errorf("version %q (-want +got):\n%s", column, diff)
		}
	}
}
