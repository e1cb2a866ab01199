// Command transform-lambda is the processor that Amazon Data Firehose invokes:
// a Lambda function of the provided.al2023 runtime, built with -tags
// lambda.norpc and installed as bootstrap.
//
// In comes a Firehose event, out goes the answer of package
// transform/firehose, byte for byte. An invocation fails, and Firehose retries
// it, only when no record of the event can be answered. Log lines are JSON on
// the standard error, metrics are CloudWatch's Embedded Metric Format on the
// standard output; neither holds a value of a row.
//
// The environment configures it. A variable that begins with ICEHOSE_ and is
// not in this list is refused.
//
//	ICEHOSE_PIPELINE           the pipeline file: a path, beside the program unless
//	                           absolute (default pipeline.yaml), or s3://bucket/key
//	ICEHOSE_PIPELINE_REFRESH   how often the object's ETag is looked at, at most; 5m
//	ICEHOSE_ONLY               mirror or changelog: deliver only tables that the file
//	                           has in this mode, drop the others as excluded
//	ICEHOSE_MODE               mirror or changelog, for all tables of this stream
//	ICEHOSE_DATABASE           another database for all tables of this stream
//	ICEHOSE_SUFFIX             appended to the name of each table of this stream
//	ICEHOSE_BINARY             how bytes stand in rows: hex (default) or base64
//	ICEHOSE_LOG_LEVEL          debug, info (default), warn or error
//	ICEHOSE_METRICS_NAMESPACE  of the metrics (default icehose); set but empty for none
//
// A pipeline file on S3 is read once at the start, with the function's own
// role, from a bucket of its region (or AWS_ENDPOINT_URL_S3, with the bucket in the path). When
// its ETag changes, invocations from then on use the new file. A new file that
// is broken, or cannot be read, is refused: the one in use stays, and an error
// is logged at each look until that is mended. Functions do not change over at
// the same moment: a file must suit the records on both sides of it.
package main

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"icehose/internal/lambdalog"
)

// The exit statuses.
const (
	exitDone    = 0
	exitTrouble = 2
)

// initTimeout is the time that Lambda gives a function to start, less some to
// say what it waited for.
const initTimeout = 9 * time.Second

func main() {
	os.Exit(run(context.Background(), os.Environ(), os.Stdout, os.Stderr, func(h lambda.Handler) { lambda.Start(h) }))
}

// run reads the configuration and hands the function to start, which on Lambda
// never returns.
func run(ctx context.Context, environ []string, stdout, stderr io.Writer, start func(lambda.Handler)) int {
	// The runtime's own line about a failed invocation is JSON without the time.
	stdlog.SetFlags(0)
	log := lambdalog.New(stderr, slog.LevelInfo)
	h, err := initialize(ctx, environ, stdout, stderr)
	if err != nil {
		log.LogAttrs(ctx, slog.LevelError, "start refused", slog.Any("error", err))
		return exitTrouble
	}
	start(h)
	return exitDone
}

func initialize(ctx context.Context, environ []string, stdout, stderr io.Writer) (*function, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find program: %w", err)
	}
	s, err := parseSettings(environ, program)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	f := newFunction(s, lambdalog.New(stderr, s.level), stdout, wallClock)
	if err := f.load(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// wallClock goes on while the function is frozen between invocations, which
// the monotonic clock need not.
func wallClock() time.Time { return time.Now().Round(0) }
