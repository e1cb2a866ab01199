package reconcile_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/reconcile"
	"icehose/reconcile/reconciletest"
)

// A world is a source and a lake that change as time goes by, which it does
// only while somebody waits.
type world struct {
	mu      sync.Mutex
	now     time.Time
	source  []reconciletest.Row
	lake    []reconciletest.Row
	newest  time.Time // commit time that the lake holds
	marks   [2]int    // moved by every change
	follows bool      // the source follows another server
	through time.Time // what it has of that one's changes
	waits   int
	pending []event
	failing int // openings of the source that fail
}

type event struct {
	at time.Time
	do func(*world)
}

func newWorld() *world {
	w := &world{now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}
	for key := range 600 {
		w.source = append(w.source, changesRow(key))
	}
	w.lake = slices.Clone(w.source)
	return w
}

// after does something that long after the world began.
func (w *world) after(d time.Duration, do func(*world)) {
	w.pending = append(w.pending, event{w.now.Add(d), do})
}

func (w *world) wait(ctx context.Context, d time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits++
	end := w.now.Add(d)
	for {
		next := -1
		for i, e := range w.pending {
			if !e.at.After(end) && (next < 0 || e.at.Before(w.pending[next].at)) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		e := w.pending[next]
		w.pending = slices.Delete(w.pending, next, next+1)
		if e.at.After(w.now) {
			w.now = e.at
		}
		e.do(w)
	}
	w.now = end
	return ctx.Err()
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func noted(key int, note string) reconciletest.Row {
	row := slices.Clone(changesRow(key))
	row[1].Text = note
	return row
}

func (w *world) setSource(key int, note string) {
	w.source = slices.Clone(w.source)
	w.source[key] = noted(key, note)
	w.marks[0]++
}

// setLake lets the lake have a row, and with it everything committed before.
func (w *world) setLake(key int, note string, newest time.Time) {
	w.lake = slices.Clone(w.lake)
	w.lake[key] = noted(key, note)
	w.marks[1]++
	w.newest = newest
}

// A side of the world.
type side struct {
	*world
	isLake bool
}

func (s side) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := s.source
	if s.isLake {
		rows = s.lake
	} else if s.failing > 0 {
		s.failing--
		return nil, errLost
	}
	v, err := (&reconciletest.Memory{Tables: reconciletest.Tables{reconciletest.Changes: rows}}).Open(ctx, t, exact)
	if err != nil {
		return nil, err
	}
	pinned := v.Pinned()
	if s.isLake {
		pinned.Newest.Committed = s.newest
	} else {
		pinned.Time, pinned.Log = s.now, &reconcile.LogRange{High: s.logEnd()}
		if through := s.through; s.follows {
			pinned.Through = &through
		}
	}
	return sideView{View: v, pinned: pinned}, nil
}

// logEnd is where the source's log ends.
func (w *world) logEnd() cdc.Body { return cdc.Body{Hi: 1000 + uint64(w.marks[0])} }

func (s side) State(context.Context, []*catalog.Table) (reconcile.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isLake {
		return reconcile.State{Time: s.newest, Mark: strings.Repeat("x", 1+s.marks[1])}, nil
	}
	return reconcile.State{Time: s.now, Mark: strings.Repeat("x", 1+s.marks[0])}, nil
}

type sideView struct {
	reconcile.View
	pinned reconcile.Pinned
}

func (v sideView) Pinned() reconcile.Pinned { return v.pinned }

func (w *world) run(t *testing.T, o reconcile.Options) reconcile.TableReport {
	t.Helper()
	return w.runOf(t, reconciletest.Pipeline(t), o)
}

func (w *world) runOf(t *testing.T, p *catalog.Pipeline, o reconcile.Options) reconcile.TableReport {
	t.Helper()
	o.Tables, o.Now, o.Wait = []string{reconciletest.Changes}, w.clock, w.wait
	if o.Settle == 0 {
		o.Settle = 10 * time.Second
	}
	report, err := reconcile.Run(t.Context(), p, side{w, false}, side{w, true}, o)
	if err != nil {
		t.Fatal(err)
	}
	return report.Tables[0]
}

// begin is the world's first moment.
var begin = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

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
