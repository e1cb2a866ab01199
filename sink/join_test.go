package sink_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/sinktest"
	streams "icehose/sink/source"
)

const oneTable = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- source: s.item
  mode: mirror
  key: [id]
  columns: [{name: id, type: long}, {name: v, type: string}]
`

// TestJoin: a table that the pipeline file gained begins, where the source
// continues, with the records that the others get next, whatever is cut off. A
// run over the whole stream brings it the records before.
func TestJoin(t *testing.T) {
	t.Parallel()
	lake := newKeeper()
	open := func(text string, resumes bool) *sink.Sink {
		t.Helper()
		s, err := sink.Open(t.Context(), sinktest.Pipeline(t, text), lake, sink.Options{Continue: resumes})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	handled := func(s *sink.Sink, want uint64) {
		t.Helper()
		if got := s.Handled()[offset(0).Shard]; got != want {
			t.Errorf("handled %d, want %d", got, want)
		}
	}
	var s source
	log := func(n uint64) sink.Delivery {
		return s.next("log", cdc.Insert, map[string]any{
			"id": n, "v": "x", "cdc_position": change(n), "cdc_committed_at": nil, "cdc_operation": "insert", "cdc_old_key": nil, "cdc_absent": nil,
		})
	}
	stream := []sink.Delivery{s.upsert(1, 1, "a"), log(2), s.upsert(3, 1, "b")}
	one := open(oneTable, false)
	deliver(t, one, stream...)
	closeSink(t, one)

	two := open(tables, true)
	handled(two, 3)
	stream = append(stream, s.upsert(4, 1, "c"), log(5))
	deliver(t, two, stream[3:]...)
	lake.Fault = func(step sinktest.Step, table string) error {
		if step == sinktest.BeforeCommit && table == "lake.log" {
			return errInjected
		}
		return nil
	}
	if err := two.Flush(t.Context()); !errors.Is(err, errInjected) {
		t.Fatalf("flush: %v", err)
	}
	lake.Fault = nil

	// The old table is further than the new one, whose record must come again.
	three := open(tables, true)
	handled(three, 3)
	// It began with no more than that, which it remembers.
	if got := three.Last()[offset(0).Shard]; got != offset(2) {
		t.Errorf("last record that all have: %+v, want %+v", got, offset(2))
	}
	if got := continued(t, three, 2, 5); len(got) != 2 || got[0] != offset(3) || got[1] != offset(4) {
		t.Errorf("the source goes on with %+v", got)
	}
	uneven := three.Uneven()[offset(0).Shard]
	if uneven.Last.Ordinal != 4 || uneven.Last.Sequence != offset(4).Sequence || uneven.Behind == nil || uneven.Behind.Name() == "item" {
		t.Errorf("uneven: %+v", uneven)
	}
	deliver(t, three, stream[3:]...)
	closeSink(t, three)
	four := open(tables, true)
	handled(four, 5)
	if got := four.Last()[offset(0).Shard]; got != offset(4) {
		t.Errorf("last record %+v, want %+v", got, offset(4))
	}
	if len(four.Uneven()) > 0 {
		t.Errorf("uneven after a close: %+v", four.Uneven())
	}
	if m := lake.checkpoint(t).Shards[offset(0).Shard]; m.Records != 5 {
		t.Errorf("checkpoint: %+v", m)
	}

	whole := open(tables, false)
	handled(whole, 0)
	deliver(t, whole, stream...)
	closeSink(t, whole)
	handled(open(tables, false), 5)
	var got []string
	def := pipeline(t).ByTarget("lake", "log")
	for _, row := range sinktest.Contents(t.Context(), t, lake.Table("lake", "log"), def) {
		got = append(got, fmt.Sprint(row[0], " ", row[1]))
	}
	if diff := gocmp.Diff([]string{"2 x", "5 x"}, got); diff != "" {
		t.Errorf("rows of the new table (-want +got):\n%s", diff)
	}
}

// continued returns the offsets with which files of records from to go on.
func continued(t *testing.T, s *sink.Sink, from, to uint64) (got []sink.Offset) {
	t.Helper()
	var text strings.Builder
	for n := from; n < to; n++ {
		fmt.Fprintf(&text, `{"shardId":%q,"sequenceNumber":%q,"data":"x"}`+"\n", offset(n).Shard, offset(n).Sequence)
	}
	files := &streams.Files{Names: []string{"-"}, Input: strings.NewReader(text.String()), Continue: true, Uneven: s.Uneven()}
	for record, err := range files.Records(t.Context(), s.Last()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, record.Offset)
	}
	return got
}

// TestJoinAfterRepair: a table that has no more than rows of commands joins like a
// new one. One that was loaded anew at a lower floor does not: what comes from
// there on is its own.
func TestJoinAfterRepair(t *testing.T) {
	t.Parallel()
	lake := newKeeper()
	open := func(text string, resumes bool) *sink.Sink {
		t.Helper()
		s, err := sink.Open(t.Context(), sinktest.Pipeline(t, text), lake, sink.Options{Continue: resumes})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	repair := func(n, at uint64) {
		t.Helper()
		s := open(onlyHeap, false)
		var from source
		d := from.next("heap", cdc.Insert, map[string]any{"v": "x", "cdc_position": change(at), "cdc_committed_at": nil})
		d.Offset = sink.Offset{Shard: sink.RepairShard, Ordinal: n}
		deliver(t, s, d)
		closeSink(t, s)
	}
	var s source
	one := open(oneTable, false)
	deliver(t, one, s.upsert(1, 1, "a"), s.upsert(2, 1, "b"))
	closeSink(t, one)
	repair(0, 1)
	two := open(tables, true)
	if got := two.Last()[offset(0).Shard]; got != offset(1) || len(two.Uneven()) > 0 {
		t.Errorf("last record %+v, uneven %+v", got, two.Uneven())
	}
	closeSink(t, two)

	table := lake.Table("lake", "heap")
	state, err := table.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	notes, err := sink.Rewound(state.Properties)
	if err != nil {
		t.Fatal(err)
	}
	notes[sink.PropertyCommit] = "load"
	if err := table.Commit(t.Context(), &sink.Batch{Parent: state.Properties[sink.PropertyCommit], ID: "load", Properties: notes}); err != nil {
		t.Fatal(err)
	}
	for n := range uint64(2) {
		three := open(tables, true)
		if got, ok := three.Handled()[offset(0).Shard]; ok || len(three.Uneven()) != 1 {
			t.Errorf("handled %d, uneven %+v", got, three.Uneven())
		}
		repair(n+1, 10+n)
	}
}

const onlyHeap = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- {source: s.heap, mode: mirror, columns: [{name: v, type: string}]}
`

// TestJoinFails: a sink that cannot note where a table begins leaves no file.
func TestJoinFails(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	lake := newKeeper()
	var s source
	one, err := sink.Open(t.Context(), sinktest.Pipeline(t, oneTable), lake, sink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	deliver(t, one, s.upsert(1, 1, "a"))
	closeSink(t, one)
	files := 0
	lake.Fault = func(step sinktest.Step, _ string) error {
		if step != sinktest.BeforeCommit {
			return nil
		}
		left, err := os.ReadDir(temp)
		files = len(left)
		return errors.Join(errInjected, err)
	}
	if _, err := sink.Open(t.Context(), pipeline(t), lake, sink.Options{Continue: true, IndexMemory: 1, IndexDir: temp}); !errors.Is(err, errInjected) {
		t.Fatalf("open: %v", err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 || files == 0 {
		t.Errorf("of %d left %v, %v", files, left, err)
	}
}
