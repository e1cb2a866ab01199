package sink_test

import (
	"fmt"
	"testing"

	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/sinktest"
)

// watermark compares the low watermark, which is empty where there is none.
func (k *keeper) watermark(t *testing.T, when string, low cdc.Position) {
	t.Helper()
	if got, ok := k.checkpoint(t).Watermark(); got != low || ok != (low != "") {
		t.Errorf("%s: watermark %s %t, want %s", when, got, ok, low)
	}
}

// of makes a delivery record n of a shard.
func of(shard string, n uint64, d sink.Delivery) sink.Delivery {
	d.Offset = sink.Offset{Shard: shard, Ordinal: n, Sequence: fmt.Sprint(100 + n)}
	return d
}

// TestFinishedShard: the watermark waits for a shard that is closed no longer
// than until somebody says so, and again when it turns out not to be.
func TestFinishedShard(t *testing.T) {
	t.Parallel()
	lake := newKeeper()
	var s source
	one := lake.open(t)
	deliver(t, one, of("parent", 0, s.upsert(10, 1, "x")), of("child", 0, s.upsert(20, 2, "x")))
	closeSink(t, one)
	lake.watermark(t, "before anybody has said so", change(10))
	two := lake.open(t)
	deliver(t, two, of("child", 1, s.upsert(30, 2, "x")))
	two.Finish("parent", "unheard-of")
	closeSink(t, two)
	lake.watermark(t, "with a finished shard", change(30))
	three := lake.open(t)
	deliver(t, three, of("parent", 0, s.upsert(10, 1, "x")), of("child", 2, s.upsert(40, 2, "x")))
	closeSink(t, three)
	lake.watermark(t, "with an old record of it", change(40))
	four := lake.open(t)
	deliver(t, four, of("parent", 1, s.upsert(15, 1, "x")))
	closeSink(t, four)
	lake.watermark(t, "with a new record of it", change(15))
	five := lake.open(t)
	deliver(t, five, of("parent", 2, s.upsert(17, 1, "x")))
	five.Finish("parent")
	closeSink(t, five)
	lake.watermark(t, "when its records are all there", change(40))
}

// TestRewoundCheckpoint: a table that is loaded anew at a lower floor, or one that
// is new and gets all of the stream, takes the watermark back until the others'
// records have come once more. Those are not behind, and a parent stays finished.
func TestRewoundCheckpoint(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(*testing.T, *keeper) string{
		"loaded anew": func(t *testing.T, lake *keeper) string {
			t.Helper()
			table := lake.Table("lake", "item")
			state, err := table.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			notes, err := sink.Rewound(state.Properties)
			if err != nil {
				t.Fatal(err)
			}
			if err := sink.RewindCheckpoint(t.Context(), lake, pipeline(t)); err != nil {
				t.Fatal(err)
			}
			lake.watermark(t, "before the sink runs", "")
			notes[sink.PropertyCommit] = "load"
			if err := table.Commit(t.Context(), &sink.Batch{Parent: state.Properties[sink.PropertyCommit], ID: "load", Properties: notes}); err != nil {
				t.Fatal(err)
			}
			return oneTable
		},
		"new table": func(*testing.T, *keeper) string { return tables },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lake := newKeeper()
			var s source
			stream := []sink.Delivery{
				of("parent", 0, s.upsert(10, 1, "x")), of("parent", 1, s.upsert(12, 1, "y")), of("child", 0, s.upsert(20, 2, "x")), of("child", 1, s.upsert(30, 2, "y")),
			}
			open := func(text string) *sink.Sink {
				t.Helper()
				out, err := sink.Open(t.Context(), sinktest.Pipeline(t, text), lake, sink.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			checkpoint := func(s *sink.Sink) {
				t.Helper()
				if err := s.Checkpoint(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			one := open(oneTable)
			deliver(t, one, stream...)
			one.Finish("parent")
			closeSink(t, one)
			lake.watermark(t, "at first", change(30))

			two := open(after(t, lake))
			if got := two.Handled(); len(got) > 0 {
				t.Errorf("handled %v", got)
			}
			lake.watermark(t, "when nothing has come again", "")
			deliver(t, two, stream[2:]...)
			checkpoint(two)
			lake.watermark(t, "when one shard has", "")
			deliver(t, two, stream[:1]...)
			checkpoint(two)
			m := lake.checkpoint(t).Shards["parent"]
			if m.Records != 1 || m.Finished || m.Position > change(10) {
				t.Errorf("when the other has in part: %+v", m)
			}
			deliver(t, two, stream[1:2]...)
			deliver(t, two, of("child", 2, s.upsert(40, 2, "z")))
			closeSink(t, two)
			lake.watermark(t, "when all has", change(40))
			for shard, m := range lake.checkpoint(t).Shards {
				if m.Behind > 0 {
					t.Errorf("shard %s: %+v", shard, m)
				}
			}
		})
	}
}

// TestNotKept: a record whose row is not kept is not handled, and what came before
// it is committed with its place.
func TestNotKept(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]func(d *sink.Delivery){
		"of a table":    func(d *sink.Delivery) { d.Row.Data = []byte(`{"id": null}`) },
		"of no table":   func(d *sink.Delivery) { d.Row.Table = "none" },
		"without a key": func(d *sink.Delivery) { d.Row.Table, d.Row.Operation = "heap", cdc.Delete },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lake := newKeeper()
			open := func() *sink.Sink {
				t.Helper()
				out, err := sink.Open(t.Context(), pipeline(t), lake, sink.Options{Reject: func(sink.Offset, *sink.RejectError) error { return errInjected }})
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			var s source
			one := open()
			stream := []sink.Delivery{s.upsert(1, 1, "a"), s.upsert(2, 2, "b"), s.upsert(3, 3, "c")}
			bad(&stream[1])
			for range 2 {
				if err := one.Deliver(t.Context(), stream); err == nil || err.Error() != errInjected.Error() {
					t.Fatalf("deliver: %v", err)
				}
			}
			closeSink(t, one)
			if got := one.Stats()[0].Applied; got != 1 {
				t.Errorf("%d rows applied, want 1", got)
			}
			if got := open().Last()[offset(0).Shard]; got != offset(0) {
				t.Errorf("last record %+v, want %+v", got, offset(0))
			}
		})
	}
}
