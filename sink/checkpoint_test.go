package sink_test

import (
	"context"
	"errors"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/sinktest"
)

// A keeper is a lake that keeps checkpoints.
type keeper struct {
	*sinktest.Lake
	files  map[string][]byte
	err    error
	writes int
}

func newKeeper() *keeper { return &keeper{Lake: sinktest.NewLake(), files: make(map[string][]byte)} }

func (k *keeper) WriteCheckpoint(_ context.Context, name string, data []byte) error {
	if k.err == nil {
		k.files[name] = data
		k.writes++
	}
	return k.err
}

func (k *keeper) ReadCheckpoint(_ context.Context, name string) ([]byte, error) {
	return k.files[name], k.err
}

func (k *keeper) open(t *testing.T) *sink.Sink {
	t.Helper()
	s, err := sink.Open(t.Context(), pipeline(t), k, sink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (k *keeper) checkpoint(t *testing.T) *sink.Checkpoint {
	t.Helper()
	c, err := sink.ReadCheckpoint(t.Context(), k, pipeline(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func closeSink(t *testing.T, s *sink.Sink) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func deliver(t *testing.T, s *sink.Sink, d ...sink.Delivery) {
	t.Helper()
	if err := s.Deliver(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// in moves a delivery to another shard, as its n-th record.
func in(shard string, n uint64, d sink.Delivery) sink.Delivery {
	d.Offset = sink.Offset{Shard: shard, Ordinal: n, Sequence: "7"}
	return d
}

func TestCheckpoint(t *testing.T) {
	t.Parallel()
	lake := newKeeper()
	if c := lake.checkpoint(t); c != nil {
		t.Fatalf("a new lake has a checkpoint: %+v", c)
	}
	var s source
	one := lake.open(t)
	deliver(t, one, in("a", 0, s.upsert(10, 1, "x")), in("a", 1, s.upsert(20, 2, "x")), in("b", 0, s.upsert(15, 3, "x")))
	closeSink(t, one)
	c := lake.checkpoint(t)
	want := map[string]sink.ShardMark{
		"a": {Records: 2, Sequence: "7", Position: change(20)},
		"b": {Records: 1, Sequence: "7", Position: change(15)},
	}
	for shard, m := range c.Shards {
		if m.CommittedAt == nil {
			t.Errorf("shard %s: no commit time", shard)
		}
		m.CommittedAt = nil
		c.Shards[shard] = m
	}
	if diff := gocmp.Diff(want, c.Shards); diff != "" {
		t.Fatalf("shards (-want +got):\n%s", diff)
	}
	if low, ok := c.Watermark(); !ok || low != change(15) {
		t.Errorf("watermark %s %t, want %s", low, ok, change(15))
	}
	if len(c.Tables) != 3 || c.Tables["lake.item"] == "" || c.Tables["lake.item"] == c.Tables["lake.log"] {
		t.Errorf("tables: %v", c.Tables)
	}

	// A hole: the record behind it is in the lake, and the position stays.
	two := lake.open(t)
	deliver(t, two, in("a", 3, s.upsert(40, 1, "y")))
	closeSink(t, two)
	if m := lake.checkpoint(t).Shards["a"]; m.Records != 2 || m.Position != change(20) {
		t.Errorf("with a hole: %+v", m)
	}
	// It is filled, by a run that did not see what is behind it.
	three := lake.open(t)
	deliver(t, three, in("a", 2, s.upsert(30, 1, "z")))
	closeSink(t, three)
	if m := lake.checkpoint(t).Shards["a"]; m.Records != 4 || m.Position < change(20) || m.Position > change(40) {
		t.Errorf("with the hole filled: %+v", m)
	}
	// A shard that goes back in positions promises nothing.
	four := lake.open(t)
	deliver(t, four, in("b", 1, s.upsert(9, 9, "late")))
	closeSink(t, four)
	if low, ok := lake.checkpoint(t).Watermark(); ok {
		t.Errorf("a shard out of order gives watermark %s", low)
	}
	writes := lake.writes
	closeSink(t, lake.open(t))
	if lake.writes != writes {
		t.Errorf("a run with nothing new wrote the checkpoint")
	}
}

// TestCheckpointIsWrittenAfterTheCommits: never by a run of which a commit failed.
func TestCheckpointIsWrittenAfterTheCommits(t *testing.T) {
	t.Parallel()
	lake := newKeeper()
	var s source
	one := lake.open(t)
	deliver(t, one, s.upsert(1, 1, "x"))
	lake.Fault = func(step sinktest.Step, table string) error {
		if step == sinktest.BeforeCommit && table == "lake.heap" {
			return errInjected
		}
		return nil
	}
	if err := one.Close(t.Context()); !errors.Is(err, errInjected) {
		t.Fatalf("close: %v", err)
	}
	if c := lake.checkpoint(t); c != nil {
		t.Fatalf("checkpoint %+v although a table has not committed", c)
	}
	lake.Fault, lake.err = nil, errInjected
	if err := one.Close(t.Context()); !errors.Is(err, errInjected) {
		t.Fatalf("close without a place for the checkpoint: %v", err)
	}
	lake.err = nil
	closeSink(t, one)
	if c := lake.checkpoint(t); c == nil || c.Shards[offset(0).Shard].Records != 1 {
		t.Errorf("checkpoint %+v", c)
	}
}

// TestDamagedCheckpoint: the tables know better.
func TestDamagedCheckpoint(t *testing.T) {
	t.Parallel()
	lake := newKeeper()
	lake.files["lake.checkpoint.json"] = []byte(`{"version": 1, "shar`)
	var s source
	one := lake.open(t)
	deliver(t, one, s.upsert(1, 1, "x"))
	closeSink(t, one)
	if c := lake.checkpoint(t); c.Shards[offset(0).Shard].Records != 1 {
		t.Errorf("checkpoint %+v", c)
	}
	lake.files["lake.checkpoint.json"] = []byte(`{"version": 2}`)
	if _, err := sink.Open(t.Context(), pipeline(t), lake, sink.Options{}); err == nil {
		t.Error("a checkpoint of a later version was overwritten")
	}
}

// TestCheckpointOfOtherPositions: changes whose positions are of another kind
// than the source's do not count.
func TestCheckpointOfOtherPositions(t *testing.T) {
	t.Parallel()
	p := sinktest.Pipeline(t, `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- {source: s.item, mode: mirror, key: [id], position: "column:n", columns: [{name: id, type: long}, {name: n, type: long}]}
`)
	lake := newKeeper()
	s, err := sink.Open(t.Context(), p, lake, sink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var from source
	deliver(t, s, from.next("item", cdc.Update, map[string]any{"id": 1, "n": 1, "cdc_position": change(5), "cdc_committed_at": nil}))
	closeSink(t, s)
	c, err := sink.ReadCheckpoint(t.Context(), lake, p)
	if err != nil || c.Shards[offset(0).Shard].Records != 1 {
		t.Fatalf("checkpoint %+v, %v", c, err)
	}
	if low, ok := c.Watermark(); ok {
		t.Errorf("watermark %s", low)
	}
}

// TestWatermarkOfOtherShards: rows that a command brings as records of a shard of
// its own say nothing of how far the stream is, in new checkpoints and in those
// that name such shards.
func TestWatermarkOfOtherShards(t *testing.T) {
	t.Parallel()
	lake := newKeeper()
	var s source
	one := lake.open(t)
	deliver(t, one, in("a", 0, s.upsert(10, 1, "x")), in("a", 1, s.upsert(20, 2, "x")))
	closeSink(t, one)
	for n, shard := range []string{sink.RepairShard, sink.ResyncShard("00"), sink.RedrivenShard("rejects.ndjson", "a")} {
		two := lake.open(t)
		deliver(t, two, in(shard, 0, s.upsert(uint64(3+n), 100+n, "old")))
		closeSink(t, two)
		c := lake.checkpoint(t)
		if low, ok := c.Watermark(); !ok || low != change(20) || len(c.Shards) != 1 {
			t.Errorf("after records of %s: watermark %s %t, shards %v", shard, low, ok, c.Shards)
		}
		if got := lake.open(t).Handled()[shard]; got != 1 {
			t.Errorf("handled %d records of %s, want 1", got, shard)
		}
		c.Shards[shard] = sink.ShardMark{Records: 1} // as it was written once
		if low, ok := c.Watermark(); !ok || low != change(20) {
			t.Errorf("with a mark of %s: watermark %s %t", shard, low, ok)
		}
	}
}
