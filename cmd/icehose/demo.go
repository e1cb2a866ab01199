package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"icehose/catalog"
	"icehose/internal/firehosesim"
	"icehose/reconcile"
	"icehose/reconcile/dump"
	"icehose/reconcile/lake"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// demoCmd carries a recorded stream through the whole pipeline on one machine.
type demoCmd struct {
	Fixture string `default:"testdata/events/tpcc" help:"Directory with the recorded stream (events.ndjson.zst), its pipeline file and the source's final rows (final/)." placeholder:"DIR"`
	Lake    string `default:"icehose-demo" help:"Directory of the lake; made when it is not there, continued when it is." placeholder:"DIR"`
	Seed    uint64 `default:"1" help:"Seed of the delivery: which shard comes next, what is late, repeated or held back."`
	Calm    bool   `help:"Deliver every shard in order and once, instead of as badly as Firehose may."`
	Batch   int    `default:"500" help:"Records in one invocation of the transform, at most."`
	Flush   int    `default:"4000" help:"Rows that a table collects before it commits."`
	Fault   fault  `help:"Get rows wrong on purpose: lose=N, stale=N, extra=N or duplicate=N. The lake is made anew." placeholder:"KIND=N"`
	Corrupt int    `help:"Add this many records that were cut off in the middle." placeholder:"N"`
}

// Help implements kong.HelpProvider.
func (*demoCmd) Help() string {
	return `The stream goes the way it goes in production, except that our own sink
stands in Firehose's place: records -> batches per shard -> transform handler
(Firehose's request and response JSON) -> Iceberg tables -> reconcile against the
source's rows.

Exit status: 0 every table equals the source, 1 some table differs, 2 it could
not be done or decided.

Examples:
  icehose demo                          the default delivery
  icehose demo --seed 7                 another one
  icehose demo --fault stale=3          three rows are left old: they are found
  icehose demo --corrupt 5 --json       damaged records fail alone`
}

// demoMemory is where the collector begins to work harder, in bytes. The demo
// holds the whole recorded stream in memory, which is most of it.
const demoMemory = 300 << 20

// Run implements the command.
func (cmd *demoCmd) Run(ctx context.Context, env *environment, global *cli) error {
	started := time.Now()
	debug.SetMemoryLimit(demoMemory)
	p, err := catalog.Load(filepath.Join(cmd.Fixture, "pipeline.yaml"))
	if err != nil {
		return err
	}
	source, err := dump.Open(filepath.Join(cmd.Fixture, "final"), dump.Options{Final: true})
	if err != nil {
		return err
	}
	reading := newStage(env.stderr, "read", "records", -1)
	s, err := readStream(ctx, filepath.Join(cmd.Fixture, "events.ndjson.zst"), p, reading)
	if err != nil {
		return err
	}
	reading.done()
	struck, err := cmd.Fault.choose(p, s, cmd.Seed)
	if err != nil {
		return err
	}
	if cmd.Corrupt > 0 {
		s.corrupt(cmd.Corrupt, cmd.Seed)
	}
	if err := prepareLake(cmd.Lake, lakeMark{Fault: cmd.Fault.String(), Fixture: filepath.Clean(cmd.Fixture), Seed: cmd.faultSeed()}); err != nil {
		return err
	}
	store, err := iceberg.Open(ctx, cmd.Lake, iceberg.Options{Log: env.log})
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // every commit was checked when it was made
	d := &demo{cmd: cmd, env: env, pipeline: p, stream: s, struck: struck, meter: newMeter(), tables: newTallies(p)}
	if err := d.deliver(ctx, store); err != nil {
		return err
	}
	report, err := d.reconcile(ctx, source, store)
	if err != nil {
		return err
	}
	result := d.result(report, time.Since(started))
	if global.JSON {
		err = result.writeJSON(env.stdout)
	} else {
		err = result.writeText(env.stdout)
	}
	if err != nil {
		return err
	}
	return cmd.verdict(result, report)
}

// faultSeed is part of a faulty lake's identity: another seed strikes other rows.
func (cmd *demoCmd) faultSeed() uint64 {
	if cmd.Fault.kind == faultNone {
		return 0
	}
	return cmd.Seed
}

// verdict turns the result into the exit status.
func (cmd *demoCmd) verdict(r *demoResult, report *reconcile.Report) error {
	if status := report.ExitStatus(); status != exitSame {
		return exitError(status)
	}
	if cmd.Calm {
		return nil
	}
	// A test of disorder that met none has tested nothing.
	if sum := r.Disorder; sum.Inversions == 0 || sum.Duplicates == 0 || sum.Late == 0 {
		return errors.New("prove the lake: the delivery had no inversions, no duplicates or no late records, so nothing was proven")
	}
	for _, t := range r.Tables {
		if t.Inversions+t.Duplicates+t.Late == 0 {
			return fmt.Errorf("prove the lake: table %s was delivered in order and once, so nothing was proven of it", t.Table)
		}
	}
	return nil
}

// A demo is one run of the command.
type demo struct {
	cmd      *demoCmd
	env      *environment
	pipeline *catalog.Pipeline
	stream   *stream
	struck   map[*change]bool // by the fault
	meter    *meter
	tables   map[string]*tally // by source table; "" for records of no table
	stats    []sink.TableStats
}

func (d *demo) reconcile(ctx context.Context, source *dump.Reader, store *iceberg.Store) (*reconcile.Report, error) {
	progress := newStage(d.env.stderr, "reconcile", "tables", int64(len(d.pipeline.Tables)))
	defer progress.done()
	return reconcile.Run(ctx, d.pipeline, source, lake.Open(store), reconcile.Options{
		Now: time.Now,
		Progress: func(p reconcile.Progress) {
			if p.Step == reconcile.Decided {
				progress.add(1)
			}
		},
	})
}

// settings says how this run delivers.
func (cmd *demoCmd) settings() firehosesim.Settings {
	s := firehosesim.Hostile()
	if cmd.Calm {
		s = firehosesim.Calm()
	}
	s.BatchRecords = cmd.Batch
	return s
}

// A lakeMark tells the demo's own lakes from other people's directories, and
// whether the lake is the one that this run would continue.
type lakeMark struct {
	Fixture string `json:"fixture"`
	Fault   string `json:"fault,omitempty"`
	Seed    uint64 `json:"seed,omitempty"`
}

const lakeMarkFile = "icehose-demo.json"

// prepareLake makes the directory of the lake, or sees that it can be
// continued. A lake with a fault is never continued: what was lost or doubled
// in it would stay so.
func prepareLake(dir string, mark lakeMark) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return fmt.Errorf("prepare lake: %w", err)
	case len(entries) > 1, len(entries) == 1 && entries[0].Name() != lakeMarkFile+newSuffix:
		old, err := readLakeMark(dir)
		if err != nil {
			return err
		}
		if old == mark && mark.Fault == "" {
			return nil
		}
		if err := emptyLake(dir, entries); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("prepare lake: %w", err)
	}
	return writeLakeMark(dir, mark)
}
