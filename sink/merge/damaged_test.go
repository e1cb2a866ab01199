package merge_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	iceberglib "github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
	"icehose/sink/iceberg"
	"icehose/sink/merge"
	"icehose/sink/merge/mergetest"
)

// load reads a table and the manifests of one of its snapshots, 0 for the newest.
func load(t testing.TB, store *iceberg.Store, def *catalog.Table, id int64) (*table.Snapshot, []iceberglib.ManifestFile) {
	t.Helper()
	current, err := store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier(def.Database(), def.Name()))
	if err != nil {
		t.Fatal(err)
	}
	s := current.CurrentSnapshot()
	if id != 0 {
		s = current.SnapshotByID(id)
	}
	fs, err := current.FS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := s.Manifests(fs)
	if err != nil {
		t.Fatal(err)
	}
	return s, manifests
}

// ownManifest returns where the manifest of data files lies that a snapshot has
// written, and in which it has removed some, or has not.
func ownManifest(t testing.TB, s *table.Snapshot, manifests []iceberglib.ManifestFile, removed bool) string {
	t.Helper()
	for _, m := range manifests {
		if m.SnapshotID() == s.SnapshotID && m.ManifestContent() == iceberglib.ManifestContentData && (m.DeletedDataFiles() > 0) == removed {
			return m.FilePath()
		}
	}
	t.Fatal("the snapshot has no such manifest")
	return ""
}

func onDisk(location string) string { return strings.TrimPrefix(location, "file://") }

// replace gives a file another content, and returns what restores it.
func replace(t testing.TB, location string, by func(whole []byte) []byte) (restore func()) {
	t.Helper()
	path := onDisk(location)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(by(whole))
	return func() { write(whole) }
}

// cut cuts an Avro file behind its header, where the first block would begin.
func cut(whole []byte) []byte {
	marker := whole[len(whole)-16:]
	return whole[:bytes.Index(whole, marker)+len(marker)]
}

// A manifest, or a list of them, that was cut reads like a shorter one: what it
// has lost would pass for merged, or be inserted again. A merge does nothing until
// it is restored, and then all of it.
func TestMergeDamaged(t *testing.T) {
	t.Parallel()
	def := pipeline(t, strings.Replace(mergetest.Pipeline, "    partition: [day(cdc_committed_at)]\n", "", 1)).ByTarget("d", "plain")
	for name, test := range map[string]struct {
		damage func(t *testing.T, store *iceberg.Store, compaction int64) (restore func())
		merged bool // what is left tells enough
	}{
		"manifest of new rows": {damage: func(t *testing.T, store *iceberg.Store, _ int64) func() {
			s, manifests := load(t, store, def, 0)
			return replace(t, ownManifest(t, s, manifests, false), cut)
		}},
		"manifest list": {damage: func(t *testing.T, store *iceberg.Store, _ int64) func() {
			s, _ := load(t, store, def, 0)
			return replace(t, s.ManifestList, cut)
		}},
		"what a compaction has replaced": {damage: func(t *testing.T, store *iceberg.Store, compaction int64) func() {
			s, manifests := load(t, store, def, compaction)
			return replace(t, ownManifest(t, s, manifests, true), cut)
		}},
		"that a compaction has replaced anything": {damage: func(t *testing.T, store *iceberg.Store, compaction int64) func() {
			s, manifests := load(t, store, def, compaction)
			return replace(t, s.ManifestList, func([]byte) []byte {
				var left []iceberglib.ManifestFile
				for _, m := range manifests {
					if m.DeletedDataFiles() == 0 {
						left = append(left, m)
					}
				}
				var list bytes.Buffer
				if err := iceberglib.WriteManifestList(2, &list, s.SnapshotID, s.ParentSnapshotID, &s.SequenceNumber, 0, left); err != nil {
					t.Fatal(err)
				}
				return list.Bytes()
			})
		}, merged: true},
		"manifest of the current table": {damage: func(t *testing.T, store *iceberg.Store, _ int64) func() {
			s, manifests := load(t, store, def.Current(), 0)
			return replace(t, ownManifest(t, s, manifests, false), cut)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t, t.TempDir())
			log := trapRows()
			for _, row := range log[:4] {
				appendRows(t, store, def, row)
			}
			run(t, store, def)
			for _, row := range log[4:8] { // with the others in one file, before they are merged
				appendRows(t, store, def, row)
			}
			compact(t, store, def)
			compaction := newest(t, store, def)
			for _, row := range log[8:] {
				appendRows(t, store, def, row)
			}
			before := newest(t, store, def.Current())
			restore := test.damage(t, store, compaction)
			result, err := merge.Local(t.Context(), store, def, merge.Options{})
			if (err == nil) != test.merged || err != nil && !errors.Is(err, lake.ErrDamaged) {
				t.Errorf("merged: %v", err)
			}
			if err == nil && result.Read < int64(len(log)-4) {
				t.Errorf("%+v, want all rows read that are new", result)
			}
			restore()
			if !test.merged && newest(t, store, def.Current()) != before {
				t.Error("the current table has changed")
			}
			run(t, store, def)
			want, err := mergetest.Fold(def, log)
			if err != nil {
				t.Fatal(err)
			}
			if diff := mergetest.Diff(want, current(t, store, def), true, names(def)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// trapRows are the rows of all traps.
func trapRows() (log [][][]byte) {
	for _, trap := range mergetest.Traps() {
		for _, step := range trap.Steps {
			for _, row := range step.Rows {
				log = append(log, row.Lake())
			}
		}
	}
	return log
}
