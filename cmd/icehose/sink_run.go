package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"icehose/catalog"
	"icehose/sink"
	"icehose/sink/iceberg"
	sinksource "icehose/sink/source"
	"icehose/transform"
)

// A sinkRun is one run of the command.
type sinkRun struct {
	cmd         *sinkCmd
	env         *environment
	pipeline    *catalog.Pipeline
	transformer *transform.Transformer
	sink        *sink.Sink
	maintainer  *iceberg.Maintainer // nil without --maintain
	rejects     *rejects
	abort       context.CancelCauseFunc // ends everything, commits in flight too
	pending     map[string]*shardBatch  // by shard
	delivering  *shardBatch
	tables      map[string]*tally // by source table
	noTable     tally             // of records of no table
	before      uint64            // records that every table held when the run began
	oldKeys     int64             // rows left under a former key
	damaged     int64             // lines that hold no record
	flushes     int

	refused map[string]string // target table -> why it takes no rows

	records, failed atomic.Int64
}

// A shardBatch is what was read of a shard and not delivered yet.
type shardBatch struct {
	records []sinksource.Record
	inputs  []transform.Record
}

// carry delivers every record that the source yields, until it ends or ctx is
// done, and commits within work.
func (r *sinkRun) carry(ctx, work context.Context) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	after := r.sink.Last()
	for _, last := range after {
		r.before += last.Ordinal + 1
	}
	records, ended := make(chan sinksource.Record, 1024), make(chan error, 1)
	// On standard input a reader cannot be woken: it is left behind, and ends
	// with the process.
	go func() {
		defer close(records)
		for record, err := range r.cmd.source(r.env).Records(reading, after) {
			if err != nil {
				ended <- err
				return
			}
			select {
			case records <- record:
			case <-reading.Done():
				return
			}
		}
	}()
	flush := time.NewTicker(r.cmd.FlushEvery)
	defer flush.Stop()
	if err := r.take(ctx, work, records, flush.C); err != nil {
		return err
	}
	if err := r.deliverAll(work); err != nil {
		return err
	}
	if err := r.sink.Close(work); err != nil {
		return err
	}
	r.maintain(ctx)
	select {
	case err := <-ended:
		return err // what came before it is committed
	default:
		return nil
	}
}

// take takes the records until there are no more or ctx is done.
func (r *sinkRun) take(ctx, work context.Context, records <-chan sinksource.Record, flush <-chan time.Time) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-flush:
			if err := r.flush(work); err != nil {
				return err
			}
			r.maintain(ctx)
		case record, ok := <-records:
			if !ok {
				return nil
			}
			if err := r.add(work, record); err != nil {
				return err
			}
		}
	}
}

// checkpointEvery is after how many flushes tables that got no rows note how
// far the stream was read: a run that is killed has to read that much again.
const checkpointEvery = 30

// flush commits everything that was read.
func (r *sinkRun) flush(ctx context.Context) error {
	if err := r.deliverAll(ctx); err != nil {
		return err
	}
	commit := r.sink.Flush
	if r.flushes++; r.flushes%checkpointEvery == 0 {
		commit = r.sink.Checkpoint
	}
	if err := commit(ctx); err != nil {
		return err
	}
	r.logStatus(ctx)
	return nil
}

// add takes one record and delivers its shard's batch when it is full.
func (r *sinkRun) add(ctx context.Context, record sinksource.Record) error {
	r.records.Add(1)
	if record.Damaged {
		r.damaged++
		return r.fail(ctx, &failure{record: &record, reason: string(transform.InvalidJSON), by: "source"})
	}
	b := r.pending[record.Offset.Shard]
	if b == nil {
		b = &shardBatch{}
		r.pending[record.Offset.Shard] = b
	}
	b.records = append(b.records, record)
	b.inputs = append(b.inputs, transform.Record{ID: record.Offset.Sequence, Data: record.Data, Origin: record.Origin})
	if len(b.records) < r.cmd.Batch {
		return nil
	}
	return r.deliver(ctx, b)
}

func (r *sinkRun) deliverAll(ctx context.Context) error {
	for _, b := range r.pending {
		if err := r.deliver(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// deliver transforms a batch and hands it to the sink.
func (r *sinkRun) deliver(ctx context.Context, b *shardBatch) error {
	if len(b.records) == 0 {
		return nil
	}
	results := r.transformer.Batch(b.inputs)
	deliveries := make([]sink.Delivery, len(results))
	for i := range results {
		deliveries[i].Offset = b.records[i].Offset
		row, err := r.settle(ctx, &b.records[i], &results[i])
		if err != nil {
			return err
		}
		deliveries[i].Row = row
	}
	if err := r.rejects.sync(); err != nil { // before a commit says that they were handled
		return err
	}
	r.delivering = b
	if err := r.sink.Deliver(ctx, deliveries); err != nil {
		return err
	}
	b.records, b.inputs = b.records[:0], b.inputs[:0]
	return nil
}

// settle counts a result, keeps the record if it failed, and returns the row.
func (r *sinkRun) settle(ctx context.Context, record *sinksource.Record, result *transform.Result) (*sink.Row, error) {
	t := r.tables[result.Table]
	if t == nil { // whoever writes the stream chooses the names: they must not fill the memory
		t = &r.noTable
	}
	t.changes++
	if result.OldKeyLeft {
		r.oldKeys++
		r.env.log.WarnContext(ctx, "old key left", slog.String("record_id", result.ID), slog.String("table", result.Table))
	}
	switch {
	case result.Outcome == transform.Ok:
		return &sink.Row{
			Database: result.Row.Table.Database(), Table: result.Row.Table.Name(), Operation: result.Row.Operation, Data: result.Row.Data,
		}, nil
	case result.Outcome == transform.ProcessingFailed:
		t.failed++
		return nil, r.fail(ctx, &failure{record: record, reason: string(result.Reason), table: result.Table, column: result.Column, by: "transform"})
	case result.Reason == transform.Superseded:
		t.superseded++
	default:
		t.dropped++
	}
	return nil, nil
}

// fail logs a record that failed, without its values, and keeps it in the
// file of rejects.
func (r *sinkRun) fail(ctx context.Context, f *failure) error {
	r.failed.Add(1)
	r.env.log.ErrorContext(ctx, "record failed", slog.String("record_id", f.record.Offset.Sequence), slog.String("table", f.table),
		slog.String("column", f.column), slog.String("reason", f.reason), slog.String("stage", f.by), slog.String("place", f.record.Place))
	return r.rejects.write(f)
}

// rejected is called by the sink, in the middle of a delivery, for a row that
// it cannot write. If the record cannot be kept, nothing may be committed.
func (r *sinkRun) rejected(ctx context.Context, o sink.Offset, reason *sink.RejectError) {
	for i := range r.delivering.records {
		record := &r.delivering.records[i]
		if record.Offset != o {
			continue
		}
		f := &failure{record: record, reason: string(reason.Reason), table: reason.Database + "." + reason.Table, column: reason.Column, by: "sink"}
		if err := errors.Join(r.fail(ctx, f), r.rejects.sync()); err != nil {
			r.abort(fmt.Errorf("keep rejected record: %w", err))
		}
		return
	}
}

// onRefused lets a run go on without the tables that take no rows, as long as
// their records are kept.
func (r *sinkRun) onRefused() func(*catalog.Table, error) {
	if r.cmd.Rejects == "" {
		return nil
	}
	r.refused = make(map[string]string)
	return func(t *catalog.Table, err error) {
		r.refused[t.Database()+"."+t.Name()] = err.Error()
		r.env.log.Error("table refused", slog.String("table", t.Database()+"."+t.Name()), slog.String("error", err.Error()))
	}
}
