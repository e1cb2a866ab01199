package main

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"icehose/catalog"
	"icehose/cdc/capture"
	"icehose/cdc/inspect"
)

// inspectCmd looks at a captured stream.
type inspectCmd struct {
	Files    []string       `arg:"" name:"file" help:"Captured records, plain, .gz or .zst, in the order of arrival; - is standard input."`
	Pipeline string         `help:"The pipeline file: its keys and positions are used, instead of those that the stream shows." placeholder:"FILE"`
	Format   capture.Format `default:"auto" enum:"auto,dms,kinesis,get-records,firehose" help:"What the records were captured as: ${enum}."`
	Window   int            `default:"4194304" help:"Records among which duplicates are found: about 50 bytes each." placeholder:"N"`
	Keys     int            `default:"1048576" help:"Keys whose order is followed, and changes of the chain that are remembered: about 280 bytes each." placeholder:"N"`
}

// Help implements kong.HelpProvider.
func (*inspectCmd) Help() string {
	return `Reads a captured stream once and reports: records by table, shard and operation;
partition keys of loads and changes; order, duplicates, gaps; which settings the
endpoint must have had; and findings, each with its consequence and a fix. No
row value is printed.

Exit status: 0 no problem found, 1 problems, 2 it could not be done, or a file is
cut off or damaged: then the report is of what could be read.

Examples:
  icehose inspect events.ndjson.zst
  icehose inspect --pipeline pipeline.yaml --json shard-0.json shard-1.json`
}

// Run implements the command.
func (cmd *inspectCmd) Run(ctx context.Context, env *environment, global *cli) error {
	if cmd.Window < 1 || cmd.Keys < 1 {
		return errors.New("--window and --keys: want 1 or more")
	}
	options := inspect.Options{Window: cmd.Window, Keys: cmd.Keys}
	if cmd.Pipeline != "" {
		p, err := catalog.Load(cmd.Pipeline)
		if err != nil {
			return err
		}
		options.BeforeImage, options.BeforePrefix = p.Source.BeforeImage, p.Source.BeforePrefix
		options.Tables, options.FoldNames = knownTables(p), p.Names == catalog.NamesFold
	}
	in := inspect.New(options)
	reading := newStage(env.stderr, "inspect", "records", -1)
	var early error
	for _, name := range cmd.Files {
		err := readObjects(ctx, env, name, cmd.Format, func(o capture.Object) error {
			for _, r := range o.Records() {
				in.Add(&r)
				reading.add(1)
			}
			return nil
		})
		switch {
		case endsEarly(err):
			in.EndsEarly(name)
			early = errors.Join(early, err)
		case err != nil:
			return err
		}
	}
	reading.done()
	report := in.Report()
	write := report.WriteText
	if global.JSON {
		write = report.WriteJSON
	}
	if err := write(env.stdout); err != nil {
		return err
	}
	switch {
	case early != nil && global.JSON:
		return exitError(exitTrouble) // the report has a finding of it
	case early != nil:
		return early
	case report.Problems():
		return exitError(exitDifferent)
	}
	return nil
}

// knownTables is what the pipeline file says of tables, in the words of the records.
func knownTables(p *catalog.Pipeline) map[string]inspect.Table {
	out := make(map[string]inspect.Table, len(p.Tables))
	for _, t := range p.Tables {
		known := inspect.Table{Position: t.Position, Folded: t.Mode == catalog.Changelog}
		for _, at := range t.KeyColumns() {
			known.Key = append(known.Key, cmp.Or(t.Columns[at].Source, t.Columns[at].Name))
		}
		name := t.Source
		if p.Names == catalog.NamesFold {
			name = strings.ToLower(name)
		}
		out[name] = known
	}
	return out
}
