package sink_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/sinktest"
)

const tables = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- source: s.item
  mode: mirror
  key: [id]
  columns: [{name: id, type: long}, {name: v, type: string}]
- source: s.log
  mode: changelog
  key: [id]
  columns: [{name: id, type: long}, {name: v, type: string}]
- {source: s.heap, mode: mirror, columns: [{name: v, type: string}]}
`

func pipeline(t testing.TB) *catalog.Pipeline {
	t.Helper()
	return sinktest.Pipeline(t, tables)
}

// source numbers records of one shard.
type source struct{ n uint64 }

func (s *source) next(table string, o cdc.Operation, row map[string]any) sink.Delivery {
	data, err := json.Marshal(row)
	if err != nil {
		panic(err)
	}
	d := sink.Delivery{Offset: offset(s.n), Row: &sink.Row{Database: "lake", Table: table, Operation: o, Data: data}}
	s.n++
	return d
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// upsert and remove are changes of table item, committed n seconds after start.
func (s *source) upsert(n uint64, id int, v string) sink.Delivery {
	return s.next("item", cdc.Update, map[string]any{"id": id, "v": v, "cdc_position": change(n), "cdc_committed_at": when(n)})
}

func (s *source) remove(n uint64, id int) sink.Delivery {
	return s.next("item", cdc.Delete, map[string]any{"id": id, "v": nil, "cdc_position": change(n), "cdc_committed_at": when(n)})
}

func when(n uint64) string {
	return start.Add(time.Duration(n) * time.Second).Format("2006-01-02T15:04:05.000000Z")
}

// rig is a sink on a lake in memory, with what it rejected.
type rig struct {
	*sink.Sink
	t        *testing.T
	lake     *sinktest.Lake
	options  sink.Options
	rejected []sink.Reason
}

func newRig(t *testing.T, o sink.Options) *rig {
	t.Helper()
	r := &rig{t: t, lake: sinktest.NewLake(), options: o}
	r.options.Reject = func(_ sink.Offset, err *sink.RejectError) { r.rejected = append(r.rejected, err.Reason) }
	r.reopen()
	return r
}

// reopen is a crash and a restart.
func (r *rig) reopen() {
	r.t.Helper()
	s, err := sink.Open(r.t.Context(), pipeline(r.t), r.lake, r.options)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Sink = s
}

func (r *rig) deliver(d ...sink.Delivery) {
	r.t.Helper()
	if err := r.Deliver(r.t.Context(), d); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) flush(d ...sink.Delivery) {
	r.t.Helper()
	r.deliver(d...)
	if err := r.Flush(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) stats(table string) sink.TableStats {
	for _, s := range r.Stats() {
		if s.Table == table {
			return s
		}
	}
	r.t.Fatalf("no table %s", table)
	return sink.TableStats{}
}

// want compares the data columns of a table, joined by blanks.
func (r *rig) want(name string, rows ...string) {
	r.t.Helper()
	def := pipeline(r.t).ByTarget("lake", name)
	_, data := def.LakeColumns()
	var got []string
	for _, row := range sinktest.Contents(r.t.Context(), r.t, r.lake.Table("lake", name), def) {
		got = append(got, strings.Join(row[:data], " "))
	}
	if diff := gocmp.Diff(rows, got); diff != "" {
		r.t.Fatalf("rows of %s (-want +got):\n%s", name, diff)
	}
}

func TestMirrorKeepsTheLatest(t *testing.T) {
	t.Parallel()
	r := newRig(t, sink.Options{})
	var s source
	r.flush(s.upsert(5, 1, "five"), s.upsert(2, 2, "two"))
	r.flush(s.upsert(3, 1, "three"), s.remove(1, 2), s.upsert(5, 1, "five again"))
	r.want("item", "1 five", "2 two")
	r.flush(s.remove(7, 1), s.upsert(6, 1, "six"))
	r.want("item", "2 two")
	r.reopen()
	r.flush(s.upsert(6, 1, "six"))
	r.want("item", "2 two")
	r.flush(s.upsert(8, 1, "eight"), s.upsert(10, 1, "ten"), s.upsert(9, 1, "nine"))
	r.want("item", "1 ten", "2 two")
	got := r.stats("item")
	want := sink.TableStats{
		Database: "lake", Table: "item", Delivered: 4, Applied: 1, Collapsed: 1, Superseded: 2, Commits: 1, Rows: 2, DataFiles: -1, DeleteFiles: -1,
		Newest: start.Add(10 * time.Second), Position: change(10),
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func TestKeylessMirrorWritesAPositionOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, sink.Options{})
	var s source
	row := func(n uint64, v string) sink.Delivery {
		return s.next("heap", cdc.Insert, map[string]any{"v": v, "cdc_position": change(n), "cdc_committed_at": nil})
	}
	r.flush(row(1, "a"), row(2, "a"), row(1, "a"))
	r.reopen()
	r.flush(row(2, "a"), row(3, "b"))
	r.want("heap", "a", "a", "b")
}

// pass makes changes of row 3 until the horizon's clock says that n seconds
// have passed since the start.
func (s *source) pass(n uint64) []sink.Delivery {
	changes := make([]sink.Delivery, 0, 31)
	for i := range uint64(cap(changes)) {
		changes = append(changes, s.next("item", cdc.Update, map[string]any{
			"id": 3, "v": "at " + strconv.FormatUint(n, 10), "cdc_position": change(1000*n + i), "cdc_committed_at": when(n),
		}))
	}
	return changes
}

func TestHorizon(t *testing.T) {
	t.Parallel()
	const horizon = 100 // seconds
	r := newRig(t, sink.Options{Horizon: horizon * time.Second})
	var s source
	r.flush(s.upsert(1, 1, "a"), s.upsert(2, 2, "b"))
	r.flush(s.remove(10, 1))
	// Within the horizon a late change loses against the tombstone.
	r.flush(s.pass(10 + horizon)...)
	r.flush(s.upsert(5, 1, "late"))
	r.want("item", "2 b", "3 at 110")
	if len(r.rejected) > 0 {
		t.Fatalf("rejected within the horizon: %v", r.rejected)
	}
	// Beyond it nobody remembers, so it must be kept out.
	r.flush(s.pass(20 + horizon)...)
	r.flush(s.upsert(5, 1, "late"))
	r.reopen()
	r.flush(s.upsert(6, 1, "late"), s.upsert(10, 4, "older than the forgotten delete"), s.remove(7, 1))
	r.want("item", "2 b", "3 at 120")
	if diff := gocmp.Diff([]sink.Reason{sink.OlderThanHorizon, sink.OlderThanHorizon, sink.OlderThanHorizon}, r.rejected); diff != "" {
		t.Fatalf("rejected (-want +got):\n%s", diff)
	}
	// A key that the table holds, and changes above the floor, are not affected.
	r.flush(s.upsert(9, 2, "e"), s.upsert(11, 5, "f"))
	r.want("item", "2 e", "3 at 120", "5 f")
}

// TestHorizonOutlivesWrongTimes: commit times in the far future, as many as a
// window tells from the rest, forget no tombstone, in whatever commits they come
// and across restarts.
func TestHorizonOutlivesWrongTimes(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		r := newRig(t, sink.Options{Horizon: 100 * time.Second})
		var s source
		wrong := func(n uint64) sink.Delivery {
			return s.next("item", cdc.Update, map[string]any{
				"id": 4, "v": "x", "cdc_position": change(1_000_000 + n), "cdc_committed_at": "2199-01-01T00:00:00.000000Z",
			})
		}
		if first {
			r.flush(wrong(0), s.upsert(1, 1, "a"), s.upsert(2, 2, "b"))
		}
		r.flush(s.upsert(3, 1, "c"), s.remove(10, 1))
		r.flush(s.pass(12)...)
		for i := range uint64(15) {
			r.flush(wrong(1 + i))
			r.reopen()
		}
		r.flush(s.upsert(5, 1, "late"))
		if len(r.rejected) > 0 {
			t.Errorf("first %t: a tombstone was forgotten: %v", first, r.rejected)
		}
		// One more, and most of the last changes say that it is the year 2199.
		r.flush(wrong(100))
		r.flush(s.upsert(6, 1, "late"))
		if !slices.Equal(r.rejected, []sink.Reason{sink.OlderThanHorizon}) {
			t.Errorf("first %t: the clock stands still: %v", first, r.rejected)
		}
	}
}

// TestHorizonSurvivesACrashBeforeItIsNoted: a restart reads the tombstones
// again and comes to the same floor.
func TestHorizonSurvivesACrashBeforeItIsNoted(t *testing.T) {
	t.Parallel()
	r := newRig(t, sink.Options{Horizon: 100 * time.Second})
	var s source
	r.flush(s.upsert(1, 1, "a"))
	r.flush(s.remove(10, 1))
	r.flush(s.pass(500)...)
	r.reopen()
	r.flush(s.upsert(5, 1, "late"))
	r.want("item", "3 at 500")
	if !slices.Equal(r.rejected, []sink.Reason{sink.OlderThanHorizon}) {
		t.Fatalf("rejected %v", r.rejected)
	}
	// The next commits drop the file whose tombstones are all forgotten.
	r.flush(s.upsert(501, 2, "c"))
	if files := r.lake.Table("lake", "item").Files(); len(files) > 0 {
		t.Fatalf("files of forgotten tombstones stay: %v", files)
	}
	r.reopen()
	r.flush(s.upsert(5, 1, "late"))
	r.want("item", "2 c", "3 at 500")
}

// TestTombstoneFilesStayFew: many commits with deletes leave a logarithmic
// number of files, and all tombstones still count.
func TestTombstoneFilesStayFew(t *testing.T) {
	t.Parallel()
	r := newRig(t, sink.Options{})
	var s source
	const n = 200
	for i := range n {
		r.flush(s.remove(uint64(1000+i), i))
	}
	if files := r.lake.Table("lake", "item").Files(); len(files) > 9 {
		t.Fatalf("%d files of tombstones", len(files))
	}
	r.reopen()
	for i := range n {
		r.deliver(s.upsert(uint64(i+1), i, "late"))
	}
	r.flush()
	r.want("item")
	if got := r.stats("item").Superseded; got != n {
		t.Fatalf("%d late changes are superseded, want %d", got, n)
	}
}

func TestLostTombstonesAreNoticed(t *testing.T) {
	t.Parallel()
	r := newRig(t, sink.Options{})
	var s source
	r.flush(s.remove(1, 1))
	table := r.lake.Table("lake", "item")
	table.RemoveFile(table.Files()[0])
	if _, err := sink.Open(t.Context(), pipeline(t), r.lake, sink.Options{}); err == nil || !strings.Contains(err.Error(), "read tombstones") {
		t.Fatalf("open without tombstones: %v", err)
	}
}

func TestReject(t *testing.T) {
	t.Parallel()
	good := func() map[string]any {
		return map[string]any{"id": 1, "v": "x", "cdc_position": change(1), "cdc_committed_at": when(1)}
	}
	log := func(set map[string]any) map[string]any {
		row := good()
		maps.Copy(row, map[string]any{"cdc_operation": "insert", "cdc_old_key": nil, "cdc_absent": nil})
		maps.Copy(row, set)
		return row
	}
	with := func(set map[string]any) map[string]any {
		row := good()
		maps.Copy(row, set)
		return row
	}
	without := func(name string) map[string]any {
		row := good()
		delete(row, name)
		return row
	}
	for _, test := range []struct {
		name, table string
		operation   cdc.Operation
		row         map[string]any
		want        sink.Reason
	}{
		{"good", "item", cdc.Insert, good(), ""},
		{"good update", "item", cdc.Update, good(), ""},
		{"delete needs its key only", "item", cdc.Delete, without("v"), ""},
		{"quoted number", "item", cdc.Insert, with(map[string]any{"id": "1"}), ""},
		{"null value", "item", cdc.Insert, with(map[string]any{"v": nil}), ""},
		{"no commit time", "item", cdc.Insert, with(map[string]any{"cdc_committed_at": nil}), ""},
		{"good log", "log", cdc.Insert, log(nil), ""},
		{"load", "item", cdc.Load, good(), sink.UnknownOperation},
		{"delete in a changelog", "log", cdc.Delete, log(nil), sink.UnknownOperation},
		{"update without key", "heap", cdc.Update, good(), sink.NoKey},
		{"delete without key", "heap", cdc.Delete, good(), sink.NoKey},
		{"table", "other", cdc.Insert, good(), sink.UnknownTable},
		{"missing column", "item", cdc.Insert, without("v"), sink.MissingColumn},
		{"delete without its key", "item", cdc.Delete, without("id"), sink.MissingColumn},
		{"delete without position", "item", cdc.Delete, without("cdc_position"), sink.MissingColumn},
		{"unknown column", "item", cdc.Insert, with(map[string]any{"w": 1}), sink.UnknownColumn},
		{"null key", "item", cdc.Insert, with(map[string]any{"id": nil}), sink.NullKey},
		{"null key in a changelog", "log", cdc.Insert, log(map[string]any{"id": nil}), sink.NullKey},
		{"null position", "item", cdc.Insert, with(map[string]any{"cdc_position": nil}), sink.NoPosition},
		{"wrong position", "item", cdc.Insert, with(map[string]any{"cdc_position": "12"}), sink.NoPosition},
		{"wrong value", "item", cdc.Insert, with(map[string]any{"id": "one"}), sink.InvalidValue},
		{"nested value", "item", cdc.Insert, with(map[string]any{"v": []int{1}}), sink.InvalidJSON},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, sink.Options{})
			var s source
			r.flush(s.next(test.table, test.operation, test.row), s.upsert(9, 9, "goes on"))
			var want []sink.Reason
			if test.want != "" {
				want = []sink.Reason{test.want}
			}
			if diff := gocmp.Diff(want, r.rejected); diff != "" {
				t.Fatalf("rejected (-want +got):\n%s", diff)
			}
			if got := r.stats("item"); got.Rows == 0 {
				t.Error("a rejected row stopped the others")
			}
		})
	}
}

func TestRejectErrorNamesNoValue(t *testing.T) {
	t.Parallel()
	err := &sink.RejectError{Database: "lake", Table: "item", Column: "v", Reason: sink.InvalidValue}
	if got, want := err.Error(), "write row of lake.item column v: invalid_value"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBuffersAreBounded(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]sink.Options{"rows": {FlushRows: 10}, "bytes": {FlushBytes: 4000}} {
		r := newRig(t, options)
		var s source
		for i := range 100 {
			r.deliver(s.upsert(uint64(i+1), i, strings.Repeat("x", 100)))
		}
		if got := r.stats("item"); got.Applied < 80 || got.Commits < 5 {
			t.Errorf("%s: after 100 rows without Flush: %+v", name, got)
		}
	}
}

func TestBusyIsMeasured(t *testing.T) {
	t.Parallel()
	now := start
	r := newRig(t, sink.Options{Now: func() time.Time { now = now.Add(time.Second); return now }})
	var s source
	r.flush(s.upsert(1, 1, "a"))
	if got := r.stats("item").Busy; got <= 0 {
		t.Errorf("busy for %v", got)
	}
}

func TestFloatKeyIsRefused(t *testing.T) {
	t.Parallel()
	p := sinktest.Pipeline(t, strings.Replace(tables, "{name: id, type: long}", "{name: id, type: long}, {name: f, type: double}", 1))
	p.Tables[0].Columns[0].Type = catalog.Type{Kind: catalog.Double}
	if _, err := sink.Open(t.Context(), p, sinktest.NewLake(), sink.Options{}); err == nil {
		t.Fatal("a double is accepted as key")
	}
}
