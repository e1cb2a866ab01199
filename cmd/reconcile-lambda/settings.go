package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"icehose/internal/lakeplace"
	"icehose/internal/pipelinefile"
	"icehose/reconcile/job"
)

// settings are what the flags and the environment say.
type settings struct {
	Pipeline string `default:"pipeline.yaml" help:"The pipeline file: a path, or s3://bucket/key." placeholder:"FILE"`
	Name     string `help:"What reports and messages call the pipeline; default the database of its tables." placeholder:"NAME"`

	SourceSecret   string `help:"Secrets Manager secret, by name or ARN: a connection string, or JSON with host, port, username, password and, for PostgreSQL without --source-database, dbname." placeholder:"SECRET"`
	SourceDatabase string `help:"Database to connect to, of PostgreSQL." placeholder:"NAME"`
	SourceTLS      string `name:"source-tls" default:"require" enum:"require,verify-full,disable" help:"Of a secret without a connection string: require encrypts, verify-full also checks the server's certificate against those of the system and of SSL_CERT_DIR." placeholder:"MODE"`
	job.SourceFlags
	lakeplace.Flags

	Tables   []string      `help:"Only these tables, as schema.table of the source. On Lambda the event says them." placeholder:"TABLE"`
	Deadline time.Duration `help:"End within this time: the next run goes on. On Lambda the event may say another." placeholder:"DURATION"`
	job.Settings

	Checkpoint       string     `help:"Where what is decided is kept, for the next run to go on: s3://bucket/prefix. It holds the keys of findings." placeholder:"URI"`
	Report           string     `help:"Where reports go, as JSON and as an HTML page: s3://bucket/prefix." placeholder:"URI"`
	Topic            string     `help:"SNS topic that is told of a verdict that is not equal." placeholder:"ARN"`
	History          bool       `default:"true" negatable:"" help:"Append the outcome to the table icehose_reconcile_runs of the lake."`
	MetricsNamespace string     `default:"icehose" help:"CloudWatch namespace of the metrics, which go to the standard output in the Embedded Metric Format; empty for none." placeholder:"NAME"`
	LogLevel         slog.Level `default:"info" help:"debug, info, warn or error." placeholder:"LEVEL"`

	dsn                string
	pipeline           pipelinefile.Place
	checkpoint, report prefix
}

const (
	variablePrefix = "ICEHOSE_"
	variableDSN    = variablePrefix + "DSN"
)

const description = `The scheduled reconcile. On Lambda it answers events; elsewhere it compares once.
Every flag is also a variable: --source-secret is ICEHOSE_SOURCE_SECRET.

Exit status: 0 every table is equal, 1 some table is different, 2 some table is
inconclusive and none different, the next run has to go on, or it could not be done.

Examples:
  reconcile-lambda --pipeline s3://conf/shop.yaml --source-secret shop-replica --catalog glue --warehouse s3://lake/warehouse --report s3://proofs/shop
  ICEHOSE_DSN=postgres://... reconcile-lambda --pipeline shop.yaml --lake lake`

// parseSettings reads flags and name=value pairs. With --help it prints to
// stdout and returns nothing.
func parseSettings(args, environ []string, stdout io.Writer) (*settings, error) {
	s := new(settings)
	exited := false
	parser, err := kong.New(s, kong.Name("reconcile-lambda"), kong.Description(description), kong.Writers(stdout, stdout),
		kong.Exit(func(int) { exited = true }), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Resolvers(fromEnvironment(environ)))
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	if err := refuseUnknown(parser.Model.Flags, environ); err != nil {
		return nil, fmt.Errorf("read environment: %w", err)
	}
	_, err = parser.Parse(args)
	if exited {
		return nil, nil //nolint:nilnil // --help was printed
	}
	s.dsn = variable(environ, variableDSN)
	if err == nil {
		err = s.complete()
	}
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	return s, nil
}

// variableOf is the name that a flag has in the environment.
func variableOf(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// variable returns the value of a variable, empty if it is not set.
func variable(environ []string, name string) string {
	for _, pair := range environ {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// fromEnvironment gives flags that are not on the command line the values of
// their variables.
func fromEnvironment(environ []string) kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		for _, pair := range environ {
			if value, ok := strings.CutPrefix(pair, variableOf(flag.Name)+"="); ok {
				return value, nil
			}
		}
		return nil, nil //nolint:nilnil // it is not set
	})
}

// refuseUnknown refuses variables that set nothing.
func refuseUnknown(flags []*kong.Flag, environ []string) error {
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, variablePrefix) || name == variableDSN {
			continue
		}
		if !slices.ContainsFunc(flags, func(f *kong.Flag) bool { return f.Name != "help" && variableOf(f.Name) == name }) {
			return fmt.Errorf("%s: no such setting", name)
		}
	}
	return nil
}

// complete checks what kong cannot.
func (s *settings) complete() (err error) {
	if s.pipeline, err = pipelinefile.Locate(s.Pipeline, ""); err != nil {
		return fmt.Errorf("--pipeline: %w", err)
	}
	if s.checkpoint, err = parsePrefix(s.Checkpoint); err != nil {
		return fmt.Errorf("--checkpoint: %w", err)
	}
	if s.report, err = parsePrefix(s.Report); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	if s.Deadline < 0 {
		return errors.New("--deadline: want a time such as 14m")
	}
	if s.SourceSecret != "" && s.Source != "" {
		return errors.New("want --source-secret or --source, not both")
	}
	s.Local = s.Lake != ""
	return errors.Join(s.CheckSource(), s.Check())
}

// A prefix is where objects go on S3; the zero value is nowhere.
type prefix struct{ bucket, key string }

func parsePrefix(uri string) (prefix, error) {
	if uri == "" {
		return prefix{}, nil
	}
	place, ok := strings.CutPrefix(uri, "s3://")
	bucket, key, _ := strings.Cut(place, "/")
	if !ok || bucket == "" {
		return prefix{}, fmt.Errorf("want s3://bucket/prefix, got %q", uri)
	}
	if key = strings.TrimRight(key, "/"); key != "" {
		key += "/"
	}
	return prefix{bucket, key}, nil
}

// uri names an object.
func (p prefix) uri(name string) string { return "s3://" + p.bucket + "/" + p.key + name }

// An event says what one invocation compares.
type event struct {
	Tables   []string `json:"tables"`
	Deadline string   `json:"deadline"`
	deadline time.Duration
}

// parseEvent reads an event; what it leaves out is as the settings have it.
func (s *settings) parseEvent(text []byte) (event, error) {
	e := event{}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil {
		return e, fmt.Errorf(`read event: want {"tables":["schema.table"],"deadline":"14m"}: %w`, err)
	}
	if len(e.Tables) == 0 {
		e.Tables = s.Tables
	}
	e.deadline = s.Deadline
	if e.Deadline != "" {
		var err error
		if e.deadline, err = time.ParseDuration(e.Deadline); err != nil || e.deadline <= 0 {
			return e, fmt.Errorf("read event: deadline: want a time such as 14m, got %q", e.Deadline)
		}
	}
	return e, nil
}
