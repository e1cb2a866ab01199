package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// unreported is an S3 that takes no report.
type unreported struct{ objectStore }

func (f unreported) PutObject(ctx context.Context, in *s3.PutObjectInput, options ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	if strings.HasPrefix(*in.Key, "reports/") {
		return nil, errors.New("access denied")
	}
	return f.objectStore.PutObject(ctx, in, options...)
}

// What fails beside the topic keeps no verdict from being reached anew, nor does
// it tell the topic twice.
func TestSideFailure(t *testing.T) {
	w := newWorld(t)
	f := w.function(t)
	objects := f.objects
	f.objects = unreported{objects}
	w.dump(t, "s.a", "other")
	if _, err := w.halfway(t, f).publish(t.Context()); err == nil || len(w.messages) != 1 {
		t.Fatalf("halfway: %d messages, error %v", len(w.messages), err)
	}
	if _, err := f.Invoke(t.Context(), []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "access denied") || len(w.messages) != 1 {
		t.Errorf("the last: %d messages, error %v", len(w.messages), err)
	}
	if left := w.objects(t, "checkpoints/"); len(left) > 0 {
		t.Errorf("checkpoints %v", left)
	}
	f.objects = objects
	w.dump(t, "s.a", value)
	if o := w.invoke(t, f, `{}`); o.Verdict != "equal" {
		t.Errorf("when it was repaired: %+v", o)
	}
}

// DeleteObject heeds the condition, as S3 does.
func (c conditional) DeleteObject(ctx context.Context, in *s3.DeleteObjectInput, options ...func(*s3.Options)) (*s3.DeleteObjectOutput, error) {
	if in.IfMatch != nil {
		out, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: in.Bucket, Key: in.Key})
		if err != nil || *out.ETag != *in.IfMatch {
			return nil, refused{errors.New("at least one of the conditions did not hold")}
		}
	}
	return c.objectStore.DeleteObject(ctx, in, options...)
}

// A run that ends leaves the checkpoint of another run alone, which is not
// stopped; one whose checkpoint another run removed ends.
func TestCheckpointOfAnother(t *testing.T) {
	w := newWorld(t)
	f := w.function(t)
	f.objects = conditional{f.objects}
	w.halfway(t, f)
	one, other := f.checkpoint(nil), f.checkpoint(nil)
	for _, c := range []*checkpoint{one, other} {
		if _, err := c.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Save(t.Context(), []byte(`{"version":2}`)); err != nil {
		t.Fatal(err)
	}
	if err := one.remove(t.Context()); !errors.Is(err, errMoved) {
		t.Errorf("error %v", err)
	}
	if err := (&comparison{function: f, saved: one}).forget(t.Context()); err != nil {
		t.Errorf("a run that has told everything: %v", err)
	}
	if got := w.objects(t, "checkpoints/"); !slices.Equal(got, []string{"checkpoints/all.json"}) {
		t.Errorf("checkpoints %v", got)
	}
	if err := other.remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	// S3 says of a write that must replace what is gone that there is no such key.
	f.objects = gone{f.objects}
	ended := errors.New("not ended")
	one.end = func(cause error) { ended = cause }
	if err := one.Save(t.Context(), []byte(`{"version":2}`)); !errors.Is(err, errMoved) || !errors.Is(ended, errMoved) {
		t.Errorf("error %v, ended by %v", err, ended)
	}
}

// gone is an S3 that has nothing to replace.
type gone struct{ objectStore }

type noSuchKey struct{ error }

func (noSuchKey) ErrorCode() string { return "NoSuchKey" }

func (gone) PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	return nil, noSuchKey{errors.New("the specified key does not exist")}
}
