package sink

import (
	"cmp"
	"context"
	"errors"
)

// A mergeRule says what becomes of entries that are merged.
type mergeRule struct {
	// restoring: the entries of a key are what was found of it in storage, in any
	// order, and not what it was one after the other.
	restoring bool
	// whole: no older run is left out, so that nothing shows where a forgotten
	// tombstone goes.
	whole     bool
	forgotten func(committed int64) bool
}

// mergeRuns merges runs, the newest first, into one.
func mergeRuns(ctx context.Context, room *indexRoom, from []*run, rule mergeRule) (merged *run, err error) {
	var entries int64
	for _, r := range from {
		entries += r.Entries
	}
	w, err := newRun(room.create, entries, room.filterLimit())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, room.discard(&w.run))
		}
	}()
	if err := mergeEntries(ctx, w, from, rule); err != nil {
		return nil, err
	}
	if err := mergeDeaths(ctx, w, from, rule); err != nil {
		return nil, err
	}
	return w.end()
}

// mergeEntries writes each key once.
func mergeEntries(ctx context.Context, w *runWriter, from []*run, rule mergeRule) error {
	m := merger{order: func(a, b *diskEntry) int {
		return cmp.Or(cmp.Compare(a.hash.Hi, b.hash.Hi), cmp.Compare(a.hash.Lo, b.hash.Lo))
	}}
	for i, r := range from {
		if err := m.add(ctx, i, r.read(0, r.Pages)); err != nil {
			return err
		}
	}
	var e diskEntry
	for len(m.heads) > 0 {
		e = m.heads[0].diskEntry
		for {
			if err := m.next(ctx); err != nil {
				return err
			}
			if len(m.heads) == 0 || m.heads[0].hash != e.hash {
				break
			}
			if rule.restoring {
				e.found(&m.heads[0].known)
			}
		}
		if rule.whole && e.deleted && rule.forgotten(e.committed) {
			continue
		}
		if err := w.add(&e); err != nil {
			return err
		}
	}
	return nil
}

// mergeDeaths writes the deaths that no sweep has passed.
func mergeDeaths(ctx context.Context, w *runWriter, from []*run, rule mergeRule) error {
	m := merger{order: func(a, b *diskEntry) int { return cmp.Compare(a.committed, b.committed) }}
	for i, r := range from {
		if err := m.add(ctx, i, r.read(r.Pages, r.Pages+r.DeathPages)); err != nil {
			return err
		}
	}
	for len(m.heads) > 0 {
		if e := &m.heads[0].diskEntry; !rule.forgotten(e.committed) {
			if err := w.addDeath(e); err != nil {
				return err
			}
		}
		if err := m.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// found takes in what else was found of a key in storage: the greater position
// counts, and a row that is there stays one, see guard.restore.
func (k *known) found(other *known) {
	deleted := k.deleted && other.deleted
	if other.position.compare(&k.position) > 0 {
		*k = *other
	}
	if k.deleted = deleted; !deleted {
		k.committed = noTime
	}
}

// A merger yields the entries of several readers in order, of equal ones that
// of the first reader first. Its heads are a heap.
type merger struct {
	order func(a, b *diskEntry) int
	heads []*mergeHead
}

type mergeHead struct {
	*runReader
	rank int
}

func (m *merger) less(a, b *mergeHead) bool {
	c := m.order(&a.diskEntry, &b.diskEntry)
	return c < 0 || c == 0 && a.rank < b.rank
}

func (m *merger) add(ctx context.Context, rank int, r *runReader) error {
	ok, err := r.advance(ctx)
	if err != nil || !ok {
		return err
	}
	m.heads = append(m.heads, &mergeHead{r, rank})
	for at := len(m.heads) - 1; at > 0 && m.less(m.heads[at], m.heads[(at-1)/2]); at = (at - 1) / 2 {
		m.heads[at], m.heads[(at-1)/2] = m.heads[(at-1)/2], m.heads[at]
	}
	return nil
}

// next moves on from the entry of the first head.
func (m *merger) next(ctx context.Context) error {
	ok, err := m.heads[0].advance(ctx)
	if err != nil {
		return err
	}
	if !ok {
		last := len(m.heads) - 1
		m.heads[0] = m.heads[last]
		m.heads = m.heads[:last]
	}
	for at := 0; ; {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(m.heads); child++ {
			if m.less(m.heads[child], m.heads[least]) {
				least = child
			}
		}
		if least == at {
			return nil
		}
		m.heads[at], m.heads[least] = m.heads[least], m.heads[at]
		at = least
	}
}
