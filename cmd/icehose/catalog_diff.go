package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"icehose/catalog"
	"icehose/catalog/discover"
	"icehose/catalog/dmscontrol"
	"icehose/cdc/kinesis"
)

// catalogDiffCmd compares a source schema with the pipeline file.
type catalogDiffCmd struct {
	Source   sourceFlags `embed:""`
	Pipeline string      `default:"pipeline.yaml" help:"The pipeline file." placeholder:"FILE"`
	Tables   []string    `help:"Source tables to compare, as schema.table with % for any text." placeholder:"PATTERN"`
	AsText   []string    `help:"Source types without a known mapping whose text is carried, such as geometry." placeholder:"TYPE"`
}

// Help implements kong.HelpProvider.
func (*catalogDiffCmd) Help() string {
	return `Compares the schema that a source has now, or that the control records of a
stream define, with the pipeline file. Says of each difference what becomes of
records meanwhile and what to write; writes nothing. Of DDL that records report
without saying what it did, only the time is shown: compare with the source then.

Exit status: 0 no difference, 1 differences, 2 could not be compared.

Examples:
  icehose catalog diff
  icehose catalog diff --events events.ndjson.zst`
}

// diffResult is what the command prints.
type diffResult struct {
	Pipeline    string                  `json:"pipeline"`
	Differences []discover.Note         `json:"differences"`
	Alterations []dmscontrol.Alteration `json:"alterations,omitempty"` // that records report
}

// Run implements the command.
func (cmd *catalogDiffCmd) Run(ctx context.Context, env *environment, global *cli) error {
	p, err := catalog.Load(cmd.Pipeline)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(cmd.Pipeline)
	if err != nil {
		return fmt.Errorf("read pipeline file: %w", err)
	}
	schema, err := cmd.Source.read(ctx, env, p.Source.Engine)
	if err != nil {
		return err
	}
	found, err := discover.Update(cmd.Pipeline, text, schema, discover.Options{Tables: cmd.Tables, AsText: cmd.AsText})
	if err != nil {
		return err
	}
	result := diffResult{Pipeline: cmd.Pipeline, Differences: append([]discover.Note{}, found.Notes...)}
	if cmd.Source.Events != "" {
		if result.Alterations, err = alterations(cmd.Source.Events); err != nil {
			return err
		}
	}
	if global.JSON {
		err = printJSON(env.stdout, result)
	} else {
		err = result.writeText(env.stdout)
	}
	if err == nil && len(result.Differences)+len(result.Alterations) > 0 {
		err = exitError(exitDifferent)
	}
	return err
}

func alterations(path string) ([]dmscontrol.Alteration, error) {
	file, err := kinesis.Open(path)
	if err != nil {
		return nil, err
	}
	found, err := dmscontrol.Alterations(kinesis.Read(file))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return found, nil
}

func (r *diffResult) writeText(w io.Writer) error {
	var b strings.Builder
	words := map[discover.Kind]string{discover.Added: "not in the file", discover.Changed: "changed", discover.Attention: "differs"}
	for _, n := range r.Differences {
		place := n.Table
		if n.Column != "" {
			place += "." + n.Column
		}
		fmt.Fprintf(&b, "%s: %s: %s\n", place, words[n.Kind], n.Text)
		if n.Meanwhile != "" {
			fmt.Fprintf(&b, "  meanwhile  %s\n", n.Meanwhile)
		}
		fmt.Fprintf(&b, "  edit       %s\n", n.Edit)
	}
	for _, a := range r.Alterations {
		fmt.Fprintf(&b, "%s: %s, recorded at %s\n", a.Table, a.Operation, a.BuiltAt.Format(time.RFC3339))
	}
	fmt.Fprintf(&b, "%s: %d differences, %d alterations recorded\n", r.Pipeline, len(r.Differences), len(r.Alterations))
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
