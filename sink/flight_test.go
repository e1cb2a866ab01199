package sink_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"icehose/sink"
	"icehose/sink/sinktest"
)

// TestBackground: commits that run beside deliveries, some of which fail before
// or after they happened, leave what commits in between would have left; the
// same calls fail in every run.
func TestBackground(t *testing.T) {
	t.Parallel()
	all := 0
	for seed := range uint64(20) {
		var failures [2][]int
		for run := range failures {
			failures[run] = runBackground(t, seed)
		}
		all += len(failures[0])
		if fmt.Sprint(failures[0]) != fmt.Sprint(failures[1]) {
			t.Fatalf("seed %d: calls that failed: %v and %v", seed, failures[0], failures[1])
		}
	}
	if all < 20 {
		t.Errorf("only %d calls failed", all)
	}
}

// runBackground returns which deliveries returned an error.
func runBackground(t *testing.T, seed uint64) (failed []int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	background := newRig(t, sink.Options{Background: true, FlushRows: 7, FlushBytes: 3000})
	plain := newRig(t, sink.Options{})
	faults := rand.New(rand.NewPCG(seed, 8)) // asked by one commit at a time
	background.lake.Fault = func(sinktest.Step, string) error {
		if faults.IntN(9) == 0 {
			return errInjected
		}
		return nil
	}
	var s source
	for call := range 60 {
		var changes []sink.Delivery
		for range 1 + r.IntN(9) {
			n, id := uint64(1+8*call+r.IntN(40)), r.IntN(12)
			if r.IntN(3) == 0 {
				changes = append(changes, s.remove(n, id))
			} else {
				changes = append(changes, s.upsert(n, id, fmt.Sprint(n)))
			}
		}
		plain.deliver(changes...)
		for {
			err := background.Deliver(t.Context(), changes)
			if err == nil {
				break
			}
			if !errors.Is(err, errInjected) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			failed = append(failed, call)
		}
	}
	for {
		if err := background.Close(t.Context()); err == nil {
			break
		}
		failed = append(failed, -1)
	}
	background.lake.Fault = nil
	plain.flush()
	def := pipeline(t).ByTarget("lake", "item")
	want := sinktest.Contents(t.Context(), t, plain.lake.Table("lake", "item"), def)
	got := sinktest.Contents(t.Context(), t, background.lake.Table("lake", "item"), def)
	if fmt.Sprint(want) != fmt.Sprint(got) {
		t.Fatalf("seed %d:\nwant %v\ngot  %v", seed, want, got)
	}
	if stats := background.stats("item"); stats.Applied+stats.Collapsed+stats.Superseded+stats.Skipped != stats.Delivered || stats.Commits < 10 {
		t.Errorf("seed %d: counts do not add up: %+v", seed, stats)
	}
	return failed
}
