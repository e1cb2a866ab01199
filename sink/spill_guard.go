package sink

import (
	"context"
	"fmt"
	"slices"
	"time"

	"icehose/internal/canon"
)

// restoreStep is how many rows or tombstones are restored between two looks at
// the memory that is left; at first there are more of these.
const restoreStep = 1024

// restoringRoom makes room before the n-th row or tombstone is restored.
func (g *guard) restoringRoom(ctx context.Context, n int) error {
	if n%restoreStep != 0 && n&(n-1) != 0 {
		return nil
	}
	return g.makeRoom(ctx, min(n, restoreStep))
}

// fresh returns an empty guard in the place of g.
func (g *guard) fresh(horizon time.Duration) (*guard, error) {
	err := g.discard()
	n := newGuard(horizon)
	if n.room = g.room; n.room != nil {
		n.room.guards[slices.Index(n.room.guards, g)] = n
	}
	return n, err
}

// discard gives up what g has on disk.
func (g *guard) discard() error {
	if g.disk == nil {
		return nil
	}
	disk := g.disk
	g.disk = nil
	return disk.discard()
}

// size returns the bytes that the index takes in memory and on disk.
func (g *guard) size() (memory, disk int64) {
	memory = g.keys.bytes()
	if g.disk != nil {
		memory += g.disk.bytes()
		for _, r := range g.disk.runs {
			disk += r.size()
		}
	}
	return memory, disk
}

// makeRoom makes room in memory for n more keys.
func (g *guard) makeRoom(ctx context.Context, n int) error {
	if g.room == nil {
		return nil
	}
	if g.disk != nil {
		if err := g.sweep(); err != nil {
			return err
		}
		if err := g.disk.take(ctx, false); err != nil {
			return fmt.Errorf("merge files of the index in %s: %w", g.room.folder, err)
		}
		g.disk.begin(ctx, g.rule())
	}
	return g.room.make(ctx, g, n)
}

// rule is how files are merged now.
func (g *guard) rule() mergeRule {
	then := guard{cutoff: g.cutoff, undated: g.undated}
	return mergeRule{restoring: g.restoring, forgotten: then.forgotten}
}

// spillKeys moves everything that is in memory to the disk.
func (g *guard) spillKeys(ctx context.Context) error {
	if g.keys.count == 0 {
		return nil
	}
	if err := g.room.ready(); err != nil {
		return err
	}
	disk := g.disk
	if disk == nil {
		disk = &spill{room: g.room}
	} else {
		if err := g.sweep(); err != nil {
			return err
		}
		if err := disk.take(ctx, len(disk.runs) >= mostRuns); err != nil {
			return err
		}
	}
	if err := disk.write(ctx, &g.keys); err != nil {
		return err
	}
	g.disk, g.keys, g.fetched = disk, index{}, nil
	disk.begin(ctx, g.rule())
	return nil
}

// restored ends what restore has begun.
func (g *guard) restored(ctx context.Context) error {
	if err := g.makeRoom(ctx, 0); err != nil {
		return err
	}
	if g.disk == nil {
		g.restoring = false
		g.live = int64(g.keys.count) - int64(g.keys.usedDeaths) + int64(len(g.keys.freeDeaths))
		return nil
	}
	if g.keys.count > 0 {
		if err := g.spillKeys(ctx); err != nil {
			return fmt.Errorf("spill index into %s: %w", g.room.folder, err)
		}
	}
	if err := g.disk.all(ctx, g.rule()); err != nil {
		return fmt.Errorf("merge files of the index in %s: %w", g.room.folder, err)
	}
	g.restoring = false
	g.live = g.disk.runs[0].Entries - g.disk.runs[0].Dead
	return nil
}

// checkSpilled is check for an index that is on disk too.
func (g *guard) checkSpilled(h canon.Hash, p *packed, deletes bool) (v verdict, live bool, err error) {
	if err := g.sweep(); err != nil {
		return 0, false, err
	}
	var k known
	found, err := g.find(h, &k)
	switch {
	case err != nil:
		return 0, false, err
	case found && (!k.deleted || !g.forgotten(k.committed)):
		return against(p, &k.position), !k.deleted, nil
	}
	return g.unknown(p, deletes), false, nil
}

// find looks for a key in memory and on disk. It also finds forgotten tombstones
// that are still there.
func (g *guard) find(h canon.Hash, k *known) (found bool, err error) {
	if e := g.keys.find(h); e != nil {
		*k = g.keys.known(e)
		return true, nil
	}
	if g.disk == nil {
		return false, nil
	}
	if f, ok := g.fetched[h]; ok {
		*k = f.known
		return f.found, nil
	}
	return g.disk.find(h, k, g.disk.page[:])
}

// holds reports whether the tombstone of h is the one of position p.
func (g *guard) holds(h canon.Hash, p *packed) (bool, error) {
	var k known
	found, err := g.find(h, &k)
	return found && k.deleted && p.compare(&k.position) == 0 && !g.forgotten(k.committed), err
}

// sweep raises the floor to what was pruned of the tombstones on disk, unless
// that was done. They stay there until a merge drops them.
func (g *guard) sweep() error {
	if !g.unswept {
		return nil
	}
	for n := range g.keys.dead() {
		if e := g.keys.entry(n); g.forgotten(g.keys.death(e.more).committed) {
			p := g.keys.position(e)
			g.raise(&p)
		}
	}
	for _, r := range g.disk.runs {
		if err := g.sweepRun(r); err != nil {
			return err
		}
	}
	g.unswept = false
	return nil
}

// sweepRun looks at the deaths of a run that were pruned since it last did. One
// counts if it still is the last that happened to its key.
func (g *guard) sweepRun(r *run) error {
	if r.Undated > 0 && !r.undatedPassed && g.forgotten(noTime) {
		r.passed, r.undatedPassed = 0, true
	}
	page := make([]byte, diskPage)
	for ; r.passed < r.DeathPages; r.passed++ {
		entries, count, err := r.page(r.Pages+r.passed, page)
		if err != nil {
			return err
		}
		var e diskEntry
		for range count {
			size, err := readEntry(entries, &e)
			if err != nil {
				return r.distrust(err)
			}
			entries = entries[size:]
			if !g.forgotten(e.committed) {
				if e.committed == noTime {
					continue // these stand first
				}
				return nil
			}
			if g.hasFloor && e.position.compare(&g.floor) <= 0 {
				continue
			}
			held, err := g.lastIs(&e)
			if err != nil {
				return err
			}
			if held {
				g.raise(&e.position)
			}
		}
	}
	return nil
}

// lastIs reports whether the tombstone e is the last that is known of its key.
func (g *guard) lastIs(e *diskEntry) (bool, error) {
	var k known
	found, err := g.find(e.hash, &k)
	return found && k.deleted && k.position == e.position, err
}
