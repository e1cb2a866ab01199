package main

import (
	"context"
	"errors"
	"fmt"
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
	Fixture  string `default:"testdata/events/tpcc" help:"Directory with the recorded stream (events.ndjson.zst), its pipeline file and the source's final rows (final/)."`
	Lake     string `default:"icehose-demo" help:"Directory of the lake; made when it is not there, continued when it is."`
	Seed     uint64 `default:"1" help:"Seed of the delivery: which shard comes next, what is late, repeated or held back."`
	Calm     bool   `help:"Deliver every shard in order and once, instead of as badly as Firehose may."`
	Batch    int    `default:"500" help:"Records in one invocation of the transform, at most."`
	Flush    int    `default:"4000" help:"Rows that a table collects before it commits."`
	Fault    fault  `help:"Get rows wrong on purpose: lose=N, stale=N, extra=N or duplicate=N. The lake is made anew." placeholder:"KIND=N"`
	ShowKeys bool   `help:"Name the keys of rows that differ; always so with --fault."`
	Corrupt  int    `help:"Add this many records that were cut off in the middle." placeholder:"N"`
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

// Validate implements kong's check of a command's flags.
func (cmd *demoCmd) Validate() error {
	switch {
	case cmd.Batch < 1:
		return errors.New("--batch: want at least 1")
	case cmd.Flush < 1:
		return errors.New("--flush: want at least 1")
	case cmd.Corrupt < 0:
		return errors.New("--corrupt: want a number that is not negative")
	}
	return nil
}

// Run implements the command.
func (cmd *demoCmd) Run(ctx context.Context, env *environment, global *cli) error {
	started := time.Now()
	debug.SetMemoryLimit(demoMemory)
	d := &demo{cmd: cmd, env: env, meter: newMeter()}
	if err := d.read(ctx); err != nil {
		return err
	}
	source, err := dump.Open(filepath.Join(cmd.Fixture, "final"), dump.Options{Final: true, Engine: d.pipeline.Source.Engine})
	if err != nil {
		return err
	}
	mark, err := markOf(cmd.events(), &cmd.Fault)
	if err != nil {
		return err
	}
	if err := prepareLake(ctx, cmd.Lake, mark, env.stderr); err != nil {
		return err
	}
	store, err := iceberg.Open(ctx, cmd.Lake, iceberg.Options{Log: env.log})
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // every commit was checked when it was made
	if err := d.deliver(ctx, store); err != nil {
		return err
	}
	report, err := d.reconcile(ctx, source, store)
	if err != nil {
		return err
	}
	result := d.result(report, time.Since(started))
	write := result.writeText
	if global.JSON {
		write = result.writeJSON
	}
	if err := write(env.stdout); err != nil {
		return err
	}
	return d.verdict(result, report)
}

// events is the recorded stream of the fixture.
func (cmd *demoCmd) events() string { return filepath.Join(cmd.Fixture, "events.ndjson.zst") }

// read reads the pipeline file and the stream, and chooses what is struck.
func (d *demo) read(ctx context.Context) (err error) {
	if d.pipeline, err = catalog.Load(filepath.Join(d.cmd.Fixture, "pipeline.yaml")); err != nil {
		return err
	}
	d.tables = newTallies(d.pipeline)
	progress := newStage(d.env.stderr, "read", "records", recordedCount(d.cmd.Fixture))
	if d.stream, err = readStream(ctx, d.cmd.events(), d.pipeline, progress); err != nil {
		return err
	}
	progress.done()
	if d.records = d.stream.records(); d.records == 0 {
		return fmt.Errorf("read stream: %s has no records", d.cmd.events())
	}
	if d.struck, err = d.cmd.Fault.choose(d.pipeline, d.stream, d.cmd.Seed); err != nil {
		return err
	}
	if d.cmd.Corrupt > 0 {
		d.stream.corrupt(d.cmd.Corrupt, d.cmd.Seed)
	}
	return nil
}

// verdict turns the result into the exit status.
func (d *demo) verdict(r *demoResult, report *reconcile.Report) error {
	if d.cmd.Fault.kind != faultNone {
		if err := checkFindings(d.struck, report); err != nil {
			return err
		}
	}
	if status := report.ExitStatus(); status != exitSame {
		return exitError(status)
	}
	if d.cmd.Calm {
		return nil
	}
	// A test of disorder that met none has tested nothing.
	for _, t := range r.Tables {
		if t.Duplicates == 0 {
			return fmt.Errorf("prove the lake: no change of table %s was delivered twice, so nothing was proven of that", t.Table)
		}
		if d.reorderable(t.Table) && t.Inversions+t.Late == 0 {
			return fmt.Errorf("prove the lake: no change of table %s came after a newer one, so nothing was proven of that", t.Table)
		}
	}
	if sum := r.Disorder; sum.Inversions == 0 || sum.Late == 0 {
		return errors.New("prove the lake: the delivery had no inversions or no late records, so nothing was proven of them")
	}
	return nil
}

// reorderable reports whether some row of a table has two changes.
func (d *demo) reorderable(source string) bool {
	seen := make(map[string]bool)
	for _, changes := range d.stream.changes {
		for _, c := range changes {
			if c == nil || c.table.Source != source {
				continue
			}
			if seen[c.key] {
				return true
			}
			seen[c.key] = true
		}
	}
	return false
}

// A demo is one run of the command.
type demo struct {
	cmd      *demoCmd
	env      *environment
	pipeline *catalog.Pipeline
	stream   *stream
	records  int              // in the stream as it was recorded
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
