package reconcile_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/reconcile"
	"icehose/reconcile/reconciletest"
)

// A watermark that is known decides, whatever else speaks for a finding. It is
// a table of the lake, committed by itself: the compared one may follow later.
func TestWatermark(t *testing.T) {
	const idle = 2 * time.Minute
	late := func(*world) time.Time { return begin.Add(-time.Second) }
	passed := func(w *world) time.Time { return w.now }
	none := func(*world) {}
	moving := func(w *world) {
		for i := 1; i < 1200; i++ {
			w.after(time.Duration(i)*time.Second, func(w *world) {
				w.setSource(50, "at "+w.now.String())
				w.setLake(50, "at "+w.now.String(), w.now)
			})
		}
	}
	maintained := func(w *world) {
		for i := 1; i < 100; i++ {
			w.after(time.Duration(i)*time.Second, func(w *world) { w.marks[1]++ })
		}
	}
	for _, tt := range []struct {
		name      string
		watermark func(*world) time.Time
		prepare   func(*world)
		arrives   time.Duration // the change; 0: never
		retries   int
		want      reconcile.Verdict
	}{
		{"not passed, and the lake moves", late, moving, 0, 20, reconcile.Inconclusive},
		{"not passed, and nothing moves", late, none, 0, 20, reconcile.Inconclusive},
		{"passed, and the lake moves", passed, moving, 0, 20, reconcile.Different},
		{"passed, and nothing moves", passed, none, 0, 20, reconcile.Different},
		{"passed, not for long, and nothing moves", passed, none, 0, 5, reconcile.Inconclusive},
		{"passed before the table was committed", passed, none, 90 * time.Second, 20, reconcile.Equal},
		{"passed before the table was committed, and maintained meanwhile", passed, maintained, 90 * time.Second, 20, reconcile.Equal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.setSource(7, "new")
			w.newest = begin.Add(-time.Hour)
			tt.prepare(w)
			if tt.arrives > 0 {
				w.after(tt.arrives, func(w *world) { w.setLake(7, "new", begin) })
			}
			o := reconcile.Options{Idle: idle, Retries: tt.retries, Watermark: func(context.Context) (reconcile.Watermark, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				return reconcile.Watermark{Time: tt.watermark(w)}, nil
			}}
			if got := w.run(t, o); got.Verdict != tt.want || tt.want == reconcile.Inconclusive && got.Undecided != 1 {
				t.Errorf("%s %+v after %d looks, want %s: %s", got.Verdict, got.Counts, w.waits, tt.want, got.Why)
			}
		})
	}
	broken := func(context.Context) (reconcile.Watermark, error) {
		return reconcile.Watermark{}, errors.New("no heartbeat")
	}
	w := newWorld()
	w.setSource(7, "new")
	if got := w.run(t, reconcile.Options{Watermark: broken, Retries: 3}); got.Verdict != reconcile.Inconclusive || !strings.Contains(got.Why, "no heartbeat") {
		t.Errorf("without a watermark that can be read: %s, %s", got.Verdict, got.Why)
	}
}

// A position of the sink decides too, if it is above all that the source may
// have had when the row was first seen, in the source's own numbering.
func TestWatermarkPosition(t *testing.T) {
	lost := newWorld()
	lost.setSource(7, "new")
	end := lost.logEnd()
	beyond := cdc.Body{Hi: end.Hi + 1}
	for _, tt := range []struct {
		name     string
		position cdc.Position
		kind     cdc.PositionSource
		want     reconcile.Verdict
	}{
		{"none", "", cdc.SourcePostgres, reconcile.Inconclusive},
		{"at the place of the moment", cdc.ChangePosition(0, cdc.Body{Hi: end.Hi, Lo: math.MaxUint64}, 9), cdc.SourcePostgres, reconcile.Inconclusive},
		{"beyond it", cdc.ChangePosition(0, beyond, 1), cdc.SourcePostgres, reconcile.Different},
		{"of a table with positions of another kind", cdc.ChangePosition(0, beyond, 1), cdc.SourceColumn, reconcile.Inconclusive},
		{"of a later epoch", cdc.ChangePosition(4, cdc.Body{}, 1), cdc.SourcePostgres, reconcile.Different},
		{"of an earlier epoch", cdc.ChangePosition(2, beyond, 1), cdc.SourcePostgres, reconcile.Inconclusive},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.setSource(7, "new")
			for i := 1; i < 60; i++ { // else standing still would decide
				w.after(time.Duration(i)*time.Second, func(w *world) { w.setSource(50, "at "+w.now.String()) })
			}
			p := reconciletest.Pipeline(t)
			reconciletest.Table(t, p, reconciletest.Changes).Position.Source = tt.kind
			if strings.HasSuffix(tt.name, "epoch") {
				p.Epochs = []catalog.Epoch{{Epoch: 3, Since: begin.Add(-time.Hour)}}
			}
			o := reconcile.Options{Retries: 4, Watermark: func(context.Context) (reconcile.Watermark, error) {
				return reconcile.Watermark{Position: tt.position}, nil
			}}
			if got := w.runOf(t, p, o); got.Verdict != tt.want || got.Counts.Total() > 0 && got.Findings[0].Key[0] != "7" {
				t.Errorf("%s %+v, want %s", got.Verdict, got.Counts, tt.want)
			}
		})
	}
}

// A source that follows another server may lack what the lake has already.
func TestSourceThatFollows(t *testing.T) {
	for _, tt := range []struct {
		name  string
		comes bool // the source gets the row that the lake has
		tells bool // how far it has come
		again bool // the lake's row changes meanwhile
		want  reconcile.Verdict
	}{
		{"behind the lake", true, true, false, reconcile.Equal},
		{"behind a lake that changes again", true, true, true, reconcile.Equal},
		{"a row that differs", false, true, false, reconcile.Different},
		{"it cannot tell", false, false, false, reconcile.Inconclusive},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.follows = true
			w.setLake(7, "new", begin)
			for i := 1; i < 200; i++ {
				w.after(time.Duration(i)*time.Second, func(w *world) {
					w.setLake(50, changesRow(50)[1].Text, w.now)
					if tt.tells {
						w.through = w.now.Add(-90 * time.Second)
					}
				})
			}
			last, comes := "new", 89*time.Second
			if tt.again {
				last, comes = "newer", 149*time.Second
				w.after(60*time.Second, func(w *world) { w.setLake(7, last, w.now) })
			}
			if tt.comes {
				w.after(comes, func(w *world) { w.setSource(7, last) })
			}
			if got := w.run(t, reconcile.Options{}); got.Verdict != tt.want {
				t.Errorf("%s %+v %s, want %s", got.Verdict, got.Counts, got.Why, tt.want)
			}
		})
	}
}

// A row that was deleted leaves no commit time in the lake: a source that is
// behind and has the row still is not told from a lake that has lost it.
func TestDeletedBehindTheLake(t *testing.T) {
	for _, newest := range []time.Time{{}, begin.Add(-time.Minute)} {
		w := newWorld()
		w.follows, w.newest = true, newest
		w.lake = w.lake[:599]
		w.through = begin.Add(-20 * time.Second)
		for i := 1; i < 200; i++ {
			w.after(time.Duration(i)*time.Second, func(w *world) {
				w.setLake(50, changesRow(50)[1].Text, w.now)
				w.through = w.now.Add(-20 * time.Second)
				if i == 20 {
					w.source = w.source[:599]
				}
			})
		}
		if got := w.run(t, reconcile.Options{}); got.Verdict != reconcile.Equal || got.InFlight != 1 {
			t.Errorf("newest commit of the lake %v: %s %+v %s", newest, got.Verdict, got.Counts, got.Why)
		}
	}
}
