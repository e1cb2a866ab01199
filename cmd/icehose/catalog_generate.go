package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"icehose/catalog"
	"icehose/catalog/artifact"
)

// catalogGenerateCmd writes the artifacts of a pipeline file.
type catalogGenerateCmd struct {
	Pipeline  string `required:"" help:"The pipeline file." placeholder:"FILE"`
	Out       string `required:"" help:"Directory for the artifacts; made when it is not there." placeholder:"DIR"`
	Warehouse string `default:"s3://WAREHOUSE" help:"URI below which the tables lie, as database/table." placeholder:"URI"`
	Check     bool   `help:"Write nothing; say what would change."`
}

// Help implements kong.HelpProvider.
func (*catalogGenerateCmd) Help() string {
	return `Writes, for the tables of the pipeline file:
  iceberg/         the schema of a new table
  glue/            input of aws glue create-table --cli-input-json
  cloudformation/  a fragment that creates the tables and never updates them
  athena/, spark/  SQL: tables, views of current rows, merges, maintenance
  firehose/        DestinationTableConfigurationList, with unique keys
  dms/             table mapping, task and endpoint settings
The same file gives the same bytes. A CloudFormation table that an earlier run
wrote keeps its text: catalog apply owns the evolution of tables. Files that an
earlier run wrote and that nothing needs any more are removed.

Exit status: 0 written, 1 with --check something would change, 2 refused or not
possible.

Examples:
  icehose catalog generate --pipeline pipeline.yaml --out definitions --warehouse s3://my-lake/warehouse`
}

// generateResult is what the command prints.
type generateResult struct {
	Out     string   `json:"out"`
	Files   int      `json:"files"`
	Written []string `json:"written"` // new or changed
	Removed []string `json:"removed"`
	Notes   []string `json:"notes"`
}

// Run implements the command.
func (cmd *catalogGenerateCmd) Run(env *environment, global *cli) error {
	p, err := catalog.Load(cmd.Pipeline)
	if err != nil {
		return err
	}
	out := outputDir(cmd.Out)
	before, err := out.manifest()
	if err != nil {
		return err
	}
	stack, err := os.ReadFile(filepath.Join(cmd.Out, filepath.FromSlash(artifact.StackFile)))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read artifact: %w", err)
	}
	made, err := artifact.Generate(p, artifact.Options{Warehouse: cmd.Warehouse, Stack: stack})
	if err != nil {
		return err
	}
	result := generateResult{Out: cmd.Out, Files: len(made.Files), Written: []string{}, Removed: []string{}, Notes: append([]string{}, made.Notes...)}
	if cmd.Warehouse == artifact.DefaultWarehouse {
		result.Notes = append(result.Notes, "locations begin with "+artifact.DefaultWarehouse+": give --warehouse")
	}
	if cmd.Check {
		out.compare(made.Files, before, &result)
	} else if err := out.write(made.Files, before, &result); err != nil {
		return err
	}
	if global.JSON {
		err = printJSON(env.stdout, result)
	} else {
		err = result.writeText(env.stdout, cmd.Check)
	}
	if err == nil && cmd.Check && len(result.Written)+len(result.Removed) > 0 {
		return exitError(exitDifferent)
	}
	return err
}

func (r *generateResult) writeText(w io.Writer, check bool) error {
	var b bytes.Buffer
	written, removed := "written", "removed"
	if check {
		written, removed = "to write", "to remove"
	}
	for _, f := range r.Written {
		fmt.Fprintf(&b, "%-9s %s\n", written, f)
	}
	for _, f := range r.Removed {
		fmt.Fprintf(&b, "%-9s %s\n", removed, f)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "%-9s %s\n", "note", n)
	}
	fmt.Fprintf(&b, "%s: %d files, %d %s, %d %s\n", r.Out, r.Files, len(r.Written), written, len(r.Removed), removed)
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
