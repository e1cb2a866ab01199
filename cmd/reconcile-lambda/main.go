// Command reconcile-lambda is the scheduled reconcile: a Lambda function of the
// provided.al2023 runtime, built with -tags lambda.norpc and installed as
// bootstrap. Where there is no Lambda, such as in a container, it compares once
// and ends, with the exit status of icehose reconcile.
//
// In comes an event, {"tables":["public.orders"],"deadline":"14m"}, both of which
// may be left out; out go lines of the log, metrics, a report and, when a table
// does not equal its source, a message. No log line, report or message holds a
// value of a row; the checkpoint holds the keys of findings.
//
// A run ends some time before the deadline, and before the limit of the function.
// What it has decided by then is in the checkpoint, and the next run of the same
// tables goes on from there: only the last of them publishes metrics and history,
// and a report of all tables; that a table is different is told at once, and
// once. A checkpoint stays when what it holds could not be told, and is removed
// when a run could not add anything to it, so no verdict is carried on for ever.
// Of two runs that move one checkpoint the later one to notice ends.
//
// Of each table that was decided the log has a line with its verdict; the last
// line of a run has that of the whole as run_verdict, which is unfinished when
// the next run goes on. An invocation fails when nothing could be compared, or
// when what was found could not be published or saved.
//
// Every flag is also a variable of the environment: --source-secret is
// ICEHOSE_SOURCE_SECRET. On Lambda there are only those. A variable that begins
// with ICEHOSE_ and is none of them is refused.
package main

import (
	"context"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/aws/aws-lambda-go/lambda"

	"icehose/internal/lambdalog"
)

// The exit statuses, as of diff(1).
const (
	exitEqual     = 0
	exitDifferent = 1
	exitTrouble   = 2 // not everything could be told, or nothing could be done
)

// runtimeVariable is set where Lambda runs the program.
const runtimeVariable = "AWS_LAMBDA_RUNTIME_API"

func main() {
	os.Exit(runProcess())
}

// runProcess runs the program with what this process has.
func runProcess() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr, func(h lambda.Handler) { lambda.Start(h) })
}

// run reads the settings and hands the function to start, which on Lambda never
// returns; elsewhere it runs it once.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer, start func(lambda.Handler)) int {
	// The runtime's own line about a failed invocation is JSON without the time.
	stdlog.SetFlags(0)
	log := lambdalog.New(stderr, slog.LevelInfo)
	onLambda := variable(environ, runtimeVariable) != ""
	if onLambda {
		args = nil
	}
	s, err := parseSettings(args, environ, stdout)
	if s == nil && err == nil {
		return exitEqual // --help was printed
	}
	var f *function
	if err == nil {
		f, err = newFunction(ctx, s, lambdalog.New(stderr, s.LogLevel), stdout)
	}
	if err != nil {
		log.LogAttrs(ctx, slog.LevelError, "start refused", slog.Any("error", err))
		return exitTrouble
	}
	if onLambda {
		start(f)
		return exitEqual
	}
	o, err := f.run(ctx, event{Tables: s.Tables, deadline: s.Deadline})
	if err != nil {
		log.LogAttrs(ctx, slog.LevelError, "run failed", slog.Any("error", err))
		return exitTrouble
	}
	return o.status
}
