package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// signals returns a context that is done when a signal asks the process to end:
// SIGINT, SIGTERM or a hang-up. A second SIGINT or SIGTERM kills it, unless it comes
// at once, as timeout sends one to the process and one to its group. A hang-up does
// not, since a terminal that is closed sends more than one; and where it was ignored
// from the start, as by nohup, it still is.
func signals() (ctx context.Context, stop func()) {
	ctx, deaf := context.Background(), func() {}
	if !signal.Ignored(syscall.SIGHUP) {
		ctx, deaf = signal.NotifyContext(ctx, syscall.SIGHUP)
	}
	ctx, restore := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(secondSignal, restore) })
	// Asked for, it does not kill: writing fails, and the command cleans up. Unlike
	// one that is ignored, it is as usual in the processes that this one starts.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return ctx, func() {
		restore()
		deaf()
	}
}

// secondSignal is how long after the first a signal is a second one.
const secondSignal = time.Second

// errOutputClosed says that whoever read the standard output has left, as head does.
var errOutputClosed = errors.New("nobody reads the output any more")

// An output is the standard output. It keeps its first error: a command whose
// result could not be written has failed.
type output struct {
	to     io.Writer
	mu     sync.Mutex
	failed error
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		err = errOutputClosed
	}
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.failed == nil {
			o.failed = err
		}
	}
	return n, err
}

// end is the error of a command that ended with err: that its result was not
// written, if it did not say so.
func (o *output) end(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, verdict := errors.AsType[exitError](err); o.failed != nil && (err == nil || verdict) {
		return fmt.Errorf("write result: %w", o.failed)
	}
	return err
}

// onlyClosed reports whether an error says nothing but errOutputClosed.
func onlyClosed(err error) bool {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case interface{ Unwrap() error }:
		return onlyClosed(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			if !onlyClosed(part) {
				return false
			}
		}
		return true
	}
	return err == errOutputClosed //nolint:errorlint // it is a leaf
}

// interruptible returns what in has until ctx is done, and then its error: a read
// of a terminal or a pipe may wait for ever. The one that waits is left behind.
func interruptible(ctx context.Context, in io.Reader) io.ReadCloser {
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(w, in)
		_ = w.CloseWithError(err)
	}()
	return r
}

// A quietHandler drops what is below a level.
type quietHandler struct {
	slog.Handler
	least slog.Leveler
}

// Enabled implements slog.Handler.
func (h *quietHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.least.Level() && h.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &quietHandler{h.Handler.WithAttrs(attrs), h.least}
}

// WithGroup implements slog.Handler.
func (h *quietHandler) WithGroup(name string) slog.Handler {
	return &quietHandler{h.Handler.WithGroup(name), h.least}
}
