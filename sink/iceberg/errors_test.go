package iceberg_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

// TestDamage: whatever of a lake is damaged, missing or held by somebody else,
// the sink says so in one line and changes nothing, and goes on where it was
// once that is put right.
func TestDamage(t *testing.T) {
	t.Parallel()
	for _, reader := range []string{"spark", "pyiceberg"} {
		for _, damage := range []struct {
			name string
			// pattern names the files to harm, below the lake.
			pattern string
			harm    func(t *testing.T, path string)
			want    string // in the error
		}{
			{"metadata cut off", "warehouse/lake/item/metadata/*.metadata.json", cutOff, "metadata"},
			{"metadata gone", "warehouse/lake/item/metadata/*.metadata.json", remove, "no such file"},
			{"manifest list cut off", "warehouse/lake/item/metadata/snap-*.avro", cutOff, ""},
			{"manifest gone", "warehouse/lake/item/metadata/*-m*.avro", remove, "no such file"},
			{"data file gone", "warehouse/lake/item/data/*.parquet", remove, "no such file"},
			{"data file cut off", "warehouse/lake/item/data/*.parquet", cutOff, ""},
			{"tombstones gone", "warehouse/lake/item/data/cdc-tombstones-*.bin", remove, "no such file"},
			{"tombstones cut off", "warehouse/lake/item/data/cdc-tombstones-*.bin", cutOff, "file is damaged"},
			{"catalog is no database", "catalog.db", scribble, "not a database"},
		} {
			t.Run(reader+" "+damage.name, func(t *testing.T) {
				t.Parallel()
				def := sinktest.Pipeline(t, fmt.Sprintf(layoutTable, reader, ""))
				dir := t.TempDir()
				item := func(n uint64) sink.Delivery {
					d := itemDelivery(n)
					d.Row.Data = bytes.Replace(d.Row.Data, []byte(`"v"`), []byte(`"name":"n","v"`), 1)
					return d
				}
				if err := runLake(t, dir, def, item(0), item(1)); err != nil {
					t.Fatal(err)
				}
				gone := item(2) // its place in the stream and its position; the row is number 1
				gone.Row.Operation, gone.Row.Data = cdc.Delete, bytes.Replace(gone.Row.Data, []byte(`"id":2`), []byte(`"id":1`), 1)
				if err := runLake(t, dir, def, gone); err != nil {
					t.Fatal(err)
				}
				paths, err := filepath.Glob(filepath.Join(dir, damage.pattern))
				if err != nil || len(paths) == 0 {
					t.Fatalf("nothing to harm: %v", err)
				}
				whole := make(map[string][]byte)
				for _, path := range paths {
					if whole[path], err = os.ReadFile(path); err != nil {
						t.Fatal(err)
					}
					damage.harm(t, path)
				}
				err = runLake(t, dir, def, item(3))
				if err == nil || !strings.Contains(err.Error(), damage.want) {
					t.Fatalf("got %v, want an error with %q", err, damage.want)
				}
				oneLine(t, err)
				for path, content := range whole {
					if err := os.WriteFile(path, content, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if err := runLake(t, dir, def, item(0), item(1), gone, item(3)); err != nil {
					t.Fatal(err)
				}
				store := openUnsynced(t, dir)
				defer closeStore(t, store)
				checkLayout(t, store, def.Tables[0], map[string][]string{"0": {"0", "n", "x"}, "3": {"3", "n", "x"}})
			})
		}
	}
}

// runLake is one run of a sink over some records.
func runLake(t *testing.T, dir string, p *catalog.Pipeline, d ...sink.Delivery) (err error) {
	t.Helper()
	store, err := iceberg.Open(context.WithoutCancel(t.Context()), dir, iceberg.Options{Sync: func(*os.File) error { return nil }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s, err := sink.Open(t.Context(), p, store, sink.Options{Background: true})
	if err != nil {
		return err
	}
	if err := s.Deliver(t.Context(), d); err != nil {
		return err
	}
	return s.Close(t.Context())
}

func cutOff(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()/2)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func scribble(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
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
	store := openUnsynced(t, dir)
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
	if err == nil || !strings.Contains(err.Error(), "database is locked") {
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
