package sink_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"icehose/sink"
	"icehose/sink/sinktest"
)

var errInjected = errors.New("injected")

// TestChaos runs many seeds against a lake in memory that fails at every step.
func TestChaos(t *testing.T) {
	t.Parallel()
	var total sinktest.Tally
	for seed := range uint64(300) {
		lake := sinktest.NewLake()
		chaos := sinktest.Chaos{
			Seed: seed, Changes: 60, Crashes: int(seed % 4),
			Open: func(testing.TB) (sink.Store, func()) { lake.Fault = nil; return lake, func() {} },
			Disturb: func(on bool, r *rand.Rand) {
				lake.Fault = nil
				if !on {
					return
				}
				lake.Fault = func(step sinktest.Step, _ string) error {
					if r.IntN(12) > 0 {
						return nil
					}
					if step == sinktest.BeforeCommit && r.IntN(2) == 0 {
						return sink.ErrConflict
					}
					return errInjected
				}
			},
		}
		tally := chaos.Run(t)
		total.Crashes += tally.Crashes
		total.Errors += tally.Errors
		total.Duplicates += tally.Duplicates
		total.Inversions += tally.Inversions
		total.Superseded += tally.Superseded
		total.Collapsed += tally.Collapsed
		total.Skipped += tally.Skipped
		total.Commits += tally.Commits
	}
	for name, n := range map[string]int64{
		"crashes": int64(total.Crashes), "errors": int64(total.Errors), "duplicates": int64(total.Duplicates),
		"inversions": int64(total.Inversions), "superseded": total.Superseded, "collapsed": total.Collapsed,
		"skipped": total.Skipped, "commits": total.Commits,
	} {
		if n < 100 {
			t.Errorf("only %d %s in all seeds: the test tests too little", n, name)
		}
	}
	t.Logf("%+v", total)
}
