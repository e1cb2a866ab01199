package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"icehose/catalog"
	"icehose/catalog/discover"
	"icehose/catalog/mysql"
	"icehose/catalog/postgres"
	"icehose/cdc"
	"icehose/sink/sweep"
)

// resyncCmd loads a table anew while its changes go on.
type resyncCmd struct {
	Start  resyncStartCmd  `cmd:"" help:"Announce that a table is about to be loaded again."`
	Finish resyncFinishCmd `cmd:"" help:"Remove what the finished load did not bring again."`
}

// resyncStartCmd writes the floor of a reload into the pipeline file.
type resyncStartCmd struct {
	Table    string    `arg:"" help:"The source table, as schema.table."`
	DSN      string    `name:"dsn" help:"Connection string of the source. Better given as ICEHOSE_DSN: a command line is visible to others." placeholder:"URL"`
	Pipeline string    `default:"pipeline.yaml" help:"The pipeline file." placeholder:"FILE"`
	Floor    string    `help:"The floor, 32 hex digits, where the source's position cannot be read: position kinds other than postgres and mysql." placeholder:"HEX"`
	Again    bool      `help:"The load that was announced last is to begin anew, although it is not finished."`
	Since    time.Time `format:"2006-01-02T15:04:05.999999999Z07:00" help:"With --floor: the time from which on load records belong to this load." placeholder:"TIME"`
}

// Help implements kong.HelpProvider.
func (*resyncStartCmd) Help() string {
	return `Reads how far the source has come and appends that, with the time, to the
table's loads: in the pipeline file: rows that the load brings then win over
every change before it, and lose to every change after it. Prints what to do,
in order. Run it before the load begins, never after: rows that have come by then
would count as left over. So run again it announces nothing while the last load is
not finished, says how old its floor is, and prints the steps anew; --again starts
over.

Exit status: 0 announced, 2 not possible, and nothing written.

Example:
  icehose resync start sales.orders`
}

// resyncResult is what the commands print.
type resyncResult struct {
	Table string `json:"table"`
	Floor string `json:"floor"`
	Since string `json:"since"`
	// Already says that the load was announced before, and is not finished.
	Already bool   `json:"already_announced,omitempty"`
	Note    string `json:"note,omitempty"`
	SQL     string `json:"sql,omitempty"`
	// Swept is what became of the ghosts in a lake of our own.
	Swept *sweep.Result `json:"swept,omitempty"`
	Steps []string      `json:"steps"`
}

// Run implements the command.
func (cmd *resyncStartCmd) Run(ctx context.Context, env *environment, global *cli) error {
	p, text, t, err := readTable(cmd.Pipeline, cmd.Table)
	if err != nil {
		return err
	}
	load, already, err := cmd.announce(ctx, env, t, text)
	if err != nil {
		return err
	}
	schema, name, _ := strings.Cut(t.Source, ".")
	result := resyncResult{Table: t.Source, Floor: load.Floor.String(), Since: load.Since.UTC().Format(time.RFC3339Nano), Already: already, Steps: []string{
		"deploy " + cmd.Pipeline + " to the transform, and wait until every running instance has it",
		"if table mappings or settings change as well: aws dms stop-replication-task; wait until it is stopped; aws dms modify-replication-task (a running task cannot be modified); aws dms start-replication-task --start-replication-task-type resume-processing; wait until it is running",
		fmt.Sprintf("aws dms reload-tables --replication-task-arn ARN --tables-to-reload SchemaName=%s,TableName=%s --reload-option data-reload (the task must be running)", shellWord(schema), shellWord(name)),
		"aws dms describe-table-statistics --replication-task-arn ARN until the table's state is \"Table completed\", then until the stream's last load record is in the lake",
		"icehose resync finish " + shellWord(t.Source) + " --pipeline " + shellWord(cmd.Pipeline) + ", with --lake or --catalog where icehose sink writes the lake",
	}}
	if already {
		result.Note = fmt.Sprintf("the floor is %s old: rows of the load give way to every change since then, so no change is lost, but a row that was changed since is not repaired; "+
			"--again announces a new floor for a load that has not begun, icehose resync finish ends one that is done", ageText(time.Since(load.Since)))
	}
	if p.Source.Position.Source == cdc.SourcePostgres {
		result.Steps = append(result.Steps, "never restart the task in place of resuming it: that makes a new replication slot, and changes between the two are lost")
	}
	return result.print(env.stdout, global.JSON)
}

// announce writes the load into the pipeline file, unless the last one that it
// has is not finished: already says that it is that one.
func (cmd *resyncStartCmd) announce(ctx context.Context, env *environment, t *catalog.Table, text []byte) (load catalog.LoadStart, already bool, err error) {
	open := t.LoadOpen() && !cmd.Again
	if open {
		load = t.Loads[len(t.Loads)-1]
		if cmd.Floor == "" {
			return load, true, nil
		}
	}
	floor, since, err := cmd.position(ctx, env, t)
	switch {
	case err != nil:
		return load, false, err
	case open && (floor != load.Floor || !since.Equal(load.Since)):
		return load, false, fmt.Errorf("table %s: the load since %s is not finished: icehose resync finish ends it, --again starts over", t.Source, load.Since.UTC().Format(time.RFC3339Nano))
	case open:
		return load, true, nil
	}
	if text, err = discover.AnnounceLoad(cmd.Pipeline, text, t.Source, floor, since); err != nil {
		return load, false, fmt.Errorf("announce load: %w", err)
	}
	if err := replaceFile(cmd.Pipeline, text); err != nil {
		return load, false, fmt.Errorf("write pipeline file: %w", err)
	}
	return catalog.LoadStart{Floor: floor, Since: since}, false, nil
}

// readTable reads the pipeline file and finds a table in it.
func readTable(path, source string) (*catalog.Pipeline, []byte, *catalog.Table, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("load pipeline file: %w", err)
	}
	p, err := catalog.Parse(path, text)
	if err != nil {
		return nil, nil, nil, err
	}
	schema, name, _ := strings.Cut(source, ".")
	t := p.BySource(schema, name)
	if t == nil {
		return nil, nil, nil, fmt.Errorf("%s: no table %s", path, source)
	}
	return p, text, t, nil
}

// position reads how far the source has come.
func (cmd *resyncStartCmd) position(ctx context.Context, env *environment, t *catalog.Table) (cdc.Body, time.Time, error) {
	if cmd.Floor != "" {
		body, err := cdc.ParseBody(cmd.Floor)
		if err != nil || cmd.Since.IsZero() {
			return cdc.Body{}, time.Time{}, errors.New("--floor wants 32 hexadecimal digits, and --since beside it")
		}
		return body, cmd.Since.UTC(), nil
	}
	kind := t.Position.Source
	if kind != cdc.SourcePostgres && kind != cdc.SourceMySQL {
		return cdc.Body{}, time.Time{}, fmt.Errorf("table %s: a position of kind %s cannot be read from the source: give --floor and --since", t.Source, t.Position)
	}
	dsn, err := dsnOf(env, cmd.DSN)
	switch {
	case err != nil:
		return cdc.Body{}, time.Time{}, err
	case isMySQL(dsn) != (kind == cdc.SourceMySQL):
		return cdc.Body{}, time.Time{}, fmt.Errorf("table %s has positions of kind %s, but the connection string is of another engine", t.Source, t.Position)
	case kind == cdc.SourceMySQL:
		db, err := mysql.Open(dsn)
		if err != nil {
			return cdc.Body{}, time.Time{}, err
		}
		body, now, err := mysqlFloor(ctx, db)
		return body, now, errors.Join(err, db.Close())
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return cdc.Body{}, time.Time{}, fmt.Errorf("connect to source: %w", err)
	}
	body, now, err := postgres.Position(ctx, conn)
	return body, now, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// mysqlFloor reads where the log ends, and refuses it while XA transactions are
// prepared: a reload does not see what they changed, and it is below the floor.
func mysqlFloor(ctx context.Context, db *sql.DB) (cdc.Body, time.Time, error) {
	body, now, err := mysql.Position(ctx, db)
	if err != nil {
		return body, now, err
	}
	ids, err := mysql.PreparedXA(ctx, db)
	if err == nil && len(ids) > 0 {
		err = &mysql.PreparedXAError{Count: len(ids)}
	}
	return body, now, err
}

// ageText is an age for people: in days, or below two of them in hours and minutes.
func ageText(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	d = max(d, 0)
	return fmt.Sprintf("%d hours %d minutes", d/time.Hour, d%time.Hour/time.Minute)
}

// shellWord quotes a word for a shell, if it needs it.
func shellWord(s string) string {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_.-/", r) {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	return s
}

func (r *resyncResult) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return printJSON(w, r)
	}
	var b strings.Builder
	already := ""
	if r.Already {
		already = ": announced before, and not finished"
	}
	fmt.Fprintf(&b, "table %s, floor %s, since %s%s\n", r.Table, r.Floor, r.Since, already)
	if r.Note != "" {
		fmt.Fprintf(&b, "note: %s\n", r.Note)
	}
	if r.SQL != "" {
		fmt.Fprintf(&b, "\n%s\n\n", r.SQL)
	}
	if r.Swept != nil {
		fmt.Fprintf(&b, "rows %d, of the load %d, ghosts %d\n", r.Swept.Rows, r.Swept.Loaded, r.Swept.Ghosts)
	}
	for i, s := range r.Steps {
		fmt.Fprintf(&b, "%d. %s\n", i+1, s)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
