package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/dump"
	"icehose/reconcile/lake"
	"icehose/sink/iceberg"
)

// reconcileCmd proves that a lake equals its source.
type reconcileCmd struct {
	Pipeline    string   `required:"" help:"The pipeline file." placeholder:"FILE"`
	Lake        string   `required:"" help:"Directory of the lake." placeholder:"DIR"`
	Dump        string   `required:"" help:"Directory with the source's rows: SCHEMA.TABLE.csv or SCHEMA.TABLE.ndjson for each table, plain, .gz or .zst." placeholder:"DIR"`
	Final       bool     `help:"The dump was taken after the source's last change, and the lake has every change. Required: a dump has no position of its own."`
	Tables      []string `help:"Only these tables, as schema.table of the source." placeholder:"TABLE"`
	ShowKeys    bool     `help:"Name the keys of findings. They are values of the source."`
	MaxFindings int      `default:"1000" help:"Findings that are kept by key, of each table. All are counted."`
	Concurrency int      `default:"2" help:"Tables that are compared at a time."`
}

// Help implements kong.HelpProvider.
func (*reconcileCmd) Help() string {
	return `Compares every row of both sides by digests; where those differ, by key. A row
of the lake is missing, extra, differs, or is a duplicate. A table that cannot be read
in full is inconclusive, with the reason; the others are finished.

A dump is what PostgreSQL's COPY ... TO ... (FORMAT csv, HEADER) writes (psql: \copy), or
one JSON object a line, column -> the database's text of the value, or null.

Exit status: 0 every table is equal, 1 some table is different, 2 some table is
inconclusive and none different, or it could not be done.

Examples:
  icehose reconcile --pipeline pipeline.yaml --lake lake --dump dump --final
  icehose reconcile --pipeline pipeline.yaml --lake lake --dump dump --final --tables public.orders --show-keys`
}

// Run implements the command.
func (cmd *reconcileCmd) Run(ctx context.Context, env *environment, global *cli) (err error) {
	if cmd.MaxFindings < 1 || cmd.Concurrency < 1 {
		return errors.New("--max-findings and --concurrency: want 1 or more")
	}
	if !cmd.Final {
		return errors.New("--final is required: a dump has no position, so the source must not have changed since, and the lake must have every change")
	}
	p, err := catalog.Load(cmd.Pipeline)
	if err != nil {
		return err
	}
	source, err := dump.Open(cmd.Dump, dump.Options{Final: cmd.Final, Engine: p.Source.Engine})
	if err != nil {
		return err
	}
	store, err := iceberg.Open(ctx, cmd.Lake, iceberg.Options{ReadOnly: true, Log: env.log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	report, err := cmd.compare(ctx, env, p, source, lake.Open(store))
	if err != nil {
		return err
	}
	if global.JSON {
		enc := json.NewEncoder(env.stdout)
		enc.SetIndent("", "  ")
		if err := enc.Encode(report); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	} else if err := report.WriteText(env.stdout); err != nil {
		return err
	}
	if status := report.ExitStatus(); status != exitSame {
		return exitError(status)
	}
	return nil
}

func (cmd *reconcileCmd) compare(ctx context.Context, env *environment, p *catalog.Pipeline, source, lake reconcile.Reader) (*reconcile.Report, error) {
	tables := len(p.Tables)
	if len(cmd.Tables) > 0 {
		tables = len(cmd.Tables)
	}
	progress := newStage(env.stderr, "reconcile", "tables", int64(tables))
	report, err := reconcile.Run(ctx, p, source, lake, reconcile.Options{
		Tables: cmd.Tables, MaxFindings: cmd.MaxFindings, Concurrency: cmd.Concurrency, ShowKeys: cmd.ShowKeys, Now: time.Now,
		Progress: func(p reconcile.Progress) {
			if p.Step == reconcile.Decided {
				progress.add(1)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	progress.done()
	return report, nil
}
