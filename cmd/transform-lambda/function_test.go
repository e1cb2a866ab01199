package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"icehose/internal/lambdalog"
	"icehose/internal/pipelinefile"
	"icehose/transform/firehose"
)

// secret is a value that no log, metric or error may hold.
const secret = "kept-from-every-log"

// pipeline delivers public.notes to the given database.
func pipeline(database string) string {
	return fmt.Sprintf(`version: 1
database: %s
source: {engine: postgresql, position: postgres, nulls: included}
tables:
  - source: public.notes
    mode: mirror
    key: [id]
    columns: [{name: id, type: long}, {name: note, type: string}]
`, database)
}

// notes is an event of two records, of which the second fails.
func notes() []byte {
	var records []string
	for i, id := range []string{"1", `"` + secret + `"`} {
		record := fmt.Sprintf(`{"data":{"id":%s,"note":"%s"},"metadata":{"timestamp":"2026-01-02T03:04:05Z","record-type":"data","operation":"insert",`+
			`"partition-key-type":"primary-key","partition-key-value":"%s","schema-name":"public","table-name":"notes","transaction-id":9,`+
			`"transaction-record-id":%d,"commit-timestamp":"2026-01-02T03:04:04Z","stream-position":"00000001/00000002.2.00000001/00000003"}}`,
			id, secret, secret, i+1)
		records = append(records, fmt.Sprintf(`{"recordId":"id-%d","data":"%s"}`, i, base64.StdEncoding.EncodeToString([]byte(record))))
	}
	return []byte(`{"deliveryStreamArn":"arn:aws:firehose:eu-west-1:000000000000:deliverystream/notes","records":[` + strings.Join(records, ",") + `]}`)
}

// database invokes the function and returns where it delivered the first note.
func database(t *testing.T, h lambda.Handler) string {
	t.Helper()
	response, err := h.Invoke(t.Context(), notes())
	if err != nil {
		t.Fatal(err)
	}
	answers, err := firehose.ParseResponse(response)
	if err != nil || len(answers) != 2 {
		t.Fatalf("%d answers: %v", len(answers), err)
	}
	return answers[0].Database
}

// checkSecret looks for values, in all forms that they have on their way.
func checkSecret(t *testing.T, output string) {
	t.Helper()
	for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))[:16], secret[:8]} {
		if strings.Contains(output, form) {
			t.Errorf("output holds a value:\n%s", output)
		}
	}
}

// A bucket is an S3 with one object. Gets counts the requests for it.
type bucket struct {
	backend *s3mem.Backend
	url     string
	gets    int
	broken  bool
}

func newBucket(t *testing.T) *bucket {
	t.Helper()
	b := &bucket{backend: s3mem.New()}
	if err := b.backend.CreateBucket("conf"); err != nil {
		t.Fatal(err)
	}
	s3 := gofakes3.New(b.backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.gets++
		if b.broken {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s3.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

func (b *bucket) put(t *testing.T, text string) {
	t.Helper()
	if _, err := b.backend.PutObject("conf", "shop.yaml", nil, strings.NewReader(text), int64(len(text)), nil); err != nil {
		t.Fatal(err)
	}
}

func (b *bucket) environ() []string {
	return []string{
		"ICEHOSE_PIPELINE=s3://conf/shop.yaml", "AWS_ENDPOINT_URL_S3=" + b.url, "AWS_REGION=eu-west-1", "AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=word",
	}
}

func TestPipelineOnS3(t *testing.T) {
	b := newBucket(t)
	b.put(t, pipeline("one"))
	s, err := parseSettings(b.environ(), "/var/task/bootstrap")
	if err != nil {
		t.Fatal(err)
	}
	var logged, metrics bytes.Buffer
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := newFunction(s, lambdalog.New(&logged, s.level), &metrics, func() time.Time { return now })
	if err := f.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name   string
		change func()
		after  time.Duration
		want   string // database
		gets   int
		log    string
	}{
		{name: "used as it was at the start", change: func() {}, want: "one"},
		{name: "a change is not looked for yet", change: func() { b.put(t, pipeline("two")) }, after: 5*time.Minute - 1, want: "one"},
		{name: "a change is seen", change: func() {}, after: 1, want: "two", gets: 1, log: `"message":"pipeline file changed"`},
		{name: "looked at once", change: func() {}, want: "two"},
		{name: "no change", change: func() {}, after: 5 * time.Minute, want: "two", gets: 1},
		{
			name: "not YAML", change: func() { b.put(t, "version: [") }, after: 5 * time.Minute, want: "two", gets: 1,
			log: `"message":"pipeline file refused"`,
		},
		{name: "still not YAML", change: func() {}, after: 5 * time.Minute, want: "two", gets: 1, log: `"message":"pipeline file refused"`},
		{
			name: "a key that is no column", change: func() { b.put(t, strings.Replace(pipeline("three"), "[id]", "[no]", 1)) }, after: 5 * time.Minute,
			want: "two", gets: 1, log: "no column of this name",
		},
		{name: "no access", change: func() { b.broken = true }, after: 5 * time.Minute, want: "two", gets: 1, log: `"message":"pipeline file not read"`},
		{
			name: "mended", change: func() { b.broken = false; b.put(t, pipeline("four")) }, after: 5 * time.Minute, want: "four", gets: 1,
			log: `"message":"pipeline file changed"`,
		},
		{
			name: "gone", change: func() {
				if _, err := b.backend.DeleteObject("conf", "shop.yaml"); err != nil {
					t.Fatal(err)
				}
			}, after: 5 * time.Minute, want: "four", gets: 1, log: "NoSuchKey",
		},
	}
	for _, step := range steps {
		step.change()
		now = now.Add(step.after)
		logged.Reset()
		gets := b.gets
		if got := database(t, f); got != step.want {
			t.Errorf("%s: delivered to %q, want %q", step.name, got, step.want)
		}
		if got := b.gets - gets; got != step.gets {
			t.Errorf("%s: %d requests, want %d", step.name, got, step.gets)
		}
		about := strings.Count(logged.String(), "pipeline file")
		if step.log == "" && about > 0 || !strings.Contains(logged.String(), step.log) {
			t.Errorf("%s: log is\n%swant %q", step.name, logged.String(), step.log)
		}
		checkSecret(t, logged.String()+metrics.String())
	}
}

func TestObjectSize(t *testing.T) {
	b := newBucket(t)
	b.put(t, strings.Repeat("#", pipelinefile.MaxSize+1))
	var stderr bytes.Buffer
	status := run(t.Context(), b.environ(), &stderr, &stderr, func(lambda.Handler) { t.Error("started") })
	if status != exitTrouble || !strings.Contains(stderr.String(), "more than 8388608 bytes") {
		t.Errorf("status %d, log %s", status, &stderr)
	}
}

// TestRun starts the function as main does, without a network: a pipeline
// file in the zip needs none.
func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shop.yaml")
	if err := os.WriteFile(path, []byte(pipeline("shop")), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	environ := []string{"ICEHOSE_PIPELINE=" + path, "ICEHOSE_DATABASE=other", "ICEHOSE_METRICS_NAMESPACE=notes"}
	status := run(t.Context(), environ, &stdout, &stderr, func(h lambda.Handler) {
		ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "request-1"})
		if _, err := h.Invoke(ctx, notes()); err != nil {
			t.Error(err)
		}
		if got := database(t, h); got != "other" {
			t.Errorf("delivered to %q, want other", got)
		}
		if _, err := h.Invoke(t.Context(), []byte(`{"records":[`)); err == nil {
			t.Error("a broken event was answered")
		}
	})
	if status != exitDone {
		t.Errorf("status %d: %s", status, &stderr)
	}
	var line struct{ Timestamp, Level, Message, RequestID, Table, Reason string }
	if err := json.NewDecoder(&stderr).Decode(&line); err != nil {
		t.Fatal(err)
	}
	if line.Message != "record failed" || line.Level != "ERROR" || line.RequestID != "request-1" || line.Timestamp == "" || line.Reason != "invalid_value" {
		t.Errorf("log line %+v", line)
	}
	if got := strings.Count(stdout.String(), `"Namespace":"notes"`); got != 4 {
		t.Errorf("%d lines of metrics, want 4:\n%s", got, &stdout)
	}
	checkSecret(t, stdout.String()+stderr.String())
}

func TestRunRefuses(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("version: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(t.TempDir(), "whole.yaml")
	if err := os.WriteFile(whole, []byte(pipeline("shop")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, want string
		environ    []string
	}{
		{"no pipeline file", "no such file", []string{"ICEHOSE_PIPELINE=" + broken + ".not"}},
		{"a broken pipeline file", "version: want 1", []string{"ICEHOSE_PIPELINE=" + broken}},
		{"a setting that does not exist", "no such setting", []string{"ICEHOSE_MODUS=mirror"}},
		{"a suffix that is no name", "want lower-case names", []string{"ICEHOSE_PIPELINE=" + whole, "ICEHOSE_SUFFIX=-Log"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if status := run(t.Context(), test.environ, &stdout, &stderr, func(lambda.Handler) { t.Error("started") }); status != exitTrouble {
				t.Errorf("status %d", status)
			}
			var line struct{ Message, Error string }
			if err := json.Unmarshal(stderr.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			if line.Message != "start refused" || !strings.Contains(line.Error, test.want) {
				t.Errorf("log line %+v, want %q", line, test.want)
			}
		})
	}
}
