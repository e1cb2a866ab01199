package main

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"icehose/catalog"
	"icehose/sink"
	"icehose/sink/sinktest"
	sinksource "icehose/sink/source"
	"icehose/transform"
)

// slowRun is a run into tables in memory, of which a commit takes some time.
func slowRun(t *testing.T, pipeline string, commit time.Duration, cmd sinkCmd) (r *sinkRun, commits map[string]int) {
	t.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte(pipeline))
	if err != nil {
		t.Fatal(err)
	}
	commits = make(map[string]int)
	lake := sinktest.NewLake()
	lake.Fault = func(step sinktest.Step, table string) error {
		if step == sinktest.BeforeCommit {
			commits[table]++
			<-time.After(commit)
		}
		return nil
	}
	r = &sinkRun{
		cmd: &cmd, env: &environment{log: slog.New(slog.DiscardHandler)}, pipeline: p, tables: newTallies(p),
		pending: make(map[string]*shardBatch), logged: &recordLog{now: time.Now, seen: make(map[likeness]*alike)},
	}
	if r.transformer, err = transform.New(p, transform.Options{}); err != nil {
		t.Fatal(err)
	}
	if r.sink, err = sink.Open(t.Context(), p, lake, sink.Options{}); err != nil {
		t.Fatal(err)
	}
	return r, commits
}

// orderRecord is a record of the table orders.
func orderRecord(shard string, i int) sinksource.Record {
	_, data := failedRecord("orders", i)
	return sinksource.Record{Offset: sink.Offset{Shard: shard, Sequence: strconv.Itoa(i + 1), Ordinal: uint64(i)}, Data: []byte(data)}
}

// takeEach gives the run a record after each of a time, as long as it reads.
func takeEach(t *testing.T, r *sinkRun, n int, each time.Duration) {
	t.Helper()
	records := make(chan sinksource.Record)
	go func() {
		defer close(records)
		for i := range n {
			<-time.After(each)
			records <- orderRecord("0", i)
		}
	}()
	flush := time.NewTicker(r.cmd.FlushEvery)
	defer flush.Stop()
	all, err := r.take(t.Context(), t.Context(), records, flush)
	if failed := r.noTable.failed + r.tables["public.orders"].failed; err != nil || !all || failed > 0 {
		t.Fatal(all, err, failed)
	}
}

// A commit that takes longer than --flush-every leaves time to read: else there
// would be one for every record or two.
func TestSlowCommitsLeaveTimeToRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, each = 20_000, time.Millisecond
		r, commits := slowRun(t, redrivePipeline, 5*time.Second, sinkCmd{FlushEvery: time.Second, FlushBytes: 64 << 20, Batch: 500})
		takeEach(t, r, n, each)
		if got, most := commits["shop.orders"], int(n*each/r.cmd.FlushEvery); got == 0 || got > most {
			t.Errorf("%d commits, want at most %d", got, most)
		}
	})
}

// Tables that get no rows say how far the stream was read, and where there are
// many of them they leave most of the time to those that get some.
func TestIdleTablesLeaveTimeToRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const idle, commit = 100, time.Second
		var pipeline strings.Builder
		pipeline.WriteString(redrivePipeline)
		for i := range idle {
			fmt.Fprintf(&pipeline, "  - {source: public.idle%d, mode: mirror, key: [id], columns: [{name: id, type: long}]}\n", i)
		}
		r, commits := slowRun(t, pipeline.String(), commit, sinkCmd{FlushEvery: 10 * time.Second, FlushBytes: 64 << 20, Batch: 500})
		began := time.Now()
		takeEach(t, r, 10_000, time.Second) // nearly three hours
		idling, took := time.Duration(0), time.Since(began)
		for table, n := range commits {
			if strings.Contains(table, "idle") {
				idling += time.Duration(n) * commit
			}
		}
		if idling < 2*idle*commit || idling*100 > took*6 {
			t.Errorf("idle tables took %v of %v, want up to 6 %%, and more than one commit each", idling, took)
		}
	})
}

// What waits to be transformed is bounded by bytes, over all shards.
func TestPendingBytes(t *testing.T) {
	t.Parallel()
	const most, each = 1 << 20, 50_000
	r, _ := slowRun(t, redrivePipeline, 0, sinkCmd{FlushEvery: time.Hour, FlushBytes: most, Batch: 500})
	for i := range 400 {
		for shard := range 8 {
			record := orderRecord(strconv.Itoa(shard), i)
			record.Data = append(record.Data, strings.Repeat(" ", each)...)
			if err := r.add(t.Context(), record); err != nil {
				t.Fatal(err)
			}
			held, stale := 0, 0
			for _, b := range r.pending {
				for _, p := range b.records {
					held += len(p.Data)
				}
				for _, p := range b.records[len(b.records):cap(b.records)] {
					stale += len(p.Data)
				}
			}
			if held > most/2 || held != r.pendingSize || stale > 0 {
				t.Fatalf("%d bytes are held, %d counted, %d of no use, want at most %d", held, r.pendingSize, stale, most/2)
			}
		}
	}
	if err := r.deliverAll(t.Context()); err != nil || r.tables["public.orders"].changes != 3200 || r.pendingSize != 0 {
		t.Errorf("%v, %+v, %d bytes are left", err, r.tables["public.orders"], r.pendingSize)
	}
}
