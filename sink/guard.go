package sink

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"icehose/cdc"
	"icehose/internal/canon"
)

// A guard decides which change of a key may be applied: one whose position is
// greater than that of the last one that was. It remembers deleted keys
// (tombstones) for a horizon of source commit time.
type guard struct {
	keys    index  // all keys, or those that were set since the last spill
	disk    *spill // the others, nil if there are none
	room    *indexRoom
	fetched map[canon.Hash]fetched // what disk has of some keys
	live    int64                  // keys that have a row
	horizon time.Duration
	clock   clock
	swept   int64 // what the clock said when tombstones were last pruned
	cutoff  int64 // of these, what was committed before it is forgotten; noTime for nothing
	undated int64 // from when a tombstone without a commit time counts, noTime if nothing was pruned yet
	// unswept says that tombstones on disk were pruned and that the floor does
	// not reflect it yet; restoring that rows and tombstones are being read.
	unswept, restoring bool
	// floor is the greatest position of a tombstone that was pruned. A change
	// at or below it that finds no key may be older than a forgotten delete.
	floor    packed
	hasFloor bool
	load     packed // position of the table's bulk load, see readLoad
	hasLoad  bool
}

const noTime = math.MinInt64

func newGuard(horizon time.Duration) *guard {
	return &guard{horizon: horizon, clock: newClock(), swept: noTime, cutoff: noTime, undated: noTime}
}

type verdict uint8

const (
	apply      verdict = iota + 1
	superseded         // the table holds, or held, a later change of the key
	tooOld             // nobody remembers whether it does
)

// check judges a change; live reports whether the table holds a row of its
// key. Deleting a key that is not there cannot bring back a row, so that is
// never too old. An error says that the index on disk cannot be read.
func (g *guard) check(h canon.Hash, p *packed, deletes bool) (v verdict, live bool, err error) {
	if g.disk != nil {
		return g.checkSpilled(h, p, deletes)
	}
	if e := g.keys.find(h); e != nil {
		last := g.keys.position(e)
		return against(p, &last), e.state&isDeleted == 0, nil
	}
	return g.unknown(p, deletes), false, nil
}

// against judges a change of a key whose last one is known.
func against(p, last *packed) verdict {
	if p.compare(last) > 0 {
		return apply
	}
	return superseded
}

// unknown judges a change of a key of which nothing is known.
func (g *guard) unknown(p *packed, deletes bool) verdict {
	switch {
	case g.loaded(p):
		return superseded
	case !g.floored(p):
		return apply
	case deletes:
		return superseded
	}
	return tooOld
}

// rows returns how many keys have a row.
func (g *guard) rows() int64 { return g.live }

// set notes that a change was applied; live is what check said of it. committed
// is that of a delete, noTime if unknown.
func (g *guard) set(h canon.Hash, p *packed, deleted bool, committed int64, live bool) {
	if live {
		g.live--
	}
	if !deleted {
		g.live++
	} else if g.forgotten(committed) {
		// The delete comes so late that the sweep which forgets it is over.
		// Its file goes with the next commit, so the floor must stand for it now.
		g.raise(p)
		if g.disk == nil {
			if g.keys.find(h) != nil {
				g.keys.remove(h)
			}
			return
		}
	}
	g.keys.put(h, p, deleted, committed)
}

// raise raises the floor to the position of a tombstone.
func (g *guard) raise(p *packed) {
	if !g.hasFloor || p.compare(&g.floor) > 0 {
		g.floor, g.hasFloor = *p, true
	}
}

// floored reports whether the floor stands for a tombstone of a position.
func (g *guard) floored(p *packed) bool { return g.hasFloor && p.compare(&g.floor) <= 0 }

// forgotten reports whether the tombstone of a delete that was committed then
// has been pruned.
func (g *guard) forgotten(committed int64) bool {
	if committed == noTime {
		committed = g.undated
	}
	return committed != noTime && committed < g.cutoff
}

// restore notes a row or tombstone found in storage, in any order. A row that
// is there although it is older than its tombstone, which only another writer
// can have done, stays known as a row, so that the next change of its key
// replaces it. What restored says comes last.
func (g *guard) restore(h canon.Hash, p *packed, deleted bool, committed int64) {
	k := known{*p, deleted, committed}
	if e := g.keys.find(h); e != nil {
		before := g.keys.known(e)
		k.found(&before)
		if k == before {
			return
		}
	}
	g.keys.put(h, &k.position, k.deleted, k.committed)
}

// advance sets the clock and prunes when it has moved by a sixty-fourth of the
// horizon, so that pruning costs little.
func (g *guard) advance(to clock) {
	g.clock = to
	if to.now == noTime || g.swept != noTime && to.now-g.swept < g.horizon.Microseconds()/64 {
		return
	}
	g.prune()
}

// prune forgets the tombstones beyond the horizon. One without a commit time
// counts from the first time on.
func (g *guard) prune() {
	g.swept, g.cutoff = g.clock.now, g.clock.before(g.horizon)
	if g.undated == noTime {
		g.undated = g.clock.now
	}
	if g.disk != nil {
		g.unswept = true
		return
	}
	for n := range g.keys.dead() {
		if e := g.keys.entry(n); g.forgotten(g.keys.death(e.more).committed) {
			p := g.keys.position(e)
			g.raise(&p)
			g.keys.remove(e.hash)
		}
	}
}

// defaultHorizon is the horizon of a table that none was asked for.
const defaultHorizon = 7 * 24 * time.Hour

// horizonState is PropertyHorizon.
type horizonState struct {
	Horizon string       `json:"horizon,omitempty"` // how long deleted keys are remembered
	Floor   cdc.Position `json:"floor,omitempty"`
	Clock   *time.Time   `json:"clock,omitempty"`
	Recent  []int64      `json:"recent,omitempty"` // Unix microseconds
}

// horizonText renders the guard's state with the clock as it will be.
func (g *guard) horizonText(c clock) (string, error) {
	s := horizonState{Horizon: g.horizon.String(), Recent: c.recent}
	if g.hasFloor {
		s.Floor = g.floor.text()
	}
	if c.now != noTime {
		t := time.UnixMicro(c.now).UTC()
		s.Clock = &t
	}
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("write horizon: %w", err)
	}
	return string(text), nil
}

// readHorizon takes over what horizonText wrote. Where no horizon was asked for,
// the one noted stays: a command that commits in between must not shorten it.
func (g *guard) readHorizon(text string) error {
	var s horizonState
	if text != "" {
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return fmt.Errorf("read table property %s: %w", PropertyHorizon, err)
		}
	}
	if g.horizon <= 0 && s.Horizon != "" {
		noted, err := time.ParseDuration(s.Horizon)
		if err != nil || noted <= 0 {
			return fmt.Errorf("read table property %s: horizon is not a time above 0", PropertyHorizon)
		}
		g.horizon = noted
	}
	if g.horizon <= 0 {
		g.horizon = defaultHorizon
	}
	g.clock.recent = s.Recent[max(0, len(s.Recent)-clockWindow):]
	if s.Clock != nil {
		g.clock.now = s.Clock.UnixMicro()
	}
	if s.Floor != "" {
		if g.floor, g.hasFloor = pack([]byte(s.Floor)); !g.hasFloor {
			return fmt.Errorf("read table property %s: floor is not a position", PropertyHorizon)
		}
	}
	return nil
}
