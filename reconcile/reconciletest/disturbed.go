package reconciletest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/reconcile"
)

// A Disturbed reader has something done while one of its tables is digested.
type Disturbed struct {
	reconcile.Reader
	Table  string
	Do     func() error // ends when it is done
	Before bool         // the reading waits for that
	Always bool         // not the first time only
	Opened atomic.Int64 // views of the table
}

// Open implements reconcile.Reader.
func (d *Disturbed) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	v, err := d.Reader.Open(ctx, t, exact)
	if err == nil && t.Source == d.Table && (d.Opened.Add(1) == 1 || d.Always) {
		v = &disturbedView{View: v, do: d.Do, before: d.Before}
	}
	return v, err
}

type disturbedView struct {
	reconcile.View
	do     func() error
	before bool
}

// Digests implements reconcile.View.
func (v *disturbedView) Digests(ctx context.Context, part reconcile.Part) (_ []canon.Digest, err error) {
	done := make(chan error, 1)
	go func() { done <- v.do() }()
	if v.before {
		if err := <-done; err != nil {
			return nil, err
		}
		close(done)
	}
	defer func() { err = errors.Join(<-done, err) }()
	return v.View.Digests(ctx, part)
}

// CheckInconclusive checks a report in which the named tables could not be
// decided, each for a reason that has the text, and all others are equal.
func CheckInconclusive(t *testing.T, report *reconcile.Report, why map[string]string) {
	t.Helper()
	for _, r := range report.Tables {
		reason, ok := why[r.Table]
		want := reconcile.Equal
		if ok {
			want = reconcile.Inconclusive
		}
		if r.Verdict != want || !strings.Contains(r.Why, reason) || !ok && r.Why != "" {
			t.Errorf("%s is %s: %q; want %s, %q", r.Table, r.Verdict, r.Why, want, reason)
		}
	}
	if report.ExitStatus() != 2 {
		t.Errorf("exit status %d, want 2", report.ExitStatus())
	}
}
