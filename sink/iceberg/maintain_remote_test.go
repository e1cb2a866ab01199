package iceberg_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/google/go-cmp/cmp"

	"icehose/internal/gluetest"
	"icehose/sink/iceberg"
)

// lose writes a file among the data files of the table that nothing speaks of,
// and returns where.
func (w *workload) lose(name, content string) string {
	w.t.Helper()
	tables, err := lakeTables(w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	current, err := tables.LoadTable(w.t.Context(), table.Identifier{"lake", "item"})
	if err != nil {
		w.t.Fatal(err)
	}
	provider, err := current.LocationProvider()
	if err != nil {
		w.t.Fatal(err)
	}
	fs, err := current.FS(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	files, ok := fs.(iceio.WriteFileIO)
	if !ok {
		w.t.Fatalf("%T cannot write", fs)
	}
	location := provider.NewDataLocation(name)
	if err := files.WriteFile(location, []byte(content)); err != nil {
		w.t.Fatal(err)
	}
	return location
}

// Tables in S3 are maintained as those in a folder are: small files are put
// together, old snapshots and orphans go, tombstones and young files stay.
func TestMaintainElsewhere(t *testing.T) {
	t.Parallel()
	for name, open := range elsewhere() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := gluetest.Start(t)
			w := newWorkloadIn(t, open(t, cloud), "mirror", "", "")
			for range 9 {
				w.commit(10, 40)
			}
			cloud.Age(100 * time.Hour)
			old := w.lose("lost.parquet", "lost")
			w.commit(10, 40) // its files are as old, and in use
			cloud.Age(0)
			w.lose("new.parquet", "new")
			report := w.maintain(small)
			if len(report.Rewrites) == 0 || report.ExpiredSnapshots == 0 || report.After.DataFiles != 1 || report.After.DeleteFiles != 0 {
				t.Errorf("maintained: %+v", report)
			}
			if diff := cmp.Diff([]iceberg.Leftover{{Path: old, Bytes: 4}}, report.Orphans); diff != "" {
				t.Errorf("orphans (-want +got):\n%s", diff)
			}
			w.check("after maintenance")
			w.commit(10, 40)
			w.open() // reads the tombstones
			w.commit(10, 40)
			w.check("after the sink went on")
		})
	}
}

// What fails in S3, and a sink that commits meanwhile, does no more harm there.
func TestMaintainElsewhereFails(t *testing.T) {
	t.Parallel()
	for name, open := range elsewhere() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := gluetest.Start(t)
			s3 := cloud.S3
			newWorkloadIn(t, open(t, cloud), "mirror", "", "").interrupt(0, func(fails func() bool) {
				cloud.S3 = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodPut || fails == nil || !fails() {
						s3.ServeHTTP(rw, r)
						return
					}
					rw.WriteHeader(http.StatusForbidden) // one that is not tried again underneath
					_, _ = io.WriteString(rw, `<Error><Code>AccessDenied</Code></Error>`)
				})
			})
		})
		t.Run(name+" beside a writer", func(t *testing.T) {
			t.Parallel()
			newWorkloadIn(t, open(t, gluetest.Start(t)), "mirror", "", "").maintainBeside(0)
		})
	}
}
