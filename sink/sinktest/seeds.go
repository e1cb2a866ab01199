package sinktest

import (
	"errors"
	"flag"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// The seeds of the chaos tests, for runs by hand.
//
//nolint:gochecknoglobals // flags of a test binary
var (
	chaosSeed  = flag.Uint64("chaos.seed", 0, "first seed of the chaos tests; 0 for the tests' own")
	chaosSeeds = flag.Int("chaos.seeds", 0, "number of seeds of the chaos tests; 0 for the tests' own")
)

// Limits of every seed.
const (
	chaosChanges   = 500
	fewestCommits  = 20
	fewestStrikers = 100 // seeds from which on every strike must have happened
)

// RunChaos runs seeds 1 to n, or those that the flags -chaos.seed and
// -chaos.seeds say, each on a lake of its own. It fails on the first seed that
// fails, and if something that a sink must survive has not happened in all of them.
//
// folder is where the test is, as go test takes it, for the command that runs a
// seed again.
func RunChaos(t *testing.T, folder string, n int, lake func() ChaosLake) {
	t.Helper()
	first := uint64(1)
	if *chaosSeed > 0 {
		first = *chaosSeed
	}
	if *chaosSeeds > 0 {
		n = *chaosSeeds
	}
	total := make(Tally)
	commits := make(map[string]int)
	var mu sync.Mutex
	var group sync.WaitGroup
	seeds := make(chan uint64)
	states, records, done, failed := 0, 0, 0, false
	var strikes []Strike
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for seed := range seeds {
				result, err := runSeed(t, seed, lake)
				mu.Lock()
				if err != nil {
					failed = true
					t.Errorf("%v\nthis seed alone: %s", err, commandOf(folder, t.Name(), seed))
				} else {
					total.Add(result.Tally)
					strikes = result.Strikes
					states, records = states+result.States, records+result.Records
					for table, n := range result.Commits {
						commits[table] += n
					}
				}
				if done++; done%max(1, n/20) == 0 && n > fewestStrikers {
					t.Logf("%d of %d seeds", done, n)
				}
				mu.Unlock()
			}
		})
	}
	for seed := range uint64(n) {
		mu.Lock()
		stop := failed
		mu.Unlock()
		if stop {
			break
		}
		seeds <- first + seed
	}
	close(seeds)
	group.Wait()
	if failed {
		return
	}
	t.Logf("%d seeds of %d changes, %d records, %d states compared with the model, commits %v\n%s", n, chaosChanges, records, states, commits, total.Text(strikes))
	if missing := total.Missing(strikes); n >= fewestStrikers && len(missing) > 0 {
		t.Errorf("in %d seeds never happened: %q", n, missing)
	}
}

// commandOf is a command that runs a seed alone.
func commandOf(folder, test string, seed uint64) string {
	command := fmt.Sprintf("go test %s -count=1 -run '^%s$' -args -chaos.seed=%d -chaos.seeds=1", folder, test, seed)
	if (&Chaos{Seed: seed}).parallel() {
		command += "\nits commits run beside deliveries, so it may need several runs"
	}
	return command
}

func runSeed(t *testing.T, seed uint64, lake func() ChaosLake) (*Result, error) {
	t.Helper()
	l := lake()
	chaos := Chaos{Seed: seed, Changes: chaosChanges, Lake: l}
	result, err := chaos.Run(t.Context())
	if l.Remove != nil {
		err = errors.Join(err, l.Remove())
	}
	if err != nil {
		return nil, err
	}
	commits := 0
	for table, n := range result.Commits {
		if table != chaosIdle {
			commits += n
		}
	}
	if commits < fewestCommits {
		return nil, fmt.Errorf("seed %d: only %d commits", seed, commits)
	}
	return result, nil
}
