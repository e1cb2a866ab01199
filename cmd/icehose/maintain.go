package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"icehose/catalog"
	"icehose/sink/iceberg"
)

// maintainCmd keeps the tables of a lake small and quick to plan.
type maintainCmd struct {
	Pipeline string   `required:"" help:"The pipeline file." placeholder:"FILE"`
	Table    []string `help:"Maintain this source table only, as schema.table; may be repeated." placeholder:"TABLE"`
	Plan     bool     `help:"Say what would be done, and change nothing."`
	lakeFlags
	maintenanceFlags
	SnapshotAge time.Duration `default:"0s" help:"Snapshots younger than this stay, however many there are."`
	OrphanAge   time.Duration `default:"72h" help:"How old a file that nothing speaks of must be before it is removed; at least 1h, since a younger one may belong to a commit that is being made."`
	NoCompact   bool          `help:"Rewrite neither data files nor manifests."`
	NoExpire    bool          `help:"Keep every snapshot."`
	NoOrphans   bool          `help:"Look for no orphans."`
}

// maintenanceFlags are the settings that a sink's own maintenance has too.
type maintenanceFlags struct {
	TargetSize    byteSize `default:"128MiB" help:"Size that data files are put together to."`
	SmallFiles    int      `default:"8" help:"How many small data files of a partition make a rewrite worthwhile."`
	DeleteFiles   int      `default:"8" help:"How many delete files of a partition make one."`
	DeleteRatio   float64  `default:"0.2" help:"Part of the rows, from 0 to 1, that delete files must speak of before large files are rewritten too."`
	MaxRewrite    byteSize `default:"1GiB" help:"Bytes of data files that one commit rewrites; the rest is left to the next."`
	KeepSnapshots int      `default:"20" help:"How many snapshots stay, however old they are."`
}

func (f *maintenanceFlags) settings() iceberg.Maintenance {
	return iceberg.Maintenance{
		TargetFileSize: int64(f.TargetSize), MinFiles: f.SmallFiles, DeleteFiles: f.DeleteFiles, DeleteRatio: f.DeleteRatio,
		MaxRewrite: int64(f.MaxRewrite), KeepSnapshots: f.KeepSnapshots,
	}
}

// Help implements kong.HelpProvider.
func (*maintainCmd) Help() string {
	return `Puts small data files together, takes deleted rows out of them where there are
many, so that delete files can go, merges manifests, expires snapshots, and removes
files that nothing speaks of. Rows stay as they are, and so do the sink's notes: a
sink goes on afterwards as if nothing had been. Every commit is whole, so it can be
interrupted at any point; what it wrote in vain is an orphan that a later run removes.

A lake in a directory must not be in use; behind a catalog that is a server, a sink
that commits meanwhile is made way for. A sink that runs all the time maintains its
tables itself: icehose sink --maintain.

Exit status: 0 done, or planned; 2 it could not be done, and what was committed stays.

Examples:
  icehose maintain --pipeline pipeline.yaml --lake lake --plan
  icehose maintain --pipeline pipeline.yaml --lake lake
  icehose maintain --pipeline pipeline.yaml --lake lake --table sales.orders --delete-ratio 0.01`
}

// maintainResult is what the command prints.
type maintainResult struct {
	Planned bool                         `json:"planned"`
	Tables  []*iceberg.MaintenanceReport `json:"tables"`
	Seconds float64                      `json:"seconds"`
}

// Run implements the command.
func (cmd *maintainCmd) Run(ctx context.Context, env *environment, global *cli) (err error) {
	started := time.Now()
	settings := cmd.settings()
	settings.SnapshotAge, settings.OrphanAge, settings.Plan = cmd.SnapshotAge, cmd.OrphanAge, cmd.Plan
	settings.SkipCompact, settings.SkipExpire, settings.SkipOrphans = cmd.NoCompact, cmd.NoExpire, cmd.NoOrphans
	if err := settings.Check(); err != nil {
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
	store, err := cmd.OpenLake(ctx, iceberg.Options{ReadOnly: cmd.Plan, Log: env.log})
	if errors.Is(err, iceberg.ErrLocked) {
		return fmt.Errorf("%w: a sink that runs all the time maintains its tables itself, with --maintain", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	result := &maintainResult{Planned: cmd.Plan}
	for _, t := range tables {
		show := newStage(env.stderr, t.Source, "files", -1)
		settings.Progress = func(files int, _ int64) { show.add(int64(files)) }
		report, err := store.Maintain(ctx, t, settings)
		if err != nil {
			return err
		}
		if !cmd.Plan {
			show.done()
		}
		result.Tables = append(result.Tables, report)
	}
	result.Seconds = time.Since(started).Seconds()
	if global.JSON {
		return printJSON(env.stdout, result)
	}
	return result.writeText(env.stdout)
}

// chooseTables finds the source tables named in a pipeline; none: all.
func chooseTables(p *catalog.Pipeline, path string, names []string) ([]*catalog.Table, error) {
	if len(names) == 0 {
		return p.Tables, nil
	}
	var tables []*catalog.Table
	for _, name := range names {
		schema, table, _ := strings.Cut(name, ".")
		t := p.BySource(schema, table)
		if t == nil {
			return nil, fmt.Errorf("%s: no table %s", path, name)
		}
		if !slices.Contains(tables, t) {
			tables = append(tables, t)
		}
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
	if r.Planned {
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
