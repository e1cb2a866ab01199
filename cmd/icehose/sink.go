package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"icehose/catalog"
	"icehose/sink"
	"icehose/sink/iceberg"
	sinksource "icehose/sink/source"
	"icehose/transform"
)

// sinkCmd carries a recorded stream into a lake.
type sinkCmd struct {
	Files    []string `arg:"" name:"file" help:"Recorded Kinesis records (icehose capture), plain, .gz or .zst; folders, patterns, or - for standard input."`
	Pipeline string   `required:"" help:"The pipeline file." placeholder:"FILE"`
	lakeFlags
	Follow        bool          `help:"Go on with what files grow by and with new files, until interrupted."`
	Poll          time.Duration `default:"1s" help:"How often --follow looks."`
	FlushRows     int           `default:"50000" help:"Rows that a table collects before it commits."`
	FlushBytes    byteSize      `default:"64MiB" help:"Memory that rows of all tables take before the largest commits."`
	FlushEvery    time.Duration `default:"10s" help:"Time after which every table with new rows commits."`
	Batch         int           `default:"500" help:"Records of a shard that are transformed together."`
	Horizon       time.Duration `default:"168h" help:"How long, in commit time of the source, deleted keys are remembered."`
	Rejects       string        `help:"Append each record that failed to this file, whole, with all its values: in base64, one JSON object a line." placeholder:"FILE"`
	Redrive       bool          `help:"The files are those of --rejects: deliver their records again. A file is known by its name, and may grow."`
	Maintain      bool          `help:"Compact tables and expire snapshots while running: as icehose maintain does, between two commits."`
	MaintainEvery int           `default:"32" help:"With --maintain: files that a table gains between two runs of it."`
	Continue      bool          `help:"The files begin where earlier ones ended, not at the start of the stream. A file that is left out is not noticed."`
}

// Help implements kong.HelpProvider.
func (*sinkCmd) Help() string {
	return `Transforms the records as the Lambda does and writes the rows into Iceberg tables:
in a local directory with its own catalog (--lake; made when it is not there), or
below --warehouse in the catalog that --catalog names. Order, repetition and interruption do not
matter: what a table holds already is skipped, an older change never replaces a
newer one. So after a crash run the same command again; give all files from the start
of the stream, in order, or those behind it with --continue.

An interrupt (SIGINT, SIGTERM) commits what was delivered and ends within 10 seconds.

What the pipeline file gained (columns, wider types, partitions) a table gets in the
commit of its first rows. A table that cannot get it safely is refused: without
--rejects the command ends, with it the table's records fail schema_refused and
the other tables go on.

A record that fails is logged without values, and with --rejects kept with all of
them: the file is readable for its owner only. It can be looked at with icehose transform
--explain, and delivered again with --redrive once its cause is gone. After a crash a
record can be in it twice.

Exit status: 0 every record was delivered or dropped, 1 some failed, 2 it could
not be done.

Examples:
  icehose sink --pipeline pipeline.yaml --lake lake changes.ndjson.zst
  icehose sink --pipeline pipeline.yaml --lake lake --follow --rejects rejects.ndjson changes/
  icehose sink --pipeline pipeline.yaml --lake lake --redrive rejects.ndjson
  icehose sink --pipeline pipeline.yaml --catalog glue --warehouse s3://my-lake/wh --prop glue.region=eu-central-1 changes/
  icehose sink --pipeline pipeline.yaml --catalog sqlite:catalog.db --warehouse s3://lake/wh --prop s3.endpoint=http://localhost:9000 changes/`
}

// stopWithin is how long an interrupted run may take to commit. The rest of
// the promised 10 seconds is for what cannot be hurried: a file being written.
const stopWithin = 8 * time.Second

// Run implements the command.
func (cmd *sinkCmd) Run(ctx context.Context, env *environment, global *cli) error {
	started := time.Now()
	if err := cmd.check(); err != nil {
		return err
	}
	p, err := catalog.Load(cmd.Pipeline)
	if err != nil {
		return err
	}
	r := &sinkRun{cmd: cmd, env: env, pipeline: p, tables: newTallies(p), pending: make(map[string]*shardBatch)}
	if r.transformer, err = transform.New(p, transform.Options{}); err != nil {
		return err
	}
	if r.rejects, err = openRejects(cmd.Rejects, cmd.Files); err != nil {
		return err
	}
	err = r.run(ctx)
	if err := errors.Join(err, r.rejects.close()); err != nil {
		return err
	}
	result := r.result(ctx.Err() != nil, time.Since(started))
	if global.JSON {
		err = result.writeJSON(env.stdout)
	} else {
		err = result.writeText(env.stdout)
	}
	if err == nil && result.Failed+int64(len(r.refused)) > 0 {
		err = exitError(exitDifferent)
	}
	return err
}

func (cmd *sinkCmd) check() error {
	switch {
	case cmd.FlushRows < 1 || cmd.FlushBytes < 1 || cmd.Batch < 1:
		return errors.New("--flush-rows, --flush-bytes and --batch: want 1 or more")
	case cmd.FlushEvery <= 0 || cmd.Poll <= 0 || cmd.Horizon <= 0:
		return errors.New("--flush-every, --poll and --horizon: want a time above 0, such as 10s")
	case cmd.Continue && cmd.Redrive:
		return errors.New("--continue does not go with --redrive: a file of rejects is read from its start")
	}
	return nil
}

// source is where the records come from.
func (cmd *sinkCmd) source(env *environment) sinksource.Source {
	return &sinksource.Files{
		Names: cmd.Files, Input: env.stdin, Follow: cmd.Follow && !slices.Contains(cmd.Files, "-"), Continue: cmd.Continue, Redriven: cmd.Redrive,
		Wait: func(ctx context.Context) error {
			timer := time.NewTimer(cmd.Poll)
			defer timer.Stop()
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-timer.C:
				return nil
			}
		},
	}
}

// run opens the lake and carries the stream into it. An interrupt is no error.
func (r *sinkRun) run(ctx context.Context) (err error) {
	late, release := outlive(ctx, stopWithin)
	defer release()
	work, abort := context.WithCancelCause(late)
	defer abort(nil)
	r.abort = abort
	store, err := r.cmd.OpenLake(ctx, iceberg.Options{Log: r.env.log})
	if err == nil {
		defer func() { err = errors.Join(err, store.Close()) }()
		r.sink, err = sink.Open(ctx, r.pipeline, store, sink.Options{
			FlushRows: r.cmd.FlushRows, FlushBytes: int(r.cmd.FlushBytes), Horizon: r.cmd.Horizon, Log: r.env.log, Now: time.Now, Background: true,
			Refused: r.onRefused(),
			Reject:  func(o sink.Offset, reason *sink.RejectError) { r.rejected(work, o, reason) },
		})
	}
	if err == nil {
		err = r.startMaintaining(store)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil // interrupted before there was anything to do
		}
		return err
	}
	show := r.showStatus()
	err = r.carry(ctx, work)
	show.end()
	if cause := context.Cause(work); err != nil && cause != nil {
		return fmt.Errorf("stop: %w", cause) // what failed then failed because of it
	}
	return err
}

// errTooLong is the cause of a context that outlived its first by its time.
var errTooLong = fmt.Errorf("not everything could be committed within %s: run it again to go on", stopWithin)

// outlive returns a context that is done a while after ctx is, so that what
// was begun can be ended.
func outlive(ctx context.Context, while time.Duration) (context.Context, func()) {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(while, func() { cancel(errTooLong) }) })
	return out, func() { stop(); cancel(nil) }
}

// A byteSize is a number of bytes, written with a unit or without.
type byteSize int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *byteSize) UnmarshalText(text []byte) error {
	const limit = int64(1) << 40
	digits := strings.TrimRight(string(text), "KMGiB")
	shift, known := map[string]uint{"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30}[string(text[len(digits):])]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n < 0 || n > limit>>shift {
		return errors.New("want a number of bytes, such as 64MiB")
	}
	*b = byteSize(n << shift)
	return nil
}

// sameFile says that two names are of one file that is there.
func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
