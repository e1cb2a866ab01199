package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"icehose/catalog"
	"icehose/catalog/dmslint"
)

// lintCmd looks for harm in the settings of DMS and Kinesis.
type lintCmd struct {
	Files    []string      `arg:"" optional:"" name:"file" help:"Table mappings, task settings, endpoints or streams, as aws dms describe-replication-tasks, describe-endpoints and aws kinesis describe-stream-summary print them, or the plain documents; - is standard input."`
	Pipeline string        `help:"The pipeline file; settings are held against it too." placeholder:"FILE"`
	Horizon  time.Duration `default:"168h" help:"How long icehose's own sink remembers deleted keys; 0 without it." placeholder:"DURATION"`
	Rate     float64       `help:"Size shards: changes a second at the peak." placeholder:"N"`
	RowBytes int           `help:"Size shards: bytes of a record, the row as JSON with its metadata." placeholder:"N"`
	Rows     int64         `help:"Size shards: rows of the first load." placeholder:"N"`
	Shards   int           `help:"Size shards: how many the stream has." placeholder:"N"`
}

// Help implements kong.HelpProvider.
func (*lintCmd) Help() string {
	return `Prints each setting that breaks order, keys, types or size: where it is, what
follows from it, and the fix. With --row-bytes it also says how many shards the
changes need (1 MB or 1,000 records a second each) and how long the load takes.

Exit status: 0 nothing was found, 1 something was, 2 it could not be done.

Examples:
  aws dms describe-replication-tasks >task.json; aws dms describe-endpoints >endpoints.json
  icehose lint --pipeline pipeline.yaml task.json endpoints.json
  icehose lint --rate 5000 --row-bytes 700 --rows 200000000`
}

// lintResult is what the command prints.
type lintResult struct {
	Findings []dmslint.Finding `json:"findings"`
	Size     *dmslint.Size     `json:"size,omitempty"`
}

// Run implements the command.
func (cmd *lintCmd) Run(ctx context.Context, env *environment, global *cli) error {
	sizes := cmd.RowBytes != 0 || cmd.Rate != 0 || cmd.Rows != 0 || cmd.Shards != 0
	if len(cmd.Files) == 0 && !sizes {
		return errors.New("want files to look at, or --row-bytes with --rate or --rows")
	}
	options := dmslint.Options{Horizon: cmd.Horizon}
	if cmd.Pipeline != "" {
		p, err := catalog.Load(cmd.Pipeline)
		if err != nil {
			return err
		}
		options.Pipeline = p
	}
	files := make([]dmslint.File, 0, len(cmd.Files))
	for _, name := range cmd.Files {
		text, err := readInput(ctx, env, name)
		if err != nil {
			return err
		}
		files = append(files, dmslint.File{Name: name, Text: text})
	}
	findings, err := dmslint.Lint(files, options)
	if err != nil {
		return err
	}
	result := lintResult{Findings: append([]dmslint.Finding{}, findings...)}
	if sizes {
		size, err := dmslint.SizeOf(dmslint.Load{Rate: cmd.Rate, RowBytes: cmd.RowBytes, Rows: cmd.Rows, Shards: cmd.Shards})
		if err != nil {
			return err
		}
		result.Size = &size
	}
	if global.JSON {
		err = printJSON(env.stdout, result)
	} else {
		err = result.writeText(env.stdout, len(cmd.Files))
	}
	if err != nil {
		return err
	}
	if len(findings) > 0 || result.Size != nil && result.Size.TooFew {
		return exitError(exitDifferent)
	}
	return nil
}

// readInput reads a file, or standard input for "-".
func readInput(ctx context.Context, env *environment, name string) ([]byte, error) {
	if name == "-" {
		text, err := io.ReadAll(interruptible(ctx, env.stdin))
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return text, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	return text, nil
}

func (r *lintResult) writeText(w io.Writer, files int) error {
	var b bytes.Buffer
	for _, f := range r.Findings {
		value := ""
		if f.Value != "" {
			value = " = " + f.Value
		}
		fmt.Fprintf(&b, "%s:%d: %s [%s]\n    %s%s\n    %s\n    fix: %s\n", f.File, f.Line, f.ID, f.Severity, f.Setting, value, f.Consequence, f.Fix)
	}
	if s := r.Size; s != nil {
		fmt.Fprintf(&b, "shards for the changes: %d, if keys are spread evenly; %s are used up first\n", s.Shards, s.Limit)
		if s.TooFew {
			fmt.Fprintf(&b, "the stream has %d: too few\n", s.LoadShards)
		}
		if s.LoadSeconds > 0 {
			fmt.Fprintf(&b, "the load with %d shards: %v at least; in one, where a bad partition key puts it: %v\n",
				s.LoadShards, dmslint.Duration(s.LoadSeconds), dmslint.Duration(s.OneShardSeconds))
		}
	}
	if files > 0 {
		fmt.Fprintf(&b, "%d findings\n", len(r.Findings))
	}
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
