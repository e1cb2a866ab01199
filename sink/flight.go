package sink

import (
	"context"
	"errors"
	"fmt"
)

// A landing is a commit that runs beside Deliver.
type landing struct {
	w    *writer
	err  error  // when it has ended
	wait func() // until then
}

// beside is the default of Options.Beside.
func beside(f func()) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return func() { <-done }
}

// flies reports whether the commit of w is on its way right now.
func (s *Sink) flies(w *writer) bool { return s.air != nil && s.air.w == w }

// wait waits for the commit on its way, if there is one, and returns whose it
// was. One that failed stays its writer's flight.
func (s *Sink) wait() (*writer, error) {
	if s.air == nil {
		return nil, nil //nolint:nilnil // nothing was on its way
	}
	air := s.air
	air.wait()
	s.air = nil
	return air.w, s.landed(air.w, air.err)
}

// landed takes the outcome of a flight.
func (s *Sink) landed(w *writer, err error) error {
	if err != nil {
		return fmt.Errorf("commit table %s: %w", w.name(), err)
	}
	w.settle()
	return nil
}

// commit commits what w has buffered, or begins to; with always also when only
// its offsets have changed. First it waits for the commit on its way, whose
// error it returns as well: only one runs at a time, so that a store that fails
// does so at the same place in every run.
func (s *Sink) commit(ctx context.Context, w *writer, always bool) error {
	s.stage(ctx, w)
	whose, err := s.wait()
	if err != nil && (whose == w || errors.Is(err, ErrUnavailable)) {
		return err
	}
	return joinLine(err, s.begin(ctx, w, always))
}

func (s *Sink) begin(ctx context.Context, w *writer, always bool) error {
	if w.flight != nil { // its outcome was unknown when it was last tried
		if err := s.landed(w, s.land(ctx, w)); err != nil {
			return err
		}
	}
	if len(w.changes) == 0 && !always {
		return nil
	}
	started := s.options.Now()
	f, err := w.prepared(ctx, s.seen)
	s.busy(w, started)
	if err != nil {
		return fmt.Errorf("commit table %s: %w", w.name(), err)
	}
	if len(w.changes) == 0 && f.offsets.equal(w.offsets) && (!w.fresh || len(w.starts) == 0) {
		return nil
	}
	if err := s.kept(); err != nil {
		return fmt.Errorf("commit table %s: %w", w.name(), err)
	}
	s.buffered -= w.size()
	w.launch(f)
	if !s.options.Background {
		return s.landed(w, s.land(ctx, w))
	}
	air := &landing{w: w}
	air.wait = s.options.Beside(func() { air.err = s.land(ctx, w) })
	s.air = air
	return nil
}

// kept asks whether what was rejected is safe. It asks no more once it was not:
// a disk tells of a write that it has lost once only.
func (s *Sink) kept() error {
	if s.options.Kept != nil && s.unkept == nil {
		if err := s.options.Kept(); err != nil {
			s.unkept = fmt.Errorf("keep what was rejected: %w: %w", ErrUnavailable, err)
		}
	}
	return s.unkept
}

// land lands the flight of w and measures it.
func (s *Sink) land(ctx context.Context, w *writer) error {
	started := s.options.Now()
	err := w.land(ctx, w.flight)
	took := int64(s.options.Now().Sub(started))
	w.busy.Add(took)
	w.committing.Add(took)
	return err
}

// commitAll commits each table even if another fails, unless all would or ctx is
// done, and then writes down how far they are together.
func (s *Sink) commitAll(ctx context.Context, always bool) error {
	var all error
	s.options.gaveUp.Store(false)
	for _, w := range s.opened() {
		if all = joinLine(all, s.commit(ctx, w, always)); errors.Is(all, ErrUnavailable) || all != nil && ctx.Err() != nil {
			break
		}
	}
	_, err := s.wait()
	if all = joinLine(all, err); all != nil {
		return all
	}
	return s.keep(ctx)
}

// keep writes down how far the tables are together.
func (s *Sink) keep(ctx context.Context) error {
	r := &retry{options: &s.options, what: s.together.name, next: leastWait}
	for {
		err := s.together.write(ctx, s)
		if err != nil {
			if err = r.again(ctx, err); err == nil {
				continue
			}
		}
		return err
	}
}

// joinLine joins two errors on one line, unlike errors.Join.
func joinLine(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return fmt.Errorf("%w; %w", a, b)
}

// Abandon gives up what a Sink that is not closed has in files of this machine,
// and commits nothing. The Sink must not be used afterwards.
func (s *Sink) Abandon() error {
	_, _ = s.wait() // its outcome is for the next Open to find out
	for _, w := range s.writers {
		w.staged.wait()
	}
	return s.room.abandon()
}
