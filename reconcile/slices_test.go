package reconcile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/reconciletest"
)

// rowCounter counts the rows that are read at once.
type rowCounter struct {
	reconcile.Reader
	most int
}

func (c *rowCounter) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	v, err := c.Reader.Open(ctx, t, exact)
	return countedView{v, c}, err
}

type countedView struct {
	reconcile.View
	counter *rowCounter
}

func (v countedView) Rows(ctx context.Context, part reconcile.Part) iter.Seq2[reconcile.Row, error] {
	return func(yield func(reconcile.Row, error) bool) {
		n := 0
		for row, err := range v.View.Rows(ctx, part) {
			n++
			v.counter.most = max(v.counter.most, n)
			if !yield(row, err) {
				return
			}
		}
	}
}

func manyChanges(n int) (rows []reconciletest.Row) {
	for key := range n {
		rows = append(rows, changesRow(key))
	}
	return rows
}

// What a table is estimated to hold bounds nothing: rows in memory are bounded
// by what was counted, slices too.
func TestRowsInMemory(t *testing.T) {
	for _, o := range []reconcile.Options{
		{MaxRows: 2000, MaxFindings: 100},
		{MaxRows: 2000, MaxFindings: 100, Sample: 0.5},
		{MaxRows: 2000, MaxFindings: 50_000, SliceRows: 10_000},
	} {
		source := &rowCounter{Reader: memory(reconciletest.Changes, manyChanges(30_000), 1)}
		o.Tables = []string{reconciletest.Changes}
		report, err := reconcile.Run(t.Context(), reconciletest.Pipeline(t), source, memory(reconciletest.Changes, manyChanges(10), 1), o)
		if err != nil {
			t.Fatal(err)
		}
		got := report.Tables[0]
		if got.Verdict != reconcile.Different || o.Sample == 0 && got.Buckets != 128 || source.most == 0 || source.most > 2000 {
			t.Errorf("%s, %d buckets, %d rows read at once: want 128 and at most 2000", got.Verdict, got.Buckets, source.most)
		}
		if o.SliceRows > 0 && (got.Counts.Missing != 29_990 || *got.Source.Rows != 30_000 || *got.Lake.Rows != 10) {
			t.Errorf("in slices: %+v, %d rows and %d", got.Counts, *got.Source.Rows, *got.Lake.Rows)
		}
	}
}

// A key that has many rows, or equal rows without a key, are no reason for more
// buckets: they stay together.
func TestHotBucket(t *testing.T) {
	var rows []reconciletest.Row
	for i := range 26_000 {
		rows = append(rows, reconciletest.MakeRow(fmt.Sprint(max(i, 6000)), "1.00"))
	}
	got := runTable(t, reconciletest.History, rows, rows, reconcile.Options{SliceRows: 1000}, 0)
	if got.Verdict != reconcile.Equal || got.Buckets != 128 || *got.Source.Rows != 26_000 {
		t.Errorf("%s, %d buckets, %d rows", got.Verdict, got.Buckets, *got.Source.Rows)
	}
}

// crowdedWorld has more rows than the world of other tests.
func crowdedWorld(rows int) *world {
	w := newWorld()
	w.source = manyChanges(rows)
	w.lake = slices.Clone(w.source)
	return w
}

// However many keys differ, a bounded number is looked at again.
func TestSuspectsInMemory(t *testing.T) {
	for _, keys := range []map[string]*reconcile.Keys{nil, {reconciletest.Changes: changesKeys(t, numbers(20_000)...)}} {
		w := crowdedWorld(20_000)
		w.lake = nil
		most := 0
		got := w.run(t, reconcile.Options{Keys: keys, MaxFindings: 10, Progress: func(p reconcile.Progress) { most = max(most, p.Suspects) }})
		if got.Verdict != reconcile.Different || most == 0 || most > 160+300 || got.UnreadBuckets == 0 || got.UnreadBuckets >= got.DifferingBuckets {
			t.Errorf("%s, %d suspects, %d of %d buckets unread", got.Verdict, most, got.UnreadBuckets, got.DifferingBuckets)
		}
	}
}

func numbers(n int) (texts []string) {
	for i := range n {
		texts = append(texts, fmt.Sprint(i))
	}
	return texts
}

// More keys in flight than are looked at again at once are no reason to tell
// nothing: what was not read is compared once more.
func TestManyInFlight(t *testing.T) {
	for _, keys := range []map[string]*reconcile.Keys{nil, {reconciletest.Changes: changesKeys(t, numbers(20_000)...)}} {
		w := crowdedWorld(20_000)
		w.lake = nil
		w.marks[1]++
		w.after(4*time.Second, func(w *world) {
			w.lake = slices.Clone(w.source)
			w.marks[1]++
		})
		got := w.run(t, reconcile.Options{Keys: keys, MaxFindings: 10})
		if got.Verdict != reconcile.Equal || got.UnreadBuckets != 0 || got.InFlight == 0 || *got.Source.Rows != 20_000 {
			t.Errorf("%s (%s), %d buckets unread, %d in flight, %d rows", got.Verdict, got.Why, got.UnreadBuckets, got.InFlight, *got.Source.Rows)
		}
		// Rows that are lost among them are found in a later round.
		w = crowdedWorld(20_000)
		w.lake = nil
		w.after(4*time.Second, func(w *world) {
			w.lake = slices.Clone(w.source[:19_990])
			w.marks[1]++
		})
		if got := w.run(t, reconcile.Options{Keys: keys, MaxFindings: 10}); got.Verdict != reconcile.Different || got.Counts != (reconcile.Counts{Missing: 10}) {
			t.Errorf("ten are lost: %s (%s) %+v", got.Verdict, got.Why, got.Counts)
		}
	}
}

// What was in flight agrees soon, however long a difference takes to count: a
// run that has little time is not spent on waiting.
func TestInFlightIsSeenSoon(t *testing.T) {
	w := newWorld()
	w.setSource(7, "new")
	w.after(20*time.Second, func(w *world) { w.setLake(7, "new", begin) })
	got := w.run(t, reconcile.Options{Settle: 15 * time.Minute})
	if took := w.now.Sub(begin); got.Verdict != reconcile.Equal || got.InFlight != 1 || took > time.Minute {
		t.Errorf("%s after %s, %d in flight", got.Verdict, took, got.InFlight)
	}
}

// A key that cannot be told does not keep the slices of its table from being
// kept: another run looks at it again, and at the rest of the table.
func TestCheckpointWithSuspects(t *testing.T) {
	for name, slice := range map[string]int64{"in slices": 500, "whole": 0} {
		t.Run(name, func(t *testing.T) {
			w := crowdedWorld(4000)
			for _, key := range []int{7, 2000, 3999} {
				w.setSource(key, "new")
			}
			for i := 1; i < 6000; i++ { // it is never quiet
				w.after(time.Duration(i)*time.Second, func(w *world) { w.marks[0]++ })
			}
			store := &memoryCheckpoint{}
			o := reconcile.Options{Tables: []string{reconciletest.Changes}, Settle: 10 * time.Second, Retries: 3, Now: w.clock, Wait: w.wait, Checkpoint: store, SliceRows: slice}
			ctx, cancel := context.WithCancel(t.Context())
			left := 9
			if slice == 0 {
				left = 3
			}
			source := &cutAfter{Reader: side{w, false}, left: left, cut: cancel}
			_, err := reconcile.Run(ctx, reconciletest.Pipeline(t), source, side{w, true}, o)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("the run that was cut off: %v", err)
			}
			var saved struct {
				Tables map[string]struct {
					Next int
					Left []any
				}
			}
			if err := json.Unmarshal(store.data, &saved); err != nil {
				t.Fatalf("checkpoint %s: %v", store.data, err)
			}
			if s := saved.Tables[reconciletest.Changes]; s.Next == 0 || len(s.Left) == 0 {
				t.Fatalf("next %d, %d keys left", s.Next, len(s.Left))
			}
			// Meanwhile one of the changes arrived, and the lake has later ones.
			w.now = w.now.Add(time.Hour)
			w.setLake(7, "new", w.now)
			for i := 1; i < 600; i++ {
				w.after(time.Duration(i)*time.Second, func(w *world) { w.setLake(50, changesRow(50)[1].Text, w.now) })
			}
			counted := &cutAfter{Reader: side{w, false}, left: 1 << 30}
			o.Retries = 20
			report, err := reconcile.Run(t.Context(), reconciletest.Pipeline(t), counted, side{w, true}, o)
			if err != nil {
				t.Fatal(err)
			}
			got := report.Tables[0]
			if got.Verdict != reconcile.Different || got.Counts != (reconcile.Counts{Differs: 2}) || got.InFlight != 1 || got.Undecided+got.Unsettled != 0 || *got.Source.Rows != 4000 {
				t.Errorf("%s %+v, %d in flight, %d undecided, %d unsettled, %d rows: %s", got.Verdict, got.Counts, got.InFlight, got.Undecided, got.Unsettled, *got.Source.Rows, got.Why)
			}
		})
	}
}

// Runs that are shorter than a difference takes to count find it together, also
// where nothing moves.
func TestSettlesOverRuns(t *testing.T) {
	for name, during := range map[string]func(*world){
		"nothing moves":    func(*world) {},
		"the lake goes on": func(w *world) { w.setLake(50, changesRow(50)[1].Text, w.now.Add(-time.Minute)) },
	} {
		w := newWorld()
		w.setSource(7, "lost")
		store := &memoryCheckpoint{}
		o := reconcile.Options{Settle: 15 * time.Minute, Retries: 3, Checkpoint: store}
		if got := w.run(t, o); got.Verdict != reconcile.Inconclusive || got.Undecided != 1 || w.now.Sub(begin) > 15*time.Minute || store.data == nil {
			t.Fatalf("%s: %s after %s", name, got.Verdict, w.now.Sub(begin))
		}
		w.now = w.now.Add(6 * time.Hour)
		during(w)
		if got := w.run(t, o); got.Verdict != reconcile.Different || got.Counts != (reconcile.Counts{Differs: 1}) || got.Undecided != 0 {
			t.Errorf("%s: then %s %+v: %s", name, got.Verdict, got.Counts, got.Why)
		}
	}
}

// What cannot be saved keeps nothing from being compared, and a difference that
// was found from being told.
func TestCheckpointFails(t *testing.T) {
	source, lake := someTables()
	store := &memoryCheckpoint{fail: errLost}
	report, err := reconcile.Run(t.Context(), reconciletest.Pipeline(t), &reconciletest.Memory{Tables: source}, &reconciletest.Memory{Tables: lake}, reconcile.Options{Checkpoint: store})
	if !errors.Is(err, errLost) || report == nil {
		t.Fatalf("report %v, error %v", report, err)
	}
	if report.Verdict() != reconcile.Different {
		t.Errorf("verdict %s", report.Verdict())
	}
	for _, table := range report.Tables {
		want := reconcile.Equal
		if table.Table == reconciletest.Changes {
			want = reconcile.Different
		}
		if table.Verdict != want {
			t.Errorf("%s is %s, want %s", table.Table, table.Verdict, want)
		}
	}
}

// Told tables are said to be so by the run that goes on, with the time at which
// they were decided.
func TestTold(t *testing.T) {
	source, lake := someTables()
	p := reconciletest.Pipeline(t)
	now := begin
	store := &memoryCheckpoint{}
	o := reconcile.Options{Checkpoint: store, Now: func() time.Time { return now }}
	ctx, cancel := context.WithCancel(t.Context())
	cut := &cutAfter{Reader: &reconciletest.Memory{Tables: source}, left: 2, cut: cancel}
	if _, err := reconcile.Run(ctx, p, cut, &reconciletest.Memory{Tables: lake}, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := reconcile.Told(t.Context(), store, &reconcile.Report{}); err != nil {
		t.Fatal(err)
	}
	now = begin.Add(time.Hour)
	report, err := reconcile.Run(t.Context(), p, &reconciletest.Memory{Tables: source}, &reconciletest.Memory{Tables: lake}, o)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, table := range report.Tables {
		at := now
		if table.Told {
			told++
			at = begin
		}
		if !table.DecidedAt.Equal(at) {
			t.Errorf("%s: told %v, decided at %s, want %s", table.Table, table.Told, table.DecidedAt, at)
		}
	}
	var out bytes.Buffer
	if err := report.WriteText(&out); err != nil || strings.Count(out.String(), ": decided by a run before, at 2026-11-01T00:00:00Z\n") != 2 {
		t.Errorf("text %s: %v", &out, err)
	}
	if told != 2 {
		t.Errorf("%d tables were told, want 2", told)
	}
	if err := reconcile.Told(t.Context(), &memoryCheckpoint{}, &reconcile.Report{}); err != nil {
		t.Errorf("no checkpoint: %v", err)
	}
}

// A checkpoint is of the lake's tables and of the source that the pipeline file
// names, and Since of a run that goes on is that of its beginning.
func TestCheckpointOfAnotherPipeline(t *testing.T) {
	const text = `version: 1
database: dev
source: {engine: postgresql, position: postgres}
tables:
  - {source: s.t, mode: mirror, key: [id], columns: &columns [{name: id, type: long}, {name: at, type: timestamptz}]}
  - {source: s.u, mode: mirror, key: [id], columns: *columns}
`
	rows := []reconciletest.Row{reconciletest.MakeRow("1", "2026-11-01T00:00:00.000000Z")}
	tables := &reconciletest.Memory{Tables: reconciletest.Tables{"s.t": rows, "s.u": rows}}
	store := &memoryCheckpoint{}
	halfway := func(o reconcile.Options) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		cut := &cutAfter{Reader: tables, left: 1, cut: cancel}
		if _, err := reconcile.Run(ctx, parse(t, text), cut, tables, o); !errors.Is(err, context.Canceled) || store.data == nil {
			t.Fatalf("the run that was cut off: %v", err)
		}
	}
	halfway(reconcile.Options{Checkpoint: store})
	for _, change := range [][2]string{
		{"database: dev", "database: prod"},
		{"engine: postgresql", "engine: oracle"},
		{"source: {", "epochs: [{epoch: 1, since: 2026-10-01T00:00:00Z}]\nsource: {"},
	} {
		p := parse(t, strings.Replace(text, change[0], change[1], 1))
		if _, err := reconcile.Run(t.Context(), p, tables, tables, reconcile.Options{Checkpoint: store}); !errors.Is(err, reconcile.ErrOtherRun) {
			t.Errorf("with %s: %v", change[1], err)
		}
	}
	since := func(from time.Time, text string) reconcile.Options {
		return reconcile.Options{Checkpoint: store, Since: &reconcile.Since{Column: "at", From: from, Text: text}}
	}
	store.data = nil
	halfway(since(begin, "24h"))
	saved := store.data
	if _, err := reconcile.Run(t.Context(), parse(t, text), tables, tables, since(begin.Add(time.Hour), "25h")); !errors.Is(err, reconcile.ErrOtherRun) {
		t.Errorf("another Since: %v", err)
	}
	store.data = saved
	report, err := reconcile.Run(t.Context(), parse(t, text), tables, tables, since(begin.Add(time.Hour), "24h"))
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Tables[1]; *got.Source.Rows != 1 || report.Tables[0].Scope != got.Scope {
		t.Errorf("%d rows of %q, after %q: want those from the first run's time on", *got.Source.Rows, got.Scope, report.Tables[0].Scope)
	}
}

func parse(t *testing.T, text string) *catalog.Pipeline {
	t.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
