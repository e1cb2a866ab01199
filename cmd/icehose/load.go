package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
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
	DSN            string        `name:"dsn" xor:"source" help:"Connection string of a live source: postgres://, mysql:// or mariadb://. Better given as ICEHOSE_DSN: a command line is visible to others." placeholder:"URL"`
	Dump           []string      `xor:"source" help:"Load one table from this file instead: .csv or .ndjson as reconcile reads them, plain, .gz or .zst, or .parquet; a pattern, or repeated." placeholder:"FILE"`
	BinaryAsString bool          `help:"With --dump of Parquet: take bytes that are not marked as text for text, as old Hive, Impala and Spark wrote it."`
	AllowEmpty     bool          `help:"With --dump of NDJSON: a file without rows is right. Otherwise it is refused, as if it had never been written."`
	TrustKey       bool          `help:"Do not look for keys that occur twice, of which a table would be wrong for good. The check takes 16 bytes a row of the temporary folder (TMPDIR), beyond 2 million rows."`
	At             string        `help:"With --dump: the source's position at which the dump was made: a log sequence number (0/16B3748), a binlog file and offset (binlog.000003:1234), or 32 hex digits." placeholder:"POSITION"`
	Replace        bool          `help:"Replace the rows that a mirror has, in the same commit."`
	Rewind         bool          `help:"Take a floor below what a mirror has already: what the sink has noted as read goes with the load, and the sink must read all files from the start of the stream once more."`
	Parallel       int           `default:"4" help:"Connections, or parts of files, that are read at a time."`
	Rate           float64       `default:"0" help:"Rows to read in a second, all connections together; 0 for as many as can be."`
	Statement      time.Duration `name:"statement-timeout" default:"0s" help:"Limit of each statement at the source; 0 for none."`
	Lock           time.Duration `name:"lock-timeout" default:"10s" help:"How long a lock is waited for that is held for a moment: tables of MySQL, and tables without a key."`
	Wait           time.Duration `default:"5m" help:"How long transactions are waited for that a PostgreSQL runs when the load begins."`
	NoEdit         bool          `help:"Print the entry for loads: and leave the pipeline file alone."`
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
of MySQL, and tables without a key. What alters a table of PostgreSQL (ALTER TABLE,
TRUNCATE) waits until it is loaded, and whoever comes after that waits, too.

A mirror that a sink has written is not loaded at a floor below its newest change:
what came in between was read, and is not read again. With --rewind it is, and the
sink must read them again: run it once with all files from the start of the stream,
without --continue. What the tables have is skipped.

A load is one commit: all of it or nothing. One that was cut off starts anew. The
pipeline file gets an entry in the table's loads: that names the floor.

No key may occur twice: that is looked for when all rows were read, and fails the
load. So does a null in a column that is not_null.

Exit status: 0 loaded, 2 it could not be done: tables that are printed are loaded,
the others are as they were.

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
	var failed error
	for i := 0; i < len(tables) && failed == nil; i++ {
		var loaded *loadedTable
		if loaded, failed = cmd.load(ctx, env, store, p, tables[i]); loaded != nil {
			result.Tables = append(result.Tables, *loaded)
		}
	}
	if len(result.Tables) == 0 {
		return failed
	}
	// What was loaded before an error is, and its floor is known to nobody else.
	result.Steps = loadSteps(tables[:len(result.Tables)], result.Tables)
	if global.JSON {
		return printPartJSON(env.stdout, result, failed)
	}
	return errors.Join(result.writeText(env.stdout), failed)
}

func (cmd *loadCmd) check() error {
	switch {
	case cmd.Parallel < 1 || cmd.Rate < 0:
		return errors.New("--parallel: want 1 or more; --rate: 0 or more")
	case cmd.Statement < 0 || cmd.Lock <= 0 || cmd.Wait <= 0:
		return errors.New("--statement-timeout: want 0s or more; --lock-timeout and --wait: a time above 0, such as 10s")
	case len(cmd.Dump) > 0 && len(cmd.Table) != 1:
		return errors.New("--dump: its files are of one table: name that one alone")
	case len(cmd.Dump) == 0 && (cmd.BinaryAsString || cmd.AllowEmpty):
		return errors.New("--binary-as-string and --allow-empty are of files: give them with --dump only")
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
	if err := cmd.admit(ctx, p, store, target, snapshot); err != nil {
		return nil, err // before anything is read
	}
	finished := t.Mode == catalog.Mirror || !target.Filled()
	if !cmd.NoEdit {
		if _, err := announced(cmd.Pipeline, t, snapshot, finished); err != nil {
			return nil, fmt.Errorf("%w, or let the entry be printed alone, with --no-edit", err) // rather now than when everything has been read
		}
	}
	show := newStage(env.stderr, t.Source, "rows", snapshot.Estimate)
	var drawing sync.Mutex
	note, err := load.Run(ctx, t, p.EpochAt(snapshot.Since), snapshot, target, load.Options{
		Parallel: cmd.Parallel, Rate: cmd.Rate, Now: time.Now, TrustKey: cmd.TrustKey,
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
			return loaded, fmt.Errorf("table %s is loaded, but %s could not be edited: %w: add %s to its loads", t.Source, cmd.Pipeline, err, loaded.Entry)
		}
		loaded.Edited = true
	}
	return loaded, nil
}

// admit refuses a floor below what the table has already. With --rewind nobody
// may count on the table having that: not from before the load is committed on.
func (cmd *loadCmd) admit(ctx context.Context, p *catalog.Pipeline, store *iceberg.Store, target *iceberg.Load, s *load.Snapshot) error {
	epoch := p.EpochAt(s.Since)
	// What a live source has now reflects whatever the lake has of it, a change
	// that ends at the floor included.
	upto := cdc.ChangePosition(epoch, s.Floor, math.MaxUint64)
	if len(cmd.Dump) > 0 {
		var err error
		if upto, err = cdc.LoadPosition(epoch, s.Floor, s.Since, cdc.Origin{}); err != nil {
			return err
		}
	}
	err := target.Admit(ctx, upto, cmd.Rewind)
	if errors.Is(err, iceberg.ErrBelow) {
		return fmt.Errorf("%w: load from a later dump, or with --rewind, and let the sink read all files from the start of the stream once more", err)
	}
	if err == nil && target.Rewinds() {
		err = sink.RewindCheckpoint(ctx, store, p)
	}
	return err
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
		start := ""
		if t.Start != "" && t.Start != t.Floor {
			start = " (" + t.Start + ")"
		}
		fmt.Fprintf(&b, "table %s: %s rows in %.1f s, %s rows/s, floor %s%s\n", t.Table, thousands(t.Rows), t.Seconds, thousands(int64(float64(t.Rows)/t.Seconds)), t.Floor, start)
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

// before says that a table was loaded at a lower floor. One whose changes have no
// order has none: then the earlier comes first.
func (t *loadedTable) before(other *loadedTable) bool {
	if strings.Trim(t.Floor, "0") == "" || strings.Trim(other.Floor, "0") == "" {
		return t.Since.Before(other.Since)
	}
	return t.Floor < other.Floor
}

// loadSteps says how changes go on from where the loads of the tables ended:
// from the lowest of their floors.
func loadSteps(tables []*catalog.Table, loaded []loadedTable) []string {
	lowest, kind := 0, cdc.SourceNone
	for i := range loaded {
		if loaded[i].before(&loaded[lowest]) {
			lowest = i
		}
		if source := tables[i].Position.Source; source != cdc.SourceNone {
			kind = source
		}
	}
	place := loaded[lowest].Start
	if place == "" {
		place = loaded[lowest].Floor
	}
	start := "start the changes at " + place + ", the lowest floor, or before it"
	switch kind {
	case cdc.SourcePostgres:
		start += ": aws dms create-replication-task --migration-type cdc --cdc-start-position " + place +
			", with the slot's name in the endpoint's settings (SlotName); the slot must be older than the load"
	case cdc.SourceMySQL:
		start += ": aws dms create-replication-task --migration-type cdc --cdc-start-position " + place + "; the binary log must still have it"
	case cdc.SourceNone, cdc.SourceSQLServer, cdc.SourceOracle, cdc.SourceColumn:
	}
	steps := []string{start, "icehose sink: changes below the floor are superseded, those from it on win"}
	for i := range loaded {
		if !loaded[i].Finished {
			steps = append(steps, "when every change up to the load is in the lake: icehose resync finish "+shellWord(tables[i].Source)+
				": the changelog had rows, and what the load did not bring again may be left over")
		}
	}
	return steps
}
