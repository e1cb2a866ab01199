package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	lake "icehose/catalog/iceberg"
	"icehose/internal/lakeplace"
	"icehose/sink/iceberg"
)

// lakeFlags say where the tables are.
type lakeFlags struct{ lakeplace.Flags }

// OpenLake opens the lake that the flags name.
func (f *lakeFlags) OpenLake(ctx context.Context, o iceberg.Options) (*iceberg.Store, error) {
	if f.Lake != "" && f.Catalog != "" {
		return nil, errors.New("--lake and --catalog were both given: want one of them")
	}
	return f.Flags.OpenLake(ctx, o)
}

// exists refuses a lake of this machine that is not there: opening it to write
// would make it.
func (f *lakeFlags) exists() error {
	var places []string
	name := f.Lake
	if f.Lake != "" {
		places = []string{filepath.Join(f.Lake, "catalog.db"), filepath.Join(f.Lake, "warehouse")}
	} else if kind, address, _ := strings.Cut(string(f.Catalog), ":"); kind == "sqlite" {
		name = cmp.Or(address, f.URI)
		places = []string{name}
	}
	for _, place := range places {
		if _, err := os.Stat(place); !errors.Is(err, os.ErrNotExist) {
			return nil
		}
	}
	if len(places) == 0 || name == "" {
		return nil // a server, or an error of OpenLake
	}
	return fmt.Errorf("open lake %s: %w", name, iceberg.ErrNoLake)
}

// lockWait is how long a command waits for another one to leave a local lake.
const lockWait = 10 * time.Second

// open opens the lake, for reading beside whoever writes it; done gives it free.
func (f *lakeFlags) open(ctx context.Context, env *environment, readOnly bool) (l *lake.Lake, done func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		store, err := f.OpenLake(ctx, iceberg.Options{ReadOnly: readOnly, Beside: readOnly, Log: env.log})
		switch {
		case err == nil:
			return store.Tables(), store.Close, nil
		case readOnly && errors.Is(err, iceberg.ErrNoLake):
			return &lake.Lake{}, func() error { return nil }, nil
		case !errors.Is(err, iceberg.ErrLocked):
			return nil, nil, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, err
		case <-time.After(lockWait / 100):
		}
	}
}

// catalogPlanCmd compares the pipeline file with real tables.
type catalogPlanCmd struct {
	Pipeline  string        `required:"" help:"The pipeline file." placeholder:"FILE"`
	AllowDrop bool          `help:"Drop columns that the pipeline file does not have."`
	Delivery  deliveryFlags `embed:""`
	lakeFlags
}

// Help implements kong.HelpProvider.
func (*catalogPlanCmd) Help() string {
	return `Shows what apply would do: + create or add, ~ widen, rename or set, - drop, and
what it refuses, with the reason, after !. Changes nothing.

Exit status: 0 the tables are what the file says, 1 there is something to do, 2
something is refused or the comparison is not possible.

Examples:
  icehose catalog plan --pipeline pipeline.yaml --lake icehose-demo
  icehose catalog plan --pipeline pipeline.yaml --catalog glue --warehouse s3://my-lake/wh --prop glue.region=eu-central-1
  icehose catalog plan --pipeline pipeline.yaml --catalog rest --uri https://catalog.example.com --prop token=$TOKEN`
}

// Run implements the command.
func (cmd *catalogPlanCmd) Run(ctx context.Context, env *environment, global *cli) error {
	p, err := cmd.Delivery.load(cmd.Pipeline)
	if err != nil {
		return err
	}
	l, done, err := cmd.open(ctx, env, true)
	if err != nil {
		return err
	}
	l.AllowDrop = cmd.AllowDrop
	plan, err := l.Plan(ctx, p)
	if err := errors.Join(err, done()); err != nil {
		return err
	}
	if err := printPlan(env.stdout, plan, global.JSON, "to do"); err != nil {
		return err
	}
	switch {
	case plan.Refused():
		return exitError(exitTrouble)
	case plan.Pending():
		return exitError(exitDifferent)
	}
	return nil
}

// catalogApplyCmd makes real tables what the pipeline file says.
type catalogApplyCmd struct {
	Pipeline     string        `required:"" help:"The pipeline file." placeholder:"FILE"`
	AllowDrop    bool          `help:"Drop columns that the pipeline file does not have."`
	OnlyExisting bool          `help:"Create no tables; evolve those that are there, where something else creates them."`
	Delivery     deliveryFlags `embed:""`
	lakeFlags
}

// Help implements kong.HelpProvider.
func (*catalogApplyCmd) Help() string {
	return `Creates and evolves tables as plan shows: columns are added, widened, renamed
(renamed_from: in the file; the field id stays) and, with --allow-drop, dropped.
A change that could lose or misread rows is refused, and then nothing is done.
It may be run again, and by two at once.

Exit status: 0 the tables are what the file says, 2 refused or not possible.

Examples:
  icehose catalog apply --pipeline pipeline.yaml --lake icehose-demo
  icehose catalog apply --pipeline pipeline.yaml --catalog glue --warehouse s3://my-lake/wh --prop glue.region=eu-central-1`
}

// Run implements the command.
func (cmd *catalogApplyCmd) Run(ctx context.Context, env *environment, global *cli) error {
	p, err := cmd.Delivery.load(cmd.Pipeline)
	if err != nil {
		return err
	}
	l, done, err := cmd.open(ctx, env, false)
	if err != nil {
		return err
	}
	l.AllowDrop, l.OnlyExisting = cmd.AllowDrop, cmd.OnlyExisting
	plan, err := l.Apply(ctx, p)
	closed := done()
	if plan != nil && (err == nil || errors.Is(err, lake.ErrRefused)) {
		if err := printPlan(env.stdout, plan, global.JSON, "done"); err != nil {
			return err
		}
	}
	if errors.Is(err, lake.ErrRefused) && closed == nil {
		return exitError(exitTrouble) // the plan says why
	}
	return errors.Join(err, closed)
}

// printPlan prints a plan; word says what became of its actions.
func printPlan(w io.Writer, p *lake.Plan, asJSON bool, word string) error {
	if asJSON {
		return printJSON(w, p)
	}
	var b bytes.Buffer
	same, actions, refusals := 0, 0, 0
	for _, t := range p.Tables {
		if len(t.Actions) == 0 && len(t.Refusals) == 0 {
			same++
			continue
		}
		actions, refusals = actions+len(t.Actions), refusals+len(t.Refusals)
		writeTablePlan(&b, &t)
	}
	if p.Refused() {
		word = "not done" // all or nothing
	}
	fmt.Fprintf(&b, "%d tables as they should be, %d changes %s, %d refused\n", same, actions, word, refusals)
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

func writeTablePlan(b *bytes.Buffer, t *lake.TablePlan) {
	sign := "~"
	if len(t.Actions) > 0 && t.Actions[0].Kind == lake.Create {
		sign = "+"
	}
	fmt.Fprintf(b, "%s %s\n", sign, t.Table)
	for _, a := range t.Actions {
		switch a.Kind {
		case lake.Create:
		case lake.Add:
			key := ""
			if a.Key {
				key = "  key"
			}
			fmt.Fprintf(b, "  + %s  %s%s\n", a.Column, a.To, key)
		case lake.Widen:
			fmt.Fprintf(b, "  ~ %s  %s -> %s\n", a.Column, a.From, a.To)
		case lake.Rename:
			fmt.Fprintf(b, "  ~ %s -> %s  (renamed)\n", a.From, a.To)
		case lake.Drop:
			fmt.Fprintf(b, "  - %s  %s\n", a.Column, a.From)
		case lake.SetKey:
			fmt.Fprintf(b, "  ~ key (%s)\n", a.To)
		case lake.SetProperty:
			fmt.Fprintf(b, "  ~ %s = %s\n", a.Column, a.To)
		case lake.Partition:
			fmt.Fprintf(b, "  ~ partition %s\n", partitionChange(a))
		}
	}
	for _, r := range t.Refusals {
		if r.Column == "" {
			fmt.Fprintf(b, "  ! %s\n", r.Reason)
		} else {
			fmt.Fprintf(b, "  ! %s: %s\n", r.Column, r.Reason)
		}
	}
}

// partitionChange says how a table is partitioned, and was.
func partitionChange(a lake.Action) string {
	switch {
	case a.From == "":
		return "(" + a.To + ")"
	case a.To == "":
		return "(" + a.From + ") -> none"
	}
	return "(" + a.From + ") -> (" + a.To + ")"
}
