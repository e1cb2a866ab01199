// Package heartbeat keeps the rows of a heartbeat table fresh: a row for every
// shard of the stream, and more, so that a comparison knows up to when every
// shard has come.
//
// In come a connection string, the name of a table, and how many rows it has;
// out goes one statement every few seconds, which gives the rows 1 to N the
// server's own time, and makes those that are missing. Before the first one, and
// after every lost connection, the table is looked at: one that is not a
// heartbeat's is refused.
//
// This is the only package of reconcile that writes to a source, and it writes
// nothing but that statement. It does not promise that every shard gets a row:
// where a row goes is decided by the hash of its partition key (Unreached).
package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options say how a table is written.
type Options struct {
	// Rows is how many rows the table has.
	Rows int
	// Every is how long the writer rests between two beats.
	Every time.Duration
	// For ends the writer after this time; 0: it goes on until its context ends.
	For time.Duration
	// Once ends it after one beat.
	Once bool
	// StatementTimeout and LockTimeout end a statement that takes longer, or waits
	// longer for a lock.
	StatementTimeout, LockTimeout time.Duration
	// Wait waits for a time, or until the context ends, which is its error then.
	Wait func(ctx context.Context, d time.Duration) error
	// Log gets what went wrong, as a warning, and every beat.
	Log *slog.Logger
	// Beat is called after every beat, unless nil.
	Beat func()
}

// A Result says what a writer did.
type Result struct {
	Table string `json:"table"`
	Rows  int    `json:"rows"`
	Beats int64  `json:"beats"`
	// Failed counts attempts that did not become a beat, Reconnects the
	// connections after the first one.
	Failed     int64 `json:"failed"`
	Reconnects int64 `json:"reconnects"`
}

// A connection is one to the source, of a session that is set up.
type connection interface {
	// check refuses a table that is no heartbeat's, before the first beat.
	check(ctx context.Context) error
	// beat gives every row the server's time, in one transaction.
	beat(ctx context.Context) error
	close(ctx context.Context)
}

// A backend is what engines differ in.
type backend struct {
	dial  func(ctx context.Context, s *Source, o *Options) (connection, error)
	final func(err error) bool
}

func (s *Source) backend() backend {
	if s.postgres() {
		return backend{dialPostgres, postgresFinal}
	}
	return backend{dialMySQL, mysqlFinal}
}

// The waits after a beat that failed: each is twice as long as the one before.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// dialTimeout bounds what it takes to connect and to look at the table, closing
// what a server that does not answer may take beyond its own timeout.
const (
	dialTimeout = 30 * time.Second
	closing     = 5 * time.Second
)

// errStopped is of a writer that was told to stop while it connected.
var errStopped = errors.New("stopped")

// A writer is Run at work.
type writer struct {
	source  *Source
	options *Options
	backend backend
	conn    connection
	dialed  bool
	result  Result
}

// Run writes the table until ctx or Options.For ends, which is no error once a
// beat has come. The first beat must succeed; after it, what fails is tried again
// with growing waits, on a new connection, unless it would fail for ever. An
// error at the end is that of the last attempt. A beat that has begun is waited
// for, as long as its timeout allows.
func Run(ctx context.Context, s *Source, o Options) (Result, error) {
	w := &writer{source: s, options: &o, backend: s.backend(), result: Result{Table: s.Name(), Rows: o.Rows}}
	return w.run(ctx)
}

func (w *writer) run(ctx context.Context) (Result, error) {
	if w.options.For > 0 {
		limited, cancel := context.WithTimeout(ctx, w.options.For)
		defer cancel()
		ctx = limited
	}
	err := w.beat(ctx)
	switch {
	case errors.Is(err, errStopped):
		err = context.Cause(ctx)
	case err == nil && !w.options.Once:
		err = w.keep(ctx)
	}
	w.hangUp(ctx)
	return w.result, err
}

// keep writes beats after the first one.
func (w *writer) keep(ctx context.Context) error {
	var last error
	pause := firstPause
	for {
		wait := w.options.Every
		if last != nil {
			wait = pause
			pause = min(2*pause, lastPause)
		}
		if w.options.Wait(ctx, wait) != nil {
			return last
		}
		err := w.beat(ctx)
		switch {
		case err == nil:
			last, pause = nil, firstPause
		case errors.Is(err, errStopped):
			return last
		default:
			last = err
			w.result.Failed++
			if isRefusal(err) || w.backend.final(err) {
				return err
			}
			w.options.Log.WarnContext(ctx, "heartbeat failed, will try again", slog.String("table", w.result.Table), slog.String("error", err.Error()))
		}
	}
}

// beat writes one beat, on a new connection if there is none. One that fails
// takes its connection with it.
func (w *writer) beat(ctx context.Context) error {
	if w.conn == nil {
		if err := w.connect(ctx); err != nil {
			if ctx.Err() != nil {
				return errStopped
			}
			return err
		}
	}
	// To break it off would leave open whether it was written.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.options.StatementTimeout+closing)
	defer cancel()
	if err := w.conn.beat(limited); err != nil {
		w.hangUp(ctx)
		return err
	}
	w.result.Beats++
	w.options.Log.InfoContext(ctx, "heartbeat", slog.String("table", w.result.Table), slog.Int("rows", w.result.Rows))
	if w.options.Beat != nil {
		w.options.Beat()
	}
	return nil
}

func (w *writer) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := w.backend.dial(ctx, w.source, w.options)
	if err != nil {
		return err
	}
	if err := conn.check(ctx); err != nil {
		conn.close(ctx)
		return err
	}
	if w.dialed {
		w.result.Reconnects++
	}
	w.conn, w.dialed = conn, true
	return nil
}

func (w *writer) hangUp(ctx context.Context) {
	if w.conn != nil {
		w.conn.close(ctx)
		w.conn = nil
	}
}

// String is the result as text.
func (r Result) String() string {
	return fmt.Sprintf("%s: %d rows, %d beats, %d failed, %d new connections", r.Table, r.Rows, r.Beats, r.Failed, r.Reconnects)
}
