package reconcile

import (
	"errors"
	"time"
)

// A Role is what a live source is to the stream that fills the lake.
type Role string

// The roles. The zero value is RoleAuto.
const (
	// RoleAuto believes what the server says of itself.
	RoleAuto Role = "auto"
	// RolePrimary follows no other server, whether or not the account may see that.
	RolePrimary Role = "primary"
	// RoleReplica follows the server that the stream is read from, itself and not by
	// way of another, also if it does not say so.
	RoleReplica Role = "replica"
	// RoleStream is a server whose own log the stream is read from, also if it
	// follows another.
	RoleStream Role = "stream"
)

// beatMargin is what a heartbeat is taken to be older than it says: a commit has
// its time before it has its place in the log, and a column may round.
const beatMargin = time.Second

// ThroughBeat returns the time up to which a source has everything that has this
// newest time of a heartbeat table. One that is later than the source's clock was
// written by no heartbeat, or by another clock, and says nothing.
func ThroughBeat(beat, clock time.Time) (time.Time, error) {
	through := beat.Add(-beatMargin)
	if through.After(clock) {
		return time.Time{}, errors.New("its newest time is later than the source's clock: want a table in which only present times are written")
	}
	return through, nil
}
