package iceberg_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go/table"

	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// appendAsOthers appends a row to the item table of a workload, past the store.
func (w *workload) appendAsOthers() {
	w.t.Helper()
	tables, err := lakeTables(w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	current, err := tables.LoadTable(w.t.Context(), table.Identifier{w.def.Database(), w.def.Name()})
	if err != nil {
		w.t.Fatal(err)
	}
	schema, err := table.SchemaToArrowSchema(current.Schema(), nil, true, false)
	if err != nil {
		w.t.Fatal(err)
	}
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(`[{"id":"100.50","part":"b","v":"theirs"}]`))
	if err != nil {
		w.t.Fatal(err)
	}
	defer batch.Release()
	rows, err := array.NewRecordReader(schema, []arrow.RecordBatch{batch})
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Release()
	tx := current.NewTransaction()
	if err := tx.Append(w.t.Context(), rows, nil); err != nil {
		w.t.Fatal(err)
	}
	if _, err := tx.Commit(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// TestIndexAfterOthersWrote: what somebody else wrote into a mirror is read by the
// next start, whatever came after it: a saved index that does not know of it is
// not taken over.
func TestIndexAfterOthersWrote(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		meanwhile func(w *workload) // after commits, before the sink ends
		ended     func(w *workload)
		adopted   bool
	}{
		"nobody has": {adopted: true},
		"only maintenance has": {
			ended: func(w *workload) { w.compacted() }, adopted: true,
		},
		"and maintenance after it": {
			ended: func(w *workload) { w.appendAsOthers(); w.compacted() },
		},
		"between two commits": {
			meanwhile: func(w *workload) { w.appendAsOthers(); w.commitOne(3) },
		},
		"between two commits, and maintenance": {
			meanwhile: func(w *workload) { w.appendAsOthers(); w.compacted(); w.commitOne(3) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, "mirror", "", "")
			if err := w.sink.Abandon(); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			options := sink.Options{IndexMemory: 1, IndexDir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil))}
			reopen := func() {
				t.Helper()
				var err error
				if w.sink, err = sink.Open(t.Context(), w.p, w.store, options); err != nil {
					t.Fatal(err)
				}
			}
			reopen()
			for id := range 6 {
				w.commitOne(id)
			}
			if test.meanwhile != nil {
				test.meanwhile(w)
			}
			if err := w.sink.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if test.ended != nil {
				test.ended(w)
			}
			log.Reset()
			before, err := os.ReadDir(options.IndexDir)
			if err != nil {
				t.Fatal(err)
			}
			reopen()
			for _, f := range before {
				if _, err := os.Stat(filepath.Join(options.IndexDir, f.Name())); (err == nil) != test.adopted {
					t.Errorf("%s of the index before: %v", f.Name(), err)
				}
			}
			if adopted := strings.Contains(log.String(), "index taken over"); adopted != test.adopted {
				t.Errorf("index taken over: %t", adopted)
			}
			w.commitOne(100)
			w.check("after a change of the row that was theirs")
			if err := w.sink.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func (w *workload) commitOne(id int) {
	w.t.Helper()
	w.deliver(id, cdc.Update)
	w.flush()
}

// compacted maintains the table so that its head is a snapshot of maintenance.
func (w *workload) compacted() {
	w.t.Helper()
	m := small
	m.Retention = iceberg.Retention{}
	if report := w.maintain(m); len(report.Rewrites) == 0 {
		w.t.Fatal("nothing was rewritten, the test tests nothing")
	}
}
