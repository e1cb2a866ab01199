package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"icehose/catalog"
	"icehose/catalog/discover"
	"icehose/catalog/mysql"
	"icehose/catalog/postgres"
)

// preflightCmd looks at a live source before a task does.
type preflightCmd struct {
	DSN    string   `name:"dsn" help:"Connection string of the source, with the account that DMS will have. Better given as ICEHOSE_DSN: a command line is visible to others." placeholder:"URL"`
	Tables []string `help:"Source tables to look at, as schema.table with % for any text." placeholder:"PATTERN"`
}

// Help implements kong.HelpProvider.
func (*preflightCmd) Help() string {
	return `Looks at a live PostgreSQL, MySQL or MariaDB for what keeps DMS from reading its
changes or makes it lose some: log settings, slots and the log they keep, rights,
timeouts, tables without a key, values out of line. Prints each finding with the
statement that fixes it; changes nothing.

Exit status: 0 nothing but notes, 1 errors or warnings were found, 2 it could not
be done.

Example:
  ICEHOSE_DSN=postgres://dms@db.example/shop icehose preflight --tables 'sales.%'`
}

// preflightResult is what the command prints.
type preflightResult struct {
	Engine   catalog.Engine    `json:"engine"`
	Version  string            `json:"version"`
	Tables   int               `json:"tables"`
	Findings []catalog.Finding `json:"findings"`
}

// Run implements the command.
func (cmd *preflightCmd) Run(ctx context.Context, env *environment, global *cli) error {
	dsn, err := dsnOf(env, cmd.DSN)
	if err != nil {
		return err
	}
	look := cmd.lookAtPostgres
	if isMySQL(dsn) {
		look = cmd.lookAtMySQL
	}
	result, err := look(ctx, dsn)
	if err != nil {
		return err
	}
	if global.JSON {
		err = printJSON(env.stdout, result)
	} else {
		err = result.writeText(env.stdout)
	}
	for _, f := range result.Findings {
		if err == nil && f.Severity != catalog.SeverityNote {
			return exitError(exitDifferent)
		}
	}
	return err
}

func (cmd *preflightCmd) lookAtPostgres(ctx context.Context, dsn string) (*preflightResult, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("connect to source: %w", err)
	}
	s, err := postgres.Read(ctx, conn)
	var found []catalog.Finding
	if err == nil {
		err = cmd.choose(s)
	}
	if err == nil {
		found, err = postgres.Preflight(ctx, conn, s, cmd.Tables)
	}
	if err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))); err != nil {
		return nil, err
	}
	return cmd.result(s, found), nil
}

func (cmd *preflightCmd) lookAtMySQL(ctx context.Context, dsn string) (*preflightResult, error) {
	db, err := mysql.Open(dsn)
	if err != nil {
		return nil, err
	}
	s, err := mysql.Read(ctx, db)
	var found []catalog.Finding
	if err == nil {
		err = cmd.choose(s)
	}
	if err == nil {
		found, err = mysql.Preflight(ctx, db, s)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	return cmd.result(s, found), nil
}

// choose leaves the tables that the patterns select. Where that is none, there
// is still a server to look at.
func (cmd *preflightCmd) choose(s *catalog.SourceSchema) (err error) {
	s.Tables, err = discover.Filter(s, cmd.Tables)
	return err
}

func (cmd *preflightCmd) result(s *catalog.SourceSchema, found []catalog.Finding) *preflightResult {
	filter := catalog.Pipeline{Include: cmd.Tables}
	named := func(f catalog.Finding) bool { return len(cmd.Tables) > 0 && !filter.Excluded(f.Object) } // says itself why the table is none
	if len(s.Tables) == 0 && !slices.ContainsFunc(found, named) {
		found = append(found, catalog.Finding{
			ID: "no_table", Severity: catalog.SeverityWarning, Object: strings.Join(cmd.Tables, ", "), What: "no table is selected that the account may see",
			Consequence: "only the server was looked at, and a task with this account finds nothing to read", Fix: "correct --tables, or grant the account SELECT on the tables",
		})
		catalog.SortFindings(found)
	}
	return &preflightResult{Engine: s.Engine, Version: s.Version, Tables: len(s.Tables), Findings: append([]catalog.Finding{}, found...)}
}

func (r *preflightResult) writeText(w io.Writer) error {
	var b strings.Builder
	for _, f := range r.Findings {
		object := ""
		if f.Object != "" {
			object = f.Object + ": "
		}
		fmt.Fprintf(&b, "%s  %s  %s%s\n  so   %s\n  fix  %s\n", f.Severity, f.ID, object, f.What, f.Consequence, f.Fix)
	}
	fmt.Fprintf(&b, "%s %s: %d tables, %d findings\n", r.Engine, r.Version, r.Tables, len(r.Findings))
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
