package iceberg_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"icehose/internal/gluetest"
	"icehose/sink"
	"icehose/sink/sinktest"
)

// countConnections puts a server before the S3 that counts the connections it
// accepts.
func countConnections(t *testing.T, cloud *gluetest.Cloud) *atomic.Int64 {
	t.Helper()
	accepted := new(atomic.Int64)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { cloud.S3.ServeHTTP(w, r) }))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			accepted.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	cloud.S3URL = s.URL
	return accepted
}

// However many commits there are, they go over the same connections to S3.
func TestConnections(t *testing.T) {
	t.Parallel()
	for name, open := range elsewhere() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := gluetest.Start(t)
			accepted := countConnections(t, cloud)
			store := open(t, cloud)
			t.Cleanup(func() { closeStore(t, store) })
			p, err := pipeline()
			if err != nil {
				t.Fatal(err)
			}
			table, err := store.OpenTable(t.Context(), p.Tables[0])
			if err != nil {
				t.Fatal(err)
			}
			parent := ""
			for n := range 30 {
				id, key := fmt.Sprint("c", n), fmt.Sprint(n)
				b := &sink.Batch{
					Parent: parent, ID: id, Properties: map[string]string{sink.PropertyCommit: id},
					Inserts: sink.NewRows(sinktest.Row(key, "v", "p", "NULL")), Deletes: sink.NewRows(sinktest.Row(key)),
				}
				if err := table.Commit(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				if err := store.WriteCheckpoint(t.Context(), "lake.checkpoint.json", []byte(id)); err != nil {
					t.Fatal(err)
				}
				parent = id
			}
			if got := accepted.Load(); got == 0 || got > 12 {
				t.Errorf("%d connections for 30 commits", got)
			}
		})
	}
}

// Connections are shared, the context of a call is not.
func TestConnectionsCancelled(t *testing.T) {
	t.Parallel()
	cloud := gluetest.Start(t)
	store := openGlue(t, cloud)
	t.Cleanup(func() { closeStore(t, store) })
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if err := store.WriteCheckpoint(done, "lake.checkpoint.json", []byte("no")); !errors.Is(err, context.Canceled) {
			t.Errorf("with a cancelled context: %v", err)
		}
		if err := store.WriteCheckpoint(t.Context(), "lake.checkpoint.json", []byte("yes")); err != nil {
			t.Errorf("after a cancelled context: %v", err)
		}
	}
}
