package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"icehose/reconcile"
	"icehose/reconcile/heartbeat"
)

// heartbeatCmd keeps the rows of a heartbeat table fresh.
type heartbeatCmd struct {
	Source           string        `help:"Connection string of the source: postgres://, mysql:// or mariadb://. Better given as ICEHOSE_DSN: a command line is visible to others." placeholder:"URL"`
	Table            string        `default:"heartbeat" help:"The table, as schema.table. Without a schema, PostgreSQL's is public, and MySQL's the database of the connection string."`
	Shards           int           `default:"4" help:"Shards of the stream, at most: as many as there would be if all were as small as the smallest."`
	Rows             int           `help:"Rows of the table; default: the fewest that miss a shard with a chance below one in a million, 53 for 4 shards." placeholder:"N"`
	Every            time.Duration `default:"5s" help:"How long to rest between two beats."`
	For              time.Duration `help:"Stop after this long." placeholder:"DURATION"`
	Once             bool          `help:"Stop after one beat, as for cron."`
	StatementTimeout time.Duration `default:"5s" help:"A statement that takes longer fails."`
	LockTimeout      time.Duration `default:"1s" help:"A statement that waits longer for a lock fails. MySQL counts whole seconds."`
	DDL              bool          `name:"ddl" help:"Print the statements that make the table, and its entry in the pipeline file; connect to nothing."`
}

// Help implements kong.HelpProvider.
func (*heartbeatCmd) Help() string {
	return `Writes the table that icehose reconcile --heartbeat reads: gives its rows 1 to N the
server's time every few seconds, in one short statement, and makes those that are
missing. Their changes go through the stream like all others, so the oldest row in the
lake shows up to when every shard has come, also while the source is idle.

This is the only command of icehose that writes rows to a source, and it writes no other
table. The table must be of this use alone: one integer column that is the primary key,
one timestamptz (PostgreSQL) or TIMESTAMP (MySQL), no triggers, no other rows; anything
else is refused. --ddl prints what makes it, for the scheme and the account of the
connection string. The table belongs into the pipeline file as a mirror, and into the DMS
task with the partition key type primary-key, as icehose catalog generate writes it.

How many rows: partition keys are hashed, so S shards are all reached by N rows but for a
chance of S*(1-1/S)^N. Ten rows for each of 4 shards miss one with 4e-5, of 100 shards with
4e-3. The default brings it below 1e-6: 21 rows for 2 shards, 53 for 4, 120 for 8, 258 for
16. Each beat is as many changes: 53 rows every 5 s are 916,000 a day.

The first beat must succeed. Then a lost connection, a lock or a failover is logged and
tried again, after 1 to 30 s. SIGINT and SIGTERM end it after the beat that is being
written.

Exit status: 0 stopped or done, and the last beat was written; 2 otherwise.

Examples:
  ICEHOSE_DSN=postgres://... icehose heartbeat --ddl
  icehose heartbeat
  icehose heartbeat --table ops.heartbeat --shards 16 --every 10s
  icehose heartbeat --once                              # from cron
  icehose reconcile --pipeline pipeline.yaml --lake lake --heartbeat public.heartbeat`
}

// Validate implements kong's check of a command's flags.
func (cmd *heartbeatCmd) Validate() error {
	switch {
	case cmd.Shards < 1 || cmd.Shards > heartbeat.MaxShards:
		return fmt.Errorf("--shards: want 1 to %d", heartbeat.MaxShards)
	case cmd.Rows < 0 || cmd.Rows > heartbeat.MaxRows:
		return fmt.Errorf("--rows: want 1 to %d", heartbeat.MaxRows)
	case cmd.Every < time.Second:
		return errors.New("--every: want 1s or more")
	case cmd.For < 0:
		return errors.New("--for: want nothing negative")
	case cmd.StatementTimeout < time.Second || cmd.LockTimeout < 100*time.Millisecond || cmd.LockTimeout > cmd.StatementTimeout:
		return errors.New("--statement-timeout, --lock-timeout: want 1s and 100ms or more, and the second no longer than the first")
	case cmd.Once && cmd.For > 0:
		return errors.New("--once, --for: want one of them")
	}
	return nil
}

// heartbeatResult is what the command prints.
type heartbeatResult struct {
	heartbeat.Result
	Coverage *heartbeat.Coverage `json:"coverage"`
}

// heartbeatDefinition is what it prints with --ddl.
type heartbeatDefinition struct {
	*heartbeat.Definition
	Coverage *heartbeat.Coverage `json:"coverage"`
}

// Run implements the command.
func (cmd *heartbeatCmd) Run(ctx context.Context, env *environment, global *cli) error {
	dsn := cmp.Or(cmd.Source, env.getenv("ICEHOSE_DSN"))
	if dsn == "" {
		return errors.New("heartbeat: no source: give ICEHOSE_DSN or --source")
	}
	source, err := heartbeat.Find(dsn, cmd.Table)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	rows := cmp.Or(cmd.Rows, heartbeat.RowsFor(cmd.Shards))
	coverage := source.Cover(cmd.Shards, rows)
	if cmd.DDL {
		return printDefinition(env.stdout, &heartbeatDefinition{source.Define(), coverage}, global.JSON)
	}
	if !coverage.Enough() {
		env.log.WarnContext(ctx, "rows may not reach all shards", slog.String("table", source.Name()), slog.Int("rows", rows), slog.Int("shards", cmd.Shards),
			slog.Float64("unreached", coverage.Unreached), slog.Int("reached", coverage.Reached))
	}
	progress := newStage(env.stderr, "heartbeat", "beats", -1)
	result, err := heartbeat.Run(ctx, source, heartbeat.Options{
		Rows: rows, Every: cmd.Every, For: cmd.For, Once: cmd.Once, StatementTimeout: cmd.StatementTimeout, LockTimeout: cmd.LockTimeout,
		Wait: reconcile.Wait, Log: env.log, Beat: func() { progress.add(1) },
	})
	if result.Beats > 0 {
		progress.done()
		err = errors.Join(err, printBeats(env.stdout, &heartbeatResult{result, coverage}, global.JSON))
	}
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}

func printDefinition(w io.Writer, d *heartbeatDefinition, asJSON bool) error {
	if asJSON {
		return printJSON(w, d)
	}
	var b strings.Builder
	b.WriteString(d.String())
	for line := range strings.Lines(d.Coverage.String()) {
		b.WriteString("-- " + line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printBeats(w io.Writer, r *heartbeatResult, asJSON bool) error {
	if asJSON {
		return printJSON(w, r)
	}
	_, err := fmt.Fprintf(w, "%s\n%s", r.Result, r.Coverage)
	return err
}
