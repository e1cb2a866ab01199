package reconcile

import (
	"context"
	"fmt"
	"time"
)

// A suspect is a key whose rows differ. It becomes a finding, or agrees, or
// cannot be told.
type suspect struct {
	key    []byte // canonical bytes
	bucket int
	state  string    // of the source's rows, as last read
	since  time.Time // by the source's clock: when they were first read so
	looks  int       // how many later looks found them so
	moved  bool      // the source's rows changed between two looks

	differences [3]difference
	behind      *Behind
}

func (c *comparison) suspect(source, lake *rowSet, p pair, at time.Time) *suspect {
	s := &suspect{
		key: append([]byte{}, p.key...), state: source.state(p.source), since: at,
		differences: compareKey(p.source, p.lake),
	}
	switch {
	case len(p.source) > 0:
		s.bucket = p.source[0].bucket
	case len(p.lake) > 0:
		s.bucket = p.lake[0].bucket
	}
	if c.versions != nil {
		s.behind = behind(c.versions, source.version(p.source, c.versions), lake.version(p.lake, c.versions))
	}
	return s
}

// evidence is what a look shows of how far the lake has come.
type evidence struct {
	now       time.Time // by the source's clock
	watermark time.Time
	newest    time.Time // commit time of the newest change in the lake
	quiet     time.Time // since when neither side has moved; zero: one has
}

// proves reports whether the lake must have the last change of the suspect.
func (e *evidence) proves(s *suspect, settle time.Duration) bool {
	switch {
	case s.looks < 2:
		return false
	case !e.watermark.IsZero() && !e.watermark.Before(s.since):
		return true
	case !e.newest.IsZero() && !e.newest.Before(s.since.Add(settle)):
		return true
	case e.quiet.IsZero():
		return false
	}
	from := e.quiet
	if s.since.After(from) {
		from = s.since
	}
	return e.now.Sub(from) >= settle
}

// A settling looks at suspects again until they are told apart.
type settling struct {
	*comparison
	report  *TableReport
	open    []*suspect
	marks   [2]string // of source and lake, at the last look
	quiet   time.Time
	failure error // of the last look
}

// settle sorts suspects into findings, keys in flight, and what cannot be told.
func (c *comparison) settle(ctx context.Context, r *TableReport, suspects []*suspect) error {
	if len(suspects) == 0 {
		return nil
	}
	s := settling{comparison: c, report: r, open: suspects}
	pause := max(c.options.Settle/4, minPause)
	for range c.options.Retries {
		c.tell(Progress{Table: c.table.Source, Step: Settling, Suspects: len(s.open)})
		if err := c.options.Wait(ctx, pause); err != nil {
			s.failure = err
			break
		}
		pause = min(pause*3/2, max(c.options.Settle, maxPause))
		if s.failure = s.look(ctx); ctx.Err() != nil {
			break
		}
		if len(s.open) == 0 {
			return nil
		}
	}
	for _, left := range s.open {
		if left.moved {
			r.Unsettled++
		} else {
			r.Undecided++
		}
	}
	if s.failure != nil {
		return fmt.Errorf("look at %d suspect keys again: %w", len(s.open), s.failure)
	}
	return nil
}

// The bounds of the time between looks.
const (
	minPause = 20 * time.Millisecond
	maxPause = 30 * time.Second
)

// look reads the suspects from the source, then from the lake. The lake is
// never read first: it would then miss changes that the source has.
func (s *settling) look(ctx context.Context) error {
	part, err := s.part()
	if err != nil {
		return err
	}
	e := evidence{}
	if err := s.observe(ctx, &e); err != nil {
		return err
	}
	source, at, err := s.read(ctx, s.source, part)
	if err != nil {
		return fmt.Errorf("read source: %w", err)
	}
	e.now = at
	lake, _, err := s.read(ctx, s.lake, part)
	if err != nil {
		return fmt.Errorf("read lake: %w", err)
	}
	byKey := make(map[string]pair)
	for p := range pairs(source, lake) {
		byKey[string(p.key)] = p
	}
	open := s.open[:0]
	for _, old := range s.open {
		keep, err := s.again(old, source, lake, byKey[string(old.key)], &e)
		if err != nil {
			return err
		}
		if keep {
			open = append(open, old)
		}
	}
	s.open = open
	return nil
}

// part selects the rows of the suspects: by key, or by bucket where rows have
// no key but their hash.
func (s *settling) part() (Part, error) {
	keys := make([][]byte, len(s.open))
	for i, old := range s.open {
		keys[i] = old.key
	}
	set, err := keysOf(s.table, keys)
	return Part{Buckets: max(s.report.Buckets, 1), Keys: set, Version: s.version}, err
}

// observe asks how far the sides are, before they are read.
func (s *settling) observe(ctx context.Context, e *evidence) error {
	source, lake, err := both(ctx, s.source, s.lake, func(ctx context.Context, side Reader, _ bool) (State, error) {
		return side.State(ctx, s.tables)
	})
	if err != nil {
		return err
	}
	e.newest = lake.Time
	marks := [2]string{source.Mark, lake.Mark}
	if marks != s.marks || marks[0] == "" || marks[1] == "" {
		s.marks, s.quiet = marks, s.timeOf(source.Time)
	}
	if marks[0] != "" && marks[1] != "" {
		e.quiet = s.quiet
	}
	if s.options.Watermark != nil {
		if e.watermark, err = s.options.Watermark(ctx); err != nil {
			return fmt.Errorf("read watermark: %w", err)
		}
	}
	return nil
}

// read reads the part at the newest moment of a side.
func (s *settling) read(ctx context.Context, side Reader, part Part) (*rowSet, time.Time, error) {
	view, err := side.Open(ctx, s.table, false)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer func() { _ = view.Close() }() // it only read
	set, err := fetch(ctx, view, part, nil)
	return set, s.timeOf(view.Pinned().Time), err
}

// again judges a suspect by a new look, and reports whether it stays one.
func (s *settling) again(old *suspect, source, lake *rowSet, p pair, e *evidence) (bool, error) {
	if agree(p.source, p.lake) {
		s.report.InFlight++
		return false, nil
	}
	seen := s.suspect(source, lake, p, e.now)
	old.differences, old.behind = seen.differences, seen.behind
	if seen.state != old.state {
		old.state, old.since, old.looks, old.moved = seen.state, e.now, 0, true
		return true, nil
	}
	old.looks++
	if !e.proves(old, s.options.Settle) {
		return true, nil
	}
	return false, s.find(s.report, old)
}
