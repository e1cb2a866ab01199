package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"icehose/transform/redrive"
)

const redrivePipeline = `version: 1
database: shop
source: {engine: postgresql, position: postgres}
tables:
  - {source: public.log, mode: changelog, columns: [{name: id, type: long}]}
  - {source: public.orders, mode: mirror, key: [id], columns: [{name: id, type: long}]}
`

// failedRecord is the error object of a record of a table.
func failedRecord(table string, id int) (object, original string) {
	original = fmt.Sprintf(`{"data":{"id":%d},"metadata":{"timestamp":"2026-01-02T03:04:05.000000Z","record-type":"data","operation":"load",`+
		`"partition-key-type":"primary-key","partition-key-value":"public.%s.%d","schema-name":"public","table-name":%q}}`, id, table, id, table)
	object = fmt.Sprintf(`{"attemptsMade":4,"errorCode":"Lambda.FunctionError","rawData":%q,"lambdaARN":"arn"}`+"\n", base64.StdEncoding.EncodeToString([]byte(original)))
	return object, original
}

// A fakeKinesis answers PutRecords, as far as the API reference describes it.
type fakeKinesis struct {
	mu      sync.Mutex
	calls   int
	records map[string]int // data -> times taken
	keys    map[string]string
	stream  string
	answer  func(call, index int) (code string) // "" takes the record
	status  func(call int) int
	rejects string // data that makes a call invalid
}

func (k *fakeKinesis) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if r.Header.Get("X-Amz-Target") != "Kinesis_20131202.PutRecords" {
		http.Error(w, `{"__type":"UnknownOperationException"}`, http.StatusBadRequest)
		return
	}
	if k.status != nil && k.status(k.calls) != http.StatusOK {
		http.Error(w, `{"__type":"AccessDeniedException","message":"no"}`, k.status(k.calls))
		return
	}
	var in struct {
		StreamName string
		Records    []struct {
			Data         []byte
			PartitionKey string
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, `{"__type":"SerializationException"}`, http.StatusBadRequest)
		return
	}
	for _, record := range in.Records {
		if k.rejects != "" && strings.Contains(string(record.Data), k.rejects) {
			http.Error(w, `{"__type":"ValidationException","message":"too large"}`, http.StatusBadRequest)
			return
		}
	}
	k.stream = in.StreamName
	type answer struct{ ErrorCode, SequenceNumber, ShardId string } //nolint:revive // the name that the API has
	var out struct {
		FailedRecordCount int
		Records           []answer
	}
	for i, record := range in.Records {
		if code := k.answer(k.calls, i); code != "" {
			out.FailedRecordCount++
			out.Records = append(out.Records, answer{ErrorCode: code})
			continue
		}
		k.records[string(record.Data)]++
		k.keys[string(record.Data)] = record.PartitionKey
		out.Records = append(out.Records, answer{SequenceNumber: "1", ShardId: "shardId-000000000000"})
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// cloud starts a Kinesis and an S3 of their own and points the SDK at them.
func cloud(t *testing.T) *fakeKinesis {
	t.Helper()
	k, _ := cloudWith(t, nil)
	return k
}

// cloudWith is cloud with something before the S3, and a way to put objects.
func cloudWith(t *testing.T, before func(http.Handler) http.Handler) (*fakeKinesis, func(key, content string)) {
	t.Helper()
	k := &fakeKinesis{records: make(map[string]int), keys: make(map[string]string), answer: func(int, int) string { return "" }}
	stream := httptest.NewServer(k)
	t.Cleanup(stream.Close)
	store := s3mem.New()
	handler := gofakes3.New(store).Server()
	if before != nil {
		handler = before(handler)
	}
	objects := httptest.NewServer(handler)
	t.Cleanup(objects.Close)
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1", "AWS_MAX_ATTEMPTS": "1",
		"AWS_ENDPOINT_URL_S3": objects.URL, "AWS_ENDPOINT_URL_KINESIS": stream.URL, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": filepath.Join(t.TempDir(), "none"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "none"),
	} {
		t.Setenv(name, value)
	}
	if err := store.CreateBucket("lake-errors"); err != nil {
		t.Fatal(err)
	}
	put := func(key, content string) {
		if _, err := store.PutObject("lake-errors", key, map[string]string{}, strings.NewReader(content), int64(len(content)), nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		object, _ := failedRecord("log", i)
		put(fmt.Sprintf("processing-failed/2026/01/%02d/x", i), object)
	}
	object, _ := failedRecord("orders", 7)
	put("processing-failed/2026/02/x", object)
	put("processing-failed/2026/", "")
	put("other/x", "not an error object")
	t.Chdir(t.TempDir())
	if err := os.WriteFile("pipeline.yaml", []byte(redrivePipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	return k, put
}

func runCommand(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(context.WithoutCancel(t.Context()), args, environment{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: os.Getenv})
	return status, out.String(), errs.String()
}

var sendArgs = []string{
	"redrive", "--pipeline", "pipeline.yaml", "--send", "--stream", "changes", "--keys", "keys.ndjson", "--rate", "100000", "s3://lake-errors/processing-failed/2026",
}

func TestRedriveFromS3ToKinesis(t *testing.T) {
	k := cloud(t)
	status, stdout, stderr := runCommand(t, sendArgs[:3]...)
	if status != exitTrouble || !strings.Contains(stderr, "<source>") {
		t.Errorf("without sources: %d %s%s", status, stdout, stderr)
	}
	status, stdout, _ = runCommand(t, "redrive", "--pipeline", "pipeline.yaml", "s3://lake-errors/processing-failed/")
	if status != exitDifferent || k.calls != 0 || !strings.Contains(stdout, "3 send: ") {
		t.Errorf("the dry run: status %d, %d calls\n%s", status, k.calls, stdout)
	}

	// The second record is refused once, and is sent again.
	k.answer = func(call, index int) string {
		if call == 1 && index == 1 {
			return "ProvisionedThroughputExceededException"
		}
		return ""
	}
	status, stdout, stderr = runCommand(t, sendArgs...)
	if status != exitDifferent || !strings.Contains(stdout, "3 send: sent to changes") { // the mirror's row is left to reconcile
		t.Fatalf("status %d\n%s%s", status, stdout, stderr)
	}
	want, keys := make(map[string]int), make(map[string]string)
	for i := range 3 {
		_, original := failedRecord("log", i)
		want[original], keys[original] = 1, fmt.Sprintf("public.log.%d", i)
	}
	if diff := cmp.Diff(want, k.records); diff != "" || k.stream != "changes" || k.calls != 2 {
		t.Errorf("%d calls to %s, records (-want +got):\n%s", k.calls, k.stream, diff)
	}
	if diff := cmp.Diff(keys, k.keys); diff != "" {
		t.Errorf("partition keys (-want +got):\n%s", diff)
	}
	content, err := os.ReadFile("keys.ndjson")
	if err != nil || string(content) != `{"table":"public.orders","columns":["id"],"key":["7"]}`+"\n" {
		t.Errorf("keys: %s %v", content, err)
	}

	// Once more: the progress file knows them.
	status, stdout, _ = runCommand(t, sendArgs...)
	if status != exitDifferent || k.calls != 2 || !strings.Contains(stdout, "0 sent to changes, 3 had been sent before") {
		t.Errorf("again: status %d, %d calls\n%s", status, k.calls, stdout)
	}
}

func TestRedriveIsCutOff(t *testing.T) {
	k := cloud(t)
	k.answer = func(_, index int) string {
		if index > 0 {
			return "InternalFailure"
		}
		return ""
	}
	k.status = func(call int) int {
		if call > 1 {
			return http.StatusBadRequest
		}
		return http.StatusOK
	}
	status, stdout, stderr := runCommand(t, sendArgs...)
	if status != exitTrouble || !strings.Contains(stderr, "icehose: send records: put records: ") || len(k.records) != 1 ||
		!strings.Contains(stdout, "3 send: 1 sent to changes, 0 had been sent before\n") {
		t.Fatalf("status %d, %d records\n%s%s", status, len(k.records), stdout, stderr)
	}
	k.answer, k.status = func(int, int) string { return "" }, nil
	if status, stdout, stderr := runCommand(t, sendArgs...); status != exitDifferent || !strings.Contains(stdout, "2 sent to changes, 1 had been sent before") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	for record, times := range k.records {
		if times != 1 {
			t.Errorf("taken %d times: %s", times, record)
		}
	}
}

// One record that Kinesis never takes costs itself only, in every run.
func TestRedriveGoesOnAfterRejected(t *testing.T) {
	k := cloud(t)
	k.rejects = `"id":1}`
	for run, want := range []string{"2 sent to changes, 0 had been sent before", "0 sent to changes, 2 had been sent before"} {
		status, stdout, stderr := runCommand(t, sendArgs...)
		if status != exitDifferent || !strings.Contains(stdout, want) || len(k.records) != 2 ||
			!strings.Contains(stdout, "1 rejected by changes") || !strings.Contains(stdout, "such as: s3://lake-errors/processing-failed/2026/01/01/x line 1\n") {
			t.Errorf("run %d: status %d\n%s%s", run, status, stdout, stderr)
		}
	}
	status, stdout, _ := runCommand(t, append([]string{"--json"}, sendArgs...)...)
	if status != exitDifferent || !strings.Contains(stdout, `"rejected": 1`) || !strings.Contains(stdout, `"left": 2`) { // the mirror's row too
		t.Errorf("status %d\n%s", status, stdout)
	}
}

// What Kinesis refused to the last is told by its code, and is left to do.
func TestRedriveTellsRefused(t *testing.T) {
	plan := &redrivePlan{actions: map[redrive.Action]int64{redrive.Send: 5}, sent: 3, refused: map[string]int64{"InternalFailure": 2}}
	cmd := &redriveCmd{Send: true, Stream: "changes"}
	var text, asJSON bytes.Buffer
	for out, structured := range map[*bytes.Buffer]bool{&text: false, &asJSON: true} {
		if err := plan.print(out, cmd, structured); !errors.Is(err, exitError(exitDifferent)) {
			t.Errorf("json %t: %v", structured, err)
		}
	}
	for _, want := range []string{"5 send: 3 sent to changes, 0 had been sent before", "2 refused by changes 8 times (InternalFailure) and set aside"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	if got := asJSON.String(); !strings.Contains(got, `"InternalFailure": 2`) || !strings.Contains(got, `"left": 2`) {
		t.Errorf("got\n%s", got)
	}
}

// An object that was cut off costs its end only: the plan has the rest, and
// the status says that it is not whole.
func TestRedriveOfCutOffObject(t *testing.T) {
	k, put := cloudWith(t, nil)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for i := range 4000 {
		object, _ := failedRecord("log", 100+i)
		if _, err := z.Write([]byte(object)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(packed.Bytes())
	for i := len(damaged) / 2; i < len(damaged)/2+64; i++ {
		damaged[i] ^= 0x5a
	}
	for name, content := range map[string][]byte{"cut off": packed.Bytes()[:packed.Len()/2], "damaged": damaged} {
		put("processing-failed/2026/01/01/y.gz", string(content))
		status, stdout, stderr := runCommand(t, sendArgs...)
		if status != exitTrouble || len(k.records) != 0 || !strings.Contains(stdout, " send: the transform takes these changelog records now; nothing was sent") ||
			!strings.Contains(stdout, "1 reconcile: ") || strings.Contains(stdout, "\n3 send") || !strings.Contains(stderr, "y.gz: read records: ") || !strings.Contains(stderr, "nothing was sent") {
			t.Errorf("%s: status %d, %d records\n%s%s", name, status, len(k.records), stdout, stderr)
		}
		status, stdout, _ = runCommand(t, append([]string{"--json"}, sendArgs...)...)
		if status != exitTrouble || !strings.Contains(stdout, `"complete": false`) {
			t.Errorf("%s: status %d\n%s", name, status, stdout)
		}
	}
}

// --timeout ends a call for an object that is not answered, and a wait for
// more of one.
func TestRedriveTimeout(t *testing.T) {
	for name, answered := range map[string]bool{"no answer": false, "half an answer": true} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			_, _ = cloudWith(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !strings.HasSuffix(r.URL.Path, "2026/02/x") {
						next.ServeHTTP(w, r)
						return
					}
					if answered {
						w.Header().Set("Content-Length", "1000")
						_, _ = w.Write([]byte("{"))
						_ = http.NewResponseController(w).Flush()
					}
					<-r.Context().Done()
					close(ended)
				})
			})
			status, stdout, stderr := runCommand(t, "redrive", "--pipeline", "pipeline.yaml", "--timeout", "2s", "s3://lake-errors/processing-failed/2026")
			if status != exitTrouble || !strings.Contains(stdout, "send: ") || !strings.Contains(stderr, "nothing came for 2s (--timeout)") {
				t.Errorf("status %d\n%s%s", status, stdout, stderr)
			}
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Error("never asked for")
			}
		})
	}
}

func TestRedriveSaysWhyNot(t *testing.T) {
	cloud(t)
	for _, test := range []struct {
		want string
		args []string
	}{
		{"list s3://lake-errors/nothing: nothing is there", []string{"redrive", "s3://lake-errors/nothing"}},
		{"list s3://no-such-bucket/: list objects: ", []string{"redrive", "s3://no-such-bucket/"}},
	} {
		status, stdout, stderr := runCommand(t, test.args...)
		if status != exitTrouble || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%v: status %d, %s%s", test.args, status, stdout, stderr)
		}
	}
	if err := os.WriteFile("redrive-changes.progress", []byte("precious\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := runCommand(t, sendArgs...); status != exitTrouble || !strings.Contains(stderr, "not a progress file of this stream") {
		t.Errorf("status %d, %s", status, stderr)
	}
	t.Setenv("AWS_REGION", "")
	if status, _, stderr := runCommand(t, "redrive", "s3://lake-errors/other"); status != exitTrouble || !strings.Contains(stderr, "no region: set AWS_REGION") {
		t.Errorf("status %d, %s", status, stderr)
	}
}
