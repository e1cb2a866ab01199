package iceberg

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"time"

	"github.com/apache/iceberg-go/table"
)

// A Retention says which snapshots of a table stay. What is zero is as the
// table's own history.expire properties say, and else the default.
//
// A reader of a snapshot that has gone, and whoever wants to go back to it,
// finds its files gone too.
type Retention struct {
	// KeepSnapshots is how many of the newest stay whatever their age; default 20.
	KeepSnapshots int
	// SnapshotAge is for how long a snapshot stays after another has taken its
	// place; default one hour. Less than 0 is for no time.
	SnapshotAge time.Duration
	// MaxSnapshots is how many stay at most: beyond it the oldest go, however
	// young, since each makes every commit dearer. Default 100, or
	// KeepSnapshots if that is more; none where an age is given.
	MaxSnapshots int
}

// KeepAll returns the retention of commits that expire nothing: what stays is
// for whoever writes the table all the time to say.
func KeepAll() Retention {
	return Retention{KeepSnapshots: math.MaxInt, MaxSnapshots: math.MaxInt}
}

const (
	keepSnapshots = 20
	snapshotAge   = time.Hour
	maxSnapshots  = 100
)

// Check reports what is wrong with the settings.
func (r Retention) Check() error {
	if r.KeepSnapshots < 0 || r.MaxSnapshots < 0 {
		return errors.New("snapshots to keep, and at most: want 1 or more")
	}
	if r.MaxSnapshots > 0 && r.KeepSnapshots > r.MaxSnapshots {
		return errors.New("snapshots to keep: want no more than there may be at most")
	}
	return nil
}

// of fills in what is not set.
func (r Retention) of(t *table.Table) Retention {
	properties := t.Properties()
	if r.KeepSnapshots == 0 {
		r.KeepSnapshots = max(1, properties.GetInt(table.MinSnapshotsToKeepKey, keepSnapshots))
	}
	_, aged := properties[table.MaxSnapshotAgeMsKey]
	if aged = aged || r.SnapshotAge != 0; r.SnapshotAge == 0 {
		r.SnapshotAge = max(0, time.Duration(properties.GetInt64(table.MaxSnapshotAgeMsKey, snapshotAge.Milliseconds()))*time.Millisecond)
	}
	switch {
	case r.MaxSnapshots > 0:
	case aged:
		r.MaxSnapshots = math.MaxInt
	default:
		r.MaxSnapshots = max(maxSnapshots, r.KeepSnapshots)
	}
	return r
}

// now is the time by the clock that snapshots got theirs from.
func now() time.Time { return time.Now() } //nolint:forbidigo // the library and SQLite's driver ask no other

// An expiry is which snapshots of a table go.
type expiry struct {
	keep int           // of those from the newest on, the parent of each behind it
	age  time.Duration // at which others go: of no branch
	gone int           // how many of the former go
}

// lineOf returns the newest snapshot of a table, its parent, and so on.
func lineOf(t *table.Table) []table.Snapshot {
	head := t.CurrentSnapshot()
	if head == nil {
		return nil
	}
	return table.AncestorsOf(head.SnapshotID, t.SnapshotByID)
}

// expiry decides which snapshots stay: those that were the newest at some moment
// within the age. The oldest of them became it before.
func (r Retention) expiry(t *table.Table, now time.Time) expiry {
	r = r.of(t)
	e := expiry{keep: r.KeepSnapshots, age: max(0, r.SnapshotAge)}
	line := lineOf(t)
	if e.age > 0 {
		since := now.Add(-e.age).UnixMilli()
		young := slices.IndexFunc(line, func(s table.Snapshot) bool { return s.TimestampMs < since })
		if young++; young == 0 {
			young = len(line)
		}
		e.keep = max(e.keep, young)
	}
	if e.keep > r.MaxSnapshots {
		e.keep, e.age = r.MaxSnapshots, 0
	}
	named := make(map[int64]bool)
	for _, ref := range t.Metadata().Refs() {
		named[ref.SnapshotID] = true
	}
	for _, s := range line[min(e.keep, len(line)):] {
		if !named[s.SnapshotID] {
			e.gone++
		}
	}
	return e
}

// stage removes the snapshots in a transaction. Of the current line the number
// decides: the library takes the age of a snapshot from when it came. It leaves
// the files to expireSnapshots, since it would take a damaged manifest as it is.
func (e *expiry) stage(tx *table.Transaction) error {
	return tx.ExpireSnapshots(table.WithRetainLast(e.keep), table.WithOlderThan(e.age), table.WithPostCommit(false))
}

// expireSnapshots removes the snapshots that do not stay, with the files that
// only they have, and returns how many. Damage in what stays is noticed before
// anything is removed: a file that a lost entry named would look like one that
// nothing needs.
func expireSnapshots(ctx context.Context, current *table.Table, r Retention, now time.Time) (int, error) {
	e := r.expiry(current, now)
	before := len(current.Metadata().Snapshots())
	if e.keep >= before {
		return 0, nil
	}
	tx := current.NewTransaction()
	if err := e.stage(tx); err != nil {
		return 0, fmt.Errorf("expire snapshots: %w", err)
	}
	left, err := tx.StagedTable()
	if err != nil {
		return 0, fmt.Errorf("expire snapshots: %w", err)
	}
	files, err := unneeded(ctx, current, left.Table)
	if err != nil {
		return 0, fmt.Errorf("expire snapshots: %w", err)
	}
	expired, err := tx.Commit(ctx)
	if err != nil {
		return 0, fmt.Errorf("expire snapshots: %w", conflict(err))
	}
	gone := before - len(expired.Metadata().Snapshots())
	// A commit may have come in between: what it names stays.
	named, err := namedSince(ctx, left.Table, expired)
	if err == nil {
		err = removeUnneeded(ctx, expired, slices.DeleteFunc(files, func(file string) bool { return named[path.Base(file)] }))
	}
	if err != nil {
		return gone, fmt.Errorf("remove files of expired snapshots: %w", err)
	}
	return gone, nil
}

// unmerged returns how many snapshots ago manifests were merged, as far as is
// known.
func unmerged(t *table.Table) int {
	line := lineOf(t)
	merged := slices.IndexFunc(line, func(s table.Snapshot) bool {
		return s.Summary != nil && s.Summary.Properties["manifests-replaced"] != ""
	})
	if merged < 0 {
		return len(line)
	}
	return merged
}
