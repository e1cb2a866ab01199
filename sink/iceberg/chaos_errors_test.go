package iceberg_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

// errorTables are a mirror in each delete format.
const errorTables = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- {source: s.item, mode: mirror, key: [id], columns: [{name: id, type: long}, {name: v, type: string}EXTRA], readers: [READER]}
`

func errorPipeline(reader, extra string) string {
	return strings.NewReplacer("READER", reader, "EXTRA", extra).Replace(errorTables)
}

// errorStream writes three rows, changes them and deletes one, more often than
// a commit has rows.
func errorStream() (stream []sink.Delivery, want [][]string) {
	for n := range 12 {
		row := &sink.Row{Database: "lake", Table: "item", Operation: cdc.Update}
		if n%4 == 3 {
			row.Operation = cdc.Delete
		}
		row.Data = fmt.Appendf(nil, `{"id":%d,"v":"%d","cdc_position":"%s","cdc_committed_at":null}`, n%3, n, cdc.ChangePosition(0, cdc.Body{Lo: uint64(n)}, 0))
		stream = append(stream, sink.Delivery{Offset: sink.Offset{Shard: "s", Sequence: strconv.Itoa(n), Ordinal: uint64(n)}, Row: row})
	}
	return stream, [][]string{{"0", "9"}, {"1", "10"}}
}

// writeErrors delivers the stream, four rows to a commit, into a lake whose
// writes sync decides about.
func writeErrors(ctx context.Context, t *testing.T, dir, reader string, sync func(*os.File) error) (err error) {
	t.Helper()
	store, err := iceberg.Open(ctx, dir, iceberg.Options{Sync: sync})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s, err := sink.Open(ctx, sinktest.Pipeline(t, errorPipeline(reader, "")), store, sink.Options{FlushRows: 3})
	if err != nil {
		return err
	}
	stream, _ := errorStream()
	for part := range slices.Chunk(stream, 4) {
		if err := s.Deliver(ctx, part); err != nil {
			return err
		}
	}
	return s.Close(ctx)
}

// unsynced spares the tests the disk.
func unsynced(*os.File) error { return nil }

// wantErrorRows compares the rows of the lake with those of the stream.
func wantErrorRows(t *testing.T, dir, reader string) {
	t.Helper()
	store := open(t, dir)
	defer closeStore(t, store)
	def := sinktest.Pipeline(t, errorPipeline(reader, "")).ByTarget("lake", "item")
	table, err := store.OpenTable(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, row := range sinktest.Contents(t.Context(), t, table, def) {
		got = append(got, row[:2])
	}
	_, want := errorStream()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("rows (-want +got):\n%s", diff)
	}
}

// The disk is full from the first, the second, the third write on, and so on
// until it holds everything; or one write fails and the next does not. Each time
// the error says so, and a run on a disk with space goes on where this one ended.
func TestDiskFillsUpAtEveryWrite(t *testing.T) {
	t.Parallel()
	for reader, ways := range map[string][]bool{"spark": {false, true}, "duckdb": {true}} {
		for _, once := range ways {
			t.Run(fmt.Sprintf("%s/once=%t", reader, once), func(t *testing.T) {
				t.Parallel()
				writes := int64(0)
				for struck := true; struck; writes++ {
					struck = fillDisk(t, reader, writes, once)
				}
				if writes < 20 {
					t.Errorf("only %d writes have failed: the test tests too little", writes)
				}
			})
		}
	}
}

// fillDisk lets the write with the number n fail, and those after it unless
// once is set, and reports whether there was one.
func fillDisk(t *testing.T, reader string, n int64, once bool) (struck bool) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lake")
	var count atomic.Int64
	err := writeErrors(t.Context(), t, dir, reader, func(f *os.File) error {
		at := count.Add(1) - 1
		if at < n || once && at > n {
			return nil
		}
		return &os.PathError{Op: "sync", Path: f.Name(), Err: syscall.ENOSPC}
	})
	struck = count.Load() > n
	// What fails after a commit that has happened is left to the next one.
	if err != nil && (!errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "\n")) {
		t.Errorf("write %d: %v", n, err)
	}
	if err == nil && struck && !once {
		t.Errorf("write %d: no error although the disk was full to the end", n)
	}
	if err := writeErrors(t.Context(), t, dir, reader, unsynced); err != nil {
		t.Fatalf("after write %d has failed: %v", n, err)
	}
	wantErrorRows(t, dir, reader)
	return struck
}

// A file that is cut off or gone stops the sink with an error that names it, and
// the table, and nothing is written on top of it: once the file is back, the lake
// is what it was and goes on.
func TestDamagedFilesAndRestart(t *testing.T) {
	t.Parallel()
	damages := map[string]func(data []byte) []byte{
		"cut":    func(data []byte) []byte { return data[:len(data)/2] },
		"barely": func(data []byte) []byte { return data[:len(data)-1] },
		"empty":  func([]byte) []byte { return []byte{} },
		"gone":   func([]byte) []byte { return nil },
	}
	for pattern, where := range map[string]string{
		"*.parquet": "lake.item", "*-m*.avro": "lake.item", "snap-*.avro": "lake.item", "*.metadata.json": "lake.item", "cdc-tombstones-*.bin": "lake.item",
		"catalog.db": "catalog",
	} {
		for name, damage := range damages {
			if name == "barely" && (pattern == "*.metadata.json" || pattern == "catalog.db") {
				continue // a last byte that nobody needs
			}
			for _, reader := range []string{"spark", "pyiceberg"} {
				t.Run(pattern+"/"+name+"/"+reader, func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					if err := writeErrors(t.Context(), t, dir, reader, unsynced); err != nil {
						t.Fatal(err)
					}
					mend := damageFiles(t, dir, pattern, damage)
					before := listing(t, dir)
					err := writeErrors(t.Context(), t, dir, reader, unsynced)
					if oneLine(t, err); err != nil && (!strings.Contains(err.Error(), where) || !namesFile(err, pattern)) {
						t.Errorf("error does not name %s, or no file like %s: %v", where, pattern, err)
					}
					if diff := cmp.Diff(before, listing(t, dir)); diff != "" {
						t.Errorf("files (-before +after):\n%s", diff)
					}
					mend()
					if err := writeErrors(t.Context(), t, dir, reader, unsynced); err != nil {
						t.Fatal(err)
					}
					wantErrorRows(t, dir, reader)
				})
			}
		}
	}
}

func namesFile(err error, pattern string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == ' ' || r == ':' || r == '"' }), func(word string) bool {
		ok, matchErr := filepath.Match(pattern, filepath.Base(word))
		return ok && matchErr == nil
	})
}

// damageFiles damages all files that match, and returns what mends them.
func damageFiles(t *testing.T, dir, pattern string, damage func([]byte) []byte) (mend func()) {
	t.Helper()
	whole := make(map[string][]byte)
	for _, path := range listing(t, dir) {
		ok, err := filepath.Match(pattern, filepath.Base(path))
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			continue
		}
		if whole[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		if data := damage(whole[path]); data == nil {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(whole) == 0 {
		t.Fatalf("no file matches %s: %v", pattern, listing(t, dir))
	}
	return func() {
		for path, data := range whole {
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(f, bytes.NewReader(data)); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Found by chaos: a commit of notes alone ended an evolution that it had not made.
func TestNotesAloneEvolveNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := writeErrors(t.Context(), t, dir, "spark", unsynced); err != nil {
		t.Fatal(err)
	}
	store := open(t, dir)
	defer closeStore(t, store)
	s, err := sink.Open(t.Context(), sinktest.Pipeline(t, errorPipeline("spark", ", {name: extra, type: string}")), store, sink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Deliver(t.Context(), []sink.Delivery{{Offset: sink.Offset{Shard: "s", Sequence: "12", Ordinal: 12}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	row := fmt.Appendf(nil, `{"id":7,"v":"x","extra":"y","cdc_position":"%s","cdc_committed_at":null}`, cdc.ChangePosition(0, cdc.Body{Lo: 99}, 0))
	if err := s.Deliver(t.Context(), []sink.Delivery{{
		Offset: sink.Offset{Shard: "s", Sequence: "13", Ordinal: 13},
		Row:    &sink.Row{Database: "lake", Table: "item", Operation: cdc.Update, Data: row},
	}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestLockedCatalog: a database that somebody else holds fails the commit, and
// the same sink goes on when it is free.
func TestLockedCatalog(t *testing.T) {
	t.Parallel()
	p, err := pipeline()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	store, err := iceberg.Open(t.Context(), dir, iceberg.Options{Sync: func(*os.File) error { return nil }, LockWait: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, store)
	s, err := sink.Open(t.Context(), p, store, sink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open("sqlite", filepath.Join(dir, "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close() //nolint:errcheck // read and rolled back only
	other.SetMaxOpenConns(1)
	if _, err := other.ExecContext(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	if err := s.Deliver(t.Context(), []sink.Delivery{itemDelivery(0)}); err != nil {
		t.Fatal(err)
	}
	err = s.Flush(t.Context())
	if !errors.Is(err, sink.ErrUnavailable) || errors.Is(err, sink.ErrPermanent) || !strings.Contains(err.Error(), "database is locked") {
		t.Fatalf("flush beside a lock: %v", err)
	}
	oneLine(t, err)
	if _, err := other.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats()[0]; got.Applied != 1 || got.Rows != 1 {
		t.Errorf("stats: %+v", got)
	}
}
