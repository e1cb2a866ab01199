package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/cloudformation"
)

// TestRun runs the program where there is no Lambda: once, with an exit status.
func TestRun(t *testing.T) {
	w := newWorld(t)
	never := func(lambda.Handler) { t.Error("started as a Lambda") }
	once := func(want int, args ...string) string {
		t.Helper()
		var stderr bytes.Buffer
		environ := slices.DeleteFunc(w.environ(), func(pair string) bool { return strings.HasPrefix(pair, "ICEHOSE_TOPIC=") })
		if status := run(t.Context(), args, environ, io.Discard, &stderr, never); status != want {
			t.Errorf("%v: status %d, want %d\n%s", args, status, want, &stderr)
		}
		return stderr.String()
	}
	once(exitEqual)
	w.dump(t, "s.b", "other")
	once(exitDifferent)
	once(exitEqual, "--tables", "s.a,s.c", "--no-history")
	once(exitTrouble, "--tables", "s.none")
	if err := os.Remove(filepath.Join(w.dir, "source", "s.c.ndjson")); err != nil {
		t.Fatal(err)
	}
	once(exitTrouble, "--tables", "s.a,s.c")
	if got := once(exitTrouble, "--pipeline", "none.yaml"); !strings.Contains(got, `"message":"run failed","error":"read pipeline file: open none.yaml`) {
		t.Errorf("log %s", got)
	}
	if len(w.runs(t)) != 3 {
		t.Errorf("history %+v, want 3 runs", w.runs(t))
	}

	var help bytes.Buffer
	if status := run(t.Context(), []string{"--help"}, nil, &help, io.Discard, never); status != exitEqual || !strings.Contains(help.String(), "--source-secret") {
		t.Errorf("help: status %d\n%s", status, &help)
	}
	started := false
	environ := append(w.environ(), runtimeVariable+"=127.0.0.1:1")
	if status := run(t.Context(), []string{"handler"}, environ, io.Discard, os.Stderr, func(lambda.Handler) { started = true }); status != exitEqual || !started {
		t.Errorf("on Lambda: status %d, started %v", status, started)
	}
}

func TestEvents(t *testing.T) {
	w := newWorld(t)
	f := w.function(t, "ICEHOSE_TABLES=s.a")
	for _, test := range []struct{ event, want string }{
		{`{"tables":["s.none"]}`, `the pipeline file has no table "s.none"`},
		{`{"table":"s.a"}`, `read event: want {"tables":["schema.table"],"deadline":"14m"}`},
		{`{"deadline":"14"}`, `read event: deadline: want a time such as 14m, got "14"`},
		{`{"deadline":"-1m"}`, "read event: deadline"},
		{`[`, "read event"},
	} {
		if _, err := f.Invoke(t.Context(), []byte(test.event)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.event, err, test.want)
		}
	}
	if o := w.invoke(t, f, `{}`); o.Tables != 1 {
		t.Errorf("%d tables, want those of the settings", o.Tables)
	}
	if o := w.invoke(t, f, `{"tables":["s.b","s.c"]}`); o.Tables != 2 {
		t.Errorf("%d tables, want those of the event", o.Tables)
	}
}

// secretOf is a Secrets Manager with one secret.
type secretOf string

func (s secretOf) GetSecretValue(_ context.Context, in *secretsmanager.GetSecretValueInput, _ ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error) {
	if *in.SecretId != "shop-replica" {
		return nil, errors.New("no such secret")
	}
	text := string(s)
	return &secretsmanager.GetSecretValueOutput{SecretString: &text}, nil
}

func TestConnection(t *testing.T) {
	const long = "pa:ss/word@1"
	for _, test := range []struct {
		name, secret, database, tls string
		engine                      catalog.Engine
		want, fault                 string
	}{
		{
			name: "as DMS has it", secret: `{"host":"db","port":5433,"username":"u","password":"` + long + `"}`, database: "shop", engine: catalog.PostgreSQL,
			want: "postgres://u:pa%3Ass%2Fword%401@db:5433/shop?sslmode=require",
		},
		{
			name: "as RDS has it", secret: `{"engine":"postgres","host":"db","port":"5432","username":"u","password":"p","dbname":"shop","dbInstanceIdentifier":"x"}`,
			engine: catalog.PostgreSQL, tls: "verify-full", want: "postgres://u:p@db:5432/shop?sslmode=verify-full",
		},
		{name: "no port", secret: `{"host":"::1","username":"u","password":"p","dbname":"shop"}`, engine: catalog.PostgreSQL, tls: "disable", want: "postgres://u:p@[::1]:5432/shop?sslmode=disable"},
		{name: "MySQL", secret: `{"host":"db","username":"u","password":"p","dbname":"shop"}`, database: "postgres", engine: catalog.MariaDB, want: "mysql://u:p@db:3306/?tls=skip-verify"},
		{name: "MySQL, verified", secret: `{"host":"db","username":"u","password":"p"}`, engine: catalog.MySQL, tls: "verify-full", want: "mysql://u:p@db:3306/?tls=true"},
		{name: "a connection string", secret: "postgres://u:p@db/shop?sslmode=disable\n", engine: catalog.PostgreSQL, want: "postgres://u:p@db/shop?sslmode=disable"},
		{name: "no database", secret: `{"host":"db","username":"u","password":"` + long + `"}`, engine: catalog.PostgreSQL, fault: "no dbname in it: give --source-database"},
		{name: "a port that is none", secret: `{"host":"db","port":"` + long + `","username":"u","password":"p","dbname":"x"}`, engine: catalog.PostgreSQL, fault: "its port is none"},
		{name: "not JSON", secret: long, engine: catalog.PostgreSQL, fault: "want a connection string, or JSON"},
		{name: "no host", secret: `{"username":"u","password":"` + long + `"}`, engine: catalog.PostgreSQL, fault: "want a connection string, or JSON"},
		{name: "an engine that is not read", secret: `{"host":"db","username":"u","password":"` + long + `"}`, engine: catalog.Oracle, fault: "the pipeline file's is oracle"},
	} {
		t.Run(test.name, func(t *testing.T) {
			environ := []string{"ICEHOSE_SOURCE_SECRET=shop-replica", "ICEHOSE_SOURCE_DATABASE=" + test.database}
			if test.tls != "" {
				environ = append(environ, "ICEHOSE_SOURCE_TLS="+test.tls)
			}
			s, err := parseSettings(nil, environ, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			f := &function{settings: s, secrets: secretOf(test.secret), pipeline: &catalog.Pipeline{Source: catalog.Source{Engine: test.engine}}}
			got, err := f.connection(t.Context())
			if test.fault != "" {
				if err == nil || !strings.HasPrefix(err.Error(), "read secret shop-replica: ") || !strings.Contains(err.Error(), test.fault) || strings.Contains(err.Error(), long) {
					t.Errorf("error %v, want %q", err, test.fault)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("%s: %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	s, err := parseSettings([]string{"--retries", "3"}, []string{
		"ICEHOSE_RETRIES=4", "ICEHOSE_HISTORY=false", "ICEHOSE_PROP=a=b;c=d", "ICEHOSE_TABLES=s.a,s.b", "ICEHOSE_LOG_LEVEL=warn", "ICEHOSE_METRICS_NAMESPACE=",
		"ICEHOSE_CATALOG=glue", "ICEHOSE_CHECKPOINT=s3://proofs", "ICEHOSE_REPORT=s3://proofs/a/b/", "ICEHOSE_DSN=postgres://db/shop",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.Retries != 3 || s.History || !cmp.Equal(s.Prop, map[string]string{"a": "b", "c": "d"}) || !cmp.Equal(s.Tables, []string{"s.a", "s.b"}) || s.LogLevel != slog.LevelWarn ||
		s.MetricsNamespace != "" || s.Catalog != "glue" || s.checkpoint != (prefix{"proofs", ""}) || s.report.uri("x") != "s3://proofs/a/b/x" || s.dsn != "postgres://db/shop" {
		t.Errorf("settings %+v", s)
	}
	for want, environ := range map[string][]string{
		"read environment: ICEHOSE_RETRYS: no such setting":                                {"ICEHOSE_RETRYS=3"},
		"read environment: ICEHOSE_HELP: no such setting":                                  {"ICEHOSE_HELP=1"},
		"--retries: expected":                                                              {"ICEHOSE_RETRIES=x"},
		"--settle, --retries and --slice-rows: want nothing negative":                      {"ICEHOSE_SETTLE=-1s"},
		`--checkpoint: want s3://bucket/prefix, got "checkpoints"`:                         {"ICEHOSE_CHECKPOINT=checkpoints"},
		`--report: want s3://bucket/prefix, got "s3:///reports"`:                           {"ICEHOSE_REPORT=s3:///reports"},
		"--pipeline: want a path or s3://bucket/key":                                       {"ICEHOSE_PIPELINE="},
		"--deadline: want a time such as 14m":                                              {"ICEHOSE_DEADLINE=-1m"},
		"want --source-secret or --source, not both":                                       {"ICEHOSE_SOURCE=dump", "ICEHOSE_SOURCE_SECRET=x"},
		"--source-tls must be one of":                                                      {"ICEHOSE_SOURCE_TLS=maybe"},
		"--max-connections, --rows-per-second and --statement-timeout: want nothing negat": {"ICEHOSE_MAX_CONNECTIONS=0"},
	} {
		var stderr bytes.Buffer
		if status := run(t.Context(), nil, environ, io.Discard, &stderr, nil); status != exitTrouble || !strings.Contains(stderr.String(), `"message":"start refused"`) {
			t.Errorf("%v: status %d\n%s", environ, status, &stderr)
		}
		if _, err := parseSettings(nil, environ, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", environ, err, want)
		}
	}
}

// TestTemplate holds the stack to what the program reads: variables and event.
func TestTemplate(t *testing.T) {
	text, err := cloudformation.Templates.ReadFile("reconcile.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var environ []string
	for _, found := range regexp.MustCompile(`(?m)^ +(ICEHOSE_[A-Z_]+): `).FindAllSubmatch(text, -1) {
		environ = append(environ, string(found[1])+"=")
	}
	if len(environ) < 8 {
		t.Errorf("variables %v", environ)
	}
	var s settings
	parser, err := kong.New(&s)
	if err != nil {
		t.Fatal(err)
	}
	if err := refuseUnknown(parser.Model.Flags, environ); err != nil {
		t.Error(err)
	}
	checkDefaults(t, string(text))
	event := regexp.MustCompile(`(?m)^ +Input: '(.*)'$`).FindSubmatch(text)
	if event == nil {
		t.Fatal("the schedule sends no event")
	}
	if e, err := s.parseEvent(event[1]); err != nil || e.deadline >= 15*time.Minute {
		t.Errorf("event %s: %+v: %v", event[1], e, err)
	}
}

// checkDefaults starts the program with what the stack's parameters are when
// nobody sets them.
func checkDefaults(t *testing.T, template string) {
	t.Helper()
	defaults := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^  ([A-Za-z]+):\n(?:    .*\n)*?    Default: "?([^"\n]*)"?$`).FindAllStringSubmatch(template, -1) {
		defaults[found[1]] = found[2]
	}
	var environ []string
	for _, found := range regexp.MustCompile(`(?m)^ +(ICEHOSE_[A-Z_]+): (?:!Ref ([A-Za-z]+)|!Sub "\$\{([A-Za-z]+)\}s")$`).FindAllStringSubmatch(template, -1) {
		value, ok := defaults[found[2]+found[3]]
		if found[3] != "" {
			value += "s"
		}
		if ok {
			environ = append(environ, found[1]+"="+value)
		}
	}
	s, err := parseSettings(nil, environ, io.Discard)
	if err != nil {
		t.Fatalf("%v: %v", environ, err)
	}
	if s.Settle != time.Minute || s.SettleIdle != 15*time.Minute || s.ReplicaLag != 0 || s.Concurrency != 2 || s.SliceRows != 50_000_000 || s.RowsPerSecond != 0 || s.MaxConnections != 2 || s.StatementTimeout != 15*time.Minute ||
		s.Heartbeat != "" || s.Version != "" || s.SourceRole != "auto" {
		t.Errorf("settings %+v of %v", s, environ)
	}
}
