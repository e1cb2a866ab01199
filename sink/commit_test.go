package sink_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/sinktest"
)

func TestOffsets(t *testing.T) {
	t.Parallel()
	r := newRig(t, sink.Options{})
	var s source
	stream := []sink.Delivery{s.upsert(1, 1, "a"), {Offset: offset(1)}, {}, s.upsert(3, 2, "c")}
	s.n = 4
	stream[2] = sink.Delivery{Offset: offset(2)}
	stream[3].Offset = offset(3)
	// A hole at 2.
	r.flush(stream[0], stream[1], stream[3])
	if got := r.Handled(); len(got) != 0 {
		t.Fatalf("handled %v although two tables have noted nothing", got)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.reopen()
	shard := offset(0).Shard
	if got := r.Handled(); got[shard] != 2 {
		t.Fatalf("handled %v, want 2 of %s", got, shard)
	}
	r.deliver(stream...)
	if got := r.stats("item"); got.Skipped != 2 || got.Superseded != 0 {
		t.Fatalf("redelivery: %+v", got)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.reopen()
	if got := r.Handled(); got[shard] != 4 {
		t.Fatalf("handled %v, want 4", got)
	}
	commits := r.lake.Table("lake", "item").Commits
	r.deliver(stream...)
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.lake.Table("lake", "item").Commits; got != commits {
		t.Errorf("a run with nothing new made %d commits", got-commits)
	}
}

func TestOtherStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, sink.Options{})
	var s source
	r.flush(s.upsert(1, 1, "a"), s.upsert(2, 1, "b"))
	r.reopen()
	other := source{}
	d := other.upsert(9, 1, "c")
	d.Offset.Sequence = "9000000"
	if err := r.Deliver(t.Context(), []sink.Delivery{d}); !errors.Is(err, sink.ErrOtherStream) {
		t.Fatalf("record of another stream: %v", err)
	}
}

func TestFenced(t *testing.T) {
	t.Parallel()
	first := newRig(t, sink.Options{})
	second := &rig{t: t, lake: first.lake}
	second.reopen()
	var s source
	first.flush(s.upsert(1, 1, "a"))
	second.deliver(s.upsert(2, 1, "b"))
	if err := second.Flush(t.Context()); !errors.Is(err, sink.ErrFenced) {
		t.Fatalf("second writer: %v", err)
	}
	first.want("item", "1 a")
}

// TestOpenBesideWriter: a writer that commits while another opens removes files
// that this one has read the names of. It reads again, and neither misses a
// deleted key nor is fenced; where the other always comes first, it says so.
func TestOpenBesideWriter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		at      int // the read before which the other commits: the scan or the file
		commits int
		want    error
	}{{1, 1, nil}, {2, 1, nil}, {1, 1000, sink.ErrFenced}} {
		t.Run(fmt.Sprintf("%d commits from read %d on", test.commits, test.at), func(t *testing.T) {
			t.Parallel()
			first := newRig(t, sink.Options{})
			var s source
			first.flush(s.upsert(1, 1, "a"), s.upsert(2, 2, "b"))
			first.flush(s.remove(10, 1))
			removal, reads := s.remove(11, 2), 0
			first.lake.Fault = func(step sinktest.Step, table string) error {
				if step != sinktest.Reading || table != "lake.item" {
					return nil
				}
				if reads++; reads < test.at || reads >= test.at+test.commits {
					return nil
				}
				fault := first.lake.Fault
				first.lake.Fault = nil
				first.flush(removal)
				removal = s.remove(11+s.n, 2)
				first.lake.Fault = fault
				return nil
			}
			second, err := sink.Open(t.Context(), pipeline(t), first.lake, sink.Options{})
			first.lake.Fault = nil
			if !errors.Is(err, test.want) {
				t.Fatalf("open after %d reads: %v", reads, err)
			}
			if err != nil {
				return
			}
			if err := second.Deliver(t.Context(), []sink.Delivery{s.upsert(5, 1, "late"), s.upsert(6, 2, "late"), s.upsert(20, 3, "c")}); err != nil {
				t.Fatal(err)
			}
			if err := second.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			first.want("item", "3 c")
		})
	}
}

// TestAmbiguousCommit: a commit that happened although it failed is found, one
// that did not is repeated, and neither is done twice.
func TestAmbiguousCommit(t *testing.T) {
	t.Parallel()
	for _, step := range []sinktest.Step{sinktest.BeforeCommit, sinktest.AfterCommit} {
		for _, blind := range []bool{false, true} {
			t.Run(fmt.Sprint(step, " blind ", blind), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, sink.Options{})
				var s source
				r.deliver(s.next("log", cdc.Insert, map[string]any{
					"id": 1, "v": "x", "cdc_position": change(1), "cdc_committed_at": nil, "cdc_operation": "insert", "cdc_old_key": nil, "cdc_absent": nil,
				}))
				r.lake.Fault = func(at sinktest.Step, _ string) error {
					if at == step || blind && at == sinktest.Loading {
						return errInjected
					}
					return nil
				}
				err := r.Flush(t.Context())
				if happened := step == sinktest.AfterCommit && !blind; (err == nil) != happened || err != nil && !errors.Is(err, errInjected) {
					t.Fatalf("flush: %v", err)
				}
				r.lake.Fault = nil
				r.flush()
				r.want("log", "1 x")
				if got := r.stats("log"); got.Applied != 1 || got.Rows != 1 {
					t.Errorf("stats: %+v", got)
				}
			})
		}
	}
}

func TestConflictsAreRetriedAFewTimes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		conflicts int
		ok        bool
	}{{3, true}, {1000, false}} {
		r := newRig(t, sink.Options{})
		var s source
		r.deliver(s.upsert(1, 1, "a"))
		left := test.conflicts
		r.lake.Fault = func(step sinktest.Step, _ string) error {
			if left--; step == sinktest.BeforeCommit && left >= 0 {
				return sink.ErrConflict
			}
			return nil
		}
		if err := r.Flush(t.Context()); (err == nil) != test.ok || err != nil && !errors.Is(err, sink.ErrConflict) {
			t.Errorf("%d conflicts: %v", test.conflicts, err)
		}
	}
}

func TestFlushStopsWithItsContext(t *testing.T) {
	t.Parallel()
	r := newRig(t, sink.Options{})
	var s source
	r.deliver(s.upsert(1, 1, "a"))
	ctx, cancel := context.WithCancel(t.Context())
	r.lake.Fault = func(step sinktest.Step, _ string) error {
		if step == sinktest.BeforeCommit {
			cancel()
			return sink.ErrConflict
		}
		return nil
	}
	if err := r.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("flush: %v", err)
	}
}
