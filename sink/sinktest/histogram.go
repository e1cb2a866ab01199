package sinktest

import (
	"fmt"
	"slices"
	"strings"
)

// A Strike is something that happens in a chaos run and that a sink must
// survive.
type Strike string

// What happens at the source.
const (
	Inserts        Strike = "insert"
	Reinserts      Strike = "insert of a deleted key"
	Updates        Strike = "update"
	Deletes        Strike = "delete"
	KeyChanges     Strike = "key change"
	Nulls          Strike = "null"
	PartialRows    Strike = "partial row"
	Loads          Strike = "loaded row"
	Reloads        Strike = "reload with a floor"
	ColumnsAdded   Strike = "column added"
	BadRows        Strike = "row that must be rejected"
	SentTwice      Strike = "change sent twice"
	SentAgainLater Strike = "old change sent again"
)

// What happens on the way.
const (
	OutOfOrder       Strike = "change out of order"
	Redelivered      Strike = "record delivered twice"
	StaleRedelivery  Strike = "record delivered again after its commit"
	LateChange       Strike = "change after the commit of a newer one of its key"
	LateAfterDelete  Strike = "change after the commit of a later delete of its key"
	HeldBack         Strike = "record that comes after all, much later"
	Rewinds          Strike = "source that starts from the beginning again"
	BatchSplit       Strike = "batch split after an error"
	BatchMerged      Strike = "batch merged with the next after an error"
	BatchPostponed   Strike = "batch postponed after an error"
	Superseded       Strike = "superseded row"
	Collapsed        Strike = "collapsed row"
	Skipped          Strike = "skipped row"
	RejectedTooOld   Strike = "row older than the horizon"
	MovedByEvolution Strike = "column added to a table with rows"
)

// What happens to the writer and its lake.
const (
	CrashBetween      Strike = "crash between calls"
	CrashBefore       Strike = "crash before a commit"
	CrashMidway       Strike = "crash between write and commit"
	CrashAfter        Strike = "crash after a commit"
	CrashReading      Strike = "crash while reading"
	Cancelled         Strike = "call cancelled"
	Conflict          Strike = "commit conflict"
	RivalCommit       Strike = "commit of somebody else"
	AmbiguousHappened Strike = "ambiguous result of a commit that happened"
	AmbiguousNot      Strike = "ambiguous result of a commit that did not happen"
	IndexSpilled      Strike = "index of keys on disk"
	IndexTakenOver    Strike = "index of keys taken over from an earlier run"
	IndexRebuilt      Strike = "index of keys on disk built anew"
	Ahead             Strike = "files written ahead of their commit"
	NotAhead          Strike = "files not written ahead of their commit, by an error"
	StorageByName     Strike = "storage error by name"
	StorageAfterN     Strike = "storage error after n operations"
	ReadError         Strike = "read error"
	ZombieFenced      Strike = "paused writer that was fenced"
	ZombieLanded      Strike = "paused writer that came first"
	ZombieOvertook    Strike = "paused writer that came first while another opened"
	ZombieBetween     Strike = "paused writer that came first while another wrote a commit"
)

// What maintenance does to the tables of a lake of files.
const (
	Compacted      Strike = "files compacted"
	DeletesCarried Strike = "deletes carried over to older files by a compaction"
	DeletedRemoved Strike = "deleted rows taken out by a compaction"
	Expired        Strike = "snapshots expired"
)

// Strikes lists those that every lake must survive.
func Strikes() []Strike {
	return []Strike{
		Inserts, Reinserts, Updates, Deletes, KeyChanges, Nulls, PartialRows, Loads, Reloads, ColumnsAdded, BadRows, SentTwice, SentAgainLater,
		OutOfOrder, Redelivered, StaleRedelivery, LateChange, LateAfterDelete, HeldBack, Rewinds, BatchSplit, BatchMerged, BatchPostponed,
		Superseded, Collapsed, Skipped, RejectedTooOld, MovedByEvolution,
		CrashBetween, CrashBefore, CrashMidway, CrashAfter, CrashReading, Cancelled, Conflict, RivalCommit, AmbiguousHappened, AmbiguousNot, IndexSpilled, IndexTakenOver, IndexRebuilt,
		Ahead, NotAhead, StorageByName, StorageAfterN, ReadError, ZombieFenced, ZombieLanded, ZombieOvertook, ZombieBetween,
	}
}

// A Tally counts strikes.
type Tally map[Strike]int

// Add adds what another run has counted.
func (t Tally) Add(other Tally) {
	for s, n := range other {
		t[s] += n
	}
}

// Missing returns which of the strikes have never happened.
func (t Tally) Missing(strikes []Strike) []Strike {
	return slices.DeleteFunc(slices.Clone(strikes), func(s Strike) bool { return t[s] > 0 })
}

// Text renders a line for each of the strikes.
func (t Tally) Text(strikes []Strike) string {
	var b strings.Builder
	for _, s := range strikes {
		fmt.Fprintf(&b, "%9d  %s\n", t[s], s)
	}
	return b.String()
}
