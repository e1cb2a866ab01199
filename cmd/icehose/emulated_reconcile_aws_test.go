//go:build aws

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/jackc/pgx/v5"

	"icehose/catalog/status"
	"icehose/internal/pgtest"
	"icehose/internal/rietest"
	"icehose/internal/tpcc"
)

// A reconcileOutcome is what the reconcile Lambda answers.
type reconcileOutcome struct {
	Verdict, Report, Page, ErrorMessage string
	Tables, Different, Inconclusive     int
}

// checkReconcile fills a real PostgreSQL and the Glue tables with the same rows and
// runs the program of the reconcile Lambda, with the environment, the event and the
// secret that its template gives it: as a Lambda under the emulator of its
// runtime, and as a container would.
func (e *emulatedAWS) checkReconcile(t *testing.T, glue []string) {
	t.Helper()
	source := e.source(t)
	for _, table := range tpcc.Tables() {
		e.command(t, exitSame, append([]string{"load", "public." + table, "--no-edit", "--pipeline", emulatedPipeline}, glue...)...)
	}
	messages := e.subscribe(t)
	bootstrap := rietest.Build(t, "icehose/cmd/reconcile-lambda")
	environ := append(e.functionEnviron(t, "reconcile"), "ICEHOSE_SETTLE_IDLE=2s") // nobody writes
	function := rietest.StartFunction(t, os.Getenv("LAMBDA_RIE"), bootstrap, environ...)
	event := e.output(t, "reconcile", "Event") // the scheduler's

	o := reconcileNow(t, function, event)
	if o.Verdict != "equal" || o.Tables != len(tpcc.Tables()) {
		t.Fatalf("rows that were loaded: %+v\n%s", o, function.Output())
	}
	report := e.output(t, "reconcile", "ReportUri")
	e.command(t, exitSame, "status", "--report", report)

	// At 10 rows a second the small tables are decided within Lambda's limit, and not the large ones.
	slow := rietest.StartFunction(t, os.Getenv("LAMBDA_RIE"), bootstrap,
		append(environ, "ICEHOSE_ROWS_PER_SECOND=10", "ICEHOSE_CONCURRENCY=1", "AWS_LAMBDA_FUNCTION_TIMEOUT=50")...)
	if o := reconcileNow(t, slow, event); o.Verdict != "unfinished" || o.Report != "" {
		t.Fatalf("a run that was cut off: %+v\n%s", o, slow.Output())
	}
	slow.Await(t, func(output string) bool {
		return strings.Contains(output, `"table":"public.warehouse","verdict":"equal"`)
	})
	// What it has decided is not read by the next one: it is not there.
	execute(t, source, "ALTER TABLE warehouse RENAME TO elsewhere")
	if o := reconcileNow(t, function, event); o.Verdict != "equal" || o.Tables != len(tpcc.Tables()) {
		t.Fatalf("the run that goes on: %+v\n%s", o, function.Output())
	}
	execute(t, source, "ALTER TABLE elsewhere RENAME TO warehouse; UPDATE item SET i_price = i_price + 1 WHERE i_id = 7")

	o = reconcileNow(t, function, event)
	if o.Verdict != "different" || o.Different != 1 || o.Inconclusive != 0 {
		t.Fatalf("a row that changed: %+v\n%s", o, function.Output())
	}
	function.Await(t, func(output string) bool {
		return strings.Contains(output, `"table":"public.item","verdict":"different"`) && strings.Contains(output, `"different":1`) && strings.Contains(output, "CloudWatchMetrics")
	})
	if m := <-messages; m.Subject != "icehose: shop is different" || !strings.Contains(m.Message, o.Report) || !strings.Contains(m.Message, "public.item") {
		t.Errorf("message %+v", m)
	}
	e.checkReports(t, report, o)
	e.command(t, exitDifferent, append([]string{"reconcile", "--pipeline", emulatedPipeline, "--tables", "public.item", "--settle", "1s", "--settle-idle", "2s"}, glue...)...)

	once := exec.CommandContext(t.Context(), bootstrap, "--tables", "public.item,public.stock")
	once.Env = append(environ, "PATH="+os.Getenv("PATH"))
	text, err := once.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitDifferent || !strings.Contains(string(text), `"run_verdict":"different","tables":2`) {
		t.Errorf("without Lambda: %v\n%s", err, text)
	}
}

// source starts a PostgreSQL with TPC-C in it, and says in the secret where it is.
func (e *emulatedAWS) source(t *testing.T) *pgx.Conn {
	t.Helper()
	server := pgtest.New(t)
	conn := server.Connect(t)
	if err := errors.Join(tpcc.CreateSchema(t.Context(), conn), tpcc.Load(t.Context(), conn, tpcc.Tiny(), 1)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ICEHOSE_DSN", server.DSN()) // for icehose load
	c := conn.Config()
	secret, err := json.Marshal(map[string]string{"host": c.Host, "port": strconv.Itoa(int(c.Port)), "username": c.User, "password": cmp.Or(c.Password, "none"), "dbname": c.Database})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secretsmanager.NewFromConfig(e.config).PutSecretValue(t.Context(), &secretsmanager.PutSecretValueInput{SecretId: &e.secret, SecretString: aws.String(string(secret))}); err != nil {
		t.Fatal(err)
	}
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, statements string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
}

// functionEnviron is the environment of the function of a stack, and where the
// emulator is.
func (e *emulatedAWS) functionEnviron(t *testing.T, stack string) []string {
	t.Helper()
	environ := []string{
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_ENDPOINT_URL=" + e.endpoint,
		"ICEHOSE_PROP=s3.endpoint=" + e.endpoint + ";s3.force-virtual-addressing=false",
	}
	variables, ok := e.stacks[stack]["Environment"].(map[string]any)
	if !ok {
		t.Fatalf("the stack %s gives its Lambda no environment", stack)
	}
	for name, value := range variables {
		environ = append(environ, fmt.Sprintf("%s=%v", name, value))
	}
	return environ
}

func reconcileNow(t *testing.T, f *rietest.Function, event string) (o reconcileOutcome) {
	t.Helper()
	answer := f.Invoke(t, []byte(event))
	if err := json.Unmarshal(answer, &o); err != nil || o.ErrorMessage != "" {
		t.Fatalf("answer %s: %v\n%s", answer, err, f.Output())
	}
	return o
}

type snsMessage struct{ Subject, Message string }

// subscribe has the topic of the stack send its messages here.
func (e *emulatedAWS) subscribe(t *testing.T) <-chan snsMessage {
	t.Helper()
	messages := make(chan snsMessage, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m snsMessage
		if json.NewDecoder(r.Body).Decode(&m) == nil && m.Subject != "" {
			messages <- m
		}
	}))
	t.Cleanup(server.Close)
	topic := e.output(t, "reconcile", "TopicArn")
	if _, err := sns.NewFromConfig(e.config).Subscribe(t.Context(), &sns.SubscribeInput{TopicArn: &topic, Protocol: aws.String("http"), Endpoint: &server.URL}); err != nil {
		t.Fatal(err)
	}
	return messages
}

// checkReports wants the table that differs, and no other, red in the newest
// report, and a page with the runs so far: the one that was cut off is not told.
func (e *emulatedAWS) checkReports(t *testing.T, uri string, o reconcileOutcome) {
	t.Helper()
	var seen status.Report
	if err := json.Unmarshal([]byte(e.command(t, exitDifferent, "--json", "status", "--report", uri)), &seen); err != nil {
		t.Fatal(err)
	}
	for _, l := range seen.Lines {
		if l.Light != status.OK && l.Name != "public.item" {
			t.Errorf("%s %s is %s", l.Part, l.Name, l.Light)
		}
	}
	if page := e.get(t, o.Page); !strings.Contains(page, "public.item") || !strings.Contains(page, "the last 3 of them") {
		t.Errorf("the page does not show the table and 3 runs:\n%s", page)
	}
}

// get reads an object.
func (e *emulatedAWS) get(t *testing.T, uri string) string {
	t.Helper()
	place, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.s3().GetObject(t.Context(), &s3.GetObjectInput{Bucket: &place.Host, Key: aws.String(strings.TrimPrefix(place.Path, "/"))})
	if err != nil {
		t.Fatalf("%s: %v", uri, err)
	}
	text, err := io.ReadAll(out.Body)
	if err = errors.Join(err, out.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}
