package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"icehose/catalog"
	"icehose/cdc/kinesis"
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
	source      *sinksource.Files
	transformer *transform.Transformer
	sink        *sink.Sink
	maintenance iceberg.Maintenance
	maintainer  *iceberg.Maintainer // nil without --maintain
	rejects     *rejects
	logged      *recordLog
	pending     map[string]*shardBatch // by shard
	delivering  *shardBatch
	tables      map[string]*tally // by source table
	noTable     tally             // of records of no table
	before      uint64            // records that every table held when the run began
	oldKeys     int64             // rows left under a former key
	damaged     int64             // lines that hold no record
	bare        int64             // of damaged: those that hold what DMS wrote, without its envelope
	unsaid      int               // flushes since tables that got no rows noted how far the stream was read
	sayAfter    time.Time         // they do not before this
	pendingSize int               // bytes, of all of pending
	all         bool              // everything was read, to its end

	refused map[string]string // target table -> why it takes no rows

	records, failed atomic.Int64
	undelivered     atomic.Int64 // of records: those in pending
}

// A shardBatch is what was read of a shard and not delivered yet.
type shardBatch struct {
	records []sinksource.Record
	inputs  []transform.Record
	size    int // bytes of the records
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
	r.source.Uneven = r.sink.Uneven()
	records, ended := r.read(reading, after)
	flush := time.NewTicker(r.cmd.FlushEvery)
	defer flush.Stop()
	taken, err := r.take(ctx, work, records, flush)
	var unread error // why the source has ended before its end
	select {
	case unread = <-ended:
		r.all = taken && unread == nil
	default:
	}
	if errors.Is(unread, sinksource.ErrOtherStream) || errors.Is(unread, sinksource.ErrOrder) {
		return errors.Join(err, unread) // what it has yielded may have wrong numbers
	}
	if err == nil {
		err = r.deliverAll(work)
	}
	if unkept := (*unkeptError)(nil); errors.As(err, &unkept) && work.Err() == nil {
		return errors.Join(err, r.sink.Close(work)) // what came before it is in the lake
	}
	if err != nil {
		return err
	}
	if r.all {
		r.sink.Finish(r.cmd.Finished...)
	}
	if err := r.sink.Close(work); err != nil {
		return err
	}
	r.maintain(ctx)
	return unread // what came before it is committed
}

// read reads the source until reading is done. Its end, or the error that ends
// it, is told before records is closed; not that it was stopped.
func (r *sinkRun) read(reading context.Context, after map[string]sink.Offset) (<-chan sinksource.Record, <-chan error) {
	records, ended := make(chan sinksource.Record, 256), make(chan error, 1)
	// On standard input a reader cannot be woken: it is left behind, and ends
	// with the process.
	go func() {
		defer close(records)
		for record, err := range r.source.Records(reading, after) {
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
		if reading.Err() == nil {
			ended <- nil
		}
	}()
	return records, ended
}

// take takes the records until there are no more, which it says, or ctx is done.
func (r *sinkRun) take(ctx, work context.Context, records <-chan sinksource.Record, flush *time.Ticker) (all bool, err error) {
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case <-flush.C:
			if err := r.flush(work); err != nil {
				return false, err
			}
			r.maintain(ctx)
			flush.Reset(r.cmd.FlushEvery) // a commit that takes longer than this leaves time to read
		case record, ok := <-records:
			if !ok {
				return true, nil
			}
			if err := r.add(work, record); err != nil {
				return false, err
			}
		}
	}
}

const (
	// checkpointEvery is after how many flushes tables that got no rows note how
	// far the stream was read: a run that is killed has to read that much again.
	checkpointEvery = 30
	// checkpointRest is how many times as long as those notes took they are left out
	// after that: with very many tables they would take all the time.
	checkpointRest = 20
)

// flush commits everything that was read.
func (r *sinkRun) flush(ctx context.Context) error {
	if err := r.deliverAll(ctx); err != nil {
		return err
	}
	began := time.Now()
	if r.unsaid++; r.unsaid < checkpointEvery || began.Before(r.sayAfter) {
		if err := r.sink.Flush(ctx); err != nil {
			return err
		}
	} else {
		if err := r.sink.Checkpoint(ctx); err != nil {
			return err
		}
		now := time.Now()
		r.unsaid, r.sayAfter = 0, now.Add(checkpointRest*now.Sub(began))
	}
	r.logStatus(ctx, r.env.log)
	return nil
}

// add takes one record and delivers its shard's batch when it is full.
func (r *sinkRun) add(ctx context.Context, record sinksource.Record) error {
	r.records.Add(1)
	if record.Damaged {
		return r.addDamaged(ctx, &record)
	}
	b := r.pending[record.Offset.Shard]
	if b == nil {
		b = &shardBatch{}
		r.pending[record.Offset.Shard] = b
	}
	r.undelivered.Add(1)
	b.records = append(b.records, record)
	b.inputs = append(b.inputs, transform.Record{ID: record.Offset.Sequence, Data: record.Data, Origin: record.Origin})
	b.size += len(record.Data)
	r.pendingSize += len(record.Data)
	switch {
	case r.pendingSize > int(r.cmd.FlushBytes)/2: // big records, or many shards
		return r.deliverAll(ctx)
	case len(b.records) >= r.cmd.Batch:
		return r.deliver(ctx, b)
	}
	return nil
}

// addDamaged takes a line that holds no record. Unless it is kept the run ends
// before it: mended, it is the next record of its shard.
func (r *sinkRun) addDamaged(ctx context.Context, record *sinksource.Record) error {
	f := failure{record: record, reason: string(transform.InvalidJSON), by: "source"}
	var unkept error
	if r.rejects == nil && !r.cmd.Redrive { // there no line has a place in a shard
		if err := r.deliverAll(ctx); err != nil {
			return err
		}
		unkept = &unkeptError{f}
	}
	r.damaged++
	if errors.Is(record.Fault, kinesis.ErrBare) {
		r.bare++
	}
	return errors.Join(r.fail(ctx, &f), unkept)
}

func (r *sinkRun) deliverAll(ctx context.Context) error {
	for _, b := range r.pending {
		if err := r.deliver(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// An unkeptError says that a record failed and that nothing keeps it. Noted as
// handled it would be lost, so the run ends before it.
type unkeptError struct{ failure }

// envelopeHint says what to do with records of DMS that stand alone on their lines.
const envelopeHint = "want a recording of icehose capture: icehose transform reads such lines, and where the file has them in the order of one shard " +
	`jq -Rc '{shardId: "shardId-000000000000", sequenceNumber: (input_line_number | tostring), data: .}' makes a recording of it`

// Error implements error.
func (e *unkeptError) Error() string {
	switch {
	case e.record.Unfinished && strings.HasPrefix(e.record.Place, "-:"):
		return fmt.Sprintf("%s: the input ends in the middle of a record: what came before it is in the lake; give the input again, whole, to go on", e.record.Place)
	case e.record.Unfinished:
		return fmt.Sprintf("%s: the file ends in the middle of a record, which may still be being written: what came before it is in the lake; "+
			"run the same command again once the line has its end, or with --follow, to go on", e.record.Place)
	case errors.Is(e.record.Fault, kinesis.ErrBare):
		return fmt.Sprintf("%s: %v: %s", e.record.Place, e.record.Fault, envelopeHint)
	case e.record.Damaged:
		return fmt.Sprintf("%s: %v: want a recording of icehose capture, one record a line: %s: mend the line, or keep what fails with --rejects FILE and go on",
			e.record.Place, e.record.Fault, `{"shardId":"...","sequenceNumber":"...","data":"..."}`)
	}
	where := e.table
	if e.column != "" {
		where += ", column " + e.column
	}
	if where != "" {
		where = " (" + where + ")"
	}
	return fmt.Sprintf("%s: record fails: %s%s: mend the cause, or keep what fails with --rejects FILE and go on", e.record.Place, e.reason, where)
}

// deliver transforms a batch and hands it to the sink; without a file of
// rejects up to its first failure, which it returns.
func (r *sinkRun) deliver(ctx context.Context, b *shardBatch) error {
	if len(b.records) == 0 {
		return nil
	}
	results, unkept := r.transform(b)
	deliveries := make([]sink.Delivery, len(results))
	for i := range results {
		deliveries[i].Offset = b.records[i].Offset
		row, err := r.settle(ctx, &b.records[i], &results[i])
		if err != nil {
			return err
		}
		deliveries[i].Row = row
	}
	r.delivering = b
	if err := errors.Join(r.sink.Deliver(ctx, deliveries), context.Cause(ctx)); err != nil {
		return err
	}
	r.undelivered.Add(-int64(len(b.records)))
	r.pendingSize -= b.size
	if unkept == nil {
		clear(b.records) // what they hold is not needed any more
		clear(b.inputs)
		*b = shardBatch{records: b.records[:0], inputs: b.inputs[:0]}
		return nil
	}
	*b = shardBatch{} // it is the last, and what failed in it is told of yet
	if table := r.tables[unkept.table]; table != nil {
		table.changes, table.failed = table.changes+1, table.failed+1
	} else {
		r.noTable.changes, r.noTable.failed = r.noTable.changes+1, r.noTable.failed+1
	}
	return errors.Join(r.fail(ctx, &unkept.failure), unkept)
}

// transform returns a result for each record of a batch. Without a file of
// rejects those behind a failure are not asked for: what comes before it is
// transformed as if nothing came behind.
func (r *sinkRun) transform(b *shardBatch) ([]transform.Result, *unkeptError) {
	var unkept *unkeptError
	inputs := b.inputs
	for {
		results := r.transformer.Batch(inputs)
		i := slices.IndexFunc(results, func(t transform.Result) bool { return t.Outcome == transform.ProcessingFailed })
		if r.rejects != nil || i < 0 {
			return results, unkept
		}
		unkept, inputs = &unkeptError{failureOf(&b.records[i], &results[i])}, inputs[:i]
	}
}

// failureOf is a record that transform has refused.
func failureOf(record *sinksource.Record, result *transform.Result) failure {
	return failure{record: record, reason: string(result.Reason), table: result.Table, column: result.Column, by: "transform"}
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
		if r.logged.shows(ctx, likeness{reason: "old_key_left", table: result.Table}) {
			r.env.log.WarnContext(ctx, "old key left", slog.String("record_id", result.ID), slog.String("table", result.Table))
		}
	}
	switch {
	case result.Outcome == transform.Ok:
		return &sink.Row{
			Database: result.Row.Table.Database(), Table: result.Row.Table.Name(), Operation: result.Row.Operation, Data: result.Row.Data,
		}, nil
	case result.Outcome == transform.ProcessingFailed:
		t.failed++
		f := failureOf(record, result)
		return nil, r.fail(ctx, &f)
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
	like := likeness{reason: f.reason, table: f.table, kept: r.cmd.Rejects}
	if f.by != "sink" && r.tables[f.table] == nil {
		like.table = "" // whoever writes the stream chooses the names
	}
	if r.logged.shows(ctx, like) {
		r.env.log.ErrorContext(ctx, "record failed", slog.String("record_id", f.record.Offset.Sequence), slog.String("table", f.table),
			slog.String("column", f.column), slog.String("reason", f.reason), slog.String("stage", f.by), slog.String("place", f.record.Place))
	}
	return r.rejects.write(f)
}

// rejected is called by the sink, in the middle of a delivery, for a row that
// it cannot write. It keeps the record, or else returns why the run ends before it.
func (r *sinkRun) rejected(ctx context.Context, o sink.Offset, reason *sink.RejectError) error {
	records := r.delivering.records
	i := slices.IndexFunc(records, func(record sinksource.Record) bool { return record.Offset == o })
	if i < 0 {
		return fmt.Errorf("keep rejected record: shard %s has none at %d", o.Shard, o.Ordinal)
	}
	f := failure{record: &records[i], reason: string(reason.Reason), table: reason.Database + "." + reason.Table, column: reason.Column, by: "sink"}
	if err := r.fail(ctx, &f); err != nil { // forced to the disk before the next commit
		return fmt.Errorf("keep rejected record: %w", err)
	}
	if r.rejects == nil {
		return &unkeptError{f}
	}
	return nil
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
