package iceberg_test

import (
	"bytes"
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
	path := func(location string) string { return strings.TrimPrefix(location, "file://") }
	for _, s := range current.Metadata().Snapshots() {
		lists = append(lists, path(s.ManifestList))
	}
	manifests, err := current.CurrentSnapshot().Manifests(fs)
	if err != nil {
		w.t.Fatal(err)
	}
	var newest [2]int64
	for _, m := range manifests {
		switch kind := m.ManifestContent(); {
		case m.SequenceNum() <= newest[kind]:
		case kind == iceberglib.ManifestContentData:
			newest[kind], data = m.SequenceNum(), path(m.FilePath())
		default:
			newest[kind], deletes = m.SequenceNum(), path(m.FilePath())
		}
	}
	return lists, data, deletes
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
