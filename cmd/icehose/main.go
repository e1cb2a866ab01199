// Command icehose carries changes of a database into Iceberg tables and proves
// that they agree.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/alecthomas/kong"

	"icehose/sink/iceberg"
)

// The exit statuses, as of diff(1).
const (
	exitSame      = 0 // done, and nothing differs
	exitDifferent = 1 // done, and something differs or was found
	exitTrouble   = 2 // could not be done, or not be decided
)

// environment is what a command gets from the process around it.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	log            *slog.Logger
	status         *slog.Logger // of lines that come without --verbose too
	getenv         func(string) string
}

// exitError carries an exit status whose reason was already reported.
type exitError int

// Error implements error.
func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// cli is the grammar of the command line.
type cli struct {
	JSON    bool  `name:"json" help:"Print results, and errors, as JSON."`
	Verbose bool  `help:"Log every commit, not only what went wrong."`
	Which   which `name:"version" help:"Print which icehose this is, as the command version does."`

	Demo      demoCmd      `cmd:"" help:"Carry a recorded database's changes into a local lake under hostile delivery, and prove the result."`
	Capture   captureCmd   `cmd:"" help:"Capture a live PostgreSQL as AWS DMS would write it to a Kinesis stream."`
	Sink      sinkCmd      `cmd:"" help:"Carry recorded changes into a lake of Iceberg tables: right under any order, repetition and interruption."`
	Load      loadCmd      `cmd:"" help:"Bring whole tables into a lake, from a live database or a dump, for the changes to go on from."`
	Maintain  maintainCmd  `cmd:"" help:"Keep the tables of a lake small: compact, expire snapshots, remove orphans."`
	Merge     mergeCmd     `cmd:"" help:"Fold what is new in changelogs into the tables of their current rows: here, on Spark or on Athena."`
	Reconcile reconcileCmd `cmd:"" help:"Prove that a lake equals its source, or name what differs."`
	Heartbeat heartbeatCmd `cmd:"" help:"Keep a heartbeat table of the source fresh, which shows a comparison how far every shard is."`
	Transform transformCmd `cmd:"" help:"Transform captured records as the Firehose Lambda does, or explain what becomes of one."`
	Inspect   inspectCmd   `cmd:"" help:"Look at a captured stream: order, duplicates, gaps, settings, and what will hurt."`
	Redrive   redriveCmd   `cmd:"" help:"Sort out the records that Firehose could not deliver, and send again what may be sent."`
	Catalog   catalogCmd   `cmd:"" help:"Work on the pipeline file: what follows from it, and whether the real tables agree with it."`
	Stack     stackCmd     `cmd:"" help:"Make CloudFormation stacks of the pipeline file."`
	Status    statusCmd    `cmd:"" help:"Show how a pipeline is, and the next step for whatever is red."`
	Resync    resyncCmd    `cmd:"" help:"Load a table anew while its changes go on."`
	Preflight preflightCmd `cmd:"" help:"Look at a live source for what keeps DMS from reading its changes; print the statements that fix it."`
	Lint      lintCmd      `cmd:"" help:"Look for DMS and Kinesis settings that break order, keys, types or size; size shards."`
	Version   versionCmd   `cmd:"" help:"Print which icehose this is: version, revision, and what built it."`
}

func main() {
	os.Exit(runProcess())
}

// runProcess runs the command line of this process, which signals interrupt.
func runProcess() int {
	ctx, stop := signals()
	defer stop()
	return run(ctx, os.Args[1:], environment{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv})
}

// run parses args, runs the command and returns the exit status.
func run(ctx context.Context, args []string, env environment) int {
	level := new(slog.LevelVar)
	level.Set(slog.LevelWarn)
	lines := slog.NewJSONHandler(env.stderr, nil)
	env.log, env.status = slog.New(&quietHandler{lines, level}), slog.New(lines)
	stdout := &output{to: env.stdout}
	env.stdout = stdout
	var grammar cli
	exited := -1
	parser, err := kong.New(&grammar,
		kong.Name("icehose"),
		kong.Description("Change data capture into Apache Iceberg that ends up right, and proves it."),
		kong.Writers(env.stdout, env.stderr),
		kong.Exit(func(status int) {
			if exited < 0 {
				exited = status
			}
		}),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, Summary: false}),
		kong.UsageOnError(),
	)
	if err != nil {
		return report(env, false, err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if exited >= 0 { // --help or --version was printed
		return report(env, grammar.JSON, stdout.end(statusOf(exited)))
	}
	if err != nil {
		return report(env, grammar.JSON, fmt.Errorf("%w (see icehose --help)", err))
	}
	if grammar.Verbose {
		level.Set(slog.LevelInfo)
	}
	command.BindTo(ctx, (*context.Context)(nil))
	return report(env, grammar.JSON, stdout.end(command.Run(&env, &grammar)))
}

// told is an error in the words of the command line.
func told(err error) error {
	switch {
	case errors.Is(err, iceberg.ErrLocked):
		return fmt.Errorf("%w: wait until it has ended, or stop it", err)
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted: what was committed stays, run it again to go on")
	}
	return err
}

// report prints err, as JSON if asked, and returns the exit status it means.
func report(env environment, asJSON bool, err error) int {
	var status exitError
	switch {
	case err == nil:
		return exitSame
	case errors.As(err, &status):
		return int(status)
	case onlyClosed(err): // of which head, say, is not to be told
		return exitTrouble
	}
	err = told(err)
	if asJSON {
		// A failed write of an error has nowhere left to be told.
		_ = json.NewEncoder(env.stdout).Encode(map[string]string{"error": err.Error()})
	} else {
		_, _ = fmt.Fprintf(env.stderr, "icehose: %v\n", err)
	}
	return exitTrouble
}
