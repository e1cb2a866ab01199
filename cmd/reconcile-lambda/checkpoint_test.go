package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/reconcile"
)

// slow reads a source, of which one table never comes.
type slow struct {
	reconcile.Reader
	never  string
	opened []string
	open   func(table string) // nil: nothing
}

func (s *slow) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	s.opened = append(s.opened, t.Source)
	if s.open != nil {
		s.open(t.Source)
	}
	if t.Source == s.never {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Reader.Open(ctx, t, exact)
}

// cutOff compares until a table that never comes has eaten up the time.
func (w *world) cutOff(t *testing.T, f *function, while time.Duration) (*comparison, *slow) {
	t.Helper()
	return w.cutOffAt(t, f, "s.b", while)
}

func (w *world) cutOffAt(t *testing.T, f *function, never string, while time.Duration) (*comparison, *slow) {
	t.Helper()
	if err := f.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	source, err := f.settings.OpenSource(t.Context(), "", f.pipeline)
	if err != nil {
		t.Fatal(err)
	}
	s := &slow{Reader: source.Reader, never: never}
	source.Reader = s
	c := &comparison{function: f, source: source, store: w.open(t), until: time.Now().Add(while)}
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, s
}

// halfway is a run that was cut off when it had decided s.a, however long that took.
func (w *world) halfway(t *testing.T, f *function) *comparison {
	t.Helper()
	return w.before(t, f, "s.b")
}

// before is a run that was cut off when it had decided the tables before one.
func (w *world) before(t *testing.T, f *function, table string) *comparison {
	t.Helper()
	for while := 500 * time.Millisecond; ; while *= 2 {
		if c, _ := w.cutOffAt(t, f, table, while); c.goesOn {
			return c
		}
	}
}

// A run that its time cut off leaves a checkpoint and tells nobody; the next one
// does not read again what was decided, and tells of all.
func TestContinues(t *testing.T) {
	w := newWorld(t)
	f := w.function(t)
	o, err := w.halfway(t, f).publish(t.Context())
	if err != nil || o.Verdict != unfinished || o.status != exitTrouble || o.Inconclusive == 0 {
		t.Errorf("outcome %+v: %v", o, err)
	}
	if diff := cmp.Diff(map[string]string{"s.a": "equal"}, w.verdicts(t)); diff != "" {
		t.Error(diff)
	}
	if len(w.messages) > 0 || len(w.objects(t, "reports/")) > 0 || w.metrics.Len() > 0 {
		t.Error("an unfinished run was published")
	}

	// What was decided is not read: the source of s.a is gone.
	if err := os.Remove(filepath.Join(w.dir, "source", "s.a.ndjson")); err != nil {
		t.Fatal(err)
	}
	// Nor does a run of other tables touch the checkpoint.
	if o := w.invoke(t, f, `{"tables":["s.c"]}`); o.Verdict != "equal" || o.Tables != 1 {
		t.Errorf("one table: %+v", o)
	}
	if got := w.objects(t, "checkpoints/"); !slices.Equal(got, []string{"checkpoints/all.json"}) {
		t.Errorf("checkpoints %v", got)
	}
	if o := w.invoke(t, f, `{}`); o.Verdict != "equal" || o.Tables != 3 || o.Report == "" {
		t.Errorf("the next run: %+v", o)
	}
	if left := w.objects(t, "checkpoints/"); len(left) > 0 {
		t.Errorf("checkpoints %v", left)
	}
	// The run after it begins anew.
	if o := w.invoke(t, f, `{}`); o.Verdict != "inconclusive" {
		t.Errorf("a new run: %+v", o)
	}
}

// A difference is told at once, by a run that its time cut off too.
func TestDifferentIsToldAtOnce(t *testing.T) {
	w := newWorld(t)
	f := w.function(t)
	w.dump(t, "s.a", "other")
	if o, err := w.halfway(t, f).publish(t.Context()); err != nil || o.Verdict != "different" || o.Report == "" || len(w.messages) != 1 {
		t.Errorf("outcome %+v, messages %d: %v", o, len(w.messages), err)
	}
	if diff := cmp.Diff(map[string]string{"s.a": "different"}, w.verdicts(t)); diff != "" {
		t.Error(diff)
	}
}

// A table that is different is told once, however many runs it takes to decide
// the others: metrics and history are those of the last run, with the time of
// each verdict.
func TestToldOnce(t *testing.T) {
	w := newWorld(t)
	f := w.function(t)
	w.dump(t, "s.a", "other")
	o, err := w.halfway(t, f).publish(t.Context())
	if err != nil || o.Verdict != "different" || len(w.messages) != 1 || !strings.Contains(*w.messages[0].Message, "the next run goes on with them") || strings.Contains(*w.messages[0].Message, "s.c") {
		t.Fatalf("first: %+v, messages %v: %v", o, w.messages, err)
	}
	var told struct {
		Later  []string
		Tables []struct{ Table string }
	}
	if err := json.Unmarshal([]byte(w.object(t, o.Report)), &told); err != nil || len(told.Tables)+len(told.Later) != 3 || !slices.Contains(told.Later, "s.c") {
		t.Errorf("report %+v, %v: s.c was not compared yet", told, err)
	}
	o, err = w.before(t, f, "s.c").publish(t.Context())
	if err != nil || o.Verdict != "different" || o.Report != "" || len(w.messages) != 1 || w.metrics.Len() > 0 || len(w.runs(t)) > 0 {
		t.Errorf("second: %+v, messages %d: %v", o, len(w.messages), err)
	}
	o = w.invoke(t, f, `{}`)
	if o.Verdict != "different" || o.Tables != 3 || len(w.messages) != 1 || len(w.runs(t)) != 1 || strings.Count(w.metrics.String(), `"different":1`) != 1 {
		t.Errorf("last: %+v, messages %d, history %+v, metrics\n%s", o, len(w.messages), w.runs(t), &w.metrics)
	}
	if n := strings.Count(w.log.String(), `"table":"s.a","verdict"`); n != 1 {
		t.Errorf("the log says %d times what s.a is", n)
	}
	var report struct {
		Began  time.Time
		Tables []struct {
			Table     string
			DecidedAt time.Time `json:"decided_at"`
		}
	}
	if err := json.Unmarshal([]byte(w.object(t, o.Report)), &report); err != nil {
		t.Fatal(err)
	}
	for i, before := range []bool{true, true, false} {
		if got := report.Tables[i]; got.DecidedAt.IsZero() || got.DecidedAt.Before(report.Began) != before {
			t.Errorf("%s was decided at %s, the run began at %s", got.Table, got.DecidedAt, report.Began)
		}
	}
	if page := w.object(t, o.Page); !strings.Contains(page, "decided by a run before") {
		t.Error("the page does not say when s.a was decided")
	}
}

// What could not be told stays in the checkpoint, and the next run tells it.
func TestUntoldStays(t *testing.T) {
	w := newWorld(t)
	f := w.function(t)
	w.dump(t, "s.a", "other")
	w.snsFails = true
	if _, err := f.Invoke(t.Context(), []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "no such topic") {
		t.Fatalf("error %v", err)
	}
	w.snsFails = false
	w.dump(t, "s.a", value) // somebody repaired it meanwhile: that it was different is told all the same
	if o := w.invoke(t, f, `{}`); o.Verdict != "different" || len(w.messages) != 1 {
		t.Errorf("outcome %+v, messages %d", o, len(w.messages))
	}
	if o := w.invoke(t, f, `{}`); o.Verdict != "equal" || len(w.messages) != 1 {
		t.Errorf("outcome %+v, messages %d", o, len(w.messages))
	}
	// So it is in the middle of a run.
	w.dump(t, "s.a", "other")
	w.snsFails = true
	if _, err := w.halfway(t, f).publish(t.Context()); err == nil {
		t.Error("no error")
	}
	w.snsFails = false
	if o := w.invoke(t, f, `{}`); o.Verdict != "different" || len(w.messages) != 2 {
		t.Errorf("outcome %+v, messages %d", o, len(w.messages))
	}
}

// full is an S3 that takes no checkpoint.
type full struct{ objectStore }

func (f full) PutObject(ctx context.Context, in *s3.PutObjectInput, options ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	if strings.HasPrefix(*in.Key, "checkpoints/") {
		return nil, errors.New("access denied")
	}
	return f.objectStore.PutObject(ctx, in, options...)
}

// A checkpoint that cannot be written keeps nothing from being compared and told,
// and fails the invocation.
func TestUnsaved(t *testing.T) {
	w := newWorld(t)
	f := w.function(t)
	f.objects = full{f.objects}
	w.dump(t, "s.b", "other")
	if _, err := f.Invoke(t.Context(), []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "save checkpoint: write s3://proofs/checkpoints/all.json: access denied") {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(map[string]string{"s.a": "equal", "s.b": "different", "s.c": "equal"}, w.verdicts(t)); diff != "" {
		t.Error(diff)
	}
	if len(w.messages) != 1 || len(w.runs(t)) != 1 {
		t.Errorf("messages %d, history %d", len(w.messages), len(w.runs(t)))
	}
}

// conditional is an S3 that heeds the conditions of a write.
type conditional struct{ objectStore }

type refused struct{ error }

func (refused) ErrorCode() string { return "PreconditionFailed" }

func (c conditional) PutObject(ctx context.Context, in *s3.PutObjectInput, options ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	out, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: in.Bucket, Key: in.Key})
	if (in.IfNoneMatch != nil && err == nil) || (in.IfMatch != nil && (err != nil || *out.ETag != *in.IfMatch)) {
		return nil, refused{errors.New("at least one of the conditions did not hold")}
	}
	return c.objectStore.PutObject(ctx, in, options...)
}

// Of two runs that move one checkpoint one ends, tells nothing, and leaves the
// other's alone.
func TestTwoRuns(t *testing.T) {
	for _, halfway := range []bool{false, true} {
		w := newWorld(t)
		f := w.function(t)
		f.objects = conditional{f.objects}
		if halfway {
			w.halfway(t, f)
		}
		w.dump(t, "s.b", "other")
		source, err := f.settings.OpenSource(t.Context(), "", f.pipelineOf(t))
		if err != nil {
			t.Fatal(err)
		}
		const others = `{"version":1}`
		source.Reader = &slow{Reader: source.Reader, open: func(table string) {
			if table != "s.b" {
				return
			}
			if _, err := w.s3.PutObject("proofs", "checkpoints/all.json", map[string]string{}, strings.NewReader(others), int64(len(others)), nil); err != nil {
				t.Error(err)
			}
		}}
		c := &comparison{function: f, source: source, store: w.open(t)}
		if err := c.run(t.Context()); err == nil || !strings.Contains(err.Error(), "another run moves this checkpoint") {
			t.Errorf("halfway %v: error %v", halfway, err)
		}
		if got := w.object(t, "s3://proofs/checkpoints/all.json"); got != others {
			t.Errorf("halfway %v: checkpoint %s", halfway, got)
		}
	}
}

func (f *function) pipelineOf(t *testing.T) *catalog.Pipeline {
	t.Helper()
	if err := f.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f.pipeline
}

// A subject is one that SNS takes, whatever the pipeline's name.
func TestSubject(t *testing.T) {
	for name, want := range map[string]string{
		"shop":                   "icehose: shop is different",
		"Käufe\n":                "icehose: K?ufe? is different",
		strings.Repeat("x", 120): "icehose: " + strings.Repeat("x", 90),
		strings.Repeat("日", 120): "icehose: " + strings.Repeat("?", 90),
	} {
		if got := subjectOf(name, "different"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	w := newWorld(t)
	w.dump(t, "s.a", "other")
	f := w.function(t)
	f.settings.Name = "Käufe"
	w.invoke(t, f, `{}`)
	if len(w.messages) != 1 || *w.messages[0].Subject != "icehose: K?ufe is different" || !strings.HasPrefix(*w.messages[0].Message, "Käufe is different\n") {
		t.Errorf("messages %v", w.messages)
	}
}

// A run that adds nothing to a checkpoint removes it, and says what to do.
func TestNoProgress(t *testing.T) {
	w := newWorld(t)
	f := w.function(t)
	w.halfway(t, f)
	c, s := w.cutOff(t, f, 500*time.Millisecond)
	if o, err := c.publish(t.Context()); err != nil || o.Verdict != "inconclusive" || len(w.messages) != 1 {
		t.Errorf("outcome %+v, messages %d: %v", o, len(w.messages), err)
	}
	if slices.Contains(s.opened, "s.a") {
		t.Errorf("read %v: s.a was decided before", s.opened)
	}
	if left := w.objects(t, "checkpoints/"); len(left) > 0 {
		t.Errorf("checkpoints %v", left)
	}
	if !strings.Contains(w.log.String(), "--slice-rows") {
		t.Errorf("log:\n%s", &w.log)
	}
}

// A checkpoint of another source or lake is given up too.
func TestChangedPlaces(t *testing.T) {
	w := newWorld(t)
	for _, change := range []func(*settings){func(s *settings) { s.Source += "/." }, func(s *settings) { s.Lake += "/." }} {
		f := w.function(t)
		w.halfway(t, f)
		change(f.settings)
		w.log.Reset()
		if o := w.invoke(t, f, `{}`); o.Verdict != "equal" || !strings.Contains(w.log.String(), "begin anew") {
			t.Errorf("outcome %+v, log:\n%s", o, &w.log)
		}
	}
}

// refusing is an S3 that removes nothing.
type refusing struct{ objectStore }

func (refusing) DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error) {
	return nil, errors.New("access denied")
}

// A checkpoint that cannot be removed keeps no outcome from being told.
func TestCheckpointStays(t *testing.T) {
	w := newWorld(t)
	f := w.function(t)
	f.objects = refusing{f.objects}
	w.dump(t, "s.a", "other")
	if _, err := f.Invoke(t.Context(), []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("error %v", err)
	}
	if got := w.objects(t, "reports/"); len(got) != 2 || len(w.messages) != 1 || len(w.runs(t)) != 1 {
		t.Errorf("reports %v, messages %d, runs %d", got, len(w.messages), len(w.runs(t)))
	}
}

// A checkpoint of another pipeline file is given up.
func TestChangedPipeline(t *testing.T) {
	w := newWorld(t)
	f := w.function(t)
	w.halfway(t, f)
	w.configure(t, strings.Replace(testPipeline, "type: string", "type: string, source_type: text", 1))
	if o := w.invoke(t, f, `{}`); o.Verdict != "equal" {
		t.Errorf("outcome %+v", o)
	}
	if !strings.Contains(w.log.String(), "begin anew") {
		t.Errorf("log:\n%s", &w.log)
	}
	if left := w.objects(t, "checkpoints/"); len(left) > 0 {
		t.Errorf("checkpoints %v", left)
	}
}
