package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"icehose/catalog/artifact"
	"icehose/reconcile"
	"icehose/reconcile/lake"
	"icehose/reconcile/repair"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// repairFlags say what reconcile does about what it finds.
type repairFlags struct {
	Repair  string `default:"" enum:",plan,sink,changelog,sql" help:"plan: write what is to be done. sink: do it, in a lake that icehose sink writes, which must not run. changelog: the same, changelogs only. sql: write statements for a lake that Firehose writes." placeholder:"HOW"`
	Plan    string `help:"With --repair: the file of the plan, a line for each finding, with its key: another run takes it as --keys." placeholder:"FILE"`
	SQL     string `name:"sql" help:"With --repair sql: the file of the statements. It holds values of the source." placeholder:"FILE"`
	Dialect string `default:"athena" enum:"athena,spark" help:"Of the statements: athena or spark." placeholder:"DIALECT"`
}

// The ways of --repair.
const (
	repairPlan      = "plan"
	repairSink      = "sink"
	repairChangelog = "changelog"
	repairSQL       = "sql"
)

func (f *repairFlags) check() error {
	switch {
	case f.Repair == "" && (f.Plan != "" || f.SQL != ""):
		return errors.New("--plan and --sql belong to --repair")
	case f.Repair == repairPlan && f.Plan == "":
		return errors.New("--repair plan: want --plan FILE too")
	case (f.Repair == repairSQL) != (f.SQL != ""):
		return errors.New("--repair sql and --sql FILE belong together")
	}
	return nil
}

// A repairReport is what --repair prints as JSON.
type repairReport struct {
	Report *reconcile.Report `json:"report"`
	Repair *repairOutcome    `json:"repair"`
}

type repairOutcome struct {
	How   string `json:"how"`
	Steps int    `json:"steps"` // of the plan
	Plan  string `json:"plan,omitempty"`
	SQL   string `json:"sql,omitempty"`
	repair.Result
	// Undecided are tables that were not decided wholly.
	Undecided []repair.Undecided `json:"undecided,omitempty"`
}

// repair plans and repairs what was found. The history tells of what was
// found, not of what became of it: the next run does.
func (cmd *reconcileCmd) repair(ctx context.Context, env *environment, global *cli, c *comparison) error {
	plan, err := repair.NewPlan(c.pipeline, c.report)
	if err != nil {
		return err
	}
	if err := cmd.publish(ctx, c); err != nil {
		return err
	}
	outcome := &repairOutcome{How: cmd.Repair, Steps: len(plan.Steps), Plan: cmd.Plan, SQL: cmd.SQL, Undecided: plan.Undecided}
	outcome.NotPlanned = plan.Left
	if cmd.Plan != "" {
		var text bytes.Buffer
		if err := errors.Join(plan.Write(&text), writePrivate(cmd.Plan, text.Bytes())); err != nil {
			return fmt.Errorf("write plan: %w", err)
		}
	}
	if !global.JSON {
		if err := c.report.WriteText(env.stdout); err != nil {
			return err
		}
	}
	if result, err := cmd.carryOut(ctx, env, c, plan); err != nil {
		return err
	} else if result != nil {
		outcome.Result = *result
	}
	if global.JSON {
		err = writeIndented(env.stdout, repairReport{Report: c.report, Repair: outcome})
	} else {
		err = outcome.writeText(env.stdout)
	}
	if err != nil {
		return err
	}
	return statusOf(outcome.status(c.report))
}

// carryOut does what the plan says; a plan alone gives no result.
func (cmd *reconcileCmd) carryOut(ctx context.Context, env *environment, c *comparison, plan *repair.Plan) (*repair.Result, error) {
	switch cmd.Repair {
	case repairPlan:
		return nil, nil //nolint:nilnil // nothing was done
	case repairSink, repairChangelog:
		return cmd.throughSink(ctx, env, c, plan)
	case repairSQL:
		var text bytes.Buffer
		result, err := repair.Statements(ctx, c.pipeline, c.source, lake.Open(c.store), plan, artifact.Dialect(cmd.Dialect), time.Now(), &text)
		if err != nil {
			return nil, err
		}
		if err := writePrivate(cmd.SQL, text.Bytes()); err != nil {
			return nil, fmt.Errorf("write statements: %w", err)
		}
		return result, nil
	}
	return nil, fmt.Errorf("want --repair plan, sink, changelog or sql, got %q", cmd.Repair)
}

// throughSink repairs a lake of ours, which it needs for itself.
func (cmd *reconcileCmd) throughSink(ctx context.Context, env *environment, c *comparison, plan *repair.Plan) (result *repair.Result, err error) {
	if len(plan.Steps) == 0 {
		return &repair.Result{NotPlanned: plan.Left}, nil
	}
	if err := c.closeStore(); err != nil {
		return nil, err
	}
	store, err := cmd.OpenLake(ctx, iceberg.Options{Retention: iceberg.KeepAll(), Log: env.log})
	if errors.Is(err, iceberg.ErrLocked) {
		return nil, fmt.Errorf("repair: %w (a sink that is stopped for the repair goes on from where it was)", err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return repair.Run(ctx, c.pipeline, c.source, lake.Open(store), store, plan, repair.Options{
		Changelogs: cmd.Repair == repairChangelog, Now: time.Now, Sink: sink.Options{Log: env.log, RetryFor: time.Minute, Stopping: ctx.Done()},
	})
}

// status is 1 while something that was found differs, else 2 if not all of a
// table was decided.
func (o *repairOutcome) status(r *reconcile.Report) int {
	switch done := o.How == repairSink || o.How == repairChangelog; {
	case !done:
		return r.ExitStatus()
	case r.Verdict() == reconcile.Different && !o.Repaired():
		return exitDifferent
	case len(o.Undecided) > 0 || r.Verdict() == reconcile.Inconclusive:
		return exitTrouble
	}
	return exitSame
}

func (o *repairOutcome) writeText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\nrepair: findings with a key: %d\n", o.Steps)
	if o.Plan != "" {
		fmt.Fprintf(&b, "repair: the plan is in %s: another run takes it as --keys\n", o.Plan)
	}
	if o.SQL != "" {
		fmt.Fprintf(&b, "repair: %d statements are in %s, with values of the source: run them in their order, then compare the keys of the plan again\n", o.Statements, o.SQL)
	}
	for _, t := range o.Tables {
		fmt.Fprintf(&b, "repair: %s: keys %d, agreed before %d, upserts %d, deletes %d, rounds %d, left %d", t.Table, t.Keys, t.Agreed, t.Upserted, t.Deleted, t.Rounds, t.Left)
		if t.Why != "" {
			b.WriteString(": " + t.Why)
		}
		b.WriteByte('\n')
	}
	for _, l := range o.NotPlanned {
		fmt.Fprintf(&b, "repair: %s: rows not planned %d: %s\n", l.Table, l.Rows, l.Why)
	}
	for _, u := range o.Undecided {
		fmt.Fprintf(&b, "repair: %s: not all of it was decided, there may be more: compare it again: %s\n", u.Table, u.Why)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
