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
	horizon int64 // microseconds
	newest  int64 // greatest commit time applied
	swept   int64 // newest when tombstones were last pruned
	// floor is the greatest position of a tombstone that was pruned. A change
	// at or below it that finds no key may be older than a forgotten delete.
	floor    packed
	hasFloor bool
}

const noTime = math.MinInt64

func newGuard(horizon time.Duration) *guard {
	return &guard{tombs: make(map[canon.Hash]int64), horizon: horizon.Microseconds(), newest: noTime, swept: noTime}
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
	if deleted {
		g.tombs[h] = committed
	} else {
		delete(g.tombs, h)
	}
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

// cutoff is the commit time below which tombstones are forgotten.
func (g *guard) cutoff() int64 {
	if g.newest < noTime+g.horizon {
		return noTime
	}
	return g.newest - g.horizon
}

// advance notes the newest commit time and prunes when it has moved by a
// sixty-fourth of the horizon, so that pruning costs little.
func (g *guard) advance(newest int64) {
	g.newest = max(g.newest, newest)
	if g.newest == noTime || g.swept != noTime && g.newest-g.swept < g.horizon/64 {
		return
	}
	g.prune()
}

// prune forgets the tombstones beyond the horizon. One without a commit time
// counts from now on.
func (g *guard) prune() {
	g.swept = g.newest
	cutoff := g.cutoff()
	for h, committed := range g.tombs {
		switch {
		case committed == noTime:
			g.tombs[h] = g.newest
		case committed < cutoff:
			p := g.keys.position(g.keys.find(h))
			if !g.hasFloor || p.compare(&g.floor) > 0 {
				g.floor, g.hasFloor = p, true
			}
			g.keys.remove(h)
			delete(g.tombs, h)
		}
	}
}

// horizonState is PropertyHorizon.
type horizonState struct {
	Floor  cdc.Position `json:"floor,omitempty"`
	Newest *time.Time   `json:"newest,omitempty"`
}

// horizonText renders the guard's state with newest as it will be.
func (g *guard) horizonText(newest int64) (string, error) {
	var s horizonState
	if g.hasFloor {
		s.Floor = g.floor.text()
	}
	if newest = max(newest, g.newest); newest != noTime {
		t := time.UnixMicro(newest).UTC()
		s.Newest = &t
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
	if s.Newest != nil {
		g.newest = s.Newest.UnixMicro()
	}
	if s.Floor != "" {
		if g.floor, g.hasFloor = pack([]byte(s.Floor)); !g.hasFloor {
			return fmt.Errorf("read table property %s: floor is not a position", PropertyHorizon)
		}
	}
	return nil
}
