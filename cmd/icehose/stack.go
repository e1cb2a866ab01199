package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"icehose/catalog"
	"icehose/catalog/stack"
	"icehose/cloudformation"
)

// stackCmd groups what is done for CloudFormation.
type stackCmd struct {
	Generate   stackGenerateCmd   `cmd:"" help:"Fill the CloudFormation templates from the pipeline file."`
	Parameters stackParametersCmd `cmd:"" help:"Lay parameter files over each other and hold them against the templates."`
}

// stackGenerateCmd writes the templates of a pipeline file.
type stackGenerateCmd struct {
	Pipeline    string           `required:"" help:"The pipeline file." placeholder:"FILE"`
	Out         string           `required:"" help:"Directory for the templates; made when it is not there. Keep it under version control." placeholder:"DIR"`
	Tables      stack.TableOwner `default:"apply" enum:"apply,stack" help:"Who creates the tables: icehose catalog apply, or the stacks, once: ${enum}."`
	History     string           `help:"Also append the changes of mirrors, to tables with this at the end of their names." placeholder:"SUFFIX"`
	Check       bool             `help:"Write nothing; say what would change."`
	AllowUnsafe bool             `help:"Write templates although an update to them would replace or delete what holds data."`
}

// Help implements kong.HelpProvider.
func (*stackGenerateCmd) Help() string {
	return `Writes main.yaml, which nests the other templates: stream, tables, a delivery
stream for mirrors and one for changelogs (delivery-*.yaml, with tables and unique
keys), migration (DMS mapping and settings), reconcile, maintenance,
observability, and alarms and maintenance of every table, split into several
stacks where CloudFormation's limits ask for it. The same file gives the same
bytes. What is already in DIR decides which nested stack a table is in, so DIR
belongs beside the pipeline file in version control.

It says what an update from the templates in DIR to the new ones would do, and
refuses, with nothing written, when it would replace or delete a stream, a bucket,
a table, a delivery stream or a DMS task.

Exit status: 0 written, 1 with --check something would change, 2 refused or not
possible.

Examples:
  icehose stack generate --pipeline pipeline.yaml --out stacks
  icehose stack generate --pipeline pipeline.yaml --out stacks --tables stack --history _changelog
  icehose stack generate --pipeline pipeline.yaml --out stacks --check`
}

// stackResult is what the command prints.
type stackResult struct {
	generateResult
	Changes []stack.Change `json:"changes"` // of resources that were there before
}

// Run implements the command.
func (cmd *stackGenerateCmd) Run(env *environment, global *cli) error {
	p, err := catalog.Load(cmd.Pipeline)
	if err != nil {
		return err
	}
	out := outputDir(cmd.Out)
	manifest, err := out.manifest()
	if err != nil {
		return err
	}
	before, err := out.read(manifest)
	if err != nil {
		return err
	}
	made, err := stack.Generate(p, stack.Options{Templates: cloudformation.Templates, Tables: cmd.Tables, HistorySuffix: cmd.History, Before: before})
	if err != nil {
		return err
	}
	after := make(map[string][]byte, len(made.Files))
	for _, f := range made.Files {
		after[f.Path] = f.Data
	}
	result := stackResult{generateResult: generateResult{
		Out: cmd.Out, Files: len(made.Files), Written: []string{}, Removed: []string{}, Notes: append([]string{}, made.Notes...),
	}, Changes: []stack.Change{}}
	var unsafe []string
	if len(before) > 0 {
		changes, err := stack.Compare(cloudformation.Templates, before, after)
		if err != nil {
			return err
		}
		result.Changes = append(result.Changes, changes...)
		for _, c := range changes {
			if c.Unsafe != "" {
				unsafe = append(unsafe, fmt.Sprintf("%s: %s would be %s: %s", c.File, c.Resource, c.Kind, c.Unsafe))
			}
		}
	}
	switch {
	case len(unsafe) > 0 && !cmd.AllowUnsafe && !cmd.Check:
		return fmt.Errorf("generate stacks: nothing was written (--allow-unsafe does):\n%s", strings.Join(unsafe, "\n"))
	case cmd.Check:
		out.compare(made.Files, manifest, &result.generateResult)
	default:
		if err := out.write(made.Files, manifest, &result.generateResult); err != nil {
			return err
		}
	}
	if err := result.print(env.stdout, global.JSON, cmd.Check); err != nil {
		return err
	}
	if cmd.Check && len(result.Written)+len(result.Removed) > 0 {
		return exitError(exitDifferent)
	}
	return nil
}

func (r *stackResult) print(w io.Writer, asJSON, check bool) error {
	if asJSON {
		return printJSON(w, r)
	}
	var b bytes.Buffer
	for _, c := range r.Changes {
		fmt.Fprintf(&b, "%-9s %s %s (%s)", c.Kind, c.File, c.Resource, c.Type)
		if c.Property != "" {
			fmt.Fprintf(&b, ", because of %s", c.Property)
		}
		if c.Unsafe != "" {
			fmt.Fprintf(&b, ": %s", c.Unsafe)
		}
		b.WriteByte('\n')
	}
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return r.writeText(w, check)
}

// stackParametersCmd prints the parameters of a deployment.
type stackParametersCmd struct {
	Template string   `required:"" help:"The template that takes them: main.yaml, or a stack that is used alone." placeholder:"FILE"`
	Files    []string `arg:"" optional:"" name:"file" help:"YAML or JSON files of names and values; later ones win."`
	Set      []string `sep:"none" help:"A value, over all files." placeholder:"NAME=VALUE"`
	Get      string   `help:"Print the value of this parameter alone, or its default." placeholder:"NAME"`
}

// Help implements kong.HelpProvider.
func (*stackParametersCmd) Help() string {
	return `Prints the parameters as the AWS CLI takes them (--parameters file://...), after it
has held each against the template's patterns, allowed values and bounds: what
CloudFormation would refuse half-way is refused here, all of it at once. A parameter
without a default must be given, with --get too: keys.yaml stands for a file of the
keys (TransformKey, PipelineKey) that a deployment has uploaded.

Exit status: 0 printed, 2 refused or not possible.

Examples:
  icehose stack parameters --template stacks/main.yaml env/common.yaml env/dev.yaml \
      --set TransformKey=x.zip --set PipelineKey=x.yaml >parameters.json
  icehose stack parameters --template stacks/main.yaml env/common.yaml env/prod.yaml keys.yaml --set Stage=lake
  icehose stack parameters --template stacks/main.yaml env/common.yaml env/prod.yaml keys.yaml --get Name`
}

// Run implements the command.
func (cmd *stackParametersCmd) Run(env *environment) error {
	template, err := os.ReadFile(cmd.Template)
	if err != nil {
		return fmt.Errorf("read template: %w", err)
	}
	var overlays []stack.Overlay
	for _, file := range cmd.Files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read parameters: %w", err)
		}
		o, err := stack.ParseOverlay(filepath.ToSlash(file), text)
		if err != nil {
			return err
		}
		overlays = append(overlays, o)
	}
	set := stack.Overlay{Name: "--set"}
	for _, pair := range cmd.Set {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return errors.New("--set: want NAME=VALUE, got " + pair)
		}
		set.Values = append(set.Values, stack.Value{Key: name, Value: value})
	}
	values, err := stack.Parameters(template, append(overlays, set))
	if err != nil {
		return err
	}
	if cmd.Get != "" {
		value, err := stack.Lookup(template, values, cmd.Get)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(env.stdout, value); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
		return nil
	}
	return printJSON(env.stdout, values)
}
