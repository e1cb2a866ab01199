package sink_test

import (
	"encoding/json"
	"maps"
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
	r.options.Reject = func(_ sink.Offset, err *sink.RejectError) error {
		r.rejected = append(r.rejected, err.Reason)
		return nil
	}
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
	if got.IndexMemory == 0 {
		t.Error("the index takes no memory")
	}
	got.IndexMemory = 0
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
