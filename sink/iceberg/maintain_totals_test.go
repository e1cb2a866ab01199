package iceberg_test

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"

	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// wrongTotals commits a snapshot of the same files whose summary says more, as an
// engine may do that counts wrongly.
func (w *workload) wrongTotals(more int) {
	w.t.Helper()
	current, _ := w.manifests()
	head := current.CurrentSnapshot()
	content, err := os.ReadFile(onDisk(head.ManifestList))
	if err != nil {
		w.t.Fatal(err)
	}
	s := *head
	s.SnapshotID, s.ParentSnapshotID = head.SnapshotID/2+1, &head.SnapshotID
	s.SequenceNumber, s.TimestampMs = current.Metadata().LastSequenceNumber()+1, head.TimestampMs+1
	s.ManifestList = strings.TrimSuffix(head.ManifestList, ".avro") + "-theirs.avro"
	w.write(onDisk(s.ManifestList), content)
	properties := maps.Clone(head.Summary.Properties)
	maps.DeleteFunc(properties, func(name, _ string) bool { return strings.HasPrefix(name, "icehose.") })
	for _, name := range []string{"total-data-files", "total-delete-files", "total-records"} {
		n, err := strconv.Atoi(properties[name])
		if err != nil {
			w.t.Fatal(err)
		}
		properties[name] = strconv.Itoa(n + more)
	}
	s.Summary = &table.Summary{Operation: table.OpAppend, Properties: properties}
	tables, err := lakeTables(w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	catalog, ok := tables.(interface {
		CommitTable(ctx context.Context, id table.Identifier, requirements []table.Requirement, updates []table.Update) (table.Metadata, string, error)
	})
	if !ok {
		w.t.Fatalf("%T takes no commits", tables)
	}
	updates := []table.Update{table.NewAddSnapshotUpdate(&s), table.NewSetSnapshotRefUpdate(table.MainBranch, s.SnapshotID, table.BranchRef, -1, -1, -1)}
	if _, _, err := catalog.CommitTable(w.t.Context(), current.Identifier(), nil, updates); err != nil {
		w.t.Fatal(err)
	}
}

// Where another engine has written too high totals, those of ours after it are too
// high too. That is no damage, for as long as nothing lacks more.
func TestMaintainAfterWrongTotals(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "mirror", "", "")
	for range 3 {
		w.commit(10, 40)
	}
	w.wrongTotals(7)
	keep := small
	keep.SkipExpire, keep.MinFiles, keep.DeleteFiles = true, 100, 100
	w.maintain(keep) // theirs is the newest
	for range 3 {
		w.commit(10, 40)
	}
	w.maintain(keep)
	w.cutNewest("after theirs")
	for n := range 9 { // theirs goes too
		w.commit(10, 40)
		if report := w.maintain(small); n == 8 && (report.ExpiredSnapshots == 0 || report.After.DataFiles > 8) {
			t.Errorf("maintained: %+v", report)
		}
	}
	w.cutNewest("when theirs has gone")
	w.check("in the end")
}

// cutNewest cuts the newest manifest list, which maintenance must notice, and
// restores it.
func (w *workload) cutNewest(when string) {
	w.t.Helper()
	lists, _, _ := w.named()
	newest := lists[len(lists)-1]
	whole := w.cut(newest)
	if _, err := w.store.Maintain(w.t.Context(), w.def, small); err == nil || !strings.Contains(err.Error(), newest+" is damaged: it names 0 files") {
		w.t.Errorf("%s: a list was cut, maintained: %v", when, err)
	}
	w.write(newest, whole)
}

// A list of another engine that was cut is found, if the engine counted right: by
// maintenance, and by a sink before it goes on.
func TestMaintainAfterTheirsWasCut(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "mirror", "", "")
	for range 3 {
		w.commit(10, 40)
	}
	w.appendAsOthers()
	lists, _, _ := w.named()
	theirs := lists[len(lists)-1]
	whole := w.cut(theirs)
	w.deliver(1, cdc.Update)
	w.wantDamaged(w.sink.Flush(t.Context()), theirs, "while a sink ran")
	_, err := sink.Open(t.Context(), w.p, w.store, sink.Options{})
	w.wantDamaged(err, theirs, "before a sink")
	if _, err := w.store.Maintain(t.Context(), w.def, small); err == nil || !strings.Contains(err.Error(), theirs+" is damaged: it names 0 files") {
		t.Errorf("maintained: %v", err)
	}
	w.write(theirs, whole)
	w.open()
	w.deliver(1, cdc.Update)
	w.flush()
}

// The oldest snapshot of a line has nothing before it to compare with: the one
// after it shows that its list was cut, and of an only one its totals do.
func TestMaintainFirstWasCut(t *testing.T) {
	t.Parallel()
	for _, keep := range []int{1, 3} {
		w := newWorkload(t, "mirror", "", "")
		for range 6 {
			w.commit(10, 40)
		}
		m := iceberg.Maintenance{SkipCompact: true, Retention: iceberg.Retention{KeepSnapshots: keep, SnapshotAge: -1}}
		w.maintain(m)
		lists, _, _ := w.named()
		if len(lists) != keep {
			t.Fatalf("%d snapshots, want %d", len(lists), keep)
		}
		whole := w.cut(lists[0])
		if _, err := w.store.Maintain(t.Context(), w.def, m); err == nil || !strings.Contains(err.Error(), lists[0]+" is damaged: it names 0 files") {
			t.Errorf("%d snapshots: maintained: %v", keep, err)
		}
		w.write(lists[0], whole)
		w.maintain(m)
		w.check("after it was restored")
	}
}

// A list need not say how many files its manifests name: then they are read.
func TestMaintainWithoutNumbers(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "mirror", "", "")
	for range 6 {
		w.commit(10, 40)
	}
	current, manifests := w.manifests()
	for i, m := range manifests {
		manifests[i] = iceberglib.NewManifestFile(2, m.FilePath(), m.Length(), m.PartitionSpecID(), m.SnapshotID()).Content(m.ManifestContent()).
			SequenceNum(m.SequenceNum(), m.MinSequenceNum()).AddedFiles(-1).ExistingFiles(-1).DeletedFiles(-1).Build()
	}
	head := current.CurrentSnapshot()
	var list bytes.Buffer
	if err := iceberglib.WriteManifestList(2, &list, head.SnapshotID, head.ParentSnapshotID, &head.SequenceNumber, 0, manifests); err != nil {
		t.Fatal(err)
	}
	w.write(onDisk(head.ManifestList), list.Bytes())
	if report := w.maintain(small); len(report.Rewrites) == 0 || report.ExpiredSnapshots == 0 {
		t.Errorf("maintained: %+v", report)
	}
	w.check("after maintenance")
}

// Whatever totals another engine has written, maintenance in a sink is due when
// files have come, and not before.
func TestMaintainerCountsAnew(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	store, err := iceberg.Open(t.Context(), t.TempDir(), iceberg.Options{Sync: func(*os.File) error { return nil }, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorkloadIn(t, store, "changelog", "", "")
	m := small
	m.Every, m.Retention = 4, iceberg.Retention{}
	keeper, err := w.store.NewMaintainer(w.p.Tables, m)
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []int{0, 1000, -1000} {
		if more != 0 {
			w.commit(1, 20)
			w.wrongTotals(more)
			if err := keeper.Run(t.Context()); err != nil { // sees another total
				t.Fatal(err)
			}
		}
		log.Reset()
		for range 12 {
			w.commit(1, 20)
			if err := keeper.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if runs := strings.Count(log.String(), "table maintained"); runs < 2 || runs > 4 {
			t.Errorf("totals off by %d: maintained %d times in 12 commits, each fourth is due", more, runs)
		}
	}
	w.check("in the end")
}
