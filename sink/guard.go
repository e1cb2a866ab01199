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
	keys index
	// tombs holds the source commit time of each deleted key in keys, in
	// microseconds; noTime when none was known.
	tombs   map[canon.Hash]int64
	horizon time.Duration
	clock   clock
	swept   int64 // what the clock said when tombstones were last pruned
	// floor is the greatest position of a tombstone that was pruned. A change
	// at or below it that finds no key may be older than a forgotten delete.
	floor    packed
	hasFloor bool
	load     packed // position of the table's bulk load, see readLoad
	hasLoad  bool
}

const noTime = math.MinInt64

func newGuard(horizon time.Duration) *guard {
	return &guard{tombs: make(map[canon.Hash]int64), horizon: horizon, clock: newClock(), swept: noTime}
}

type verdict uint8

const (
	apply      verdict = iota + 1
	superseded         // the table holds, or held, a later change of the key
	tooOld             // nobody remembers whether it does
)

// check judges a change; live reports whether the table holds a row of its
// key. Deleting a key that is not there cannot bring back a row, so that is
// never too old.
func (g *guard) check(h canon.Hash, p *packed, deletes bool) (v verdict, live bool) {
	if e := g.keys.find(h); e != nil {
		live = e.state&isDeleted == 0
		if last := g.keys.position(e); p.compare(&last) > 0 {
			return apply, live
		}
		return superseded, live
	}
	if g.loaded(p) {
		return superseded, false
	}
	if g.hasFloor && p.compare(&g.floor) <= 0 {
		if deletes {
			return superseded, false
		}
		return tooOld, false
	}
	return apply, false
}

// rows returns how many keys have a row.
func (g *guard) rows() int64 { return int64(g.keys.count - len(g.tombs)) }

// set notes that a change was applied. committed is noTime if unknown.
func (g *guard) set(h canon.Hash, p *packed, deleted bool, committed int64) {
	g.keys.put(h, p, deleted)
	switch {
	case !deleted:
		delete(g.tombs, h)
	case committed != noTime && g.swept != noTime && committed < g.swept-g.horizon.Microseconds():
		// The delete comes so late that the sweep which forgets it is over.
		// Its file goes with the next commit, so the floor must stand for it now.
		g.forget(h)
	default:
		g.tombs[h] = committed
	}
}

// forget raises the floor to the tombstone of h and drops that.
func (g *guard) forget(h canon.Hash) {
	p := g.keys.position(g.keys.find(h))
	if !g.hasFloor || p.compare(&g.floor) > 0 {
		g.floor, g.hasFloor = p, true
	}
	g.keys.remove(h)
	delete(g.tombs, h)
}

// restore notes a row or tombstone found in storage. Rows come first: a row
// that is there although it is older than its tombstone, which only another
// writer can have done, stays known as a row, so that the next change of its
// key replaces it.
func (g *guard) restore(h canon.Hash, p *packed, deleted bool, committed int64) {
	e := g.keys.find(h)
	if e == nil {
		g.set(h, p, deleted, committed)
		return
	}
	if last := g.keys.position(e); p.compare(&last) > 0 {
		g.set(h, p, deleted && e.state&isDeleted != 0, committed)
	}
}

// holds reports whether the tombstone of h is the one of position p.
func (g *guard) holds(h canon.Hash, p *packed) bool {
	e := g.keys.find(h)
	if e == nil || e.state&isDeleted == 0 {
		return false
	}
	last := g.keys.position(e)
	return p.compare(&last) == 0
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
// counts from now on.
func (g *guard) prune() {
	g.swept = g.clock.now
	cutoff := g.clock.before(g.horizon)
	for h, committed := range g.tombs {
		switch {
		case committed == noTime:
			g.tombs[h] = g.clock.now
		case committed < cutoff:
			g.forget(h)
		}
	}
}

// horizonState is PropertyHorizon.
type horizonState struct {
	Floor  cdc.Position `json:"floor,omitempty"`
	Clock  *time.Time   `json:"clock,omitempty"`
	Recent []int64      `json:"recent,omitempty"` // Unix microseconds
}

// horizonText renders the guard's state with the clock as it will be.
func (g *guard) horizonText(c clock) (string, error) {
	s := horizonState{Recent: c.recent}
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

func (g *guard) readHorizon(text string) error {
	if text == "" {
		return nil
	}
	var s horizonState
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("read table property %s: %w", PropertyHorizon, err)
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
