package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"icehose/catalog"
	"icehose/cdc/kinesis"
	"icehose/internal/firehosesim"
	"icehose/sink"
	"icehose/transform"
	"icehose/transform/firehose"
)

// The names under which the demo's stand-in for Firehose appears in events.
const (
	demoRegion = "us-east-1"
	demoStream = "arn:aws:firehose:us-east-1:000000000000:deliverystream/icehose-demo"
	demoSource = "arn:aws:kinesis:us-east-1:000000000000:stream/icehose-demo"
)

// A tally counts what became of a table's records.
type tally struct {
	changes    int64 // distinct data records in the stream
	dropped    int64 // answers Dropped, superseded ones aside
	superseded int64 // in their batch, by a newer change of the same key
	failed     int64
}

func newTallies(p *catalog.Pipeline) map[string]*tally {
	m := make(map[string]*tally)
	for _, t := range p.Tables {
		m[t.Source] = &tally{}
	}
	return m
}

func (d *demo) tally(source string) *tally {
	t := d.tables[source]
	if t == nil {
		t = &tally{}
		d.tables[source] = t
	}
	return t
}

// deliver carries the stream into the lake: batches, handler, sink.
func (d *demo) deliver(ctx context.Context, store sink.Store) (err error) {
	transformer, err := transform.New(d.pipeline, transform.Options{})
	if err != nil {
		return err
	}
	handler := firehose.New(transformer, firehose.Options{Log: d.env.log, Metrics: d.count})
	out, err := sink.Open(ctx, d.pipeline, store, sink.Options{
		FlushRows: d.cmd.Flush, Log: d.env.log, Now: time.Now,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Abandon()) }()
	for _, changes := range d.stream.changes {
		for _, c := range changes {
			if c != nil {
				d.tally(c.table.Source).changes++
			}
		}
	}
	// The delivery is the same each time: its length is found by a dry run.
	total := 0
	for batch := range firehosesim.Deliver(d.stream.shards, d.cmd.settings(), d.cmd.Seed) {
		total += len(batch.Records)
	}
	progress := newStage(d.env.stderr, "deliver", "records", int64(total))
	for batch := range firehosesim.Deliver(d.stream.shards, d.cmd.settings(), d.cmd.Seed) {
		deliveries, err := d.invoke(ctx, handler, batch)
		if err != nil {
			return err
		}
		if err := out.Deliver(ctx, deliveries); err != nil {
			return err
		}
		progress.add(int64(len(batch.Records)))
	}
	if err := out.Close(ctx); err != nil {
		return err
	}
	progress.done()
	d.stats = out.Stats()
	if d.cmd.Fault.kind == faultDuplicate {
		return d.writeTwice(ctx, store)
	}
	return nil
}

// count adds the handler's counts of one batch to the tables' tallies.
func (d *demo) count(_ context.Context, counts []firehose.Count) error {
	for _, c := range counts {
		t := d.tally(c.Table)
		switch {
		case c.Outcome == transform.ProcessingFailed:
			t.failed += int64(c.Records)
		case c.Reason == transform.Superseded:
			t.superseded += int64(c.Records)
		case c.Outcome == transform.Dropped:
			t.dropped += int64(c.Records)
		}
	}
	return nil
}

// invoke hands one batch to the handler, in the bytes that Lambda would be
// given, and returns what its answer delivers.
func (d *demo) invoke(ctx context.Context, h *firehose.Handler, b firehosesim.Batch) ([]sink.Delivery, error) {
	records := make([]kinesis.Record, 0, len(b.Records))
	kept := make([]firehosesim.Record, 0, len(b.Records))
	for _, r := range b.Records {
		c := d.stream.changes[d.stream.index[r.ShardID]][r.Ordinal]
		if c != nil && d.struck[c] && d.cmd.Fault.kind != faultDuplicate {
			continue // the fault: this one never arrives
		}
		if c != nil {
			d.meter.see(c)
		}
		records = append(records, r.Record)
		kept = append(kept, r)
	}
	if len(records) == 0 {
		return nil, nil
	}
	event := firehose.AppendEvent(nil, firehose.EventInfo{
		InvocationID: fmt.Sprintf("invocation-%s-%s", records[0].ShardID, records[0].SequenceNumber), DeliveryStreamARN: demoStream,
		SourceStreamARN: demoSource, Region: demoRegion,
	}, records)
	response, err := h.Handle(ctx, event)
	if err != nil {
		return nil, err
	}
	answers, err := firehose.ParseResponse(response)
	if err != nil {
		return nil, err
	}
	if len(answers) != len(kept) {
		return nil, fmt.Errorf("read answers: %d for %d records", len(answers), len(kept))
	}
	deliveries := make([]sink.Delivery, 0, len(answers))
	for i, r := range kept {
		if answers[i].Result == transform.ProcessingFailed {
			continue // not handled: a later answer to it counts
		}
		delivery := sink.Delivery{Offset: sink.Offset{Shard: r.ShardID, Sequence: r.SequenceNumber, Ordinal: r.Ordinal}}
		if a := &answers[i]; a.Result == transform.Ok {
			delivery.Row = &sink.Row{Database: a.Database, Table: a.Table, Operation: a.Operation, Data: a.Data}
		}
		deliveries = append(deliveries, delivery)
	}
	return deliveries, nil
}
