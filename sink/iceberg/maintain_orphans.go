package iceberg

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/apache/iceberg-go/table"

	"icehose/sink"
)

// removeOrphans removes files in the table's folder that no snapshot, no
// metadata and no note of the sink speaks of, and that are old enough not to
// belong to a commit that is being made.
func (k *keeper) removeOrphans(ctx context.Context) error {
	current, err := k.current(ctx)
	if err != nil {
		return err
	}
	plan, err := current.PlanOrphanFiles(ctx, table.WithFilesOlderThan(k.m.OrphanAge))
	if err != nil {
		return fmt.Errorf("look for orphans: %w", err)
	}
	if len(plan.OrphanFiles()) == 0 {
		return nil
	}
	// A commit may have come since the plan was made: what it names is no orphan.
	if current, err = k.current(ctx); err != nil {
		return err
	}
	fs, err := current.FS(ctx)
	if err != nil {
		return fmt.Errorf("remove orphans: %w", err)
	}
	var failed error
	for _, f := range plan.OrphanFiles() {
		if isNoted(current, f.Path) {
			continue
		}
		if !k.m.Plan {
			if err := errors.Join(ctx.Err(), fs.Remove(f.Path)); err != nil {
				failed = errors.Join(failed, err)
				continue
			}
		}
		k.report.Orphans = append(k.report.Orphans, Leftover{Path: f.Path, Bytes: f.SizeBytes})
	}
	if failed != nil {
		return fmt.Errorf("remove orphans: %w", failed)
	}
	return nil
}

// isNoted reports whether a note of the sink names the file: tombstones lie
// beside the data files and are in no manifest.
func isNoted(current *table.Table, location string) bool {
	for name, text := range current.Properties() {
		if strings.HasPrefix(name, sink.PropertyPrefix) && strings.Contains(text, path.Base(location)) {
			return true
		}
	}
	return false
}
