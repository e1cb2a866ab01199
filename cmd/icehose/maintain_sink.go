package main

import (
	"context"
	"log/slog"

	"icehose/sink/iceberg"
)

// startMaintaining makes what keeps the tables small while the run goes on.
func (r *sinkRun) startMaintaining(store *iceberg.Store) (err error) {
	if r.cmd.Maintain {
		r.maintainer, err = store.NewMaintainer(r.pipeline.Tables, r.maintenance)
	}
	return err
}

// maintain maintains what is due; between two commits, so it needs no lock. An
// interrupt ends it at once: ctx is that of the reading, not of the committing.
// Failing is no reason to stop: the tables are right, only not small.
func (r *sinkRun) maintain(ctx context.Context) {
	if r.maintainer == nil || ctx.Err() != nil {
		return
	}
	if err := r.maintainer.Run(ctx); err != nil {
		r.env.log.WarnContext(ctx, "maintenance failed", slog.String("error", err.Error()))
	}
}
