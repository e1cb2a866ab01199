// Package firehose is the wire side of the transform: the event with which
// Amazon Data Firehose invokes its processor Lambda, and the response that it
// expects.
//
// In comes an event, from a Kinesis stream, a Direct PUT or MSK; out goes
// {"records":[...]} with one answer to each record of the event, in order, under the
// record id's own spelling:
//
//	{"recordId":"...","result":"Ok","data":"<base64 of one row>","metadata":{"otfMetadata":
//	  {"destinationDatabaseName":"shop","destinationTableName":"orders","operation":"update"}}}
//	{"recordId":"...","result":"Dropped","data":"<as it came>"}
//
// data is given back with Dropped and ProcessingFailed; it is empty where the
// event held none that can be given back, that is, none in base64.
// metadata stands on Ok only. A record of MSK has its payload under
// kafkaRecordValue, in the event and in the answer (the classes that
// aws-lambda-java-libs declares). The forms are those of the Firehose
// developer guide, "Data transformation" and "Apache Iceberg Tables". Numbers
// are accepted as strings and strings as numbers where AWS has sent both:
// sequence and subsequence numbers, times, offsets, partitions.
//
// An error means that no record can be answered, because the event itself is
// broken. What is wrong with one record, its base64 included, is answered by
// that record alone. The response never exceeds Options.ResponseLimit.
package firehose

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"icehose/cdc"
	"icehose/transform"
)

// DefaultResponseLimit keeps a response under the 6 MB that a synchronous
// Lambda invocation may return, with some bytes to spare.
const DefaultResponseLimit = 6*1024*1024 - 16*1024

// Options are the settings of a Handler. The zero value logs nothing, counts
// nothing and has the default limit.
type Options struct {
	// Log gets one line for each record that failed, for each schema drift and
	// for each key change that leaves a row behind. No line holds a value.
	Log *slog.Logger
	// Metrics gets the counts of each batch. Its error is logged: a batch that
	// was transformed is not failed because nobody could count it.
	Metrics func(ctx context.Context, counts []Count) error
	// ResponseLimit is the number of bytes that a response may have; 0 means
	// DefaultResponseLimit.
	ResponseLimit int
}

// A Handler answers events. It may be used by several goroutines.
type Handler struct {
	transformer *transform.Transformer
	options     Options
	batches     sync.Pool
}

// New returns a Handler.
func New(t *transform.Transformer, o Options) *Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ResponseLimit == 0 {
		o.ResponseLimit = DefaultResponseLimit
	}
	h := &Handler{transformer: t, options: o}
	h.batches.New = func() any { return new(batch) }
	return h
}

// A batch is the memory of one event at work.
type batch struct {
	event  event
	room   *room
	data   []byte // of the record at hand
	answer answers
	fault  error // what makes all of the event unreadable
}

var _ transform.Carrier = (*batch)(nil)

// Handle answers one event. The response is the caller's; event must not
// change until Handle returns.
func (h *Handler) Handle(ctx context.Context, event []byte) (response []byte, err error) {
	return h.HandleInto(ctx, nil, event)
}

// HandleInto is Handle for a caller with memory for the response, such as that
// of an earlier one. The response is in it if it fits, over what is there: new
// memory costs more than what is written into it.
func (h *Handler) HandleInto(ctx context.Context, memory, event []byte) (response []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("handle event: %w", err)
	}
	b, ok := h.batches.Get().(*batch)
	if !ok {
		b = new(batch)
	}
	defer h.batches.Put(b)
	if err := b.event.parse(event); err != nil {
		return nil, fmt.Errorf("handle event: %w", err)
	}
	b.room, err = newRoom(&b.event, h.options.ResponseLimit)
	if err != nil {
		return nil, fmt.Errorf("handle event: %w", err)
	}
	b.fault = nil
	b.answer.begin(memory, len(event))
	h.transformer.Carry(len(b.event.records), b, b.room, func(results []transform.Result) {
		if b.fault == nil {
			response = b.answer.response(b.room, results)
			h.report(ctx, b, results)
		}
	})
	if b.fault != nil {
		return nil, fmt.Errorf("handle event: parse event: %w", b.fault)
	}
	return response, nil
}

// Record implements transform.Carrier.
func (b *batch) Record(i int) transform.Record {
	r := &b.event.records[i]
	record := transform.Record{Origin: cdc.Origin{Shard: r.shard, Sequence: b.event.text(r.sequence)}}
	data, ok, err := r.decode(b.data[:0], b.event.bytes)
	b.data = data
	switch {
	case err != nil:
		if b.fault == nil {
			b.fault = err
		}
		record.Unread = transform.InvalidBase64
	case !ok:
		// Firehose fails a batch that has one answer in broken base64.
		r.payload = nil
		record.Unread = transform.InvalidBase64
	default:
		record.Data, r.size = data, len(data)
		if r.escaped {
			r.payload = appendEncode(nil, data)
		}
	}
	return record
}

// Settled implements transform.Carrier.
func (b *batch) Settled(i int, r *transform.Result) { b.answer.add(b.room, i, r) }

// report logs and counts one batch.
func (h *Handler) report(ctx context.Context, b *batch, results []transform.Result) {
	for i := range results {
		r, id := &results[i], b.event.records[i].id
		if r.Outcome == transform.ProcessingFailed {
			h.options.Log.LogAttrs(ctx, slog.LevelError, "record failed", slog.String("record_id", id()), slog.String("table", r.Table),
				slog.String("reason", string(r.Reason)), slog.String("column", r.Column))
		}
		if r.OldKeyLeft {
			h.options.Log.LogAttrs(ctx, slog.LevelWarn, "old key left", slog.String("record_id", id()), slog.String("table", r.Table))
		}
		if d := r.Drift; d != nil {
			level := slog.LevelWarn
			if d.Statement == "drop-table" {
				// Every full load starts with one: by itself it says nothing.
				level = slog.LevelInfo
			}
			h.options.Log.LogAttrs(ctx, level, "schema drift", slog.String("record_id", id()), slog.String("table", d.Table),
				slog.String("statement", d.Statement), slog.Bool("defined", d.Defined), slog.Any("unknown_columns", d.Unknown),
				slog.Any("missing_columns", d.Missing))
		}
	}
	if h.options.Metrics == nil {
		return
	}
	if err := h.options.Metrics(ctx, countsOf(b.event.text(b.event.stream), b.event.records, results)); err != nil {
		h.options.Log.LogAttrs(ctx, slog.LevelError, "metrics lost", slog.Any("error", err))
	}
}
