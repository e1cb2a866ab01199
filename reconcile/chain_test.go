package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/reconciletest"
)

// A chain is runs, each shorter than a difference takes to count, that go on
// with one checkpoint.
type chain struct {
	*world
	store   *memoryCheckpoint
	options reconcile.Options
	long    time.Duration // a run
	opened  []string      // tables of the source, in order
	broken  string        // a table of the source that cannot be opened
}

func newChain(w *world, o reconcile.Options) *chain {
	c := &chain{world: w, store: &memoryCheckpoint{}, options: o, long: 870 * time.Second}
	if c.options.Settle == 0 {
		c.options.Settle = 15 * time.Minute
	}
	c.options.Checkpoint, c.options.Now = c.store, w.clock
	if c.options.Tables == nil {
		c.options.Tables = []string{reconciletest.Changes}
	}
	return c
}

func (c *chain) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	c.opened = append(c.opened, t.Source)
	if t.Source == c.broken {
		return nil, errLost
	}
	return side{c.world, false}.Open(ctx, t, exact)
}

func (c *chain) State(ctx context.Context, tables []*catalog.Table) (reconcile.State, error) {
	return side{c.world, false}.State(ctx, tables)
}

// run is the next run, six hours after the one before.
func (c *chain) run(t *testing.T) *reconcile.Report {
	t.Helper()
	if c.store.saves > 0 {
		if err := c.wait(t.Context(), 6*time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	began, at := time.Now(), c.clock() //nolint:forbidigo // what a timeout goes by
	o := c.options
	o.Timeout = c.long
	o.Wait = func(ctx context.Context, d time.Duration) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(d):
		}
		return c.wait(ctx, max(at.Add(time.Since(began)).Sub(c.clock()), 0))
	}
	c.opened = nil
	p := reconciletest.Pipeline(t)
	slices.Reverse(p.Tables) // Changes before History
	report, err := reconcile.Run(t.Context(), p, c, side{c.world, true}, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// table is what the next run says of the first table.
func (c *chain) table(t *testing.T) *reconcile.TableReport {
	t.Helper()
	return &c.run(t).Tables[0]
}

// busy lets the source move, and the lake not.
func (w *world) busy(long time.Duration) {
	const each = 10 * time.Minute
	for i := 1; i < int(long/each); i++ {
		w.after(time.Duration(i)*each, func(w *world) { w.marks[0]++ })
	}
}

// What was seen of how far the lake has come is seen by the next run: also of a
// heartbeat, and of a source that is behind by more than a run takes.
func TestProofsOverRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.setSource(7, "lost")
		w.busy(48 * time.Hour)
		c := newChain(w, reconcile.Options{Watermark: func(context.Context) (reconcile.Watermark, error) {
			return reconcile.Watermark{Time: w.clock().Add(-time.Minute)}, nil
		}})
		if got := c.table(t); got.Verdict != reconcile.Inconclusive || got.Undecided != 1 {
			t.Fatalf("with a heartbeat: %s %+v", got.Verdict, got.Counts)
		}
		if got := c.table(t); got.Verdict != reconcile.Different || got.Undecided != 0 {
			t.Errorf("with a heartbeat, then: %s, %s", got.Verdict, got.Why)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.follows = true
		w.setSource(7, "lost")
		for i := range 600 {
			w.after(time.Duration(i)*time.Minute*5, func(w *world) {
				w.through = w.now.Add(-time.Hour)
				w.setLake(50, changesRow(50)[1].Text, w.now)
			})
		}
		c := newChain(w, reconcile.Options{})
		c.long = 10 * time.Second // no look
		for n := range 3 {
			got := c.table(t)
			if want := n == 2; (got.Verdict == reconcile.Different) != want {
				t.Errorf("an hour behind, run %d: %s, %s", n, got.Verdict, got.Why)
			}
			c.long = 870 * time.Second
		}
	})
}

// A chain does not go on for ever when looks are all that it adds.
func TestChainEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.setSource(7, "lost")
		w.busy(72 * time.Hour)
		c := newChain(w, reconcile.Options{})
		for n := range 6 {
			saves := c.store.saves
			c.table(t)
			if saved := c.store.saves > saves; saved != (n < 4) {
				t.Errorf("run %d: saved %v", n, saved)
			}
		}
	})
}

// Of more keys than are looked at again at once a run keeps those that it saw,
// and the next one looks at them before it reads the rest.
func TestManyLostOverRuns(t *testing.T) {
	for _, slice := range []int64{0, 5000} {
		for name, arrives := range map[string]bool{"lost": false, "in flight": true} {
			synctest.Test(t, func(t *testing.T) {
				w := crowdedWorld(20_000)
				w.lake = nil
				w.busy(72 * time.Hour)
				c := newChain(w, reconcile.Options{MaxFindings: 10, SliceRows: slice})
				if got := c.table(t); got.Verdict != reconcile.Inconclusive || got.Undecided == 0 {
					t.Fatalf("%s: %s %+v", name, got.Verdict, got.Counts)
				}
				w.newest = w.now // of other rows
				w.marks[1]++
				want := reconcile.Different
				if arrives {
					w.lake, want = slices.Clone(w.source), reconcile.Equal
				} else {
					w.newest = w.now.Add(5 * time.Hour)
				}
				got := c.table(t)
				if got.Verdict != want || got.Undecided+got.Unsettled != 0 {
					t.Errorf("%s in slices of %d, then: %s %+v, %d undecided, %d unsettled: %s", name, slice, got.Verdict, got.Counts, got.Undecided, got.Unsettled, got.Why)
				}
				if arrives && (*got.Source.Rows != 20_000 || *got.Lake.Rows != 20_000 || got.InFlight == 0) || !arrives && got.UnreadBuckets == 0 {
					t.Errorf("%s in slices of %d: %+v", name, slice, got)
				}
			})
		}
	}
}

// A slice that is begun again and again keeps what was seen of its keys.
func TestSliceBegunAnewKeepsMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := crowdedWorld(20_000)
		w.lake = nil
		w.busy(72 * time.Hour)
		c := newChain(w, reconcile.Options{MaxFindings: 10, Retries: 4})
		first := c.table(t).Undecided
		// The lake has not moved: its looks end, and the slice is read once more.
		if got := c.table(t); got.Undecided != first || strings.Contains(got.Why, "no more rows") {
			t.Errorf("%d undecided, then %d: %s", first, got.Undecided, got.Why)
		}
		w.newest = begin.Add(5 * time.Hour) // past the first run, not Settle past the second
		w.marks[1]++
		if got := c.table(t); got.Verdict != reconcile.Different {
			t.Errorf("%s, %s", got.Verdict, got.Why)
		}
	})
}

// So it does when some of its keys have agreed.
func TestSliceBegunInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := crowdedWorld(20_000)
		w.lake = nil
		w.busy(72 * time.Hour)
		w.after(100*time.Second, func(w *world) { w.lake, w.marks[1] = w.source[:10_000], 1 })
		c := newChain(w, reconcile.Options{MaxFindings: 10})
		if got := c.table(t); got.Verdict != reconcile.Inconclusive || got.Undecided >= 160 || got.InFlight == 0 {
			t.Fatalf("%s, %d undecided, %d in flight", got.Verdict, got.Undecided, got.InFlight)
		}
		w.newest = begin.Add(5 * time.Hour)
		if got := c.table(t); got.Verdict != reconcile.Different || got.UnreadBuckets == 0 || got.Undecided != 0 {
			t.Errorf("%s, %d undecided, %s", got.Verdict, got.Undecided, got.Why)
		}
	})
}

// More keys that cannot be told than there is room for end the reading, and are
// not given up: it goes on when they can be told.
func TestMoreSuspectsThanRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := crowdedWorld(20_000)
		for key := 0; key < 20_000; key += 50 {
			w.setSource(key, "new")
		}
		w.busy(72 * time.Hour)
		c := newChain(w, reconcile.Options{MaxFindings: 10, SliceRows: 1000})
		c.long = 6 * time.Hour
		if got := c.table(t); got.Verdict != reconcile.Inconclusive || got.Undecided < 160 || got.Undecided > 320 || *got.Source.Rows == 20_000 {
			t.Fatalf("%s, %d undecided, %d rows", got.Verdict, got.Undecided, *got.Source.Rows)
		}
		w.lake = slices.Clone(w.source)
		w.marks[1]++
		if got := c.table(t); got.Verdict != reconcile.Equal || *got.Source.Rows != 20_000 || got.Undecided != 0 {
			t.Errorf("then %s, %d undecided, %d rows: %s", got.Verdict, got.Undecided, *got.Source.Rows, got.Why)
		}
	})
}

// hot changes a key faster than the lake lags.
func (w *world) hot(key int) {
	w.setSource(key, "hot")
	for i := 1; i < 24*60; i++ {
		w.after(time.Duration(i)*time.Minute, func(w *world) { w.setSource(key, fmt.Sprint(i)) })
	}
}

// A table that waits keeps no other from being read, and one that only waits is
// not the first.
func TestWaitingTablesGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.hot(7)
		c := newChain(w, reconcile.Options{Tables: []string{reconciletest.Changes, reconciletest.History}})
		c.broken = reconciletest.History
		for _, r := range c.run(t).Tables {
			if r.Verdict != reconcile.Inconclusive || r.Table == reconciletest.History && !strings.Contains(r.Why, errLost.Error()) {
				t.Fatalf("%s is %s: %s", r.Table, r.Verdict, r.Why)
			}
		}
		c.broken = ""
		for _, r := range c.run(t).Tables {
			if want := r.Table == reconciletest.History; (r.Verdict == reconcile.Equal) != want {
				t.Errorf("%s is %s: %s", r.Table, r.Verdict, r.Why)
			}
		}
		if c.opened[0] != reconciletest.History {
			t.Errorf("%s was read first", c.opened[0])
		}
	})
}

// A slice's suspects are looked at in the end: the next slices are read before.
func TestSlicesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := crowdedWorld(4000)
		for _, key := range []int{7, 2000, 3999} {
			w.hot(key)
		}
		c := newChain(w, reconcile.Options{SliceRows: 500})
		if got := c.table(t); got.Source.Rows == nil || *got.Source.Rows != 4000 {
			t.Errorf("not all was read: %+v", got.Source)
		}
	})
}

// What is different so far is told once, also of a table that its time cut off.
func TestPartialIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.setSource(7, "lost")
		w.hot(9)
		w.newest = begin.Add(time.Hour)
		c := newChain(w, reconcile.Options{})
		for n := range 3 {
			report := c.run(t)
			got := report.Tables[0]
			if got.Verdict != reconcile.Different || got.Unsettled != 1 || got.Told != (n > 0) {
				t.Errorf("run %d: %s, %d unsettled, told %v", n, got.Verdict, got.Unsettled, got.Told)
			}
			if n > 0 {
				continue
			}
			if err := reconcile.Told(t.Context(), c.store, report); err != nil {
				t.Fatal(err)
			}
		}
	})
	// A table of which nothing is kept is noted too.
	w := newWorld()
	w.setSource(7, "lost")
	store := &memoryCheckpoint{}
	o := reconcile.Options{Tables: []string{reconciletest.Changes, reconciletest.History}, Checkpoint: store}
	ctx, cancel := context.WithCancel(t.Context())
	cut := &cutAfter{Reader: side{w, false}, left: 1, cut: cancel}
	if _, err := reconcile.Run(ctx, reconciletest.Pipeline(t), cut, side{w, true}, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := reconcile.Told(t.Context(), store, &reconcile.Report{Tables: []reconcile.TableReport{{Table: reconciletest.Changes, Verdict: reconcile.Different}}}); err != nil {
		t.Fatal(err)
	}
	report, err := reconcile.Run(t.Context(), reconciletest.Pipeline(t), side{w, false}, side{w, true}, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Tables {
		if told := r.Verdict == reconcile.Different; told != (r.Table == reconciletest.Changes) || told && !r.Told {
			t.Errorf("%s is %s, told %v", r.Table, r.Verdict, r.Told)
		}
	}
}
