package reconcile

import (
	"context"
	"fmt"
	"time"

	"icehose/cdc"
)

// A suspect is a key whose rows differ. It becomes a finding, or agrees, or
// cannot be told.
type suspect struct {
	key    []byte // canonical bytes
	bucket int
	state  string // of the source's rows, as last read
	since  moment // when they were first read so
	looks  int    // how many later looks found them so
	moved  bool   // the source's rows changed between two looks

	lake      string    // the state of the lake's rows, as last read
	lakeSince time.Time // when they had been read so, by the source's clock; zero: at the last look only

	differences [3]difference
	behind      *Behind
}

// A moment is when a source was read.
type moment struct {
	at      time.Time // by the source's clock, ours when it has none
	through *time.Time
	log     *LogRange
}

func (c *comparison) suspect(source, lake *rowSet, p pair, at moment) *suspect {
	s := &suspect{
		key: append([]byte{}, p.key...), state: source.state(p.source), since: at, lake: lake.state(p.lake),
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
	source    moment // of the look
	watermark Watermark
	newest    time.Time // commit time of the newest change in the lake
	quiet     time.Time // since when neither side has moved; zero: one has
}

// proves reports whether the lake must have the last change of the suspect,
// and the source that of the lake's rows.
func (c *comparison) proves(e *evidence, s *suspect) bool {
	settle := c.options.Settle
	switch {
	case s.looks < 2:
		return false
	case e.source.through != nil && (s.lakeSince.IsZero() || e.source.through.Before(s.lakeSince)):
		return false // the lake may have what the source has not yet
	case !e.watermark.Time.IsZero() && !e.watermark.Time.Before(s.since.at):
		return true
	case c.passed(e.watermark.Position, &s.since):
		return true
	case !e.newest.IsZero() && !e.newest.Before(s.since.at.Add(settle)):
		return true
	case e.quiet.IsZero():
		return false
	}
	from := e.quiet
	if s.since.at.After(from) {
		from = s.since.at
	}
	return e.source.at.Sub(from) >= settle
}

// passed reports whether a position is above every change that a moment of the
// source can reflect.
func (c *comparison) passed(position cdc.Position, m *moment) bool {
	if position == "" || m.log == nil || c.table.Position != c.pipeline.Source.Position {
		return false
	}
	if epoch := fmt.Sprintf("%04x", c.pipeline.EpochAt(m.at)); position.Epoch() != epoch {
		return position.Epoch() > epoch
	}
	body, err := cdc.ParseBody(position.Body())
	return err == nil && m.log.passedBy(body)
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
	e.source = s.momentOf(&at)
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
		p := byKey[string(old.key)]
		if agree(p.source, p.lake) {
			s.report.InFlight++
			continue
		}
		keep, err := s.again(old, s.suspect(source, lake, p, e.source), &e)
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
func (s *settling) read(ctx context.Context, side Reader, part Part) (*rowSet, Pinned, error) {
	view, err := side.Open(ctx, s.table, false)
	if err != nil {
		return nil, Pinned{}, err
	}
	defer func() { _ = view.Close() }() // it only read
	set, err := fetch(ctx, view, part, nil)
	return set, view.Pinned(), err
}

// again judges a suspect by a new look, and reports whether it stays one.
func (s *settling) again(old, seen *suspect, e *evidence) (bool, error) {
	old.differences, old.behind = seen.differences, seen.behind
	if seen.lake != old.lake {
		old.lake, old.lakeSince = seen.lake, time.Time{}
	} else if old.lakeSince.IsZero() {
		old.lakeSince = e.source.at // past the reading of the lake at the look before
	}
	if seen.state != old.state {
		old.state, old.since, old.looks, old.moved = seen.state, seen.since, 0, true
		return true, nil
	}
	old.looks++
	if !s.proves(e, old) {
		return true, nil
	}
	return false, s.find(s.report, old)
}
