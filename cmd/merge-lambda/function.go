package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
	"icehose/internal/pipelinefile"
	"icehose/sink/iceberg"
	"icehose/sink/merge"
	"icehose/sink/merge/athena"
)

// A function answers invocations, one at a time.
type function struct {
	settings *settings
	log      *slog.Logger
	stdout   io.Writer // for metrics
	objects  pipelinefile.Getter
	queries  merge.Queries

	file pipelinefile.Cache
}

var _ lambda.Handler = (*function)(nil)

func newFunction(ctx context.Context, s *settings, log *slog.Logger, stdout io.Writer) (*function, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("configure AWS: %w", err)
	}
	client, err := athena.Open(ctx, s.lake.Prop["glue.region"], s.workgroup, s.output)
	if err != nil {
		return nil, err
	}
	return &function{
		settings: s, log: log, stdout: stdout, queries: client,
		objects: s3.NewFromConfig(cfg, pipelinefile.ClientOptions),
	}, nil
}

// An outcome is what an invocation answers.
type outcome struct {
	Tables  int      `json:"tables"` // that were merged
	Read    int64    `json:"read"`
	Late    int64    `json:"late"`
	Changed int64    `json:"changed"`
	Deleted int64    `json:"deleted"`
	PutOff  []string `json:"put_off"` // of the source
	Seconds float64  `json:"seconds"`
}

// Invoke implements lambda.Handler.
func (f *function) Invoke(ctx context.Context, text []byte) ([]byte, error) {
	e, err := parseEvent(text)
	if err != nil {
		return nil, err
	}
	o, err := f.run(ctx, e)
	if err != nil {
		return nil, err
	}
	return json.Marshal(o)
}

// margin is how long before the end of its time a run stops the statement that it
// waits for.
const margin = 30 * time.Second

// errTime is why a run stops a statement.
var errTime = errors.New("the function's time is over, so the statement was stopped: the next run merges this table, " +
	"and one that never ends in time is for icehose merge --engine athena, which has no limit")

// limits returns when a run begins no more tables, and when it stops what it
// does; the zero time where ctx has no deadline, which is Lambda's.
func limits(ctx context.Context, now time.Time) (begin, end time.Time) {
	limit, ok := ctx.Deadline()
	if !ok {
		return begin, end
	}
	left := limit.Sub(now)
	return now.Add(left * 2 / 3), limit.Add(-min(margin, left/5))
}

// run merges the tables of an event.
func (f *function) run(ctx context.Context, e event) (o *outcome, err error) {
	began := time.Now()
	working, beginning := ctx, ctx
	if begin, end := limits(ctx, began); !end.IsZero() {
		var cancel, cancelBegin context.CancelFunc
		working, cancel = context.WithDeadlineCause(ctx, end, errTime)
		defer cancel()
		beginning, cancelBegin = context.WithDeadline(working, begin)
		defer cancelBegin()
	}
	pipeline, err := f.file.Load(working, f.settings.pipeline, f.objects)
	if err != nil {
		return nil, err
	}
	tables, err := merge.Changelogs(pipeline, e.Tables)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.settings.pipeline.Name(), err)
	}
	if len(e.Tables) == 0 {
		rand.Shuffle(len(tables), func(i, j int) { tables[i], tables[j] = tables[j], tables[i] })
	}
	store, err := f.settings.lake.OpenLake(working, iceberg.Options{Log: f.log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	results, left, err := merge.Each(beginning, tables, func(t *catalog.Table) (*merge.Result, error) { return f.merge(working, store.Tables(), t) })
	o = &outcome{Tables: len(results), PutOff: []string{}}
	for _, r := range results {
		o.Read, o.Late, o.Changed, o.Deleted = o.Read+r.Read, o.Late+r.Late, o.Changed+r.Changed, o.Deleted+r.Deleted
		if r.Regressed > 0 {
			err = errors.Join(err, fmt.Errorf("position_regressed: %s: %d %s", r.Current, r.Regressed, merge.Restarted))
		}
	}
	for _, t := range left {
		o.PutOff = append(o.PutOff, t.Source)
		err = errors.Join(err, f.metrics(report{table: t, putOff: true}))
	}
	o.Seconds = time.Since(began).Seconds()
	level := slog.LevelInfo
	if len(left) > 0 || err != nil {
		level = slog.LevelWarn
	}
	f.log.LogAttrs(ctx, level, "run ended", slog.Int("tables", o.Tables), slog.Int64("read", o.Read), slog.Int64("changed", o.Changed), slog.Int64("deleted", o.Deleted),
		slog.Int64("late", o.Late), slog.Any("put_off", o.PutOff), slog.Bool("failed", err != nil), slog.Float64("seconds", o.Seconds))
	return o, err
}

// merge merges a table, and logs what became of it.
func (f *function) merge(ctx context.Context, l *lake.Lake, t *catalog.Table) (*merge.Result, error) {
	began := time.Now()
	result, err := merge.Athena(ctx, f.queries, l, t, merge.Options{})
	if err != nil && errors.Is(context.Cause(ctx), errTime) && !errors.Is(err, errTime) {
		err = fmt.Errorf("%w: %w", err, errTime)
	}
	r := report{table: t, result: result, seconds: time.Since(began).Seconds()}
	if err != nil {
		f.log.LogAttrs(ctx, slog.LevelError, "table not merged", slog.String("table", t.Source), slog.Float64("seconds", r.seconds),
			slog.Bool("refused", errors.Is(err, merge.ErrRefused)), slog.String("error", err.Error()))
		return nil, errors.Join(err, f.metrics(r))
	}
	level := slog.LevelInfo
	if result.Regressed > 0 || len(result.Warnings) > 0 {
		level = slog.LevelWarn
	}
	f.log.LogAttrs(ctx, level, "table merged", slog.String("table", t.Source), slog.String("current", result.Current), slog.Int64("read", result.Read),
		slog.Int64("changed", result.Changed), slog.Int64("deleted", result.Deleted), slog.Int64("late", result.Late), slog.Int64("regressed", result.Regressed),
		slog.Int64("scanned_bytes", result.Scanned), slog.Any("warnings", result.Warnings), slog.Float64("seconds", r.seconds))
	if err := f.metrics(r); err != nil {
		return nil, err
	}
	return result, nil
}
