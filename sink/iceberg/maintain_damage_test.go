package iceberg_test

import (
	"bytes"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/go-cmp/cmp"

	"icehose/sink/iceberg"
)

// named returns where the manifest lists of the snapshots of the table lie, the
// oldest first, and the newest manifests of data and of deletes.
func (w *workload) named() (lists []string, data, deletes string) {
	w.t.Helper()
	current, manifests := w.manifests()
	for _, s := range current.Metadata().Snapshots() {
		lists = append(lists, onDisk(s.ManifestList))
	}
	var newest [2]int64
	for _, m := range manifests {
		switch kind := m.ManifestContent(); {
		case m.SequenceNum() <= newest[kind]:
		case kind == iceberglib.ManifestContentData:
			newest[kind], data = m.SequenceNum(), onDisk(m.FilePath())
		default:
			newest[kind], deletes = m.SequenceNum(), onDisk(m.FilePath())
		}
	}
	return lists, data, deletes
}

func onDisk(location string) string { return strings.TrimPrefix(location, "file://") }

// manifests returns the table and the manifests of its newest snapshot.
func (w *workload) manifests() (*table.Table, []iceberglib.ManifestFile) {
	w.t.Helper()
	tables, err := lakeTables(w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	current, err := tables.LoadTable(w.t.Context(), table.Identifier{"lake", "item"})
	if err != nil {
		w.t.Fatal(err)
	}
	fs, err := current.FS(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	manifests, err := current.CurrentSnapshot().Manifests(fs)
	if err != nil {
		w.t.Fatal(err)
	}
	return current, manifests
}

// cut cuts an Avro file behind its header, where the first block would begin,
// and returns what it held.
func (w *workload) cut(path string) []byte {
	w.t.Helper()
	whole, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	marker := whole[len(whole)-16:]
	end := bytes.Index(whole, marker) + len(marker)
	if end >= len(whole) {
		w.t.Fatalf("%s has no block", path)
	}
	w.write(path, whole[:end])
	return whole
}

func (w *workload) write(path string, content []byte) {
	w.t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		w.t.Fatal(err)
	}
	then := clock().Add(-100 * time.Hour)
	if err := os.Chtimes(path, then, then); err != nil {
		w.t.Fatal(err)
	}
}

// A manifest or a manifest list that was cut between two blocks reads like a
// shorter one. Maintenance would make the loss final, and take files that are
// in use for orphans: it does nothing until what is lost is back.
func TestMaintainDamaged(t *testing.T) {
	t.Parallel()
	only := func(compact, expire, orphans bool) iceberg.Maintenance {
		m := small
		m.SkipCompact, m.SkipExpire, m.SkipOrphans = !compact, !expire, !orphans
		return m
	}
	newest := func(lists []string, _, _ string) string { return lists[len(lists)-1] }
	older := func(lists []string, _, _ string) string { return lists[len(lists)-3] }
	for name, c := range map[string]struct {
		m    iceberg.Maintenance
		cut  func(lists []string, data, deletes string) string
		want string
	}{
		"data manifest":                     {small, func(_ []string, data, _ string) string { return data }, "it has 0 of "},
		"delete manifest":                   {small, func(_ []string, _, deletes string) string { return deletes }, "it has 0 of "},
		"manifest list":                     {small, newest, "it names 0 files"},
		"manifest list of another, orphans": {only(false, false, true), older, "look for orphans: manifest list "},
		"manifest list of another, expiry":  {only(false, true, false), older, "expire snapshots: manifest list "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, "mirror", "", "")
			for range 9 {
				w.commit(10, 40)
			}
			w.age(100 * time.Hour)
			path := c.cut(w.named())
			whole := w.cut(path)
			before := w.files()
			_, err := w.store.Maintain(t.Context(), w.def, c.m)
			if err == nil || !strings.Contains(err.Error(), " is damaged: ") || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Fatalf("maintained: %v, want one with %q", err, c.want)
			}
			oneLine(t, err)
			after := w.files()
			if gone := slices.DeleteFunc(before, func(path string) bool { return slices.Contains(after, path) }); len(gone) > 0 {
				t.Errorf("removed: %s", gone)
			}
			w.write(path, whole)
			w.check("after it was restored")
			report := w.maintain(small)
			if len(report.Rewrites) == 0 || report.ExpiredSnapshots == 0 {
				t.Errorf("maintained: %+v", report)
			}
			if diff := cmp.Diff([]iceberg.Leftover{}, report.Orphans); diff != "" {
				t.Errorf("orphans (-want +got):\n%s", diff)
			}
			w.check("after maintenance")
			w.commit(10, 40)
			w.check("after the sink went on")
		})
	}
}

// The commits of a sink expire snapshots too. Where a manifest that stays, or a
// list, was cut they do not, since files that only those name would go with the
// older snapshots; once it is restored they do.
func TestCommitsExpireDamaged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cut  func(w *workload) string
		want string
	}{
		"merged manifest": {func(w *workload) string {
			_, manifests := w.manifests()
			for _, m := range manifests {
				if m.ExistingDataFiles() > 1 && m.ManifestContent() == iceberglib.ManifestContentData {
					return onDisk(m.FilePath())
				}
			}
			w.t.Fatal("no manifests were merged")
			return ""
		}, "it has 0 of "},
		"manifest list": {func(w *workload) string {
			lists, _, _ := w.named()
			return lists[len(lists)-2] // no commit is made on top of it
		}, "it names 0 files"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			store, err := iceberg.Open(t.Context(), t.TempDir(), iceberg.Options{
				Sync: func(*os.File) error { return nil }, Retention: iceberg.Retention{KeepSnapshots: 8, SnapshotAge: -1}, Log: slog.New(slog.NewTextHandler(&log, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			w := newWorkloadIn(t, store, "changelog", "", "")
			for range 47 { // the 44th merges manifests, the 51st expires snapshots
				w.commit(1, 20)
			}
			if log.Len() > 0 {
				t.Fatalf("too early: %s", log.String())
			}
			path := c.cut(w)
			whole := w.cut(path)
			before := w.files()
			for range 5 {
				w.commit(1, 20)
			}
			if !strings.Contains(log.String(), "table maintenance failed") || !strings.Contains(log.String(), c.want) || !strings.Contains(log.String(), path) {
				t.Errorf("log: %s, want one with %q", log.String(), c.want)
			}
			after := w.files()
			gone := slices.DeleteFunc(before, func(path string) bool {
				return slices.Contains(after, path) || strings.HasSuffix(path, ".metadata.json") // of which each commit removes the oldest
			})
			if len(gone) > 0 {
				t.Errorf("removed: %s", gone)
			}
			w.write(path, whole)
			for range 5 {
				w.commit(1, 20)
			}
			if !strings.Contains(log.String(), "snapshots expired") {
				t.Error("no snapshots were expired after it was restored")
			}
			w.check("after it was restored")
		})
	}
}

// A snapshot that is to go may be damaged: what it does not tell any more stays,
// as orphans.
func TestExpireTheDamaged(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(lists []string, data string) string{
		"manifest list": func(lists []string, _ string) string { return lists[len(lists)-1] },
		"manifest":      func(_ []string, data string) string { return data },
		"no manifest":   func(_ []string, data string) string { return data },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, "mirror", "", "")
			for range 5 {
				w.commit(10, 40)
			}
			lists, data, _ := w.named()
			keep := small
			keep.SkipExpire = true
			w.maintain(keep)
			for range 3 { // what is newest then has other files
				w.commit(10, 40)
			}
			w.cut(cut(lists, data))
			if name == "no manifest" {
				if err := os.Remove(data); err != nil {
					t.Fatal(err)
				}
			}
			report := w.maintain(iceberg.Maintenance{SkipCompact: true, Retention: fewSnapshots})
			if report.ExpiredSnapshots < 5 || report.After.Snapshots != 3 {
				t.Errorf("maintained: %+v", report)
			}
			if _, err := os.Stat(lists[0]); !os.IsNotExist(err) {
				t.Errorf("the list of a snapshot that went: %v", err)
			}
			w.check("after the expiry")
			w.age(100 * time.Hour)
			if report = w.maintain(small); len(report.Orphans) == 0 {
				t.Error("what the damaged file named is not found")
			}
			w.check("after the orphans went")
		})
	}
}

// A manifest that was cut does not make the newest change look older.
func TestNewestCommitDamaged(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, "changelog", "", "")
	w.commit(3, 20)
	current, _ := w.manifests()
	id := current.CurrentSnapshot().SnapshotID
	if newest, err := w.store.NewestCommit(t.Context(), w.def, id); err != nil || newest.IsZero() {
		t.Fatal(newest, err)
	}
	_, data, _ := w.named()
	w.cut(data)
	if newest, err := w.store.NewestCommit(t.Context(), w.def, id); err == nil || !strings.Contains(err.Error(), "is damaged: it has 0 of ") {
		t.Errorf("%s, %v", newest, err)
	}
}
