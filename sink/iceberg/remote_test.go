package iceberg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"icehose/catalog/iceberg/remote"
	"icehose/cdc"
	"icehose/internal/gluetest"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

// openGlue opens the lake behind a Glue and an S3.
func openGlue(t *testing.T, cloud *gluetest.Cloud) *iceberg.Store {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	l, err := remote.Open(ctx, remote.Options{Kind: remote.Glue, URI: cloud.GlueURL, Warehouse: cloud.Warehouse, Properties: cloud.Properties()})
	if err != nil {
		t.Fatal(err)
	}
	store, err := iceberg.OpenLake(l, "glue", iceberg.Options{Properties: cloud.Properties()})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// openS3 opens a lake with a SQLite catalog and tables in S3.
func openS3(t *testing.T, cloud *gluetest.Cloud, path string) *iceberg.Store {
	t.Helper()
	store, err := iceberg.OpenSQLite(context.WithoutCancel(t.Context()), path, iceberg.Options{Warehouse: cloud.Warehouse, Properties: cloud.Properties()})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// elsewhere opens lakes whose tables are in S3: with a SQLite catalog, and
// behind Glue.
func elsewhere() map[string]func(*testing.T, *gluetest.Cloud) *iceberg.Store {
	return map[string]func(*testing.T, *gluetest.Cloud) *iceberg.Store{
		"sqlite": func(t *testing.T, cloud *gluetest.Cloud) *iceberg.Store {
			t.Helper()
			return openS3(t, cloud, filepath.Join(t.TempDir(), "any.db"))
		},
		"glue": openGlue,
	}
}

// TestStoreElsewhere runs the conformance suite on them.
func TestStoreElsewhere(t *testing.T) {
	t.Parallel()
	for name, open := range elsewhere() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sinktest.RunStoreTests(t, func(t *testing.T) sink.Store {
				store := open(t, gluetest.Start(t))
				t.Cleanup(func() { closeStore(t, store) })
				return store
			})
		})
	}
}

// TestCheckpointInStorage: what was written is read by another process, and
// replaced.
func TestCheckpointInStorage(t *testing.T) {
	t.Parallel()
	cloud := gluetest.Start(t)
	dir := t.TempDir()
	for name, open := range map[string]func() *iceberg.Store{
		"folder": func() *iceberg.Store { return openUnsynced(t, dir) },
		"s3":     func() *iceberg.Store { return openS3(t, cloud, filepath.Join(dir, "s3.db")) },
	} {
		for _, text := range []string{"", "one", "another one"} {
			store := open()
			got, err := store.ReadCheckpoint(t.Context(), "lake.checkpoint.json")
			if before := map[string]string{"one": "", "another one": "one"}[text]; err != nil || string(got) != before {
				t.Errorf("%s: checkpoint is %q, %v, want %q", name, got, err, before)
			}
			if text != "" {
				if err := store.WriteCheckpoint(t.Context(), "lake.checkpoint.json", []byte(text)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			closeStore(t, store)
		}
	}
}

// A lossy stands before Glue: it loses the answer of updates that Glue has
// made, or answers that another one came first.
type lossy struct {
	http.Handler
	lose, race int // how many of the next updates
}

func (l *lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateTable") {
		l.Handler.ServeHTTP(w, r)
		return
	}
	switch {
	case l.race > 0:
		l.race--
		w.Header().Set("X-Amzn-Errortype", "ConcurrentModificationException")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"ConcurrentModificationException","Message":"no"}`)
	case l.lose > 0:
		l.lose--
		l.Handler.ServeHTTP(discard{http.Header{}}, r)
		w.Header().Set("X-Amzn-Errortype", "AccessDeniedException") // one that is not tried again underneath
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"__type":"AccessDeniedException","Message":"no"}`)
	default:
		l.Handler.ServeHTTP(w, r)
	}
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// TestGlueCommits: a commit whose answer was lost is found, one that lost a race
// is made again, and a rival is noticed.
func TestGlueCommits(t *testing.T) {
	t.Parallel()
	cloud := gluetest.Start(t)
	between := &lossy{Handler: cloud.Glue}
	cloud.Glue = between
	p, err := pipeline()
	if err != nil {
		t.Fatal(err)
	}
	begin := func() *sink.Sink {
		s, err := sink.Open(t.Context(), p, openGlue(t, cloud), sink.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	one := begin()
	rival := begin()
	for i, fault := range []func(){func() {}, func() { between.lose = 1 }, func() { between.race = 3 }} {
		fault()
		if err := one.Deliver(t.Context(), []sink.Delivery{itemDelivery(uint64(i))}); err != nil {
			t.Fatal(err)
		}
		if err := one.Flush(t.Context()); err != nil {
			t.Fatalf("fault %d: %v", i, err)
		}
	}
	if got := one.Stats()[0]; got.Applied != 3 || got.Commits != 3 {
		t.Errorf("stats: %+v", got)
	}
	if err := rival.Deliver(t.Context(), []sink.Delivery{itemDelivery(9)}); err != nil {
		t.Fatal(err)
	}
	if err := rival.Flush(t.Context()); !errors.Is(err, sink.ErrFenced) {
		t.Errorf("rival: %v", err)
	}
	opened, err := openGlue(t, cloud).OpenTable(t.Context(), p.Tables[0])
	if err != nil {
		t.Fatal(err)
	}
	if got := len(sinktest.Contents(t.Context(), t, opened, p.Tables[0])); got != 3 {
		t.Errorf("%d rows, want 3", got)
	}
}

// itemDelivery is the n-th record of a stream: row n of table item.
func itemDelivery(n uint64) sink.Delivery {
	data := fmt.Appendf(nil, `{"id":%d,"v":"x","cdc_position":"%s","cdc_committed_at":null}`, n, cdc.ChangePosition(0, cdc.Body{Lo: n + 1}, 0))
	return sink.Delivery{
		Offset: sink.Offset{Shard: "s", Ordinal: n}, Row: &sink.Row{Database: "lake", Table: "item", Operation: cdc.Update, Data: data},
	}
}
