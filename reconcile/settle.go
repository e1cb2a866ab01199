package reconcile

import (
	"context"
	"fmt"
	"time"

	"icehose/catalog"
	"icehose/cdc"
)

// A suspect is a key whose rows differ. It becomes a finding, or agrees, or
// cannot be told.
type suspect struct {
	key    []byte // canonical bytes
	bucket int
	state  string // of the source's rows, as last read
	since  moment // when they were first read so
	looks  int    // how many later looks found both sides so
	moved  bool   // the rows of a side changed between two looks

	lake      string    // the state of the lake's rows, as last read
	lakeSince time.Time // when they had been read so, by the source's clock; zero: at the last look only

	passed    time.Time // when Watermark.Time was first seen to be past since, by the source's clock; zero: never
	passedOwn State     // of the table in the lake, before that was seen

	differences [3]difference
	behind      *Behind

	unfit    uint64 // rows of the source that no lake can have
	restored bool   // it is of an earlier run
}

// unsettled reports whether it kept changing.
func (s *suspect) unsettled() bool { return s.moved && s.looks < 2 }

// A moment is when a source was read.
type moment struct {
	at      time.Time // by the source's clock, ours when it has none
	through *time.Time
	log     *LogRange
}

func (c *comparison) suspect(source, lake *rowSet, p pair, at moment) *suspect {
	s := &suspect{
		key: append([]byte{}, p.key...), state: source.state(p.source), since: at, lake: lake.state(p.lake),
		differences: compareKey(p.source, p.lake), unfit: p.unfit(),
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
	own       State     // of the table in the lake
	newest    time.Time // commit time of the newest change of any table in the lake
	quiet     time.Time // since when neither side has moved; zero: one has
}

// margins are Options.Settle and Options.Idle, or twice what the lake was seen
// to be late, whichever is more.
func (c *comparison) margins() (settle, idle time.Duration) {
	settle = max(c.options.Settle, 2*c.lag)
	return settle, max(c.options.Idle, settle)
}

// proves reports whether the lake must have the last change of the suspect,
// and the source that of the lake's rows.
func (c *comparison) proves(e *evidence, s *suspect) bool {
	settle, idle := c.margins()
	switch {
	case s.looks < 2:
		return false
	case e.source.through != nil && (s.lakeSince.IsZero() || e.source.through.Before(s.lakeSince)):
		return false // the lake may have what the source has not yet
	case c.passed(e.watermark.Position, &s.since):
		return true
	case !e.watermark.Time.IsZero():
		// The watermark is read from a table that is committed by itself: this
		// one may follow later.
		if s.passed.IsZero() {
			return false
		}
		waited := e.source.at.Sub(s.passed)
		return waited >= idle || waited >= settle && anew(s.passedOwn, e.own)
	case !e.own.Time.IsZero() && !e.own.Time.Before(s.since.at.Add(settle)):
		return true
	case !e.newest.IsZero() && !e.newest.Before(s.since.at.Add(idle)):
		return true
	case e.quiet.IsZero():
		return false
	}
	from := e.quiet
	if s.since.at.After(from) {
		from = s.since.at
	}
	return e.source.at.Sub(from) >= idle
}

// anew reports whether a table of the lake was committed with newer changes;
// maintenance has none.
func anew(before, now State) bool {
	return now.Mark != before.Mark && (now.Time.IsZero() || now.Time.After(before.Time))
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
	own     State     // of the table in the lake, at the last look
	changed time.Time // when the lake's table was first seen so, by the source's clock
	failure error     // of the last look
}

// goOn takes over what was seen before of the same rows of both sides.
func (s *suspect) goOn(old *suspect) {
	if old != nil && old.state == s.state && old.lake == s.lake {
		s.since, s.looks, s.moved, s.lakeSince, s.passed, s.passedOwn, s.restored = old.since, old.looks, old.moved, old.lakeSince, old.passed, old.passedOwn, old.restored
	}
}

// settle sorts suspects into findings, keys in flight, and what so many looks
// cannot tell.
func (c *comparison) settle(ctx context.Context, r *TableReport, suspects []*suspect, looks int) error {
	if len(suspects) == 0 {
		return nil
	}
	s := settling{comparison: c, report: r, open: suspects, marks: c.marks, quiet: c.quiet}
	pause := min(max(c.options.Settle/4, minPause), maxPause) // what was in flight agrees soon
	for range looks {
		c.tell(Progress{Table: c.table.Source, Step: Settling, Suspects: len(s.open)})
		back := c.gate.step(len(s.open) + len(c.left))
		err := c.options.Wait(ctx, pause)
		back()
		if err != nil {
			s.failure = err
			break
		}
		pause = min(pause*3/2, max(c.options.Settle, c.options.Idle/8, maxPause))
		if s.failure = s.look(ctx); ctx.Err() != nil {
			break
		}
		if len(s.open) == 0 {
			return nil
		}
	}
	for _, left := range s.open {
		if left.unsettled() {
			r.Unsettled++
		} else {
			r.Undecided++
		}
	}
	c.left, c.marks, c.quiet = append(c.left, s.open...), s.marks, s.quiet
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
			if !old.restored { // a run may begin long after the one before
				s.late(e.source.at.Sub(old.since.at))
			}
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
	if e.own, err = s.lake.State(ctx, []*catalog.Table{s.table}); err != nil {
		return err
	}
	at := s.timeOf(source.Time)
	s.arrivals(e.own, at)
	e.newest = lake.Time
	marks := [2]string{source.Mark, lake.Mark}
	if marks != s.marks || marks[0] == "" || marks[1] == "" {
		s.marks, s.quiet = marks, at
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

// arrivals notes how far apart the commits of the table are.
func (s *settling) arrivals(own State, at time.Time) {
	if own.Mark == s.own.Mark {
		return
	}
	if s.own.Mark != "" {
		gap := at.Sub(s.changed)
		if !own.Time.IsZero() && !s.own.Time.IsZero() {
			gap = min(gap, own.Time.Sub(s.own.Time)) // it was not looked at all the time
		}
		s.late(gap)
	}
	s.own, s.changed = own, at
}

// late notes by how much a change of the table came late at most.
func (c *comparison) late(by time.Duration) { c.lag = max(c.lag, by) }

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
	old.differences, old.behind, old.unfit = seen.differences, seen.behind, seen.unfit
	sameLake := seen.lake == old.lake
	if !sameLake {
		old.lake, old.lakeSince = seen.lake, time.Time{}
	} else if old.lakeSince.IsZero() {
		old.lakeSince = e.source.at // past the reading of the lake at the look before
	}
	if seen.state != old.state || !sameLake {
		old.state, old.since, old.looks, old.moved, old.passed = seen.state, seen.since, 0, true, time.Time{}
		return true, nil
	}
	old.looks++
	if old.passed.IsZero() && !e.watermark.Time.IsZero() && !e.watermark.Time.Before(old.since.at) {
		old.passed, old.passedOwn = e.source.at, e.own
	}
	if !s.proves(e, old) {
		return true, nil
	}
	return false, s.find(s.report, old)
}
