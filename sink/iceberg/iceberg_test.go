package iceberg_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

func open(t testing.TB, dir string) *iceberg.Store {
	t.Helper()
	store, err := iceberg.Open(context.WithoutCancel(t.Context()), dir, iceberg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func closeStore(t testing.TB, store *iceberg.Store) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	sinktest.RunStoreTests(t, func(t *testing.T) sink.Store {
		t.Helper()
		store := open(t, t.TempDir())
		t.Cleanup(func() { closeStore(t, store) })
		return store
	})
}

const tables = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- {source: s.item, mode: mirror, key: [id], columns: [{name: id, type: long}, {name: v, type: string}]}
`

func pipeline() (*catalog.Pipeline, error) { return catalog.Parse("pipeline.yaml", []byte(tables)) }

// fill opens the item table of a store and commits n rows to it, v being the
// commit's id.
func fill(t *testing.T, store *iceberg.Store, parent, id string, n int) *catalog.Table {
	t.Helper()
	def := sinktest.Pipeline(t, tables).ByTarget("lake", "item")
	table, err := store.OpenTable(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	b := &sink.Batch{Parent: parent, ID: id, Properties: map[string]string{sink.PropertyCommit: id}}
	var rows, keys [][][]byte
	for i := range n {
		rows = append(rows, sinktest.Row(strconv.Itoa(i), id, "p", "NULL"))
		keys = append(keys, sinktest.Row(strconv.Itoa(i)))
	}
	b.Inserts = sink.NewRows(rows...)
	if parent != "" {
		b.Deletes = sink.NewRows(keys...)
	}
	if err := table.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return def
}

// values reads column v of a snapshot.
func values(t *testing.T, store *iceberg.Store, def *catalog.Table, snapshot int64) []string {
	t.Helper()
	var got []string
	for batch, err := range store.Scan(t.Context(), def, snapshot, []string{"v", "id"}) {
		if err != nil {
			t.Fatal(err)
		}
		if batch.ColumnName(0) != "v" || batch.ColumnName(1) != "id" {
			t.Fatalf("columns are %v", batch.Schema())
		}
		column, ok := batch.Column(0).(*array.String)
		if !ok {
			t.Fatalf("column v is %s", batch.Column(0).DataType())
		}
		for i := range column.Len() {
			got = append(got, column.Value(i))
		}
	}
	return got
}

func TestScanReadsOneSnapshot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, dir)
	def := sinktest.Pipeline(t, tables).ByTarget("lake", "item")
	if _, err := store.OpenTable(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := store.Snapshot(t.Context(), def); ok || err != nil {
		t.Fatalf("an empty table has a snapshot: %t %v", ok, err)
	}
	if got := values(t, store, def, 0); len(got) > 0 {
		t.Fatalf("an empty table has rows: %v", got)
	}
	fill(t, store, "", "one", 2)
	first, ok, err := store.Snapshot(t.Context(), def)
	if err != nil || !ok {
		t.Fatalf("snapshot: %t %v", ok, err)
	}
	fill(t, store, "one", "two", 3)
	if diff := cmp.Diff([]string{"one", "one"}, values(t, store, def, first)); diff != "" {
		t.Errorf("first snapshot (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"two", "two", "two"}, values(t, store, def, 0)); diff != "" {
		t.Errorf("current snapshot (-want +got):\n%s", diff)
	}
	for _, bad := range []struct {
		snapshot int64
		column   string
	}{{12345, "v"}, {0, "w"}} {
		errs := 0
		for _, err := range store.Scan(t.Context(), def, bad.snapshot, []string{bad.column}) {
			if err == nil {
				t.Errorf("scan of %+v yields rows", bad)
				break
			}
			oneLine(t, err)
			errs++
		}
		if errs != 1 {
			t.Errorf("scan of %+v: %d errors, want 1", bad, errs)
		}
	}
	closeStore(t, store)
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := iceberg.Open(t.Context(), dir, iceberg.Options{ReadOnly: true}); !errors.Is(err, iceberg.ErrNoLake) {
		t.Fatalf("read-only open of nothing: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Fatalf("a read-only open left %v, %v", entries, err)
	}
	writer := open(t, dir)
	def := fill(t, writer, "", "one", 1)
	closeStore(t, writer)
	before := listing(t, dir)
	var readers []*iceberg.Store
	for range 2 {
		reader, err := iceberg.Open(t.Context(), dir, iceberg.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, reader)
	}
	for _, reader := range readers {
		if diff := cmp.Diff([]string{"one"}, values(t, reader, def, 0)); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
	}
	table, err := readers[0].OpenTable(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Commit(t.Context(), &sink.Batch{Parent: "one", ID: "two"}); err == nil {
		t.Error("a read-only lake was written")
	}
	if _, err := iceberg.Open(t.Context(), dir, iceberg.Options{}); !errors.Is(err, iceberg.ErrLocked) {
		t.Errorf("open for writing beside readers: %v", err)
	}
	for _, reader := range readers {
		closeStore(t, reader)
	}
	if diff := cmp.Diff(before, listing(t, dir)); diff != "" {
		t.Errorf("reading changed files (-before +after):\n%s", diff)
	}
}

func listing(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func oneLine(t *testing.T, err error) {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("want an error of one line, got %v", err)
	}
}

func TestOneWriter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := open(t, dir)
	for _, readOnly := range []bool{false, true} {
		_, err := iceberg.Open(t.Context(), dir, iceberg.Options{ReadOnly: readOnly})
		if oneLine(t, err); !errors.Is(err, iceberg.ErrLocked) {
			t.Errorf("second open, read-only %t: %v", readOnly, err)
		}
	}
	closeStore(t, first)
	closeStore(t, open(t, dir))
}

func TestStrangeFolderName(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), `a b%20c#d?e&f=g é`)
	for _, id := range []string{"one", "two"} {
		store := open(t, dir)
		parent := ""
		if id == "two" {
			parent = "one"
		}
		def := fill(t, store, parent, id, 1)
		if diff := cmp.Diff([]string{id}, values(t, store, def, 0)); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
		closeStore(t, store)
	}
	for _, name := range []string{"catalog.db", "lock.db", "warehouse/lake/item/metadata"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(dir string) error{
		"a file is in the way": func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"catalog is no database": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "catalog.db"), []byte(strings.Repeat("no catalog ", 1000)), 0o600))
		},
		"catalog is a folder": func(dir string) error { return os.MkdirAll(filepath.Join(dir, "catalog.db"), 0o700) },
		"lock is a folder":    func(dir string) error { return os.MkdirAll(filepath.Join(dir, "lock.db"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "lake")
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			store, err := iceberg.Open(t.Context(), dir, iceberg.Options{})
			if err == nil {
				closeStore(t, store)
			}
			if oneLine(t, err); err != nil && !strings.HasPrefix(err.Error(), "open lake "+dir+": ") {
				t.Errorf("error %q", err)
			}
		})
	}
}

// A lake begins anew beside whatever is no table, and never beside tables.
func TestLostCatalog(t *testing.T) {
	t.Parallel()
	empty := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	for name, lose := range map[string]func(path string) error{
		"missing": os.Remove,
		"empty":   empty,
		"without its tables": func(path string) error {
			db, err := sql.Open("sqlite", path)
			if err != nil {
				return err
			}
			_, err = db.ExecContext(t.Context(), "DROP TABLE iceberg_tables")
			return errors.Join(err, db.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			store := open(t, dir)
			fill(t, store, "", "one", 1)
			closeStore(t, store)
			if err := lose(filepath.Join(dir, "catalog.db")); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				_, err := iceberg.Open(t.Context(), dir, iceberg.Options{})
				if oneLine(t, err); err == nil || !strings.Contains(err.Error(), "catalog.db is missing or empty, although "+filepath.Join(dir, "warehouse")+" holds tables: restore it") {
					t.Fatalf("got %v, want the catalog missed", err)
				}
			}
		})
	}
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "warehouse", "lost+found"), 0o700), empty(filepath.Join(dir, "catalog.db"))); err != nil {
		t.Fatal(err)
	}
	closeStore(t, open(t, dir))
}

func TestDamagedCatalog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, dir)
	fill(t, store, "", "one", 1)
	closeStore(t, store)
	path := filepath.Join(dir, "catalog.db")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(data); i++ {
		data[i] = 0xa5
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = iceberg.Open(t.Context(), dir, iceberg.Options{})
	oneLine(t, err)
	// The failed open has given the lock back.
	_, err = iceberg.Open(t.Context(), dir, iceberg.Options{})
	if oneLine(t, err); errors.Is(err, iceberg.ErrLocked) {
		t.Error(err)
	}
}

func TestLostFiles(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"*.parquet", "*-m*.avro", "snap-*.avro", "*.metadata.json"} {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			store := open(t, dir)
			def := fill(t, store, "", "one", 1)
			closeStore(t, store)
			lost := 0
			for _, path := range listing(t, dir) {
				if ok, err := filepath.Match(pattern, filepath.Base(path)); err != nil {
					t.Fatal(err)
				} else if ok {
					lost++
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
			}
			if lost == 0 {
				t.Fatalf("no file matches: %v", listing(t, dir))
			}
			store = open(t, dir)
			defer closeStore(t, store)
			var err error
			for _, err = range store.Scan(t.Context(), def, 0, []string{"id"}) {
				if err == nil {
					t.Fatal("rows are read although their file is lost")
				}
			}
			oneLine(t, err)
			_, err = sink.Open(t.Context(), sinktest.Pipeline(t, tables), store, sink.Options{})
			oneLine(t, err)
		})
	}
}

func TestMetadataStaysSmall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := iceberg.Open(context.WithoutCancel(t.Context()), dir, iceberg.Options{Retention: iceberg.Retention{MaxSnapshots: 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, store)
	parent := ""
	for i := range 140 {
		id := strconv.Itoa(i)
		fill(t, store, parent, id, 1)
		parent = id
	}
	var metadata, manifests []string
	for _, path := range listing(t, dir) {
		switch {
		case strings.HasSuffix(path, ".metadata.json"):
			metadata = append(metadata, path)
		case strings.HasSuffix(path, ".avro"):
			manifests = append(manifests, path)
		}
	}
	// 20 to 64 snapshots, each with its list, and manifests of data and deletes.
	if len(metadata) > 25 || len(manifests) > 400 {
		t.Errorf("%d metadata files and %d manifests after 140 commits", len(metadata), len(manifests))
	}
	slices.Sort(metadata)
	info, err := os.Stat(metadata[len(metadata)-1])
	if err != nil || info.Size() > 200_000 {
		t.Errorf("metadata is %d bytes, %v", info.Size(), err)
	}
}
