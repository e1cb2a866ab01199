package sink

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"syscall"
	"time"
)

// ErrPermanent is wrapped by an error of a Store that stays until somebody does
// something about it: what failed with it is not tried again.
var ErrPermanent = errors.New("this does not pass by itself")

// ErrUnavailable is wrapped by an error of a Store that every table would meet, such
// as a catalog that somebody has locked: when it has lasted for all the time of
// Options.RetryFor, or the sink is to stop, the other tables are not tried.
var ErrUnavailable = errors.New("no table can be written now")

const (
	// conflicts is how often a commit is tried while others change the table,
	// with short waits, before the time of Options.RetryFor begins.
	conflicts    = 8
	conflictWait = 5 * time.Millisecond
	// Later waits begin with leastWait and double up to mostWait.
	leastWait = 100 * time.Millisecond
	mostWait  = 10 * time.Second
)

// A retry decides how long something that fails is tried again.
type retry struct {
	options *Options
	writer  *writer // nil for a checkpoint
	what    string  // database.table, or the name of a checkpoint
	n       int     // attempts that failed
	next    time.Duration
	waited  time.Duration
	began   time.Time
}

func (w *writer) retry() *retry {
	return &retry{options: w.options, writer: w, what: w.name(), next: leastWait}
}

// Again calls do until it succeeds. What fails with an error that may pass is
// tried again as a commit is: for o.RetryFor, with a line in the log for each
// wait. It is for what comes before Open.
func Again(ctx context.Context, o Options, what string, mayPass func(error) bool, do func() error) error {
	o.defaults()
	r := &retry{options: &o, what: what, next: leastWait}
	for {
		err := do()
		if err == nil || !mayPass(err) {
			return err
		}
		if err = r.again(ctx, err); err != nil {
			return err
		}
	}
}

// again waits and returns nil when there is to be another attempt, else the
// error of the last one, to which it adds that of a context that is done.
func (r *retry) again(ctx context.Context, err error) error {
	if r.n++; r.n == 1 {
		r.began = r.options.Now()
	}
	if ctx.Err() != nil {
		return joinLine(err, context.Cause(ctx))
	}
	if stays(err) {
		return err
	}
	wait, long := time.Duration(r.n)*conflictWait, !errors.Is(err, ErrConflict) || r.n >= conflicts
	if long {
		left := r.options.RetryFor - max(r.waited, r.options.Now().Sub(r.began))
		if left <= 0 || r.stopping() || r.options.gaveUp.Load() {
			r.options.gaveUp.Store(true) // or several tables would take the time several times
			return err
		}
		// Between half of it and all of it: writers that failed together must not
		// come again together.
		wait = min(left, r.next/2+rand.N(r.next/2)) //nolint:gosec // a wait
		r.next = min(2*r.next, mostWait)
		r.waited += wait
		r.options.Log.WarnContext(ctx, "failed, is tried again", slog.String("what", r.what), slog.Int("attempt", r.n),
			slog.Duration("wait", wait.Round(time.Millisecond)), slog.Duration("left", left.Round(time.Millisecond)), slog.String("error", err.Error()))
	} else {
		r.options.Log.InfoContext(ctx, "commit conflict", slog.String("table", r.what), slog.Int("attempt", r.n))
	}
	if r.writer != nil {
		r.writer.retried.Add(1)
		r.writer.retrying.Store(true)
		defer r.writer.retrying.Store(false)
	}
	if waited := r.options.Wait(ctx, wait); waited != nil {
		return joinLine(err, waited)
	}
	if long && r.stopping() {
		return err
	}
	return nil
}

func (r *retry) stopping() bool {
	select {
	case <-r.options.Stopping: // a nil channel never is
		return true
	default:
		return false
	}
}

// pause waits with a timer, until ctx is done or the sink is to stop.
func (o *Options) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-o.Stopping:
	case <-timer.C:
	}
	return nil
}

// stays reports whether an error is one that does not pass.
func stays(err error) bool {
	for _, known := range []error{
		ErrPermanent, ErrFenced, ErrRefused, fs.ErrNotExist, fs.ErrPermission, syscall.ENOSPC, syscall.EROFS, errDamaged, errIndexDamaged,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
