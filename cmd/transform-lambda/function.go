package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"icehose/catalog"
	"icehose/internal/pipelinefile"
	"icehose/transform"
	"icehose/transform/firehose"
)

// lookTimeout bounds what a look at the pipeline file may add to an invocation.
const lookTimeout = 3 * time.Second

// A function answers invocations with the pipeline file that was good last.
type function struct {
	settings settings
	log      *slog.Logger
	metrics  func(context.Context, []firehose.Count) error // nil for none
	clock    func() time.Time
	client   pipelinefile.Getter // nil when the pipeline file is not on S3
	current  atomic.Pointer[firehose.Handler]
	// response is the memory of the last one, which the runtime has sent on
	// before it asks for the next event. It is nil for ever where the runtime
	// has several events at work.
	response []byte
	alone    bool

	mu      sync.Mutex // held by the one invocation that looks
	looked  time.Time
	version string // of the file that was seen last, good or not
	refused error  // why that one is not in use
}

var _ lambda.Handler = (*function)(nil)

func newFunction(s settings, log *slog.Logger, stdout io.Writer, clock func() time.Time) *function {
	f := &function{settings: s, log: log, clock: clock, alone: lambdacontext.MaxConcurrency() == 1}
	if s.namespace != "" {
		f.metrics = firehose.NewEMF(stdout, s.namespace, clock).Write
	}
	if s.pipeline.Bucket != "" {
		f.client = newS3(s)
	}
	return f
}

// Invoke implements lambda.Handler.
func (f *function) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	f.refresh(ctx)
	response, err := f.current.Load().HandleInto(ctx, f.response, event)
	if f.alone && err == nil {
		f.response = response
	}
	return response, err
}

// load reads the pipeline file for the first time.
func (f *function) load(ctx context.Context) error {
	text, version, err := f.settings.pipeline.Read(ctx, f.client, "")
	if err != nil {
		return err
	}
	if err := f.use(text); err != nil {
		return err
	}
	f.version, f.looked = version, f.clock()
	return nil
}

// use makes a pipeline file the current one, if it is good.
func (f *function) use(text []byte) error {
	p, err := catalog.Parse(f.settings.pipeline.Name(), text)
	if err != nil {
		return fmt.Errorf("read pipeline file: %w", err)
	}
	t, err := transform.New(p, f.settings.options)
	if err != nil {
		return fmt.Errorf("read pipeline file: %w", err)
	}
	f.current.Store(firehose.New(t, firehose.Options{Log: f.log, Metrics: f.metrics}))
	return nil
}

// refresh looks whether the pipeline file has changed, when it is time to.
func (f *function) refresh(ctx context.Context) {
	if f.client == nil || !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	if now := f.clock(); now.Sub(f.looked) >= f.settings.refresh {
		f.looked = now
		f.look(ctx)
	}
}

func (f *function) look(ctx context.Context) {
	ctxLook, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	text, version, err := f.settings.pipeline.Read(ctxLook, f.client, f.version)
	switch {
	case err != nil:
		f.log.LogAttrs(ctx, slog.LevelError, "pipeline file not read", slog.String("file", f.settings.pipeline.Name()), slog.Any("error", err))
		return
	case version != f.version:
		f.version, f.refused = version, f.use(text)
		if f.refused == nil {
			f.log.LogAttrs(ctx, slog.LevelInfo, "pipeline file changed", slog.String("file", f.settings.pipeline.Name()), slog.String("version", version))
		}
	}
	if f.refused != nil {
		f.log.LogAttrs(ctx, slog.LevelError, "pipeline file refused", slog.String("file", f.settings.pipeline.Name()), slog.String("version", version),
			slog.Any("error", f.refused))
	}
}
