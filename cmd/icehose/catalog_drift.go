package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/firehose"
	"github.com/aws/aws-sdk-go-v2/service/glue"

	"icehose/catalog"
	"icehose/catalog/drift"
	"icehose/catalog/drift/aws"
)

// catalogDriftCmd holds what is deployed against the pipeline file.
type catalogDriftCmd struct {
	Pipeline   string        `required:"" help:"The pipeline file." placeholder:"FILE"`
	Stream     string        `help:"What aws firehose describe-delivery-stream printed; - is standard input." placeholder:"FILE"`
	StreamName string        `help:"Ask Firehose for this delivery stream instead." placeholder:"NAME"`
	Tables     string        `help:"What aws glue get-tables printed; - is standard input." placeholder:"FILE"`
	Glue       bool          `help:"Ask Glue for the tables instead."`
	Delivery   deliveryFlags `embed:""`
	Lambda     string        `help:"ARN that the stream should call, with its version or alias." placeholder:"ARN"`
	Region     string        `help:"AWS region, if not the configured one." placeholder:"REGION"`
}

// Help implements kong.HelpProvider.
func (*catalogDriftCmd) Help() string {
	return `Compares a deployed delivery stream and the tables of Glue with the pipeline
file: tables, unique keys, append-only, buffers, the Lambda and its parameters,
columns, and properties that an update by CloudFormation strips. Asks AWS only with
--stream-name or --glue, and changes nothing. --only, --mode, --database and
--suffix are those of the delivery stream's Lambda.

Exit status: 0 nothing differs, 1 something does, 2 it could not be compared.

Examples:
  aws firehose describe-delivery-stream --delivery-stream-name cdc >stream.json
  icehose catalog drift --pipeline pipeline.yaml --stream stream.json
  icehose catalog drift --pipeline pipeline.yaml --stream-name cdc --glue`
}

// driftResult is what the command prints.
type driftResult struct {
	Findings []drift.Finding `json:"findings"`
}

// Run implements the command.
func (cmd *catalogDriftCmd) Run(ctx context.Context, env *environment, global *cli) error {
	switch {
	case cmd.Stream != "" && cmd.StreamName != "", cmd.Tables != "" && cmd.Glue:
		return errors.New("want a file or a name, not both")
	case cmd.Stream == "-" && cmd.Tables == "-":
		return errors.New("want a file for --stream or --tables: standard input is one")
	case cmd.Stream == "" && cmd.StreamName == "" && cmd.Tables == "" && !cmd.Glue:
		return errors.New("want something to compare: --stream, --stream-name, --tables or --glue")
	}
	p, err := cmd.Delivery.load(cmd.Pipeline)
	if err != nil {
		return err
	}
	deployed, err := cmd.read(ctx, env, p)
	if err != nil {
		return err
	}
	result := driftResult{Findings: append([]drift.Finding{}, drift.Compare(p, deployed)...)}
	if global.JSON {
		err = printJSON(env.stdout, result)
	} else {
		err = result.writeText(env.stdout)
	}
	if err == nil && len(result.Findings) > 0 {
		return exitError(exitDifferent)
	}
	return err
}

// read gets the descriptions from files or from AWS.
func (cmd *catalogDriftCmd) read(ctx context.Context, env *environment, p *catalog.Pipeline) (drift.Deployed, error) {
	d := drift.Deployed{Lambda: cmd.Lambda}
	if cmd.Stream != "" {
		text, err := readInput(ctx, env, cmd.Stream)
		if err != nil {
			return d, err
		}
		if d.Stream, err = drift.ParseStream(text); err != nil {
			return d, fmt.Errorf("%s: %w", cmd.Stream, err)
		}
	}
	if cmd.Tables != "" {
		text, err := readInput(ctx, env, cmd.Tables)
		if err != nil {
			return d, err
		}
		if d.Tables, err = drift.ParseTables(text); err != nil {
			return d, fmt.Errorf("%s: %w", cmd.Tables, err)
		}
	}
	if cmd.StreamName == "" && !cmd.Glue {
		return d, nil
	}
	var options []func(*config.LoadOptions) error
	if cmd.Region != "" {
		options = append(options, config.WithRegion(cmd.Region))
	}
	settings, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return d, fmt.Errorf("load AWS configuration: %w", err)
	}
	if cmd.StreamName != "" {
		if d.Stream, err = aws.Stream(ctx, firehose.NewFromConfig(settings), cmd.StreamName); err != nil {
			return d, err
		}
	}
	if cmd.Glue {
		var databases []string
		for _, t := range p.Tables {
			databases = append(databases, t.Database())
		}
		slices.Sort(databases)
		if d.Tables, d.Missing, err = aws.Tables(ctx, glue.NewFromConfig(settings), slices.Compact(databases)); err != nil {
			return d, err
		}
	}
	return d, nil
}

func (r *driftResult) writeText(w io.Writer) error {
	var b bytes.Buffer
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s\n", f.Where, f.ID)
		if f.Field != "" {
			fmt.Fprintf(&b, "    %s\n", f.Field)
		}
		if f.Have != "" {
			fmt.Fprintf(&b, "    - %s\n", f.Have)
		}
		if f.Want != "" {
			fmt.Fprintf(&b, "    + %s\n", f.Want)
		}
		fmt.Fprintf(&b, "    %s\n    fix: %s\n", f.Consequence, f.Fix)
	}
	fmt.Fprintf(&b, "%d differences\n", len(r.Findings))
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
