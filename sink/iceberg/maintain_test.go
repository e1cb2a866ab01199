package iceberg_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/google/go-cmp/cmp"

	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

func TestMaintainKeepsRows(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ mode, partition, readers string }{
		"mirror":                {mode: "mirror"},
		"mirror, partitioned":   {mode: "mirror", partition: `part, "bucket(2, id)"`},
		"mirror, copy on write": {mode: "mirror", readers: "duckdb"},
		"changelog":             {mode: "changelog"},
		"changelog by day":      {mode: "changelog", partition: "day(cdc_committed_at)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, test.mode, test.partition, test.readers)
			rewrites := 0
			for n := range 45 {
				w.commit(12, 60)
				if n%9 != 8 {
					continue
				}
				report := w.maintain(small)
				rewrites += len(report.Rewrites)
				w.check(fmt.Sprintf("after commit %d", n))
				if n == 26 {
					w.open() // the index is built from what maintenance left
				}
			}
			after := w.maintain(small).After
			if rewrites == 0 && test.readers == "" || after.DataFiles > 30 || after.DeleteFiles > 30 || after.Snapshots > 3 {
				t.Errorf("%d rewrites, %+v", rewrites, after)
			}
			for _, s := range w.sink.Stats() {
				if s.Rejected != 0 {
					t.Errorf("%d rows rejected", s.Rejected)
				}
			}
		})
	}
}

// Once another engine has partitioned a table anew, its deletes act across
// partitions until everything of the former way is written anew.
func TestMaintainAfterRepartition(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int64{"at once": 0, "in parts": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, "mirror", "", "")
			w.base(0, baseRows/2)
			w.base(baseRows/2, baseRows)
			for range 6 {
				w.commit(10, baseRows)
			}
			if err := w.store.Repartition(t.Context(), w.def, "id", 2); err != nil {
				t.Fatal(err)
			}
			settings := small
			settings.MaxRewrite = limit
			if report := w.maintain(settings); report.After.DeleteFiles != 0 || report.After.DataFiles < 2 || len(report.Rewrites) == 0 {
				t.Errorf("%+v after %+v", report.After, report.Rewrites)
			}
			w.p = sinktest.Pipeline(t, fmt.Sprintf(maintainTables, "mirror", `"bucket(2, id)"`, ""))
			w.def = w.p.ByTarget("lake", "item")
			w.open()
			w.check("after the rewrite")
			for range 6 {
				w.commit(10, baseRows)
			}
			w.maintain(settings)
			w.check("after more changes")
		})
	}
}

// maintainSeeds is how many seeds TestMaintainAtRandom runs.
var maintainSeeds = flag.Int("maintain-seeds", 2, "seeds of TestMaintainAtRandom")

// Whatever is due when, the rows stay. Each seed has thresholds of its own, so
// that every kind of rewrite comes behind every other.
func TestMaintainAtRandom(t *testing.T) {
	t.Parallel()
	seen := make(map[iceberg.RewriteReason]int)
	for seed := range *maintainSeeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			for why, n := range maintainAtRandom(t, uint64(seed)) {
				seen[why] += n
			}
		})
	}
	if seen[iceberg.SmallFiles] == 0 || seen[iceberg.DeletedRows] == 0 {
		t.Errorf("rewrites by reason: %v", seen)
	}
}

func maintainAtRandom(t *testing.T, seed uint64) map[iceberg.RewriteReason]int {
	t.Helper()
	w := newWorkload(t, "mirror", []string{"", `"bucket(3, id)"`}[seed%2], "")
	w.random = rand.New(rand.NewPCG(seed, 77))
	seen := make(map[iceberg.RewriteReason]int)
	keys := 50 + w.random.IntN(100)
	w.base(0, baseRows)
	for n := range 6 {
		switch {
		case n == 3:
			w.base(baseRows, baseRows+baseRows/2)
		case w.random.IntN(6) == 0:
			w.open()
		}
		for range 1 + w.random.IntN(6) {
			w.commit(1+w.random.IntN(30), []int{keys, 2 * baseRows}[w.random.IntN(2)])
		}
		for why, n := range w.reasons(w.maintain(iceberg.Maintenance{
			TargetFileSize: 1 << 20, MinFiles: 2 + w.random.IntN(5), DeleteFiles: 1 + w.random.IntN(5), DeleteRatio: []float64{0.01, 0.1, 1}[w.random.IntN(3)],
			MaxRewrite: 1 << (20 + w.random.IntN(3)), Retention: iceberg.Retention{KeepSnapshots: 1 + w.random.IntN(5), SnapshotAge: -1},
		})) {
			seen[why] += n
		}
		w.check("after maintenance")
	}
	return seen
}

// Large old files stay as they are while few of their rows are deleted: the
// deletes of many commits become one.
func TestMaintainSparesLargeFiles(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "mirror", "", "")
	w.base(0, baseRows)
	base := w.maintain(small).After
	if base.DataFiles != 1 || base.Bytes < 800<<10 {
		t.Fatalf("the table is not one large file: %+v", base)
	}
	for range 3 {
		for range 6 {
			w.commit(20, 100) // a key is updated again and again
			w.commit(20, baseRows+50)
		}
		report := w.maintain(small)
		if diff := cmp.Diff(map[iceberg.RewriteReason]int{iceberg.SmallFiles: 1}, w.reasons(report)); diff != "" {
			t.Fatalf("rewrites (-want +got):\n%s", diff)
		}
		if report.After.DataFiles != 2 || report.After.DeleteFiles != 1 || report.Rewrites[0].Bytes > base.Bytes/4 {
			t.Fatalf("%+v after %+v", report.After, report.Rewrites)
		}
		w.check("after the deletes were put together")
	}
	w.open()
	w.commit(50, baseRows)
	w.check("after a restart")

	settings := small
	settings.DeleteRatio = 0.001
	report := w.maintain(settings)
	if report.After.DeleteFiles != 0 || report.After.DeleteRecords != 0 || report.After.Rows != int64(len(w.current)) || w.reasons(report)[iceberg.DeletedRows] != 1 {
		t.Errorf("%+v after %+v, %d rows", report.After, report.Rewrites, len(w.current))
	}
	w.check("after the deleted rows were taken out")
}

// A compaction that carries deletes over makes two snapshots: a reader of either
// finds the rows.
func TestMaintainEverySnapshot(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "mirror", "", "")
	w.base(0, baseRows)
	for range 6 {
		w.commit(20, 100)
		w.commit(20, 2*baseRows) // half of them are new
	}
	settings := small
	settings.SkipExpire = true
	report := w.maintain(settings)
	if len(report.Rewrites) == 0 || !report.Rewrites[len(report.Rewrites)-1].Carried {
		t.Fatalf("no deletes were carried over: %+v", report.Rewrites)
	}
	state, err := w.store.Tables().Tables.LoadTable(t.Context(), table.Identifier{"lake", "item"})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for key, v := range w.current {
		want = append(want, key+"="+v)
	}
	slices.Sort(want)
	compacted := 0
	for _, snapshot := range state.Metadata().Snapshots() {
		id := snapshot.SnapshotID
		if snapshot.Summary.Properties[sink.PropertyPrefix+"maintenance-id"] == "" {
			continue
		}
		compacted++
		_, rows, err := readState(t.Context(), state, id, w.def)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]string, len(rows))
		for i, row := range rows {
			got[i] = row[0] + "/" + row[1] + "=" + row[2]
		}
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Errorf("snapshot %d has %d rows, want %d", id, len(got), len(want))
		}
	}
	if compacted < 2 {
		t.Errorf("%d snapshots of the compaction are there", compacted)
	}
}

// A rewrite may stop in the middle of the old files: the deletes go on acting
// on the others.
func TestMaintainInParts(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "mirror", "", "")
	for part := range 3 {
		w.base(part*baseRows, (part+1)*baseRows)
	}
	w.commit(1000, 3*baseRows)
	settings := small
	settings.MaxRewrite, settings.DeleteRatio = 1<<20, 0.01 // one file at a time
	report := w.maintain(settings)
	if w.reasons(report)[iceberg.DeletedRows] < 3 || report.After.DeleteFiles != 0 || report.After.Rows != int64(len(w.current)) {
		t.Errorf("%+v after %+v", report.After, report.Rewrites)
	}
	w.check("after the rewrites")
}

func TestMaintainPlan(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "mirror", "", "")
	for range 12 {
		w.commit(10, 40)
	}
	before, settings := w.files(), small
	settings.Plan = true
	report := w.maintain(settings)
	if diff := cmp.Diff(before, w.files()); diff != "" {
		t.Errorf("a plan changed files:\n%s", diff)
	}
	if !report.Planned || report.After != nil || len(report.Rewrites) == 0 || report.ExpiredSnapshots != 9 {
		t.Errorf("plan %+v", report)
	}
	for name, bad := range map[string]iceberg.Maintenance{
		"orphan age":  {OrphanAge: 23 * time.Hour},
		"snapshots":   {Retention: iceberg.Retention{KeepSnapshots: 11, MaxSnapshots: 10}},
		"ratio":       {DeleteRatio: 1.5},
		"target":      {TargetFileSize: 10},
		"max rewrite": {MaxRewrite: 1 << 20},
		"files":       {MinFiles: 1},
	} {
		if _, err := w.store.Maintain(t.Context(), w.def, bad); err == nil || !strings.HasPrefix(err.Error(), "maintain table lake.item: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// With maintenance on, a table does not grow with the number of its commits.
func TestMaintainerBounds(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "mirror", "", "")
	keeper, err := w.store.NewMaintainer(w.p.Tables, small)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 120 {
		w.commit(5, 200)
		if err := keeper.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		layout, err := w.store.Layout(t.Context(), w.def)
		if err != nil {
			t.Fatal(err)
		}
		if layout.DataFiles+layout.DeleteFiles > 30 || layout.Manifests > 40 || layout.Snapshots > 80 {
			t.Fatalf("after commit %d: %+v", n, layout)
		}
	}
	w.check("after 120 commits")
	if files := len(w.files()); files > 400 {
		t.Errorf("%d files on the disk", files)
	}
}
