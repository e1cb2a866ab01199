package dmssim

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
)

// A Limit says when Run ends: at whichever of its conditions that are not
// zero comes first. Without any, Run ends with its context only.
type Limit struct {
	Idle     time.Duration // no change has arrived for this long
	Duration time.Duration // of running, the load included
	LSN      pglogrepl.LSN // every change below it was written
}

// Run loads the tables and then, or meanwhile if loads overlap changes, writes
// changes until the limit. Progress, when it is not nil, is called after each
// step.
func (t *Task) Run(ctx context.Context, limit Limit, progress func()) error {
	start := t.options.Clock()
	quiet := start
	loaded := false
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("run task: %w", err)
		}
		if !loaded {
			var err error
			if loaded, err = t.LoadStep(ctx); err != nil {
				return fmt.Errorf("run task: %w", err)
			}
		}
		if loaded || t.settings.LoadOverlapsChanges {
			before := t.previous
			wait := shortWait
			if loaded {
				wait = 20 * shortWait
			}
			if _, err := t.Receive(ctx, wait); err != nil {
				return fmt.Errorf("run task: %w", err)
			}
			if t.previous != before || !loaded {
				quiet = t.options.Clock()
			}
		}
		if progress != nil {
			progress()
		}
		if !loaded {
			quiet = t.options.Clock()
		}
		if done, err := t.limitReached(ctx, limit, start, quiet, loaded); done || err != nil {
			return err
		}
	}
}

func (t *Task) limitReached(ctx context.Context, limit Limit, start, quiet time.Time, loaded bool) (bool, error) {
	now := t.options.Clock()
	if limit.Duration > 0 && now.Sub(start) >= limit.Duration {
		return true, nil
	}
	if !loaded {
		return false, nil
	}
	if limit.Idle > 0 && now.Sub(quiet) >= limit.Idle {
		return true, nil
	}
	if limit.LSN > 0 {
		if t.applied >= limit.LSN {
			return true, nil
		}
		// The position moves without changes only when the server is asked.
		return false, t.report(ctx, true)
	}
	return false, nil
}
