package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/google/go-cmp/cmp"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"icehose/catalog"
	"icehose/internal/lambdalog"
	"icehose/reconcile"
	"icehose/reconcile/history"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// value is one that no log, metric, message or report may hold.
const value = "kept-from-every-log"

const testPipeline = `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - {source: s.a, mode: mirror, key: [id], columns: &columns [{name: id, type: long}, {name: note, type: string}]}
  - {source: s.b, mode: mirror, key: [id], columns: *columns}
  - {source: s.c, mode: mirror, key: [id], columns: *columns}
`

// A world is a lake with one row in each table, dumps of the same rows, and an S3
// with the pipeline file.
type world struct {
	dir      string
	s3       *s3mem.Backend
	log      bytes.Buffer
	metrics  bytes.Buffer
	messages []*sns.PublishInput
	snsFails bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), s3: s3mem.New()}
	for _, name := range []string{"conf", "proofs"} {
		if err := w.s3.CreateBucket(name); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(gofakes3.New(w.s3).Server())
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	w.configure(t, testPipeline)
	p, err := catalog.Parse("pipeline.yaml", []byte(testPipeline))
	if err != nil {
		t.Fatal(err)
	}
	store := w.open(t)
	for _, table := range p.Tables {
		opened, err := store.OpenTable(t.Context(), table)
		if err != nil {
			t.Fatal(err)
		}
		columns, _ := table.LakeColumns()
		row := make([][]byte, len(columns))
		for i, c := range columns {
			switch c.Name {
			case "id":
				row[i] = []byte("1")
			case "note":
				row[i] = []byte(value)
			case catalog.ColumnPosition:
				row[i] = []byte("0000.1")
			}
		}
		batch := &sink.Batch{ID: "first", Properties: map[string]string{sink.PropertyCommit: "first"}, Inserts: sink.NewRows(row)}
		if err := opened.Commit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		w.dump(t, table.Source, value)
	}
	return w
}

func (w *world) lake() string { return filepath.Join(w.dir, "lake") }

func (w *world) open(t *testing.T) *iceberg.Store {
	t.Helper()
	store, err := iceberg.Open(t.Context(), w.lake(), iceberg.Options{Beside: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func (w *world) configure(t *testing.T, pipeline string) {
	t.Helper()
	if _, err := w.s3.PutObject("conf", "shop.yaml", nil, strings.NewReader(pipeline), int64(len(pipeline)), nil); err != nil {
		t.Fatal(err)
	}
}

// dump makes the row that a table has at the source.
func (w *world) dump(t *testing.T, table, note string) {
	t.Helper()
	folder := filepath.Join(w.dir, "source")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, table+".ndjson"), fmt.Appendf(nil, "{\"id\":\"1\",\"note\":%q}\n", note), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *world) environ(more ...string) []string {
	return append([]string{
		"ICEHOSE_NAME=shop", "ICEHOSE_PIPELINE=s3://conf/shop.yaml", "ICEHOSE_SOURCE=" + filepath.Join(w.dir, "source"), "ICEHOSE_FINAL=true", "ICEHOSE_LAKE=" + w.lake(),
		"ICEHOSE_CONCURRENCY=1", "ICEHOSE_CHECKPOINT=s3://proofs/checkpoints", "ICEHOSE_REPORT=s3://proofs/reports/", "ICEHOSE_TOPIC=arn:topic",
	}, more...)
}

func (w *world) function(t *testing.T, more ...string) *function {
	t.Helper()
	s, err := parseSettings(nil, w.environ(more...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	f, err := newFunction(t.Context(), s, lambdalog.New(&w.log, s.LogLevel), &w.metrics)
	if err != nil {
		t.Fatal(err)
	}
	f.topic = w
	return f
}

// Publish implements publisher.
func (w *world) Publish(_ context.Context, in *sns.PublishInput, _ ...func(*sns.Options)) (*sns.PublishOutput, error) {
	if w.snsFails {
		return nil, errors.New("no such topic")
	}
	w.messages = append(w.messages, in)
	return &sns.PublishOutput{}, nil
}

// invoke sends an event and returns the outcome.
func (w *world) invoke(t *testing.T, h lambda.Handler, event string) *outcome {
	t.Helper()
	text, err := h.Invoke(t.Context(), []byte(event))
	if err != nil {
		t.Fatal(err)
	}
	o := new(outcome)
	if err := json.Unmarshal(text, o); err != nil {
		t.Fatal(err)
	}
	return o
}

// objects are the keys below a prefix.
func (w *world) objects(t *testing.T, prefix string) (keys []string) {
	t.Helper()
	list, err := w.s3.ListBucket("proofs", &gofakes3.Prefix{HasPrefix: true, Prefix: prefix}, gofakes3.ListBucketPage{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Contents {
		keys = append(keys, o.Key)
	}
	return keys
}

func (w *world) object(t *testing.T, uri string) string {
	t.Helper()
	object, err := w.s3.GetObject("proofs", strings.TrimPrefix(uri, "s3://proofs/"), nil)
	if err != nil {
		t.Fatalf("%s: %v", uri, err)
	}
	text, err := io.ReadAll(object.Contents)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// verdicts are those of the log's lines of tables, in the words of the metric
// filter in observability.yaml, which counts lines with $.verdict.
func (w *world) verdicts(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(w.log.String()) {
		var l struct{ Timestamp, Message, Table, Verdict string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("log line %s: %v", line, err)
		}
		if l.Timestamp == "" || l.Message == "" {
			t.Errorf("log line without time or message: %s", line)
		}
		if l.Verdict != "" {
			found[l.Table] = l.Verdict
		}
	}
	return found
}

func (w *world) runs(t *testing.T) []history.Run {
	t.Helper()
	runs, err := history.Read(t.Context(), w.open(t).Tables(), "lake", 100, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// The outcome goes to the log, the metrics, S3, the history and, when a table is
// not equal, to the topic; no value of a row goes anywhere.
func TestOutcome(t *testing.T) {
	w := newWorld(t)
	f := w.function(t)
	o := w.invoke(t, f, `{"tables":[],"deadline":"14m"}`)
	if o.Verdict != "equal" || o.Tables != 3 || len(w.messages) > 0 {
		t.Errorf("outcome %+v, messages %d", o, len(w.messages))
	}
	if diff := cmp.Diff(map[string]string{"s.a": "equal", "s.b": "equal", "s.c": "equal"}, w.verdicts(t)); diff != "" {
		t.Error(diff)
	}

	w.log.Reset()
	w.metrics.Reset()
	w.dump(t, "s.b", "other")
	o = w.invoke(t, f, `{}`)
	if o.Verdict != "different" || o.Different != 1 || o.Findings != 1 {
		t.Errorf("outcome %+v", o)
	}
	if diff := cmp.Diff(map[string]string{"s.a": "equal", "s.b": "different", "s.c": "equal"}, w.verdicts(t)); diff != "" {
		t.Error(diff)
	}
	if got := strings.Count(w.metrics.String(), `"different":1`); got != 1 {
		t.Errorf("%d lines of metrics say different:\n%s", got, &w.metrics)
	}
	var report struct {
		Verdict string
		Tables  []struct{ Table, Verdict string }
	}
	if err := json.Unmarshal([]byte(w.object(t, o.Report)), &report); err != nil || report.Verdict != "different" || len(report.Tables) != 3 {
		t.Errorf("report %+v: %v", report, err)
	}
	page := w.object(t, o.Page)
	if !strings.Contains(page, "<html") || !strings.Contains(page, "shop") {
		t.Errorf("page %.200s", page)
	}
	if len(w.messages) != 1 || *w.messages[0].Subject != "icehose: shop is different" || !strings.Contains(*w.messages[0].Message, "s.b ") || !strings.Contains(*w.messages[0].Message, o.Report) {
		t.Fatalf("messages %v", w.messages)
	}
	if runs := w.runs(t); len(runs) != 2 || runs[1].Verdict != reconcile.Different {
		t.Errorf("history %+v", runs)
	}
	if all := w.log.String() + w.metrics.String() + *w.messages[0].Message + page + w.object(t, o.Report); strings.Contains(all, value) {
		t.Errorf("a value of a row is told:\n%s", all)
	}
	if left := w.objects(t, "checkpoints/"); len(left) > 0 {
		t.Errorf("checkpoints %v of runs that ended", left)
	}
}

// A topic that cannot be told fails the invocation, after everything else.
func TestPublishFails(t *testing.T) {
	w := newWorld(t)
	w.snsFails = true
	w.dump(t, "s.b", "other")
	if _, err := w.function(t).Invoke(t.Context(), []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "tell topic: no such topic") {
		t.Errorf("error %v", err)
	}
	if got := w.objects(t, "reports/"); len(got) != 2 {
		t.Errorf("reports %v, want JSON and page", got)
	}
	if len(w.runs(t)) != 1 {
		t.Error("the run is not in the history")
	}
}

// A table that cannot be read is told, and does not leave a checkpoint that
// would carry the verdicts of the others on for ever.
func TestUnreadableTable(t *testing.T) {
	w := newWorld(t)
	f := w.function(t)
	if err := os.Remove(filepath.Join(w.dir, "source", "s.b.ndjson")); err != nil {
		t.Fatal(err)
	}
	if o := w.invoke(t, f, `{"deadline":"1h"}`); o.Verdict != "inconclusive" || o.Inconclusive != 1 || len(w.messages) != 1 {
		t.Errorf("outcome %+v, messages %d", o, len(w.messages))
	}
	if left := w.objects(t, "checkpoints/"); len(left) > 0 {
		t.Errorf("checkpoints %v", left)
	}
	w.dump(t, "s.a", "other")
	if o := w.invoke(t, f, `{"deadline":"1h"}`); o.Verdict != "different" {
		t.Errorf("the next run: %+v", o)
	}
}

func TestStopAt(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		name                  string
		lambda, event, within time.Duration
	}{
		{"the event's, before Lambda's", 15 * time.Minute, 14 * time.Minute, 14*time.Minute - margin},
		{"Lambda's, before the event's", 5 * time.Minute, 14 * time.Minute, 5*time.Minute - margin},
		{"Lambda's alone", 15 * time.Minute, 0, 15*time.Minute - margin},
		{"the event's alone", 0, time.Hour, time.Hour - margin},
		{"a short one", 15 * time.Minute, 10 * time.Second, 8 * time.Second},
	} {
		ctx := t.Context()
		if test.lambda > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, now.Add(test.lambda))
			defer cancel()
		}
		if got := stopAt(ctx, now, test.event).Sub(now); got != test.within {
			t.Errorf("%s: within %s, want %s", test.name, got, test.within)
		}
	}
	if got := stopAt(t.Context(), now, 0); !got.IsZero() {
		t.Errorf("no limit: %s", got)
	}
}
