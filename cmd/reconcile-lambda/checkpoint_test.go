package main

import (
	"context"
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
}

func (s *slow) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	s.opened = append(s.opened, t.Source)
	if t.Source == s.never {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Reader.Open(ctx, t, exact)
}

// cutOff compares until a table that never comes has eaten up the time.
func (w *world) cutOff(t *testing.T, f *function, while time.Duration) (*comparison, *slow) {
	t.Helper()
	if err := f.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	source, err := f.settings.OpenSource(t.Context(), "", f.pipeline)
	if err != nil {
		t.Fatal(err)
	}
	s := &slow{Reader: source.Reader, never: "s.b"}
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
	for while := 500 * time.Millisecond; ; while *= 2 {
		if c, _ := w.cutOff(t, f, while); c.goesOn {
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
