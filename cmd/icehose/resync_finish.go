package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"icehose/catalog"
	"icehose/catalog/discover"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sweep"
)

// resyncFinishCmd removes what a finished load did not bring again.
type resyncFinishCmd struct {
	Table    string `arg:"" help:"The source table, as schema.table."`
	Pipeline string `default:"pipeline.yaml" help:"The pipeline file." placeholder:"FILE"`
	Dialect  string `default:"athena" enum:"athena,spark" help:"Of the statement: athena or spark." placeholder:"DIALECT"`
	Swept    bool   `help:"The statement has been run: write finished: true into the pipeline file."`
	Count    bool   `help:"With --lake or --catalog: count the ghosts, and remove none."`
	Empty    bool   `help:"With --lake or --catalog: the source has no rows, so that none of the load comes is right."`
	lakeFlags
}

// Help implements kong.HelpProvider.
func (*resyncFinishCmd) Help() string {
	return `Removes the ghosts of a table: rows that were deleted in the source while nobody
saw it, and so are below the floor of the last load after all of its rows have
come. Run it only then: a row that has not come yet is taken for a ghost.

A lake that icehose sink writes (--lake or --catalog) is swept here, while no sink
runs: each ghost is deleted as by a change at the load's position, and the load is
marked as finished in the pipeline file. A sweep that was cut off is run again.

Otherwise the statement that does it is printed, for the tables that Firehose
writes. With --swept, once it has run, the load is marked as finished.

Exit status: 0 removed, printed, counted or marked, 2 not possible, and the pipeline
file is as it was.

Example:
  icehose resync finish sales.orders --lake lake --count
  icehose resync finish sales.orders --lake lake
  icehose resync finish sales.orders --dialect spark
  icehose resync finish sales.orders --swept`
}

// Run implements the command.
func (cmd *resyncFinishCmd) Run(ctx context.Context, env *environment, global *cli) error {
	p, text, t, err := readTable(cmd.Pipeline, cmd.Table)
	if err != nil {
		return err
	}
	if len(t.Loads) == 0 {
		return fmt.Errorf("finish load: %s: table %s has no loads: icehose resync start announces one", cmd.Pipeline, t.Source)
	}
	ours := cmd.Lake != "" || cmd.Catalog != ""
	switch {
	case ours && cmd.Swept:
		return errors.New("--swept is for a statement that was run elsewhere, not for --lake and --catalog")
	case !ours && (cmd.Count || cmd.Empty):
		return errors.New("--count and --empty want --lake or --catalog")
	}
	load := t.Loads[len(t.Loads)-1]
	result := resyncResult{Table: t.Source, Floor: load.Floor.String(), Since: load.Since.UTC().Format(time.RFC3339Nano)}
	switch {
	case ours:
		err = cmd.sweep(ctx, env, p, t, load, &result)
	case !cmd.Swept:
		err = cmd.statement(p, t, load, &result)
	}
	if err != nil {
		return fmt.Errorf("finish load: %w", err)
	}
	if cmd.Swept || ours && !cmd.Count {
		if text, err = discover.FinishLoad(cmd.Pipeline, text, t.Source); err != nil {
			return fmt.Errorf("finish load: %w", err)
		}
		if err := replaceFile(cmd.Pipeline, text); err != nil {
			return fmt.Errorf("write pipeline file: %w", err)
		}
		result.Steps = []string{"icehose reconcile, to see that the table is equal now"}
	}
	return result.print(env.stdout, global.JSON)
}

// sweep removes the ghosts from a lake of our own.
func (cmd *resyncFinishCmd) sweep(ctx context.Context, env *environment, p *catalog.Pipeline, t *catalog.Table, load catalog.LoadStart, result *resyncResult) error {
	store, err := cmd.OpenLake(ctx, iceberg.Options{ReadOnly: cmd.Count, Retention: iceberg.KeepAll(), Log: env.log})
	if err != nil {
		return err
	}
	swept, err := sweep.Run(ctx, store, p, t, load, sweep.Options{Sink: sink.Options{Log: env.log, RetryFor: time.Minute, Stopping: ctx.Done()}, Empty: cmd.Empty, Count: cmd.Count})
	err = errors.Join(err, store.Close())
	switch {
	case errors.Is(err, sweep.ErrNoLoad):
		return fmt.Errorf("table %s: %w: wait for it; --empty says that the source has no rows", t.Source, err)
	case errors.Is(err, sweep.ErrNoKey):
		return fmt.Errorf("table %s: %w: run the statement that the command prints without --lake and --catalog", t.Source, err)
	case err != nil:
		return err
	}
	result.Swept = &swept
	result.Steps = []string{"icehose resync finish without --count removes them"}
	return nil
}

// statement makes the statement that removes them elsewhere.
func (cmd *resyncFinishCmd) statement(p *catalog.Pipeline, t *catalog.Table, load catalog.LoadStart, result *resyncResult) error {
	var err error
	if result.SQL, err = sweepStatement(p, t, load, cmd.Dialect); err != nil {
		return err
	}
	result.Steps = []string{
		"make sure that every row of the load is in the lake: a row that has not come yet is taken for a ghost",
		"run the statement",
		"icehose resync finish " + shellWord(t.Source) + " --pipeline " + shellWord(cmd.Pipeline) + " --swept",
	}
	if result.SQL == "" {
		result.Steps = append([]string{"nothing to run: reading a changelog without a key, only the newest load and what came after it count"}, result.Steps[2:]...)
	}
	return nil
}

// sweepStatement returns the statement that removes the rows below the floor;
// empty when none is needed.
func sweepStatement(p *catalog.Pipeline, t *catalog.Table, load catalog.LoadStart, dialect string) (string, error) {
	if !sweep.Needed(t) {
		return "", nil
	}
	lowest, floor, err := sweep.Floor(p, load)
	if err != nil {
		return "", err
	}
	quote := func(name string) string {
		if dialect == "spark" {
			return "`" + name + "`"
		}
		return `"` + name + `"`
	}
	table := quote(t.Database()) + "." + quote(t.Name())
	if t.Mode == catalog.Mirror {
		return fmt.Sprintf("DELETE FROM %s WHERE cdc_position < '%s' OR cdc_position IS NULL", table, floor), nil
	}
	keys := make([]string, len(t.Key))
	for i, k := range t.Key {
		keys[i] = quote(k)
	}
	list := strings.Join(keys, ", ")
	return fmt.Sprintf(`INSERT INTO %s (%s, cdc_position, cdc_committed_at, cdc_operation)
SELECT %s, '%s', TIMESTAMP '%s UTC', 'delete'
FROM %s
GROUP BY %s
HAVING max(cdc_position) < '%s' AND max_by(cdc_operation, cdc_position) <> 'delete'`,
		table, list, list, lowest, load.Since.UTC().Format("2006-01-02 15:04:05.000000"), table, list, floor), nil
}
