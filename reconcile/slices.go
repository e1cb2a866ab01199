package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math"

	"icehose/internal/canon"
)

// compareAll compares the whole table, or a sample, slice by slice.
func (c *comparison) compareAll(ctx context.Context, r *TableReport) error {
	c.tell(Progress{Table: c.table.Source, Step: Digesting})
	c.resumed = c.resumable(ctx)
	s := slicing{comparison: c, report: r, fresh: *r}
	v, err := c.open(ctx, r)
	if err != nil {
		return err
	}
	defer v.close()
	s.most = least(c.options.SliceRows, v.source.Pinned().Slice, v.lake.Pinned().Slice)
	s.begin(max(v.source.Pinned().Rows, v.lake.Pinned().Rows))
	if c.resumed != nil {
		s.resume(c.resumed)
	}
	n := 0
	for ; s.from < s.end; n++ {
		if c.begun != nil || s.full() {
			v.close()
			if err := s.lookFirst(ctx); err != nil || c.begun != nil {
				return err
			}
		}
		read, err := s.decide(ctx, v)
		next := min(s.from+s.size, s.end)
		switch {
		case read && (err == nil || len(c.left) > 0): // the slice is not read again for keys that are
			c.save(ctx, r, next)
		case !read && len(c.left) > s.before: // it is, but they keep what was seen of them
			c.begun = &savedSlice{Source: s.start.Source.Rows, Lake: s.start.Lake.Rows, Differing: s.start.DifferingBuckets}
			c.save(ctx, r, s.from)
		}
		if err != nil {
			return err
		}
		if r.UnreadBuckets > 0 {
			return nil
		}
		s.from = next
	}
	if n > 1 || c.resumed != nil {
		v.close()
		return c.lookAgain(ctx, r, r.Buckets, c.options.Retries)
	}
	return nil
}

// lookAgain looks so many times more at the keys that earlier slices, or the run
// before, could not tell. The buckets before next were read.
func (c *comparison) lookAgain(ctx context.Context, r *TableReport, next, looks int) error {
	left := c.left
	c.left = nil
	r.uncount(left)
	err := c.settle(ctx, r, left, looks)
	c.save(ctx, r, next)
	return err
}

// uncount takes suspects off those that could not be told.
func (r *TableReport) uncount(suspects []*suspect) {
	for _, s := range suspects {
		if s.unsettled() {
			r.Unsettled--
		} else {
			r.Undecided--
		}
	}
}

// full reports whether there is no room for the suspects of another slice.
func (s *slicing) full() bool { return s.room(s.left) == 0 }

// lookFirst looks again at the keys that are left before more is read: there is
// no room for others, or they are of a slice that was begun. A finding among
// those ends the table, as it had ended the slice: begun stays. Else the slice
// is read once more.
func (s *slicing) lookFirst(ctx context.Context) error {
	r, looks := s.report, s.options.Retries
	if s.begun != nil {
		looks = min(looks, sliceLooks)
	}
	if err := s.lookAgain(ctx, r, s.from, looks); ctx.Err() != nil || err != nil && s.begun == nil {
		return err
	}
	if s.begun != nil {
		if r.Counts != (Counts{}) {
			return nil
		}
		r.Source.Rows, r.Lake.Rows, r.DifferingBuckets, r.UnreadBuckets = s.begun.Source, s.begun.Lake, s.begun.Differing, 0
		s.begun = nil
		s.reread()
	}
	if s.full() {
		return fmt.Errorf("%d keys differ and cannot be told yet: no more rows are read until some can", len(s.left))
	}
	return nil
}

// reread keeps apart what is known of suspects that are not read yet.
func (s *slicing) reread() {
	s.known = map[string]*suspect{}
	var before, again []*suspect
	for _, old := range s.left {
		if bucketOfKey(old.key, len(s.table.Key), s.report.Buckets) < s.from {
			before = append(before, old)
			continue
		}
		again = append(again, old)
		s.known[string(old.key)] = old
	}
	s.report.uncount(again)
	s.left = before
}

// save keeps what was read so far. What keeps it from being kept does not keep
// the table from being compared.
func (c *comparison) save(ctx context.Context, r *TableReport, next int) {
	if err := c.saved.sliced(context.WithoutCancel(ctx), r, next, c); err != nil {
		c.unsaved = err
	}
}

// A slicing walks through the buckets of a table.
type slicing struct {
	*comparison
	report *TableReport
	fresh  TableReport // before anything was decided
	start  TableReport // before the slice
	before int         // suspects that were left then
	base   TableReport // before its rows of this round
	from   int         // the first bucket of the slice
	size   int         // buckets of a slice
	most   int64       // rows of a slice; 0: no bound
	end    int         // buckets to compare
	unread []int       // buckets of the slice that differ and were not compared
}

// begin divides a table of about so many rows.
func (s *slicing) begin(rows int64) {
	*s.report = s.fresh
	s.report.Buckets = bucketCount(rows)
	s.left = nil
	s.start, s.before = *s.report, 0
	s.from, s.end = 0, s.sample(s.report)
	s.size = sliceOf(s.report.Buckets, rows, s.most)
}

// resume goes on where another run was.
func (s *slicing) resume(saved *savedTable) {
	size := float64(s.size) / float64(s.report.Buckets)
	*s.report = saved.Report.report()
	s.report.Told = s.fresh.Told
	saved.restore(s.comparison)
	s.from, s.end = saved.Next, s.sample(s.report)
	s.size = max(int(size*float64(s.report.Buckets)), 1)
}

// againRounds is how often buckets are compared again that differed and were
// too many at once, while all that was read of the slice was in flight.
const againRounds = 4

// sliceLooks is how often a slice's suspects are looked at before the next
// slice: what is in flight agrees soon, the others are looked at in the end.
const sliceLooks = 2

// decide compares the slice. read says that all of it was, whatever became of
// its suspects.
func (s *slicing) decide(ctx context.Context, v *views) (read bool, err error) {
	s.unread = nil
	s.start, s.before = *s.report, len(s.left)
	for round := 0; ; round++ {
		s.base = *s.report
		suspects, err := s.atMoment(ctx, s.report, v, func(v *views) ([]*suspect, error) { return s.compareSlice(ctx, v) })
		read = err == nil && len(s.unread) == 0
		if read && (s.resumed != nil || s.size < s.end) {
			if err := s.settle(ctx, s.report, suspects, min(sliceLooks, s.options.Retries)); ctx.Err() != nil {
				return read, err
			}
			return read, nil // a look that failed is not the last
		}
		if err := errors.Join(err, s.settle(ctx, s.report, suspects, s.options.Retries)); err != nil {
			return read, err
		}
		if read || s.report.Counts != (Counts{}) || round == againRounds || s.full() {
			return read, nil
		}
	}
}

// digest digests the slice, or what is unread of it, on both sides. When there
// are many more rows than was thought, the table is begun anew with as many
// buckets as they need.
func (s *slicing) digest(ctx context.Context, v *views) (want, got []canon.Digest, err error) {
	for {
		part := Part{Buckets: s.report.Buckets, Version: s.version, Only: s.unread}
		if to := min(s.from+s.size, s.end); s.unread == nil && (s.from > 0 || to < s.report.Buckets) {
			for b := s.from; b < to; b++ {
				part.Only = append(part.Only, b)
			}
		}
		want, got, err = both(ctx, v.source, v.lake, func(ctx context.Context, side View, _ bool) ([]canon.Digest, error) {
			digests, err := side.Digests(ctx, part)
			if err == nil && len(digests) != part.Buckets {
				err = fmt.Errorf("asked for %d digests, got %d", part.Buckets, len(digests))
			}
			return digests, err
		})
		if err != nil || s.unread != nil {
			return want, got, err
		}
		rows := crowd(&part, want, got)
		if bucketCount(rows) <= part.Buckets {
			return want, got, nil
		}
		s.begin(rows)
		s.base = *s.report
		v.pin(s.report)
	}
}

// crowded is how many times as many rows as it is made for a bucket may have.
const crowded = 16

// crowd returns about how many rows the table has, when most buckets of the part
// have too many; else 0. Where only some have, it is for a key that has many
// rows, or equal rows without a key, and they stay together in any bucket.
func crowd(part *Part, want, got []canon.Digest) int64 {
	var source, lake uint64
	full := 0
	for b := range want {
		if max(want[b].Count, got[b].Count) > crowded*rowsPerBucket {
			full++
		}
		source += want[b].Count
		lake += got[b].Count
	}
	meant := part.Buckets
	if part.Only != nil {
		meant = len(part.Only)
	}
	if 2*full <= meant {
		return 0
	}
	return int64(float64(max(source, lake)) / float64(meant) * float64(part.Buckets))
}

// sample makes enough buckets to take a fraction of them, and returns how many
// to compare.
func (c *comparison) sample(r *TableReport) int {
	fraction := c.options.sampled()
	if fraction == 0 {
		return r.Buckets
	}
	const steps = 16 // buckets in the sample at least, so that it is not much larger than asked for
	for r.Buckets < MaxBuckets && float64(r.Buckets)*fraction < steps {
		r.Buckets <<= 1
	}
	end := int(math.Ceil(float64(r.Buckets) * fraction))
	r.Sampled = float64(end) / float64(r.Buckets)
	return end
}

// least returns the least of some bounds, of which 0 is none.
func least(bounds ...int64) (n int64) {
	for _, b := range bounds {
		if b > 0 && (n == 0 || b < n) {
			n = b
		}
	}
	return n
}

// bucketCount is a power of two, so that an engine finds a row's bucket with a
// mask, of at most rowsPerBucket rows each.
func bucketCount(rows int64) int {
	n := 1
	for n < MaxBuckets && int64(n)*rowsPerBucket < rows {
		n <<= 1
	}
	return n
}

// sliceOf returns how many buckets make a slice of at most the given rows.
func sliceOf(buckets int, rows, most int64) int {
	size := buckets
	for most > 0 && size > 1 && rows/int64(buckets/size) > most {
		size >>= 1
	}
	return size
}

// compareSlice digests the slice on both sides and compares the rows of buckets
// that differ; in a later round of those that were not read in the one before.
func (s *slicing) compareSlice(ctx context.Context, v *views) ([]*suspect, error) {
	*s.report = s.base
	r := s.report
	v.pin(r)
	r.UnreadBuckets = 0
	want, got, err := s.digest(ctx, v)
	if err != nil {
		return nil, err
	}
	differing := make([]int, 0)
	for b := range want {
		if want[b] != got[b] {
			differing = append(differing, b)
		}
	}
	if s.unread == nil {
		r.Source.count(want)
		r.Lake.count(got)
		r.DifferingBuckets += len(differing)
	}
	if len(differing) == 0 {
		s.unread = nil
		return nil, nil
	}
	s.tell(Progress{Table: s.table.Source, Step: Comparing})
	var suspects []*suspect
	var unread []int
	for len(differing) > 0 && !s.enough(r, suspects) {
		n := wave(differing, want, got, s.options.MaxRows)
		more, left, err := s.compareBuckets(ctx, r, v, differing[:n], want, got, s.room(suspects))
		suspects = append(suspects, more...)
		if err != nil {
			r.UnreadBuckets = len(unread) + len(differing)
			return suspects, err
		}
		unread = append(unread, left...)
		differing = differing[n:]
	}
	s.unread = append(unread, differing...)
	r.UnreadBuckets = len(s.unread)
	return suspects, nil
}
