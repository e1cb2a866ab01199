package iceberg_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"icehose/sink/iceberg"
)

// A snapshot stays for the age from when another took its place, not from when
// it came; the newest stay whatever their age; and there is an end to it.
func TestRetention(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "mirror", "", "")
	for range 6 {
		w.commit(3, 20)
		for last := clock().UnixMilli(); clock().UnixMilli() == last; { // snapshots have a time of their own
		}
	}
	came, err := w.store.Snapshots(t.Context(), w.def)
	if err != nil || len(came) != 6 {
		t.Fatal(came, err)
	}
	late := came[5].Add(1000 * time.Hour)
	for name, c := range map[string]struct {
		retention  iceberg.Retention
		now        time.Time
		keep, gone int
	}{
		"all are young":                    {iceberg.Retention{}, came[5].Add(time.Minute), 20, 0},
		"none is, but the newest":          {iceberg.Retention{KeepSnapshots: 1}, late, 1, 5},
		"others are old":                   {iceberg.Retention{KeepSnapshots: 1, SnapshotAge: time.Minute}, came[3].Add(time.Minute), 4, 2},
		"a little later":                   {iceberg.Retention{KeepSnapshots: 1, SnapshotAge: time.Minute}, came[3].Add(time.Minute + time.Millisecond), 3, 3},
		"age is nothing":                   {iceberg.Retention{KeepSnapshots: 2, SnapshotAge: -1}, came[5], 2, 4},
		"too many":                         {iceberg.Retention{KeepSnapshots: 1, MaxSnapshots: 3}, came[5], 3, 3},
		"more than usual may be many":      {iceberg.Retention{KeepSnapshots: 2000}, late, 2000, 0},
		"the default keeps twenty of them": {iceberg.Retention{}, late, 20, 0},
	} {
		if keep, gone, err := w.store.Expiry(t.Context(), w.def, c.retention, c.now); err != nil || keep != c.keep || gone != c.gone {
			t.Errorf("%s: %d stay and %d go, want %d and %d (%v)", name, keep, gone, c.keep, c.gone, err)
		}
	}
	for property, value := range map[string]string{"history.expire.min-snapshots-to-keep": "3", "history.expire.max-snapshot-age-ms": "60000"} {
		if err := w.store.SetProperty(t.Context(), w.def, property, value); err != nil {
			t.Fatal(err)
		}
	}
	if keep, _, err := w.store.Expiry(t.Context(), w.def, iceberg.Retention{}, late); err != nil || keep != 3 {
		t.Errorf("%d stay, the table's properties say 3 (%v)", keep, err)
	}
	if keep, _, err := w.store.Expiry(t.Context(), w.def, iceberg.Retention{}, came[3].Add(time.Minute)); err != nil || keep != 4 {
		t.Errorf("%d stay, by the age in the table's properties 4 do (%v)", keep, err)
	}
	report := w.maintain(iceberg.Maintenance{SkipCompact: true, SkipOrphans: true, Retention: iceberg.Retention{KeepSnapshots: 4, SnapshotAge: -1}})
	if report.ExpiredSnapshots != 2 || report.After.Snapshots != 4 {
		t.Errorf("%+v", report)
	}
	w.check("after the expiry")
}

// The commits of a sink expire what the retention says, nothing else, and merge
// manifests meanwhile: a reader of an hour finds its snapshot.
func TestCommitsExpireByRetention(t *testing.T) {
	t.Parallel()
	const commits = 100
	for name, c := range map[string]struct {
		retention   iceberg.Retention
		least, most int // snapshots in the end
	}{
		"by default": {iceberg.Retention{}, commits, commits + 3},
		"for no age": {iceberg.Retention{KeepSnapshots: 5, SnapshotAge: -1}, 5, 50},
		"at most":    {iceberg.Retention{MaxSnapshots: 30}, 30, 75},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := iceberg.Open(t.Context(), t.TempDir(), iceberg.Options{Sync: func(*os.File) error { return nil }, Retention: c.retention})
			if err != nil {
				t.Fatal(err)
			}
			w := newWorkloadIn(t, store, "changelog", "", "")
			for range commits {
				w.commit(1, 20)
			}
			layout, err := store.Layout(t.Context(), w.def)
			if err != nil {
				t.Fatal(err)
			}
			if layout.Snapshots < c.least || layout.Snapshots > c.most || layout.Manifests > 50 {
				t.Errorf("%+v, want %d to %d snapshots and no more than 50 manifests", layout, c.least, c.most)
			}
			w.check("in the end")
		})
	}
}

// Keeping less than the least is refused, with what is wrong.
func TestRetentionCheck(t *testing.T) {
	t.Parallel()
	for _, bad := range []iceberg.Retention{{KeepSnapshots: -1}, {MaxSnapshots: -1}, {KeepSnapshots: 10, MaxSnapshots: 9}} {
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), "want ") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := (iceberg.Retention{SnapshotAge: -1, KeepSnapshots: 9, MaxSnapshots: 9}).Check(); err != nil {
		t.Error(err)
	}
}
