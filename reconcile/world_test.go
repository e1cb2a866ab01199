package reconcile_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	others  time.Time // commit time that the lake holds of another table
	stamp   int       // of every row of the lake
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
	if t.Source != reconciletest.Changes {
		return (&reconciletest.Memory{Tables: reconciletest.Tables{t.Source: nil}}).Open(ctx, t, exact)
	}
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
	stamp := ""
	if s.isLake {
		pinned.Newest.Committed, stamp = s.newest, fmt.Sprint(s.stamp)
	} else {
		pinned.Time, pinned.Log = s.now, &reconcile.LogRange{High: s.logEnd()}
		if through := s.through; s.follows {
			pinned.Through = &through
		}
	}
	return sideView{View: v, pinned: pinned, stamp: stamp}, nil
}

// logEnd is where the source's log ends.
func (w *world) logEnd() cdc.Body { return cdc.Body{Hi: 1000 + uint64(w.marks[0])} }

func (s side) State(_ context.Context, tables []*catalog.Table) (reconcile.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isLake {
		state := reconcile.State{Time: s.newest, Mark: strings.Repeat("x", 1+s.marks[1])}
		if len(tables) > 1 {
			state.Mark += s.others.String()
			if s.others.After(s.newest) {
				state.Time = s.others
			}
		}
		return state, nil
	}
	return reconcile.State{Time: s.now, Mark: strings.Repeat("x", 1+s.marks[0])}, nil
}

type sideView struct {
	reconcile.View
	pinned reconcile.Pinned
	stamp  string
}

func (v sideView) Pinned() reconcile.Pinned { return v.pinned }

func (v sideView) Rows(ctx context.Context, part reconcile.Part) iter.Seq2[reconcile.Row, error] {
	return func(yield func(reconcile.Row, error) bool) {
		for row, err := range v.View.Rows(ctx, part) {
			row.Stamp = []byte(v.stamp)
			if !yield(row, err) {
				return
			}
		}
	}
}

func (w *world) run(t *testing.T, o reconcile.Options) reconcile.TableReport {
	t.Helper()
	return w.runOf(t, reconciletest.Pipeline(t), o)
}

func (w *world) runOf(t *testing.T, p *catalog.Pipeline, o reconcile.Options) reconcile.TableReport {
	t.Helper()
	o.Tables, o.Now, o.Wait = []string{reconciletest.Changes, reconciletest.History}, w.clock, w.wait
	if o.Settle == 0 {
		o.Settle = 10 * time.Second
	}
	report, err := reconcile.Run(t.Context(), p, side{w, false}, side{w, true}, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Tables {
		if r.Table == reconciletest.Changes {
			return r
		}
	}
	t.Fatal("the table is not reported")
	return reconcile.TableReport{}
}

// begin is the world's first moment.
var begin = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
