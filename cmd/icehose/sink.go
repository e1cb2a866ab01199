package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	FlushRows     int           `default:"100000" help:"Rows that a table collects before it commits."`
	FlushBytes    byteSize      `default:"64MiB" help:"Memory that rows of all tables take before the largest commits."`
	FlushEvery    time.Duration `default:"10s" help:"Time after which every table with new rows commits."`
	Batch         int           `default:"500" help:"Records of a shard that are transformed together."`
	Horizon       time.Duration `default:"0s" help:"How long, in commit time of the source, deleted keys are remembered. The table notes it; 0 for what it has noted, 168h in a new table."`
	IndexMemory   byteSize      `default:"1GiB" help:"Memory that the positions of all keys of all mirrors take together. What is beyond it goes into files."`
	IndexDir      string        `help:"Folder of this machine for those files, of this lake's sink alone: 45 to 80 bytes a key, and up to three times that while files are merged. It can be lost. Default: icehose-index in the directory of --lake; with --catalog nameless files in the temporary folder, and the next start reads all keys again." placeholder:"DIR"`
	RetryFor      time.Duration `default:"1m" help:"How long a commit, and opening the lake, is tried again when it fails for a reason which may pass; 0 for not at all."`
	StatusEvery   time.Duration `default:"1m" help:"How often the log has a status line when there is no terminal; 0s for never. With --verbose it has one after every flush instead."`
	Finished      []string      `help:"A shard that gets no more records, as the parent after a stream was resharded: once the files were read to their end, the low watermark does not wait for it. Repeat it for more." placeholder:"SHARD"`
	Rejects       string        `help:"Append each record that failed to this file, whole, with all its values, and go on: in base64, one JSON object a line. Without it the first failure ends the command." placeholder:"FILE"`
	Redrive       bool          `help:"The files are those of --rejects: deliver their records again. A file is known by its name, and may grow."`
	Maintain      bool          `help:"Compact tables and expire snapshots while running: as icehose maintain does, between two commits."`
	MaintainEvery int           `default:"32" help:"With --maintain: files that a table gains between two runs of it."`
	maintenanceFlags
	retentionFlags
	Continue bool `help:"The files begin where earlier ones ended, not at the start of the stream. A file that is left out is not noticed, but one whose records do not come after those before them is, also if they were handled."`
}

// Help implements kong.HelpProvider.
func (*sinkCmd) Help() string {
	return `Transforms the records as the Lambda does and writes the rows into Iceberg tables:
in a local directory with its own catalog (--lake; made when it is not there), or
below --warehouse in the catalog that --catalog names. The order of changes, repetition and
interruption do not matter: what a table holds already is skipped, an older change never
replaces a newer one. So after a crash run the same command again; give all files from
the start of the stream, in order, or those behind it with --continue.

Each record is given once, and sequence numbers ascend within a shard. A file whose
records do not come after those before them is refused: a file that is there under a
second name too, plain and compressed say, or that stands behind a later one. The first
records of the files that are there at the start are compared before anything is
delivered. The files of a folder or a pattern come by the alphabet, or where sequence
numbers show that this is their order, by the numbers in their names: part-2 before
part-10. A followed file keeps its name and only grows; one that had records when it was
renamed, cut or written anew ends the command.

An interrupt (SIGINT, SIGTERM) commits what was delivered, as far as 8 seconds allow,
and ends within 10 seconds, with status 2 unless everything was read. What it did not
commit the next run reads again. It is how --follow ends, with status 0.

A terminal shows how far it is: a bar of the bytes of the files, unless they are followed
or one is standard input, and a row of numbers. lag is the age of the newest change read,
uncommitted how many records were read and are not in the lake yet, unread how much of the
files is not read yet. Without a terminal the log has the same as JSON (lag_seconds,
uncommitted_records, unread_bytes, ...) every minute (--status-every).

What the pipeline file gained (columns, wider types, partitions) a table gets in the
commit of its first rows. A table that cannot get it safely is refused: without
--rejects the command ends, with it the table's records fail schema_refused and
the other tables go on.

A record that fails is logged without values, and with --rejects kept with all of
them: the file is readable for its owner only. Of those that fail for the same reason
in the same table the log has 10 an hour, and at the end how many they were. It can be looked at with icehose transform
--explain, and delivered again with --redrive once its cause is gone. After a crash a
record can be in it twice. Without --rejects the first record that fails ends the
command: what came before it is in the lake, and the same command goes on with it.

A line that holds no record (cut, or of another format) is of no shard. Without --rejects
it ends the command as a record that fails does, and once it is mended the same command
goes on. Half a record at the end of a file may still be being written: the same command
goes on once it is whole, and --follow waits for that. With --rejects it is kept as it
stands, and again by every later run that reads it. Do not mend it in its place then,
since what came behind is numbered without it: write the mended line into a file of its
own, and deliver that with --redrive.

Exit status: 0 every record was delivered or dropped (with --follow: until the interrupt),
1 some failed and were kept, or were no records at all, or the source's numbering has
restarted with no epoch that says so, 2 it could not be done, or was interrupted before
everything was read.

Examples:
  icehose sink --pipeline pipeline.yaml --lake lake changes.ndjson.zst
  icehose sink --pipeline pipeline.yaml --lake lake --follow --rejects rejects.ndjson changes/
  icehose sink --pipeline pipeline.yaml --lake lake --redrive rejects.ndjson
  icehose sink --pipeline pipeline.yaml --catalog glue --warehouse s3://my-lake/wh --prop glue.region=eu-central-1 changes/
  icehose sink --pipeline pipeline.yaml --catalog sqlite:catalog.db --warehouse s3://lake/wh --prop s3.endpoint=http://localhost:9000 changes/`
}

// maxRetryFor is well below the age of orphans (iceberg.MinOrphanAge).
const maxRetryFor = 30 * time.Minute

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
	r := &sinkRun{cmd: cmd, env: env, pipeline: p, source: cmd.source(env), tables: newTallies(p), pending: make(map[string]*shardBatch)}
	r.logged = &recordLog{log: env.log, now: time.Now, seen: make(map[likeness]*alike)}
	if r.maintenance, err = cmd.maintenance(); err != nil {
		return err
	}
	if r.transformer, err = transform.New(p, transform.Options{}); err != nil {
		return err
	}
	if r.rejects, err = openRejects(cmd.Rejects, cmd.Files, (*os.File).Sync); err != nil {
		return err
	}
	err = errors.Join(r.run(ctx), r.rejects.close())
	if err != nil && r.sink == nil {
		return err // nothing was begun
	}
	result := r.result(ctx.Err() != nil && !r.all, time.Since(started))
	result.Stopped = err != nil
	if global.JSON {
		err = errors.Join(result.writeJSON(env.stdout), err)
	} else {
		err = errors.Join(result.writeText(env.stdout), err)
	}
	if err == nil && result.Interrupted && !cmd.Follow {
		err = context.Canceled // not everything was delivered
	}
	if err == nil && result.Failed+result.regressed+int64(len(r.refused)) > 0 {
		err = exitError(exitDifferent)
	}
	return err
}

func (cmd *sinkCmd) check() error {
	switch {
	case cmd.IndexMemory < 1:
		return errors.New("--index-memory: want 1 or more")
	case cmd.FlushRows < 1 || cmd.FlushBytes < 1 || cmd.Batch < 1:
		return errors.New("--flush-rows, --flush-bytes and --batch: want 1 or more")
	case cmd.FlushEvery <= 0 || cmd.Poll <= 0:
		return errors.New("--flush-every and --poll: want a time above 0, such as 10s")
	case cmd.Horizon < 0 || cmd.RetryFor < 0 || cmd.StatusEvery < 0:
		return errors.New("--horizon, --retry-for and --status-every: want 0s or more")
	case cmd.RetryFor > maxRetryFor:
		return fmt.Errorf("--retry-for: want %s or less: files of a commit that is older look like orphans", maxRetryFor)
	case cmd.MaintainEvery < 1:
		return errors.New("--maintain-every: want 1 or more")
	case len(cmd.Finished) > 0 && cmd.Follow:
		return errors.New("--finished does not go with --follow: a shard is finished once its files were read to their end; run it without --follow, and the next run knows")
	case cmd.Continue && cmd.Redrive:
		return errors.New("--continue does not go with --redrive: a file of rejects is read from its start")
	}
	return nil
}

// maintenance is what keeps the tables small: with --maintain all of it, and
// else no more than the retention, by which every commit goes.
func (cmd *sinkCmd) maintenance() (m iceberg.Maintenance, err error) {
	m = cmd.maintenanceFlags.settings()
	m.Every = cmd.MaintainEvery
	if m.Retention, err = cmd.retentionFlags.settings(); err != nil {
		return m, err
	}
	return m, m.Check()
}

// indexDir is where the index of keys goes, empty for a temporary folder.
func (cmd *sinkCmd) indexDir() string {
	if cmd.IndexDir == "" && cmd.Lake != "" {
		return filepath.Join(cmd.Lake, "icehose-index")
	}
	return cmd.IndexDir
}

// source is where the records come from.
func (cmd *sinkCmd) source(env *environment) *sinksource.Files {
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
	if err := r.source.Check(ctx); err != nil {
		return err
	}
	work, release := outlive(ctx, stopWithin)
	defer release()
	store, err := r.open(ctx, work)
	if err == nil {
		defer func() { err = errors.Join(err, store.Close()) }()
		defer func() { err = errors.Join(err, r.sink.Abandon()) }() // what was not closed
		err = r.startMaintaining(store)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil // interrupted before there was anything to do
		}
		return err
	}
	show := r.showStatus(ctx)
	err = r.carry(ctx, work)
	show.end()
	r.logged.end(ctx)
	if cause := context.Cause(work); err != nil && cause != nil {
		return fmt.Errorf("stop: %w", cause) // what failed then failed because of it
	}
	return err
}

// catalogWait is how long a SQLite catalog that another process has locked is
// waited for before it is a failure: shorter than iceberg's own, since --retry-for
// says how long it is tried again. Maintenance is not tried again before more
// files are there, so it is not too short either.
const catalogWait = 1500 * time.Millisecond

// open opens the lake and the sink, and tries again where that may help.
func (r *sinkRun) open(ctx, work context.Context) (store *iceberg.Store, err error) {
	o := sink.Options{
		FlushRows: r.cmd.FlushRows, FlushBytes: int(r.cmd.FlushBytes), Horizon: r.cmd.Horizon, Log: r.env.log, Now: time.Now, Background: true,
		IndexMemory: int64(r.cmd.IndexMemory), IndexDir: r.cmd.indexDir(), RetryFor: r.cmd.RetryFor, Stopping: ctx.Done(), Continue: r.cmd.Continue, Refused: r.onRefused(),
		Kept:   r.rejects.sync,
		Reject: func(o sink.Offset, reason *sink.RejectError) error { return r.rejected(work, o, reason) },
	}
	err = sink.Again(ctx, o, "open lake", iceberg.MayPass, func() (err error) {
		if store, err = r.cmd.OpenLake(ctx, iceberg.Options{Retention: r.maintenance.Retention, LockWait: catalogWait, Log: r.env.log}); err != nil {
			return err
		}
		if r.sink, err = sink.Open(ctx, r.pipeline, store, o); err != nil {
			return errors.Join(err, store.Close())
		}
		return nil
	})
	return store, err
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
