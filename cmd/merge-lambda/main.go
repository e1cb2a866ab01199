// Command merge-lambda is the scheduled merge: a Lambda function of the
// provided.al2023 runtime, built with -tags lambda.norpc and installed as
// bootstrap. It does what icehose merge --engine athena --catalog glue does, which
// is for wherever there is no Lambda.
//
// In comes an event, {"tables":["public.orders"]}, without tables for every
// changelog of the pipeline file; out go a line of the log and one of metrics per
// table, and the sums as the answer. No log line or metric holds a value of a row.
//
// Tables are merged one after the other, and in another order each time, so that
// one that takes long does not keep the same ones waiting. None is begun in the
// last third of the function's time: what is left is put off to the next run.
// Half a minute before the end the statement that runs is stopped; so, or when
// the function is killed, the table is merged by the next run as if this one had
// not been.
//
// An invocation fails when a table was refused, could not be merged or was cut
// off, or when positions have gone back (position_regressed); the other tables are
// merged nevertheless. That tables were put off is no failure, but a warning.
//
// The environment configures it. A variable that begins with ICEHOSE_ and is not
// in this list is refused.
//
//	ICEHOSE_PIPELINE           the pipeline file: a path (default pipeline.yaml), or
//	                           s3://bucket/key, which is looked at before each run
//	ICEHOSE_WAREHOUSE          URI below which current tables that are new lie
//	ICEHOSE_WORKGROUP          Athena's workgroup; default the account's primary one
//	ICEHOSE_OUTPUT             where Athena writes results, if the workgroup does not say
//	ICEHOSE_PROP               name=value;name=value for the catalog and its storage, in
//	                           iceberg-go's words; glue.region is Athena's region too
//	ICEHOSE_LOG_LEVEL          debug, info (default), warn or error
//	ICEHOSE_METRICS_NAMESPACE  of the metrics (default icehose); set but empty for none
package main

import (
	"context"
	"errors"
	"io"
	stdlog "log"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"icehose/internal/lambdalog"
)

// The exit statuses.
const (
	exitDone    = 0
	exitTrouble = 2
)

func main() {
	os.Exit(run(context.Background(), os.Environ(), os.Stdout, os.Stderr, func(h lambda.Handler) { lambda.Start(h) }))
}

// run reads the settings and hands the function to start, which on Lambda never
// returns.
func run(ctx context.Context, environ []string, stdout, stderr io.Writer, start func(lambda.Handler)) int {
	// The runtime's own line about a failed invocation is JSON without the time.
	stdlog.SetFlags(0)
	log := lambdalog.New(stderr, slog.LevelInfo)
	s, err := parseSettings(environ)
	if err == nil && !s.lambda {
		err = errors.New("there is no Lambda here: icehose merge --engine athena --catalog glue does the same anywhere")
	}
	var f *function
	if err == nil {
		f, err = newFunction(ctx, s, lambdalog.New(stderr, s.level), stdout)
	}
	if err != nil {
		log.LogAttrs(ctx, slog.LevelError, "start refused", slog.Any("error", err))
		return exitTrouble
	}
	start(f)
	return exitDone
}
