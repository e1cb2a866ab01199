package lake_test

import (
	"errors"
	"fmt"
	"testing"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/reconcile/lake"
	"icehose/reconcile/reconciletest"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// otherPipeline has another table of the database that reconciletest.Pipeline has.
const otherPipeline = `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - {source: public.other, mode: mirror, key: [id], columns: [{name: id, type: long}]}
`

// What the sink has recorded of its shards is how far the lake is: the least
// of them, nothing while one has none, or before the first commit.
func TestReached(t *testing.T) {
	p := reconciletest.Pipeline(t)
	store, err := iceberg.Open(t.Context(), t.TempDir(), iceberg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	reached := func(store lake.Store, want cdc.Position) {
		t.Helper()
		if got, err := lake.Reached(t.Context(), store, p); err != nil || got != want {
			t.Errorf("reached %q, %v; want %q", got, err, want)
		}
	}
	reached(newFakeStore(), "")
	reached(store, "")
	ordinal := map[string]uint64{}
	deliver := func(shard string, position cdc.Position) {
		t.Helper()
		s, err := sink.Open(t.Context(), p, store, sink.Options{})
		if err != nil {
			t.Fatal(err)
		}
		data := fmt.Sprintf(`{"note":"n","doc":"d","line":1,"cdc_position":%q,"cdc_committed_at":"2026-11-01T00:00:00.000000Z"}`, position)
		row := sink.Delivery{Offset: sink.Offset{Shard: shard, Ordinal: ordinal[shard]}, Row: &sink.Row{Database: "lake", Table: "lines", Operation: cdc.Update, Data: []byte(data)}}
		ordinal[shard]++
		if err := errors.Join(s.Deliver(t.Context(), []sink.Delivery{row}), s.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	at := func(lsn uint64) cdc.Position { return cdc.ChangePosition(0, cdc.Body{Hi: lsn}, 1) }
	deliver("s-0", at(20))
	reached(store, at(20))
	deliver("s-1", at(10))
	reached(store, at(10))
	deliver("s-1", at(30))
	reached(store, at(20))
	// What was repaired, swept or driven again is no part of the stream.
	deliver(sink.RepairShard, at(5))
	deliver(sink.ResyncShard("05"), at(6))
	deliver(sink.RedrivenShard("rejects.ndjson", "s-0"), at(7))
	reached(store, at(20))
	if p, err = catalog.Parse("pipeline.yaml", []byte(otherPipeline)); err != nil {
		t.Fatal(err)
	}
	reached(store, "") // the record of the database is that of other tables
	p = reconciletest.Pipeline(t)
	deliver("s-0", at(15)) // out of order: the shard says nothing more
	reached(store, "")
}
