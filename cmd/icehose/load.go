package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/load"
)

// loadCmd brings whole tables into a lake, past the stream.
type loadCmd struct {
	Table    []string `arg:"" help:"The source tables, as schema.table."`
	Pipeline string   `default:"pipeline.yaml" help:"The pipeline file." placeholder:"FILE"`
	lakeFlags
	DSN       string        `name:"dsn" xor:"source" help:"Connection string of a live source: postgres://, mysql:// or mariadb://. Better given as ICEHOSE_DSN: a command line is visible to others." placeholder:"URL"`
	Dump      []string      `xor:"source" help:"Load one table from this file instead: .csv or .ndjson as reconcile reads them, plain, .gz or .zst, or .parquet; a pattern, or repeated." placeholder:"FILE"`
	At        string        `help:"With --dump: the source's position at which the dump was made: a log sequence number (0/16B3748), a binlog file and offset (binlog.000003:1234), or 32 hex digits." placeholder:"POSITION"`
	Replace   bool          `help:"Replace the rows that a mirror has, in the same commit."`
	Parallel  int           `default:"4" help:"Connections, or parts of files, that are read at a time."`
	Rate      float64       `default:"0" help:"Rows to read in a second, all connections together; 0 for as many as can be."`
	Statement time.Duration `name:"statement-timeout" default:"0s" help:"Limit of each statement at the source; 0 for none."`
	Lock      time.Duration `name:"lock-timeout" default:"10s" help:"How long a lock is waited for that is held for a moment: tables of MySQL, and tables without a key."`
	Wait      time.Duration `default:"5m" help:"How long transactions are waited for that a PostgreSQL runs when the load begins."`
	NoEdit    bool          `help:"Print the entry for loads: and leave the pipeline file alone."`
}

// Help implements kong.HelpProvider.
func (*loadCmd) Help() string {
	return `Reads whole tables from a live database, or from a dump, straight into the lake,
so that a large table need not pass through the stream. Every row gets the position
of the moment at which it was read, the floor: a change from there on wins over it,
a change before it loses, in whatever order they come. So let the stream begin at the
floor or before it, then run icehose sink.

A live table is read in parallel, each connection a part of one snapshot. Writers are
not held up, except for a moment where a position can be had in no other way: tables
of MySQL, and tables without a key.

A load is one commit: all of it or nothing. One that was cut off starts anew. The
pipeline file gets an entry in the table's loads: that names the floor.

Exit status: 0 loaded, 2 it could not be done, and tables not yet loaded are as they
were.

Examples:
  icehose load sales.orders --lake lake
  icehose load sales.orders sales.items --lake lake --parallel 8 --rate 50000
  icehose load sales.orders --lake lake --dump 'orders-*.csv.zst' --at 0/16B3748`
}

// A loadedTable is what became of one table.
type loadedTable struct {
	Table    string    `json:"table"`  // schema.table of the source
	Target   string    `json:"target"` // database.table of the lake
	Rows     int64     `json:"rows"`
	Floor    string    `json:"floor"` // 32 hex digits
	Since    time.Time `json:"since"`
	Start    string    `json:"start"`    // the floor in the source's own words
	Finished bool      `json:"finished"` // nothing is left that the load did not bring
	Entry    string    `json:"entry"`    // for loads: of the pipeline file
	Edited   bool      `json:"edited"`   // it is there
	Seconds  float64   `json:"seconds"`
	Warnings []string  `json:"warnings,omitempty"`
}

// loadResult is what the command prints.
type loadResult struct {
	Tables []loadedTable `json:"tables"`
	Steps  []string      `json:"steps"`
}

// Run implements the command.
func (cmd *loadCmd) Run(ctx context.Context, env *environment, global *cli) (err error) {
	if err := cmd.check(); err != nil {
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
	store, err := cmd.OpenLake(ctx, iceberg.Options{Log: env.log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	result := &loadResult{}
	for _, t := range tables {
		loaded, err := cmd.load(ctx, env, store, p, t)
		if err != nil {
			return err
		}
		result.Tables = append(result.Tables, *loaded)
		result.Steps = loadSteps(t, loaded)
	}
	if global.JSON {
		return printJSON(env.stdout, result)
	}
	return result.writeText(env.stdout)
}

func (cmd *loadCmd) check() error {
	switch {
	case cmd.Parallel < 1 || cmd.Rate < 0:
		return errors.New("--parallel: want 1 or more; --rate: 0 or more")
	case cmd.Statement < 0 || cmd.Lock <= 0 || cmd.Wait <= 0:
		return errors.New("--statement-timeout: want 0s or more; --lock-timeout and --wait: a time above 0, such as 10s")
	case len(cmd.Dump) > 0 && len(cmd.Table) != 1:
		return errors.New("--dump: its files are of one table: name that one alone")
	case len(cmd.Dump) == 0 && cmd.At != "":
		return errors.New("--at: a live source says its position itself; give it with --dump only")
	}
	return nil
}

// load loads one table. The lake is held before the source is looked at, so that
// no sink can write what the snapshot does not know.
func (cmd *loadCmd) load(ctx context.Context, env *environment, store *iceberg.Store, p *catalog.Pipeline, t *catalog.Table) (_ *loadedTable, err error) {
	started := time.Now()
	target, err := store.BeginLoad(ctx, t, cmd.Replace)
	if errors.Is(err, iceberg.ErrNotEmpty) {
		return nil, cmd.notEmpty(ctx, store, t, err)
	}
	if err != nil {
		return nil, err
	}
	snapshot, err := cmd.snapshot(ctx, env, p, t)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	for _, w := range snapshot.Warnings {
		env.log.WarnContext(ctx, "load warning", slog.String("table", t.Source), slog.String("warning", w))
	}
	finished := t.Mode == catalog.Mirror || !target.Filled()
	if _, err := announced(cmd.Pipeline, t, snapshot, finished); err != nil {
		return nil, err // rather now than when everything has been read
	}
	show := newStage(env.stderr, t.Source, "rows", snapshot.Estimate)
	var drawing sync.Mutex
	note, err := load.Run(ctx, t, p.EpochAt(snapshot.Since), snapshot, target, load.Options{
		Parallel: cmd.Parallel, Rate: cmd.Rate, Now: time.Now,
		Progress: func(rows int64) {
			drawing.Lock()
			defer drawing.Unlock()
			show.add(rows)
		},
	})
	if err != nil {
		return nil, err
	}
	show.done()
	loaded := &loadedTable{
		Table: t.Source, Target: t.Database() + "." + t.Name(), Rows: note.Rows, Floor: snapshot.Floor.String(), Since: snapshot.Since, Start: snapshot.Start,
		Finished: finished, Entry: loadEntry(snapshot.Floor.String(), snapshot.Since, finished), Warnings: snapshot.Warnings, Seconds: time.Since(started).Seconds(),
	}
	if !cmd.NoEdit {
		text, err := announced(cmd.Pipeline, t, snapshot, finished)
		if err == nil {
			err = replaceFile(cmd.Pipeline, text)
		}
		if err != nil {
			return nil, fmt.Errorf("table %s is loaded, but %s could not be edited: %w: add %s to its loads", t.Source, cmd.Pipeline, err, loaded.Entry)
		}
		loaded.Edited = true
	}
	return loaded, nil
}

// notEmpty says why a mirror that has rows is not loaded. They may be those of
// a load that was cut off before the pipeline file was edited.
func (cmd *loadCmd) notEmpty(ctx context.Context, store *iceberg.Store, t *catalog.Table, cause error) error {
	opened, err := store.OpenTable(ctx, t)
	if err != nil {
		return err
	}
	state, err := opened.Load(ctx)
	if err != nil {
		return err
	}
	note, loaded, err := sink.ParseLoadNote(state.Properties[sink.PropertyLoad])
	if err != nil {
		return err
	}
	for _, l := range t.Loads {
		loaded = loaded && l.Floor.String() != note.Position.Body()
	}
	if loaded {
		return fmt.Errorf("%w: they are of a load that %s does not tell of: add %s to its loads", cause, cmd.Pipeline,
			loadEntry(note.Position.Body(), note.Since, true))
	}
	return fmt.Errorf("%w: --replace puts those of the source in their place, in the same commit; to load beside running changes see icehose resync", cause)
}

func loadEntry(floor string, since time.Time, finished bool) string {
	end := ""
	if finished {
		end = ", finished: true"
	}
	return fmt.Sprintf("{floor: %q, since: %s%s}", floor, since.UTC().Format(time.RFC3339Nano), end)
}

func (r *loadResult) writeText(w io.Writer) error {
	var b strings.Builder
	for _, t := range r.Tables {
		fmt.Fprintf(&b, "table %s: %s rows in %.1f s, %s rows/s, floor %s\n", t.Table, thousands(t.Rows), t.Seconds, thousands(int64(float64(t.Rows)/t.Seconds)), t.Floor)
		if !t.Edited {
			fmt.Fprintf(&b, "  loads: %s\n", t.Entry)
		}
		for _, warning := range t.Warnings {
			fmt.Fprintf(&b, "  warning: %s\n", warning)
		}
	}
	b.WriteByte('\n')
	for i, s := range r.Steps {
		fmt.Fprintf(&b, "%d. %s\n", i+1, s)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// loadSteps says how changes go on from where the loads ended.
func loadSteps(t *catalog.Table, last *loadedTable) []string {
	start := "start the changes at the floor of the first table, or before it"
	switch t.Position.Source {
	case cdc.SourcePostgres:
		start += ": aws dms create-replication-task --migration-type cdc --cdc-start-position LSN, with the slot's name in the endpoint's settings (SlotName); " +
			"the slot must be older than the load; last floor " + last.Start
	case cdc.SourceMySQL:
		start += ": aws dms create-replication-task --migration-type cdc --cdc-start-position FILE:OFFSET; the binary log must still have it; last floor " + last.Start
	case cdc.SourceNone, cdc.SourceSQLServer, cdc.SourceOracle, cdc.SourceColumn:
	}
	steps := []string{start, "icehose sink: changes below the floor are superseded, those from it on win"}
	if !last.Finished {
		steps = append(steps, "when every change up to the load is in the lake: icehose resync finish "+shellWord(t.Source)+
			": the changelog had rows, and what the load did not bring again may be left over")
	}
	return steps
}
