package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"icehose/catalog"
	"icehose/reconcile/history"
	"icehose/reconcile/job"
	"icehose/sink/iceberg"
	"icehose/sink/merge"
)

// maintainCmd keeps the tables of a lake small and quick to plan.
type maintainCmd struct {
	Pipeline string   `required:"" help:"The pipeline file." placeholder:"FILE"`
	Table    []string `help:"Maintain this source table only, as schema.table; may be repeated." placeholder:"TABLE"`
	Plan     bool     `help:"Say what would be done, and change nothing."`
	lakeFlags
	maintenanceFlags
	retentionFlags
	OrphanAge time.Duration `default:"72h" help:"How old a file that nothing speaks of must be before it is removed; at least 24h, since a younger one may belong to a load or a commit that is being made."`
	NoCompact bool          `help:"Rewrite neither data files nor manifests."`
	NoExpire  bool          `help:"Keep every snapshot."`
	NoOrphans bool          `help:"Look for no orphans."`
}

// maintenanceFlags are the settings that a sink's own maintenance has too.
type maintenanceFlags struct {
	TargetSize  byteSize `default:"128MiB" help:"Compaction: size that data files are put together to."`
	SmallFiles  int      `default:"8" help:"Compaction: how many small data files of a partition make a rewrite worthwhile."`
	DeleteFiles int      `default:"8" help:"Compaction: how many delete files of a partition make one."`
	DeleteRatio float64  `default:"0.2" help:"Compaction: part of the rows, from 0 to 1, that delete files must speak of before large files are rewritten too."`
	MaxRewrite  byteSize `default:"1GiB" help:"Compaction: bytes of data files that one commit rewrites; the rest is left to the next."`
}

func (f *maintenanceFlags) settings() iceberg.Maintenance {
	return iceberg.Maintenance{
		TargetFileSize: int64(f.TargetSize), MinFiles: f.SmallFiles, DeleteFiles: f.DeleteFiles, DeleteRatio: f.DeleteRatio,
		MaxRewrite: int64(f.MaxRewrite),
	}
}

// retentionFlags say which snapshots of a table stay. What is not given the
// table itself may say.
type retentionFlags struct {
	KeepSnapshots *int           `help:"How many snapshots stay, however old they are. Default: the table's history.expire.min-snapshots-to-keep, or 20." placeholder:"N"`
	SnapshotAge   *time.Duration `help:"For how long a snapshot stays after another has taken its place: as long as the longest query runs, or as anybody goes back. Default: the table's history.expire.max-snapshot-age-ms, or 1h." placeholder:"DURATION"`
	MaxSnapshots  int            `help:"Beyond this the oldest snapshots go, however young they are: each makes every commit dearer. Default: 100, or --keep-snapshots if that is more; none where an age is given." placeholder:"N"`
}

func (f *retentionFlags) settings() (iceberg.Retention, error) {
	r := iceberg.Retention{MaxSnapshots: f.MaxSnapshots}
	switch {
	case f.MaxSnapshots < 0 || f.KeepSnapshots != nil && *f.KeepSnapshots < 1:
		return r, errors.New("--keep-snapshots and --max-snapshots: want 1 or more")
	case f.SnapshotAge != nil && *f.SnapshotAge < 0:
		return r, errors.New("--snapshot-age: want 0s or more")
	}
	if f.KeepSnapshots != nil {
		r.KeepSnapshots = *f.KeepSnapshots
	}
	if f.SnapshotAge != nil {
		if r.SnapshotAge = *f.SnapshotAge; r.SnapshotAge == 0 {
			r.SnapshotAge = -1 // for no time, and not as the table says
		}
	}
	return r, r.Check()
}

// Help implements kong.HelpProvider.
func (*maintainCmd) Help() string {
	return `Puts small data files together, takes deleted rows out of them where there are
many, so that delete files can go, merges manifests, expires snapshots, and removes
files that nothing speaks of. Rows stay as they are, and so do the sink's notes: a
sink goes on afterwards as if nothing had been. Every commit is whole, so it can be
interrupted at any point; what it wrote in vain is an orphan that a later run removes.
Give it the --keep-snapshots and --snapshot-age of the sink, if that has any: it knows
only what the table's own properties say.
The current table that icehose merge keeps of a changelog (named after it, with _folded)
is maintained with it, and icehose_reconcile_runs, the table of past reconciles, with all
of them: each where there is one.

A lake in a directory must not be in use; behind a catalog that is a server, a sink
or a merge that commits meanwhile is made way for. A sink that runs all the time maintains its
tables itself: icehose sink --maintain.

Exit status: 0 done, or planned; 2 it could not be done, and what was committed, as
printed, stays.

Examples:
  icehose maintain --pipeline pipeline.yaml --lake lake --plan
  icehose maintain --pipeline pipeline.yaml --lake lake
  icehose maintain --pipeline pipeline.yaml --lake lake --table sales.orders --delete-ratio 0.01`
}

// maintainResult is what the command prints.
type maintainResult struct {
	Planned bool                         `json:"planned"`
	Stopped bool                         `json:"stopped"` // by an error, in the last of the tables
	Tables  []*iceberg.MaintenanceReport `json:"tables"`
	Seconds float64                      `json:"seconds"`
}

// Run implements the command.
func (cmd *maintainCmd) Run(ctx context.Context, env *environment, global *cli) (err error) {
	started := time.Now()
	settings, err := cmd.maintenance()
	if err != nil {
		return err
	}
	p, err := catalog.Load(cmd.Pipeline)
	if err != nil {
		return err
	}
	tables, err := chooseTables(p, cmd.Pipeline, cmd.Table)
	if err != nil {
		return err
	}
	if err := cmd.exists(); err != nil {
		return err
	}
	store, err := cmd.OpenLake(ctx, iceberg.Options{ReadOnly: cmd.Plan, Log: env.log})
	if errors.Is(err, iceberg.ErrLocked) {
		return fmt.Errorf("%w (a sink that runs all the time maintains its tables itself, with --maintain)", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if tables, err = cmd.withOthers(ctx, store, p, tables); err != nil {
		return err
	}
	result := &maintainResult{Planned: cmd.Plan}
	var failed error
	for _, t := range tables {
		name := t.Source
		if strings.HasSuffix(t.Name(), catalog.CurrentSuffix) { // it has the source of its changelog
			name = t.Database() + "." + t.Name()
		}
		show := newStage(env.stderr, name, "files", -1)
		settings.Progress = func(files int, _ int64) { show.add(int64(files)) }
		var report *iceberg.MaintenanceReport
		report, failed = store.Maintain(ctx, t, settings)
		if report != nil {
			result.Tables = append(result.Tables, report)
		}
		if failed != nil {
			break // what was done until then stays, and is told
		}
		if !cmd.Plan {
			show.done()
		}
	}
	if failed != nil && len(result.Tables) == 0 {
		return failed
	}
	result.Seconds, result.Stopped = time.Since(started).Seconds(), failed != nil
	if global.JSON {
		return printPartJSON(env.stdout, result, failed)
	}
	return errors.Join(result.writeText(env.stdout), failed)
}

// withOthers adds the tables that are kept beside those of the pipeline: the
// current tables of changelogs, and that of past reconciles.
func (cmd *maintainCmd) withOthers(ctx context.Context, store *iceberg.Store, p *catalog.Pipeline, tables []*catalog.Table) ([]*catalog.Table, error) {
	tables, err := merge.WithCurrent(ctx, store.Tables().Tables, tables)
	if err != nil || len(cmd.Table) > 0 {
		return tables, err
	}
	past, err := history.Table(ctx, store.Tables(), job.Database(p))
	if err == nil && past != nil {
		tables = append(tables, past)
	}
	return tables, err
}

// maintenance is what the flags say, checked.
func (cmd *maintainCmd) maintenance() (settings iceberg.Maintenance, err error) {
	settings = cmd.maintenanceFlags.settings()
	settings.OrphanAge, settings.Plan = cmd.OrphanAge, cmd.Plan
	if settings.Retention, err = cmd.retentionFlags.settings(); err != nil {
		return settings, err
	}
	settings.SkipCompact, settings.SkipExpire, settings.SkipOrphans = cmd.NoCompact, cmd.NoExpire, cmd.NoOrphans
	return settings, settings.Check()
}

// chooseTables finds the source tables named in a pipeline; none: all.
func chooseTables(p *catalog.Pipeline, path string, names []string) ([]*catalog.Table, error) {
	tables, err := p.Choose(names)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return tables, nil
}

func (r *maintainResult) writeText(w io.Writer) error {
	var b strings.Builder
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	width := len("table")
	for _, t := range r.Tables {
		width = max(width, len(t.Table))
	}
	line := func(format string, args ...any) {
		_, _ = fmt.Fprintf(out, format, args...) // what fails is told by Flush
	}
	line("%-*s\tdata files\tdelete files\tmanifests\tsnapshots\tMiB\trewrites\texpired\torphans\t\n", width, "table")
	for _, t := range r.Tables {
		after := &t.Before
		if t.After != nil {
			after = t.After
		}
		line("%-*s\t%s\t%s\t%s\t%s\t%s\t", width, t.Table, fromTo(t.Before.DataFiles, after.DataFiles), fromTo(t.Before.DeleteFiles, after.DeleteFiles),
			fromTo(t.Before.Manifests, after.Manifests), fromTo(t.Before.Snapshots, after.Snapshots), fromTo(t.Before.Bytes>>20, after.Bytes>>20))
		line("%d\t%d\t%d\t\n", len(t.Rewrites), t.ExpiredSnapshots, len(t.Orphans))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	for _, t := range r.Tables {
		for _, c := range t.Rewrites {
			where := t.Table
			if c.Partition != "" {
				where += " " + c.Partition
			}
			fmt.Fprintf(&b, "%s: %s: %d data files of %s rows, %d delete files\n", where, strings.ReplaceAll(string(c.Why), "_", " "),
				c.DataFiles, thousands(c.Rows), c.DeleteFiles)
		}
	}
	done := "done"
	switch {
	case r.Stopped:
		done = "stopped"
	case r.Planned:
		done = "planned, nothing was changed"
	}
	fmt.Fprintf(&b, "%s: %.1f s\n", done, r.Seconds)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

func fromTo[T int | int64](before, after T) string {
	if before == after {
		return fmt.Sprint(after)
	}
	return fmt.Sprintf("%d > %d", before, after)
}
