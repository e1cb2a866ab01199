package iceberg_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

const maintainTables = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- source: s.item
  mode: %s
  key: [id, part]
  partition: [%s]
  readers: [%s]
  columns:
  - {name: id, type: "decimal(10,2)"}
  - {name: part, type: string}
  - {name: v, type: string}
`

// A workload changes one table through a sink, and knows what must be in it.
type workload struct {
	t       *testing.T
	store   *iceberg.Store
	def     *catalog.Table
	p       *catalog.Pipeline
	sink    *sink.Sink
	random  *rand.Rand
	n       uint64
	noise   string
	wide    bool              // values are long, so that files get large
	current map[string]string // mirror: key -> v
	history []string          // changelog: v, in any order
}

func newWorkload(t *testing.T, mode, partition, readers string) *workload {
	t.Helper()
	return newWorkloadIn(t, openUnsynced(t, t.TempDir()), mode, partition, readers)
}

// newWorkloadIn takes over the store.
func newWorkloadIn(t *testing.T, store *iceberg.Store, mode, partition, readers string) *workload {
	t.Helper()
	w := &workload{t: t, store: store, random: rand.New(rand.NewPCG(1, 2)), noise: strings.Repeat("abcdefghij", 2), current: make(map[string]string)}
	t.Cleanup(func() { closeStore(t, w.store) })
	w.p = sinktest.Pipeline(t, fmt.Sprintf(maintainTables, mode, partition, readers))
	w.def = w.p.ByTarget("lake", "item")
	w.open()
	return w
}

// wideBytes times baseRows, which no compression makes smaller, is a file that
// maintenance takes for large.
const (
	baseRows  = 6000
	wideBytes = 160
)

func (w *workload) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(w.random.UintN(256))
	}
	return b
}

// base commits the rows with the keys from first up to, but without, last.
func (w *workload) base(first, last int) {
	w.t.Helper()
	w.wide = true
	for id := first; id < last; id++ {
		w.deliver(id, cdc.Update)
	}
	w.wide = false
	w.flush()
}

// open starts a sink anew, as after a restart.
func (w *workload) open() {
	w.t.Helper()
	var err error
	if w.sink, err = sink.Open(w.t.Context(), w.p, w.store, sink.Options{FlushRows: 1 << 20, FlushBytes: 1 << 30}); err != nil {
		w.t.Fatal(err)
	}
}

// deliver hands one change to the sink.
func (w *workload) deliver(id int, o cdc.Operation) {
	w.t.Helper()
	w.n++
	part := string(rune('a' + id%3))
	v := fmt.Sprintf("%d-%s", w.n, w.noise[:1+w.random.IntN(20)])
	if w.wide {
		v = fmt.Sprintf("%d-%x", w.n, w.bytes(wideBytes))
	}
	row := fmt.Sprintf(`{"id":"%d.50","part":"%s","v":"%s","cdc_position":"%s","cdc_committed_at":"2026-01-01T00:00:00.000000Z"`,
		id, part, v, cdc.ChangePosition(0, cdc.Body{Lo: w.n}, 0))
	key := fmt.Sprintf("%d.50/%s", id, part)
	switch {
	case w.def.Mode == catalog.Changelog:
		row += fmt.Sprintf(`,"cdc_operation":"%s","cdc_old_key":null,"cdc_absent":null`, o)
		o = cdc.Insert
		w.history = append(w.history, key+"="+v)
	case o == cdc.Delete:
		delete(w.current, key)
	default:
		w.current[key] = v
	}
	d := sink.Delivery{
		Offset: sink.Offset{Shard: "s", Sequence: strconv.FormatUint(w.n, 10), Ordinal: w.n - 1},
		Row:    &sink.Row{Database: "lake", Table: "item", Operation: o, Data: []byte(row + "}")},
	}
	if err := w.sink.Deliver(w.t.Context(), []sink.Delivery{d}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *workload) flush() {
	w.t.Helper()
	if err := w.sink.Flush(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// commit commits a few changes of keys below keys: updates, deletes and keys
// that were deleted and come again.
func (w *workload) commit(changes, keys int) {
	w.t.Helper()
	for range changes {
		o := cdc.Update
		if w.random.IntN(3) == 0 {
			o = cdc.Delete
		}
		w.deliver(w.random.IntN(keys), o)
	}
	w.flush()
}

// check compares the table with what must be in it.
func (w *workload) check(when string) {
	w.t.Helper()
	table, err := w.store.OpenTable(w.t.Context(), w.def)
	if err != nil {
		w.t.Fatal(err)
	}
	var got, want []string
	for _, row := range sinktest.Contents(w.t.Context(), w.t, table, w.def) {
		got = append(got, row[0]+"/"+row[1]+"="+row[2])
	}
	if want = slices.Clone(w.history); w.def.Mode == catalog.Mirror {
		for key, v := range w.current {
			want = append(want, key+"="+v)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(want, got) {
		w.t.Fatalf("%s: rows (-want +got):\n%s", when, cmp.Diff(want, got))
	}
}

func (w *workload) maintain(m iceberg.Maintenance) *iceberg.MaintenanceReport {
	w.t.Helper()
	report, err := w.store.Maintain(w.t.Context(), w.def, m)
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

// small makes maintenance due after a few commits.
var small = iceberg.Maintenance{TargetFileSize: 1 << 20, MinFiles: 4, DeleteFiles: 4, DeleteRatio: 0.9, Retention: fewSnapshots, Every: 8}

// fewSnapshots keeps none for its age.
var fewSnapshots = iceberg.Retention{KeepSnapshots: 3, SnapshotAge: -1}

func (w *workload) reasons(r *iceberg.MaintenanceReport) map[iceberg.RewriteReason]int {
	reasons := make(map[iceberg.RewriteReason]int)
	for _, rewrite := range r.Rewrites {
		reasons[rewrite.Why]++
	}
	return reasons
}
