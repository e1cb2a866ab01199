package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/job"
	"icehose/sink/iceberg"
)

// reconcileCmd proves that a lake equals its source.
type reconcileCmd struct {
	Pipeline string `required:"" help:"The pipeline file." placeholder:"FILE"`
	lakeFlags
	job.SourceFlags
	reportFlags
	repairFlags

	Tables []string `help:"Only these tables, as schema.table of the source." placeholder:"TABLE"`
	Keys   string   `help:"Only these keys: one JSON object a line, {\"table\":\"schema.table\",\"columns\":[...],\"key\":[...]} or {\"table\":\"schema.table\",\"all\":true}, as icehose redrive --keys writes them." placeholder:"FILE"`
	Since  string   `help:"Only rows that the source changed since then, by a column: COLUMN=2026-11-01T00:00:00Z, COLUMN=2026-11-01 or COLUMN=24h. With a duration, a date or a time without a zone is taken from 14 hours earlier on: whatever the clock of the source, no row is passed over. Extra rows of the lake are not seen. Tables without the column are compared whole." placeholder:"COLUMN=TIME"`
	Sample float64  `help:"Only about this fraction of the keys, chosen by their hash: 0.01 is one in a hundred." placeholder:"FRACTION"`

	job.Settings
	Timeout    time.Duration `help:"End after this time: tables not decided by then are inconclusive." placeholder:"DURATION"`
	Checkpoint string        `help:"A file that keeps what is decided, so that an interrupted run continues. It holds the keys of findings. A run that decides everything removes it." placeholder:"FILE"`
	ShowKeys   bool          `help:"Name the keys of findings. They are values of the source."`
}

// Help implements kong.HelpProvider.
func (*reconcileCmd) Help() string {
	return `Compares every row of both sides by digests; where those differ, by key. A row
of the lake is missing, extra, differs, is stale, or is a duplicate. A table that cannot
be read in full is inconclusive, with the reason; the others are finished.

The source is a live PostgreSQL, MySQL or MariaDB, a standby or replica of one, or a dump. A
live source may go on changing and the lake may lag: a key that differs is looked at again
until it agrees, or its change must have arrived. Nothing is written to the source.
A source that follows another server proves nothing before it has come as far as the
lake: what it does not tell of that, --source-role, --replica-lag or the heartbeat table say.

A dump is what PostgreSQL's COPY ... TO ... (FORMAT csv, HEADER) writes (psql: \copy), or
one JSON object a line, column -> the database's text of the value, or null.

The lake is a local directory (--lake), or the tables of a catalog: Glue, REST or a
SQLite database, with their files on S3 or elsewhere (--catalog).

With --repair, rows that differ are put right: the source's current row of each key is
read anew and written at the source's position, so that later changes win over it, in
whatever order they come, and earlier ones lose. The keys are compared again until they
agree. Exit status 0 then means that all of every table was decided and everything found
was repaired; 2, that what was found was repaired, and something of a table not decided,
which the last lines name: there may be more. With --keys, --since or --sample, all of a
table is what they choose of it.

A run that continues from a --checkpoint looks again at the keys that the one before
found: what was repaired meanwhile, or has arrived, is told no more.

Exit status: 0 every table is equal, 1 some table is different, 2 some table is
inconclusive and none different, or it could not be done.

Examples:
  ICEHOSE_DSN=postgres://... icehose reconcile --pipeline pipeline.yaml --lake lake
  icehose reconcile --pipeline pipeline.yaml --lake lake --source dump --final
  icehose reconcile --pipeline pipeline.yaml --catalog glue --warehouse s3://my-lake/wh --prop glue.region=eu-central-1
  icehose reconcile --pipeline pipeline.yaml --lake lake --tables public.orders --show-keys
  icehose reconcile --pipeline pipeline.yaml --lake lake --keys keys.ndjson
  icehose reconcile --pipeline pipeline.yaml --lake lake --since updated_at=24h --version-column updated_at
  icehose reconcile --pipeline pipeline.yaml --lake lake --checkpoint run.json --timeout 1h
  icehose reconcile --pipeline pipeline.yaml --lake lake --history --html report.html
  icehose reconcile --pipeline pipeline.yaml --lake lake --heartbeat public.heartbeat --replica-lag 10m
  icehose reconcile --pipeline pipeline.yaml --lake lake --repair plan --plan plan.ndjson
  icehose reconcile --pipeline pipeline.yaml --lake lake --keys plan.ndjson --repair sink`
}

// Validate implements kong's check of a command's flags.
func (cmd *reconcileCmd) Validate() error {
	switch {
	case cmd.Sample < 0 || cmd.Sample > 1:
		return errors.New("--sample: want a fraction between 0 and 1")
	case cmd.Timeout < 0:
		return errors.New("--timeout: want nothing negative")
	}
	return errors.Join(cmd.CheckSource(), cmd.Check(), cmd.check())
}

// Run implements the command.
func (cmd *reconcileCmd) Run(ctx context.Context, env *environment, global *cli) (err error) {
	p, err := catalog.Load(cmd.Pipeline)
	if err != nil {
		return err
	}
	options, err := cmd.options(p)
	if err != nil {
		return err
	}
	if err := cmd.checkOutputs(); err != nil {
		return err
	}
	source, err := cmd.OpenSource(ctx, env.getenv("ICEHOSE_DSN"), p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	store, err := cmd.OpenLake(ctx, iceberg.Options{ReadOnly: true, Beside: source.Live, Log: env.log})
	if err != nil {
		return err
	}
	closeStore := sync.OnceValue(store.Close) // a repair needs the lake for itself
	defer func() { err = errors.Join(err, closeStore()) }()
	report, err := cmd.compare(ctx, env, p, source, store, options)
	if errors.Is(err, reconcile.ErrOtherRun) {
		return fmt.Errorf("%s: %w", cmd.Checkpoint, err)
	}
	if report == nil {
		return err
	}
	// What was found is told, also when the checkpoint could not be kept.
	finished := cmd.finish(ctx, env, global, &comparison{pipeline: p, source: source, store: store, closeStore: closeStore, report: report})
	if err != nil {
		return errors.Join(err, exceptStatus(finished))
	}
	return finished
}

// exceptStatus leaves out an error that is a verdict: one that says why no
// verdict counts stands beside it.
func exceptStatus(err error) error {
	if _, ok := errors.AsType[exitError](err); ok {
		return nil
	}
	return err
}

// options turns flags into those of a run.
func (cmd *reconcileCmd) options(p *catalog.Pipeline) (o reconcile.Options, err error) {
	o = reconcile.Options{Tables: cmd.Tables, Sample: cmd.Sample, Timeout: cmd.Timeout, ShowKeys: cmd.ShowKeys, Now: time.Now, Identity: cmd.Place(), Recheck: true}
	if cmd.Keys != "" {
		if o.Keys, err = readKeys(cmd.Keys, p); err != nil {
			return o, err
		}
		if !namesOneOf(o.Keys, cmd.Tables) {
			return o, fmt.Errorf("--keys: %s names no keys of tables that are compared: nothing would be", cmd.Keys)
		}
	}
	if cmd.Since != "" {
		if o.Since, err = parseSince(cmd.Since, p, time.Now()); err != nil {
			return o, fmt.Errorf("--since: %w", err)
		}
	}
	if cmd.Checkpoint != "" {
		o.Checkpoint = checkpointFile(cmd.Checkpoint)
	}
	return o, nil
}

func (cmd *reconcileCmd) compare(ctx context.Context, env *environment, p *catalog.Pipeline, source job.Reader, store *iceberg.Store, o reconcile.Options) (*reconcile.Report, error) {
	tables := len(p.Tables)
	if len(cmd.Tables) > 0 {
		tables = len(cmd.Tables)
	}
	progress := newStage(env.stderr, "reconcile", "tables", int64(tables))
	o.Progress = func(p reconcile.Progress) {
		switch p.Step {
		case reconcile.Decided:
			progress.add(1)
		case reconcile.Settling:
			env.log.InfoContext(ctx, "keys differ still", slog.String("table", p.Table), slog.Int("keys", p.Suspects))
		case reconcile.Digesting, reconcile.Comparing:
		}
	}
	cmd.Local = cmd.Lake != ""
	report, err := cmd.Settings.Run(ctx, p, source, store, o)
	if err == nil {
		progress.done()
	}
	return report, err
}

func tableOf(p *catalog.Pipeline, source string) (*catalog.Table, error) {
	for _, t := range p.Tables {
		if t.Source == source {
			return t, nil
		}
	}
	return nil, fmt.Errorf("the pipeline file has no table %q", source)
}

// parseSince reads COLUMN=TIME or COLUMN=DURATION.
func parseSince(text string, p *catalog.Pipeline, now time.Time) (*reconcile.Since, error) {
	column, when, ok := strings.Cut(text, "=")
	if !ok || column == "" {
		return nil, fmt.Errorf("want COLUMN=TIME, got %q", text)
	}
	if !job.HasColumn(p, column) {
		return nil, fmt.Errorf("no table of the pipeline file has a column %s", column)
	}
	if d, err := time.ParseDuration(when); err == nil && d > 0 {
		return &reconcile.Since{Column: column, From: now.Add(-d), Text: when}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if from, err := time.Parse(layout, when); err == nil {
			return &reconcile.Since{Column: column, From: from}, nil
		}
	}
	return nil, fmt.Errorf("want a time like 2026-11-01T00:00:00Z or 2026-11-01, or a duration like 24h, got %q", when)
}
