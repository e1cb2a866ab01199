package sink_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/sink"
	"icehose/sink/sinktest"
)

var errInjected = errors.New("injected")

// TestChaos runs many seeds on a lake in memory.
func TestChaos(t *testing.T) {
	t.Parallel()
	sinktest.RunChaos(t, "./sink", 100, sinktest.InMemory)
}

// A seed does the same whenever it runs, so that one which fails can be looked
// at; each fourth may not.
func TestChaosReplays(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		if seed%4 == 0 {
			continue
		}
		var runs [2]*sinktest.Result
		for i := range runs {
			chaos := sinktest.Chaos{Seed: seed, Changes: 500, Lake: sinktest.InMemory()}
			var err error
			if runs[i], err = chaos.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(runs[0], runs[1]); diff != "" {
			t.Errorf("seed %d (-first run +second):\n%s", seed, diff)
		}
	}
}

// Found by chaos: a delete that came after the sweep which should have
// forgotten it was dropped with its file, and no floor stood for it.
func TestDeleteBeyondTheHorizonIsNotForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t, sink.Options{Horizon: time.Minute})
	var s source
	for n := range uint64(5) {
		r.flush(s.upsert(1000+n, 100+int(n), "moves the clock"))
	}
	r.flush(s.remove(100, 1))
	r.flush(s.upsert(1005, 105, "drops the file"))
	if files := r.lake.Table("lake", "item").Files(); len(files) > 0 {
		t.Fatalf("tombstones are still there, the test tests nothing: %v", files)
	}
	r.flush(s.upsert(1006, 106, "after it"))
	r.reopen()
	before := len(r.rejected)
	r.flush(s.upsert(50, 1, "deleted long ago"))
	if got := r.rejected[before:]; len(got) != 1 || got[0] != sink.OlderThanHorizon {
		t.Errorf("rejected %v, want one row that is older than the horizon", got)
	}
	if got := r.stats("item"); got.Rows != 7 {
		t.Errorf("%d rows, want 7", got.Rows)
	}
}

// Found by chaos: a writer that others have overtaken did not find files that
// their commits had removed, and said no more than that.
func TestFencedWriterMissesFiles(t *testing.T) {
	t.Parallel()
	first := newRig(t, sink.Options{})
	var s source
	first.flush(s.upsert(1, 1, "a"), s.upsert(2, 2, "b"))
	first.flush(s.remove(3, 1))
	second := &rig{t: t, lake: first.lake}
	second.reopen()
	first.flush(s.remove(4, 2)) // one file of tombstones in place of two
	other := source{n: s.n}
	second.deliver(other.remove(5, 2))
	if err := second.Flush(t.Context()); !errors.Is(err, sink.ErrFenced) {
		t.Errorf("overtaken writer: %v", err)
	}
}
