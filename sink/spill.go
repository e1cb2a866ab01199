package sink

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/bits"
	"slices"

	"icehose/internal/canon"
)

// A spill is the part of a table's index that is on disk. A key's entry in a
// newer run hides those in older ones.
type spill struct {
	room    *indexRoom
	runs    []*run // the newest first
	merging *merging
	page    [diskPage]byte
}

// A merging is a merge that runs beside everything else.
type merging struct {
	from   []*run
	cancel context.CancelFunc
	done   chan struct{}
	merged *run
	err    error
}

// runs reports whether the merge is not done yet.
func (m *merging) runs() bool {
	if m == nil {
		return false
	}
	select {
	case <-m.done:
		return false
	default:
		return true
	}
}

const (
	// fan is how many runs of about the same length are merged; fanRestoring
	// while a table is read, when nothing is looked up.
	fan, fanRestoring = 4, 32
	// mostRuns is with how many runs a spill waits for the merge of others.
	mostRuns = 64
)

// find looks for what was last spilled of h.
func (s *spill) find(h canon.Hash, k *known, page []byte) (found bool, err error) {
	for _, r := range s.runs {
		if found, err := r.find(h, k, page); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// bytes returns what the spill takes in memory.
func (s *spill) bytes() (n int64) {
	for _, r := range s.runs {
		n += r.bytes()
	}
	return n
}

// write spills an index, which stays as it is.
func (s *spill) write(ctx context.Context, x *index) (err error) {
	w, err := newRun(s.room.create, int64(x.count), s.room.filterLimit())
	if err != nil {
		return err
	}
	r, err := w.fill(ctx, x)
	if err != nil {
		return errors.Join(err, s.room.discard(&w.run))
	}
	s.runs = slices.Insert(s.runs, 0, r)
	return nil
}

// fill writes all of an index.
func (w *runWriter) fill(ctx context.Context, x *index) (*run, error) {
	for e := range x.sorted() {
		if w.Entries%4096 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := w.add(&diskEntry{e.hash, x.known(e)}); err != nil {
			return nil, err
		}
	}
	dead := slices.Collect(x.dead())
	slices.SortFunc(dead, func(a, b uint32) int {
		return cmp.Compare(x.death(x.entry(a).more).committed, x.death(x.entry(b).more).committed)
	})
	for _, n := range dead {
		e := x.entry(n)
		if err := w.addDeath(&diskEntry{e.hash, x.known(e)}); err != nil {
			return nil, err
		}
	}
	return w.end()
}

// sorted yields the entries by hash. It deals them out by their first bits, so
// that each part can be sorted close together.
func (x *index) sorted() iter.Seq[*entry] {
	const part = 64 // entries, roughly
	shift := 64 - max(0, bits.Len(uint(x.count/part)))
	ends := make([]uint32, 1<<(64-shift)+1)
	for e := range x.all() {
		ends[e.hash.Hi>>shift+1]++
	}
	for i := range ends[1:] {
		ends[i+1] += ends[i]
	}
	order := make([]uint32, x.count)
	for n := range x.used {
		if e := x.entry(n); e.state != isFree {
			at := &ends[e.hash.Hi>>shift]
			order[*at] = n
			*at++
		}
	}
	return func(yield func(*entry) bool) {
		var sorting []*entry
		start := uint32(0)
		for _, end := range ends[:len(ends)-1] {
			sorting = sorting[:0]
			for _, n := range order[start:end] {
				sorting = append(sorting, x.entry(n))
			}
			start = end
			slices.SortFunc(sorting, func(a, b *entry) int {
				return cmp.Or(cmp.Compare(a.hash.Hi, b.hash.Hi), cmp.Compare(a.hash.Lo, b.hash.Lo))
			})
			for _, e := range sorting {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// all yields the entries in no order.
func (x *index) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for n := range x.used {
			if e := x.entry(n); e.state != isFree && !yield(e) {
				return
			}
		}
	}
}

// due returns how many of the newest runs should be merged, 0 for none: so many
// that what is small does not pile up, and what is large is seldom rewritten.
func (s *spill) due(fan int) int {
	var sum int64
	n := 0
	for i, r := range s.runs {
		if i >= fan-1 && r.Entries <= 2*sum {
			n = i + 1
		}
		sum += r.Entries
	}
	return n
}

// begin begins the merge that is due, unless one runs. It goes on when ctx ends.
func (s *spill) begin(ctx context.Context, rule mergeRule) {
	n := s.due(fan)
	if rule.restoring {
		n = s.due(fanRestoring)
	}
	if s.merging != nil || n == 0 || s.room.merging.runs() {
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // nobody waits for it
	m := &merging{from: slices.Clone(s.runs[:n]), cancel: cancel, done: make(chan struct{})}
	rule.whole = n == len(s.runs)
	s.merging, s.room.merging = m, m
	go func(room *indexRoom) {
		defer close(m.done)
		m.merged, m.err = mergeRuns(ctx, room, m.from, rule)
	}(s.room)
}

// take puts the result of a merge in the place of what was merged; with wait
// also of one that is not done yet, which ends without one when ctx does.
func (s *spill) take(ctx context.Context, wait bool) error {
	m := s.merging
	if m == nil || !wait && m.runs() {
		return nil
	}
	if m.runs() {
		select {
		case <-m.done:
		case <-ctx.Done():
			return joinLine(context.Cause(ctx), s.stop())
		}
	}
	s.merging = nil
	m.cancel()
	if m.err != nil {
		return m.err
	}
	return s.replace(m.from, m.merged)
}

// replace puts merged in the place of the runs that it was made of.
func (s *spill) replace(from []*run, merged *run) (err error) {
	at := slices.Index(s.runs, from[0])
	s.runs = slices.Replace(s.runs, at, at+len(from), merged)
	for _, r := range from {
		err = errors.Join(err, s.room.discard(r))
	}
	return err
}

// all merges everything into one run.
func (s *spill) all(ctx context.Context, rule mergeRule) error {
	if err := s.take(ctx, true); err != nil || len(s.runs) < 2 {
		return err
	}
	rule.whole = true
	merged, err := mergeRuns(ctx, s.room, s.runs, rule)
	if err != nil {
		return err
	}
	return s.replace(slices.Clone(s.runs), merged)
}

// stop ends the merge that runs, and leaves the runs as they are.
func (s *spill) stop() (err error) {
	if s.merging == nil {
		return nil
	}
	s.merging.cancel()
	<-s.merging.done
	if s.merging.err == nil {
		err = s.room.discard(s.merging.merged)
	}
	s.merging = nil
	return err
}

// discard gives up the runs.
func (s *spill) discard() error {
	err := s.stop()
	for _, r := range s.runs {
		if r.saved && !r.damaged.Load() {
			err = errors.Join(err, r.file.Close())
		} else {
			err = errors.Join(err, s.room.discard(r))
		}
	}
	s.runs = nil
	return err
}
