package sink

import (
	"slices"
	"time"
)

// A clock is the time by which a horizon is measured: the median of the commit
// times of the changes that were committed last, in the order in which they
// were delivered. It never goes back, and it stands still until it has seen
// clockFewest of them.
//
// A median, not the greatest: one record whose commit time is in the far future
// (a damaged text, a server whose clock is wrong) must not make the guard
// forget every tombstone. It would take clockWindow/2+1 of the last clockWindow.
// The clock depends on nothing but the changes, and is committed with them, so
// a run that is repeated comes to the same time.
type clock struct {
	now    int64   // microseconds, noTime while it stands
	recent []int64 // at most clockWindow, the oldest first
}

const (
	clockWindow = 31
	clockFewest = 3
)

func newClock() clock { return clock{now: noTime} }

// after returns the clock as it is after the changes, with c left as it was.
// Those without a commit time do not count.
func (c clock) after(changes []change) clock {
	recent := slices.Clone(c.recent)
	// Only the last ones can stay, so no more of them are looked for.
	from := len(changes)
	for found := 0; from > 0 && found < clockWindow; from-- {
		if changes[from-1].committed != noTime {
			found++
		}
	}
	for i := range changes[from:] {
		if t := changes[from+i].committed; t != noTime {
			recent = append(recent, t)
		}
	}
	recent = recent[max(0, len(recent)-clockWindow):]
	return clock{now: max(c.now, median(recent)), recent: recent}
}

// median is the lower one of an even number, noTime of too few.
func median(times []int64) int64 {
	if len(times) < clockFewest {
		return noTime
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[(len(sorted)-1)/2]
}

// before returns the time that lies d before now.
func (c clock) before(d time.Duration) int64 {
	if c.now < noTime+d.Microseconds() {
		return noTime
	}
	return c.now - d.Microseconds()
}
