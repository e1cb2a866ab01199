package sink_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/sinktest"
)

// TestRetry: what fails for a reason that may pass is tried again for the time
// that was given, with waits that grow, and nothing is done twice or lost.
func TestRetry(t *testing.T) {
	t.Parallel()
	permanent := fmt.Errorf("%w: %w", errInjected, sink.ErrPermanent)
	tests := []struct {
		name     string
		step     sinktest.Step
		fails    int // how often
		with     error
		retryFor time.Duration
		tries    int // with those that did not fail
		ok       bool
	}{
		{"a storage that comes back", sinktest.BeforeCommit, 5, errInjected, time.Minute, 6, true},
		{"a storage that does not", sinktest.BeforeCommit, 1000, errInjected, time.Minute, 0, false},
		{"no time", sinktest.BeforeCommit, 1, errInjected, 0, 1, false},
		{"a reason that stays", sinktest.BeforeCommit, 1, permanent, time.Minute, 1, false},
		{"an answer that was lost", sinktest.AfterCommit, 1, errInjected, time.Minute, 1, true},
		{"others who change the table for long", sinktest.BeforeCommit, 12, sink.ErrConflict, time.Minute, 13, true},
		{"a table that cannot be looked at", sinktest.Loading, 4, errInjected, time.Minute, 5, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var waited time.Duration
			r := newRig(t, sink.Options{RetryFor: test.retryFor, Wait: func(_ context.Context, d time.Duration) error {
				waited += d
				return nil
			}})
			var s source
			r.deliver(s.upsert(1, 1, "a"))
			tries := 0
			r.lake.Fault = func(step sinktest.Step, _ string) error {
				if step == sinktest.BeforeCommit && test.step == sinktest.Loading && tries == 0 {
					return errInjected // so that it is looked at
				}
				if step != test.step {
					return nil
				}
				if tries++; tries > test.fails {
					return nil
				}
				return test.with
			}
			err := r.Flush(t.Context())
			if (err == nil) != test.ok || err != nil && !errors.Is(err, test.with) {
				t.Fatalf("flush: %v", err)
			}
			if test.tries > 0 && tries != test.tries {
				t.Errorf("%d attempts, want %d", tries, test.tries)
			}
			if waited > test.retryFor || test.fails == 1000 && (waited < test.retryFor || tries < 8 || tries > 40) {
				t.Errorf("waited %s in %d attempts", waited, tries)
			}
			r.lake.Fault = nil
			if got := r.stats("item"); got.Retrying || test.ok && !errors.Is(test.with, sink.ErrConflict) && got.Commits != 1 {
				t.Errorf("stats: %+v", got)
			}
			r.flush()
			r.want("item", "1 a")
			if got := r.lake.Table("lake", "item").Commits; got != 1 {
				t.Errorf("%d commits, want 1", got)
			}
		})
	}
}

// TestRetryStops: a context that is done, or a sink that is to stop, ends the
// wait at once, and the call with the error that was there.
func TestRetryStops(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"stopping", "context"} {
		stopping := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		o := sink.Options{RetryFor: 1000 * time.Hour}
		if name == "stopping" {
			o.Stopping, stop = stopping, func() { close(stopping) }
		}
		r := newRig(t, o)
		var s source
		r.deliver(s.upsert(1, 1, "a"))
		tries := 0
		r.lake.Fault = func(step sinktest.Step, _ string) error {
			if step != sinktest.BeforeCommit {
				return nil
			}
			if tries++; tries == 3 {
				stop()
			}
			return errInjected
		}
		if err := r.Flush(ctx); !errors.Is(err, errInjected) || tries != 3 || name == "context" && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v after %d attempts", name, err, tries)
		}
	}
}

// TestRetryOfReads: files of tombstones that a commit has to read, and the
// checkpoint behind it, are tried again too.
func TestRetryOfReads(t *testing.T) {
	t.Parallel()
	lake := newKeeper()
	o := sink.Options{RetryFor: time.Minute, Wait: func(context.Context, time.Duration) error {
		lake.err = nil
		return nil
	}}
	s, err := sink.Open(t.Context(), pipeline(t), lake, o)
	if err != nil {
		t.Fatal(err)
	}
	var from source
	deliver(t, s, from.remove(1, 1))
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := 3
	lake.Fault = func(step sinktest.Step, _ string) error {
		if step == sinktest.Reading && left > 0 {
			left--
			return errInjected
		}
		return nil
	}
	lake.err = errInjected
	deliver(t, s, from.remove(2, 2))
	if err := s.Flush(t.Context()); err != nil || left > 0 {
		t.Fatalf("flush: %v, with %d reads left to fail", err, left)
	}
	lake.err = errInjected
	deliver(t, s, from.remove(3, 3))
	if err := s.Flush(t.Context()); err != nil {
		t.Fatalf("flush: %v", err)
	}
	if c := lake.checkpoint(t); c == nil || lake.writes < 2 {
		t.Errorf("checkpoint %+v after %d writes", c, lake.writes)
	}
}

// TestConflictWhileStopping: a sink that is to stop still makes the commit that
// another's made void.
func TestConflictWhileStopping(t *testing.T) {
	t.Parallel()
	stopping := make(chan struct{})
	close(stopping)
	r := newRig(t, sink.Options{RetryFor: time.Minute, Stopping: stopping})
	var s source
	r.deliver(s.upsert(1, 1, "a"))
	left := 3
	r.lake.Fault = func(step sinktest.Step, _ string) error {
		if step == sinktest.BeforeCommit && left > 0 {
			left--
			return sink.ErrConflict
		}
		return nil
	}
	if err := r.Flush(t.Context()); err != nil || left > 0 {
		t.Errorf("flush: %v, with %d conflicts left", err, left)
	}
}

// TestRetryOfSeveralTables: what fails for all tables alike takes the time once,
// not once for each, and the next flush has it again.
func TestRetryOfSeveralTables(t *testing.T) {
	t.Parallel()
	var waited time.Duration
	r := newRig(t, sink.Options{RetryFor: time.Minute, Wait: func(_ context.Context, d time.Duration) error {
		waited += d
		return nil
	}})
	var s source
	r.deliver(s.upsert(1, 1, "a"), s.next("log", cdc.Insert, map[string]any{
		"id": 1, "v": "x", "cdc_position": change(2), "cdc_committed_at": nil, "cdc_operation": "insert", "cdc_old_key": nil, "cdc_absent": nil,
	}))
	tried, with := make(map[string]int), errInjected
	r.lake.Fault = func(step sinktest.Step, table string) error {
		if step != sinktest.BeforeCommit {
			return nil
		}
		tried[table]++
		return with
	}
	for range 2 {
		waited = 0
		if err := r.Flush(t.Context()); !errors.Is(err, errInjected) {
			t.Fatalf("flush: %v", err)
		}
		if waited != time.Minute || len(tried) != 2 {
			t.Errorf("waited %s for attempts %v", waited, tried)
		}
	}
	with = fmt.Errorf("%w: %w", errInjected, sink.ErrUnavailable) // what one meets, all do
	clear(tried)
	if err := r.Flush(t.Context()); !errors.Is(err, errInjected) || len(tried) != 1 {
		t.Errorf("flush of a store that is not there: %v, attempts %v", err, tried)
	}
	r.lake.Fault = nil
	r.flush()
	r.want("item", "1 a")
}

var errOther = errors.New("other")

// TestAgain: what comes before a Sink is tried again as its commits are.
func TestAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		fails    int
		with     error
		retryFor time.Duration
		tries    int // 0 for as many as the time allows
		ok       bool
	}{
		{"it works", 0, nil, 0, 1, true},
		{"it comes back", 4, errInjected, time.Minute, 5, true},
		{"it does not", 1000, errInjected, time.Minute, 0, false},
		{"no time", 1, errInjected, 0, 1, false},
		{"a reason that stays", 1, fmt.Errorf("%w: %w", errInjected, sink.ErrPermanent), time.Minute, 1, false},
		{"a reason that may stay", 1, fmt.Errorf("%w: %w", errInjected, errOther), time.Minute, 1, false},
	} {
		var waited time.Duration
		var log bytes.Buffer
		tries := 0
		o := sink.Options{
			RetryFor: tt.retryFor, Log: slog.New(slog.NewJSONHandler(&log, nil)),
			Wait: func(_ context.Context, d time.Duration) error { waited += d; return nil },
		}
		err := sink.Again(t.Context(), o, "open lake", func(err error) bool { return !errors.Is(err, errOther) }, func() error {
			if tries++; tries > tt.fails {
				return nil
			}
			return tt.with
		})
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, errInjected) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if tt.tries > 0 && tries != tt.tries || tt.tries == 0 && (waited != tt.retryFor || tries < 8) {
			t.Errorf("%s: waited %s in %d attempts", tt.name, waited, tries)
		}
		if got := strings.Count(log.String(), `"msg":"failed, is tried again","what":"open lake","attempt":`); tt.tries > 0 && got != tt.tries-1 {
			t.Errorf("%s: %d attempts are told of", tt.name, got)
		}
	}
}
