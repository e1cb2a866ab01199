package main

import (
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"icehose/catalog"
	"icehose/sink"
	"icehose/sink/sinktest"
	sinksource "icehose/sink/source"
	"icehose/transform"
)

// A commit that takes longer than --flush-every leaves time to read: else there
// would be one for every record or two.
func TestSlowCommitsLeaveTimeToRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, each = 20_000, time.Millisecond
		p, err := catalog.Parse("pipeline.yaml", []byte(redrivePipeline))
		if err != nil {
			t.Fatal(err)
		}
		commits, lake := 0, sinktest.NewLake()
		lake.Fault = func(step sinktest.Step, _ string) error {
			if step == sinktest.BeforeCommit {
				commits++
				<-time.After(5 * time.Second)
			}
			return nil
		}
		r := &sinkRun{
			cmd: &sinkCmd{FlushEvery: time.Second, Batch: 500}, env: &environment{log: slog.New(slog.DiscardHandler)}, pipeline: p,
			pending: make(map[string]*shardBatch), tables: newTallies(p), logged: &recordLog{now: time.Now, seen: make(map[likeness]*alike)},
		}
		if r.transformer, err = transform.New(p, transform.Options{}); err != nil {
			t.Fatal(err)
		}
		if r.sink, err = sink.Open(t.Context(), p, lake, sink.Options{}); err != nil {
			t.Fatal(err)
		}
		records := make(chan sinksource.Record)
		go func() {
			defer close(records)
			for i := range n {
				<-time.After(each)
				_, data := failedRecord("orders", i)
				records <- sinksource.Record{Offset: sink.Offset{Shard: "0", Sequence: strconv.Itoa(i + 1), Ordinal: uint64(i)}, Data: []byte(data)}
			}
		}()
		flush := time.NewTicker(r.cmd.FlushEvery)
		defer flush.Stop()
		all, err := r.take(t.Context(), t.Context(), records, flush)
		if err != nil || !all {
			t.Fatal(all, err)
		}
		if most := int(n * each / r.cmd.FlushEvery); commits == 0 || commits > most || r.noTable.failed+r.tables["public.orders"].failed > 0 {
			t.Errorf("%d commits, want at most %d; %+v %+v", commits, most, r.noTable, r.tables["public.orders"])
		}
	})
}
