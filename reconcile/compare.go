package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"icehose/catalog"
	"icehose/internal/canon"
)

// A comparison decides one table.
type comparison struct {
	pipeline     *catalog.Pipeline
	table        *catalog.Table
	tables       []*catalog.Table // of the run
	source, lake Reader
	options      *Options
	tell         func(Progress)
	saved        *savedRun
	versions     func(a, b []byte) int // compares values of the version column; nil: there is none
	version      string
	unsaved      error // why the checkpoint does not have it all
	gate         *gate
	resumed      *savedTable         // what a run before had of it
	begun        *savedSlice         // of a slice that was not read to the end, whose suspects are in left
	known        map[string]*suspect // of rows that are read once more
	found        map[string]string   // of findings, by key, what their rows are like; only with a checkpoint
	rechecked    bool                // those of a run before were looked at again
	unchecked    error               // why they could not be
	left         []*suspect          // that could not be told; counted in the report
	marks        [2]string           // of source and lake at the last look
	quiet        time.Time           // since when both were as the marks say
	lag          time.Duration       // by how much changes of the table were seen to come late
}

// run fills the report of the table. What keeps the table from being decided
// ends up in its Why; the error is that of the checkpoint.
func (c *comparison) run(ctx context.Context) (r TableReport, err error) {
	c.version, c.versions = versionOf(c.table, c.options.Version)
	if done := c.saved.done(c.table.Source); done != nil && !c.reopen(ctx, done) {
		return *done, nil
	}
	r = TableReport{Table: c.table.Source, Target: target(c.table), Key: c.table.Key, Losses: losses(c.table), Told: c.saved.told(c.table.Source)}
	began := c.now()
	unread := c.compare(ctx, &r)
	r.decide(c.table, c.untimely(ctx, unread))
	err = c.unsaved
	if c.options.Now != nil {
		r.DecidedAt = c.now()
		r.Seconds = r.DecidedAt.Sub(began).Seconds()
	}
	r.Told = r.Told && r.Verdict == Different
	r.sortFindings()
	// Of what is not decided, or not read, the checkpoint has what was found so far.
	if r.Verdict != Inconclusive && unread == nil && ctx.Err() == nil {
		err = errors.Join(err, c.saved.decided(context.WithoutCancel(ctx), &r, c.found))
	}
	return r, err
}

// untimely says of an error that it is no more than the end of the time, and
// beside it why findings of a run before are as they were.
func (c *comparison) untimely(ctx context.Context, err error) error {
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errTimeout) && c.saved == nil:
		return fmt.Errorf("%w: without a checkpoint another run begins anew", errTimeout)
	case err != nil && errors.Is(context.Cause(ctx), errTimeout):
		return fmt.Errorf("%w: it continues where it was if it runs again with the same checkpoint", errTimeout)
	case err != nil && c.unchecked != nil:
		return fmt.Errorf("%w; %w", err, c.unchecked)
	}
	return cmp.Or(err, c.unchecked)
}

func (c *comparison) now() time.Time {
	if c.options.Now == nil {
		return time.Time{}
	}
	return c.options.Now()
}

// momentOf is when a source was read.
func (c *comparison) momentOf(source *Pinned) moment {
	return moment{at: c.timeOf(source.Time), through: source.Through, log: source.Log}
}

// timeOf is a time of the source's clock, ours when the source has none. Only
// settling needs it.
func (c *comparison) timeOf(t time.Time) time.Time {
	if t.IsZero() && c.options.Settle > 0 {
		return c.now()
	}
	return t
}

func target(t *catalog.Table) string {
	if t.Name() == "" {
		return t.Target
	}
	return t.Database() + "." + t.Name()
}

// losses lists what the pipeline file allows to be lost of a table's values.
func losses(t *catalog.Table) map[string][]catalog.Loss {
	var all map[string][]catalog.Loss
	for _, c := range comparedColumns(t) {
		if len(c.AllowLossy) == 0 {
			continue
		}
		if all == nil {
			all = map[string][]catalog.Loss{}
		}
		all[c.Name] = c.AllowLossy
	}
	return all
}

// decide gives the verdict. err is what kept the table from being read.
func (r *TableReport) decide(t *catalog.Table, err error) {
	var why []string
	if err != nil {
		why = append(why, err.Error())
	}
	if r.Unsettled > 0 {
		why = append(why, fmt.Sprintf("keys that changed faster than they could be compared: %d", r.Unsettled))
	}
	if r.Undecided > 0 {
		why = append(why, fmt.Sprintf("keys that differ, while the lake has not come far enough to tell whether their changes are lost or late: %d", r.Undecided))
		if r.Source.Doubt != "" {
			why = append(why, r.Source.Doubt)
		}
	}
	if r.UnreadBuckets > 0 && err == nil && r.Counts == (Counts{}) {
		why = append(why, fmt.Sprintf("differing buckets not read: %d", r.UnreadBuckets))
	}
	switch {
	case r.Counts != (Counts{}) && loadIsOpen(t):
		r.Verdict = Inconclusive
		why = append([]string{"a load of the table is not finished: rows of the lake may be left over, or still to come (icehose resync finish)"}, why...)
	case r.Counts != (Counts{}):
		r.Verdict = Different
	case len(why) > 0:
		r.Verdict = Inconclusive
	default:
		r.Verdict = Equal
	}
	r.Why = strings.Join(why, "; ")
}

// loadIsOpen reports whether a load was announced and not finished.
func loadIsOpen(t *catalog.Table) bool {
	return slices.ContainsFunc(t.Loads, func(l catalog.LoadStart) bool { return !l.Finished })
}

func (c *comparison) compare(ctx context.Context, r *TableReport) error {
	if keys := c.options.Keys[c.table.Source]; keys != nil {
		r.Scope = fmt.Sprintf("%d keys", keys.Len())
		return c.compareKeys(ctx, r, func(context.Context, View) (*Keys, error) { return keys, nil })
	}
	if since := c.options.Since; since != nil && slices.ContainsFunc(comparedColumns(c.table), func(col *catalog.Column) bool { return col.Name == since.Column }) {
		return c.compareSince(ctx, r, since)
	}
	return c.compareAll(ctx, r)
}

// views are the two sides of a table at their moments.
type views struct{ source, lake View }

func (v *views) close() {
	for _, view := range []View{v.source, v.lake} {
		if view != nil {
			_ = view.Close() // it only read: there is nothing left that could be lost
		}
	}
	v.source, v.lake = nil, nil
}

// open opens both sides. Whatever it opened is closed when it fails.
func (c *comparison) open(ctx context.Context, r *TableReport) (*views, error) {
	v := &views{}
	var err error
	v.source, v.lake, err = both(ctx, c.source, c.lake, func(ctx context.Context, side Reader, _ bool) (View, error) {
		return side.Open(ctx, c.table, true)
	})
	if err != nil {
		v.close()
		return nil, err
	}
	v.pin(r)
	return v, nil
}

// pin notes the moments.
func (v *views) pin(r *TableReport) {
	source, lake := v.source.Pinned(), v.lake.Pinned()
	r.Source.pin(source)
	r.Lake.pin(lake)
	r.Unknown = source.Unknown
	r.CommitLag = nil
	if !source.Time.IsZero() && !lake.Newest.Committed.IsZero() {
		lag := max(0, source.Time.Sub(lake.Newest.Committed).Seconds())
		r.CommitLag = &lag
	}
}

// momentTries is how often rows are read at a new moment when the old one is
// gone.
const momentTries = 3

// atMoment reads both sides at the moment of v, of closed views at a new one,
// and closes them. When the moment is gone meanwhile, it reads again.
func (c *comparison) atMoment(ctx context.Context, r *TableReport, v *views, read func(*views) ([]*suspect, error)) ([]*suspect, error) {
	before := *r
	for try := 1; ; try++ {
		if v.source == nil {
			opened, err := c.open(ctx, r)
			if err != nil {
				return nil, err
			}
			*v = *opened
		}
		suspects, err := read(v)
		v.close()
		if try == momentTries || !errors.Is(err, ErrMomentGone) {
			return suspects, err
		}
		*r = before
	}
}

// suspectsPerFinding bounds the suspects that are looked at again: most may
// turn out to be in flight.
const suspectsPerFinding = 16

// enough reports whether no more buckets need to be read.
func (c *comparison) enough(r *TableReport, suspects []*suspect) bool {
	return len(r.Findings) >= c.options.MaxFindings || c.room(suspects) == 0
}

// room is how many suspects more may be looked at again.
func (c *comparison) room(suspects []*suspect) int {
	return max(suspectsPerFinding*c.options.MaxFindings-len(suspects), 0)
}

// wave returns how many of the buckets, one at least, fit in memory together.
func wave(buckets []int, want, got []canon.Digest, maxRows int) int {
	var rows uint64
	for i, b := range buckets {
		rows += want[b].Count + got[b].Count
		if rows > uint64(maxRows) && i > 0 {
			return i
		}
	}
	return len(buckets)
}

// compareBuckets fetches the rows of some buckets from both sides and adds
// what differs to the report, or to the suspects. Rows that do not add up to
// the digest of the first reading are not compared: something else was read
// than was judged. Of more suspects than there is room for, buckets are left.
func (c *comparison) compareBuckets(ctx context.Context, r *TableReport, v *views, buckets []int, want, got []canon.Digest, room int) (suspects []*suspect, left []int, err error) {
	part := Part{Buckets: len(want), Only: buckets, Version: c.version}
	source, lake, err := both(ctx, v.source, v.lake, func(ctx context.Context, side View, isSource bool) (*rowSet, error) {
		expected := got
		if isSource {
			expected = want
		}
		return fetch(ctx, side, part, expected)
	})
	if err != nil {
		return nil, nil, err
	}
	suspects, left, err = c.judge(r, source, lake, v, room)
	if err == nil && len(suspects)+len(left) == 0 && !anyDiffers(source, lake) {
		err = errors.New("compare rows: digests differ and rows do not")
	}
	return suspects, left, err
}

func anyDiffers(source, lake *rowSet) bool {
	for p := range pairs(source, lake) {
		if !agree(p.source, p.lake) {
			return true
		}
	}
	return false
}

// judge adds what differs to the report; with Settle it only suspects it, and
// leaves the buckets for whose suspects there is no room. One bucket always has.
func (c *comparison) judge(r *TableReport, source, lake *rowSet, v *views, room int) (suspects []*suspect, left []int, err error) {
	sourceAt := v.source.Pinned()
	at := c.momentOf(&sourceAt)
	var later map[int]bool
	if c.options.Settle > 0 {
		left, later = overflow(source, lake, room)
	}
	for p := range pairs(source, lake) {
		if agree(p.source, p.lake) || later[p.bucket()] {
			continue
		}
		s := c.suspect(source, lake, p, at)
		if c.options.Settle > 0 && !isUnfitKey(s.key, len(c.table.Key)) {
			s.goOn(c.known[string(s.key)])
			suspects = append(suspects, s)
			continue
		}
		if err := c.find(r, s); err != nil {
			return nil, nil, err
		}
	}
	return suspects, left, nil
}

// overflow returns the buckets, ascending, that come after as many keys that
// differ as there is room for.
func overflow(source, lake *rowSet, room int) (left []int, later map[int]bool) {
	differ := map[int]int{}
	for p := range pairs(source, lake) {
		if !agree(p.source, p.lake) {
			differ[p.bucket()]++
		}
	}
	later = map[int]bool{}
	n := 0
	for i, b := range slices.Sorted(maps.Keys(differ)) {
		if n += differ[b]; n > room && i > 0 {
			left = append(left, b)
			later[b] = true
		}
	}
	return left, later
}

// find adds what is known of a key to the findings.
func (c *comparison) find(r *TableReport, s *suspect) error {
	r.Unfit += s.unfit
	if isUnfitKey(s.key, len(c.table.Key)) {
		r.UnfitKeys += s.unfit
	}
	for _, d := range s.differences {
		if d.rows == 0 {
			continue
		}
		f := Finding{Kind: d.kind, Rows: d.rows, Unfit: s.unfit > 0}
		if d.kind == Differs && s.behind != nil {
			f.Kind, f.Behind = Stale, s.behind
		}
		if err := r.Counts.add(f.Kind, d.rows); err != nil {
			return err
		}
		if len(r.Findings) >= c.options.MaxFindings {
			continue
		}
		var err error
		if f.Key, err = keyTexts(s.key, len(c.table.Key)); err != nil {
			return err
		}
		f.UnfitKey = unfitColumns(s.key, c.table.Key)
		r.Findings = append(r.Findings, f)
		c.note(s)
	}
	return nil
}
