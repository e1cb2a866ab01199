package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sns"

	"icehose/catalog"
	"icehose/internal/pipelinefile"
	"icehose/reconcile"
	"icehose/reconcile/job"
	"icehose/sink/iceberg"
)

// A function answers invocations, one at a time.
type function struct {
	settings *settings
	log      *slog.Logger
	stdout   io.Writer // for metrics
	objects  objectStore
	secrets  secretGetter
	topic    publisher

	file     pipelinefile.Cache
	pipeline *catalog.Pipeline // of this run
}

var _ lambda.Handler = (*function)(nil)

func newFunction(ctx context.Context, s *settings, log *slog.Logger, stdout io.Writer) (*function, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("configure AWS: %w", err)
	}
	return &function{
		settings: s, log: log, stdout: stdout, secrets: secretsmanager.NewFromConfig(cfg), topic: sns.NewFromConfig(cfg),
		objects: s3.NewFromConfig(cfg, pipelinefile.ClientOptions),
	}, nil
}

// Invoke implements lambda.Handler.
func (f *function) Invoke(ctx context.Context, text []byte) ([]byte, error) {
	e, err := f.settings.parseEvent(text)
	if err != nil {
		return nil, err
	}
	o, err := f.run(ctx, e)
	if err != nil {
		return nil, err
	}
	return json.Marshal(o)
}

// margin is how long before the end of its time a run stops to compare.
const margin = 30 * time.Second

// stopAt returns when to stop comparing, so that what was found can be published
// in time: before the event's deadline and before that of ctx, which is
// Lambda's. The zero time when there is neither.
func stopAt(ctx context.Context, now time.Time, deadline time.Duration) time.Time {
	end := time.Time{}
	if deadline > 0 {
		end = now.Add(deadline)
	}
	if limit, ok := ctx.Deadline(); ok && (end.IsZero() || limit.Before(end)) {
		end = limit
	}
	if end.IsZero() {
		return end
	}
	return end.Add(-min(margin, end.Sub(now)/5))
}

// run compares the tables of an event and publishes the outcome.
func (f *function) run(ctx context.Context, e event) (_ *outcome, err error) {
	until := stopAt(ctx, time.Now(), e.deadline)
	opening, cancel := ctx, context.CancelFunc(func() {})
	if !until.IsZero() {
		opening, cancel = context.WithDeadline(ctx, until)
	}
	defer cancel()
	if err := f.load(opening); err != nil {
		return nil, err
	}
	dsn, err := f.connection(opening)
	if err != nil {
		return nil, err
	}
	source, err := f.settings.OpenSource(opening, dsn, f.pipeline)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	store, err := f.settings.OpenLake(opening, iceberg.Options{ReadOnly: true, Beside: true, Log: f.log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c := &comparison{function: f, source: source, store: store, tables: e.Tables, until: until}
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	o, err := c.publish(ctx)
	return o, errors.Join(c.unsaved, err)
}

// load reads the pipeline file.
func (f *function) load(ctx context.Context) error {
	p, err := f.file.Load(ctx, f.settings.pipeline, f.objects)
	if err == nil {
		f.pipeline = p
	}
	return err
}

// A comparison is one run.
type comparison struct {
	*function
	source job.Reader
	store  *iceberg.Store
	tables []string  // of the source; none: all
	until  time.Time // when to stop; zero: never
	report *reconcile.Report
	saved  *checkpoint // nil: none is kept
	goesOn bool        // the next run continues from the checkpoint

	unsaved error // why the checkpoint does not have all that is in the report
}

// run compares, and finds out whether the next run continues.
func (c *comparison) run(ctx context.Context) error {
	saved := c.checkpoint(c.tables)
	c.saved = saved
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if saved != nil {
		saved.end = cancel
	}
	err := c.compare(ctx, saved)
	if errors.Is(err, reconcile.ErrOtherRun) {
		c.log.LogAttrs(ctx, slog.LevelInfo, "checkpoint is of another pipeline file, source or lake, begin anew", slog.String("checkpoint", saved.uri()))
		if err := saved.remove(ctx); err != nil {
			return err
		}
		err = c.compare(ctx, saved)
	}
	if errors.Is(context.Cause(ctx), errMoved) {
		return fmt.Errorf("%s: %w", saved.uri(), errMoved)
	}
	if c.report != nil { // what was found is told all the same
		c.unsaved, err = err, nil
	}
	if err != nil || saved == nil || !saved.exists || saved.ended {
		return err
	}
	late := !c.until.IsZero() && !time.Now().Before(c.until)
	if c.goesOn = late && saved.moved; c.goesOn {
		return nil
	}
	if late {
		c.log.LogAttrs(ctx, slog.LevelWarn, "nothing was decided in this run: a part of a table takes longer than a run, give --slice-rows less or the function more memory")
	}
	return nil
}

// forget sees to it that a checkpoint stays only while runs add to it.
func (c *comparison) forget(ctx context.Context) error {
	if c.saved == nil || c.goesOn {
		return nil
	}
	if err := c.saved.remove(ctx); !errors.Is(err, errMoved) { // another run's stays
		return err
	}
	return nil
}

func (c *comparison) compare(ctx context.Context, saved *checkpoint) (err error) {
	o := reconcile.Options{Tables: c.tables, Now: time.Now, Identity: c.settings.Place()}
	if saved != nil {
		o.Checkpoint = saved
	}
	if !c.until.IsZero() {
		o.Timeout = max(time.Until(c.until), time.Millisecond)
	}
	c.report, err = c.settings.Run(ctx, c.pipeline, c.source, c.store, o)
	return err
}
