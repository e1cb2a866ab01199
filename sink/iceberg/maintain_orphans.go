package iceberg

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/apache/iceberg-go"
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
	if err := checkSnapshots(ctx, current, k.whole); err != nil {
		return fmt.Errorf("look for orphans: %w", err)
	}
	plan, err := current.PlanOrphanFiles(ctx, table.WithFilesOlderThan(k.m.OrphanAge))
	if err != nil {
		return fmt.Errorf("look for orphans: %w", err)
	}
	if len(plan.OrphanFiles()) == 0 {
		return nil
	}
	if k.m.planned != nil {
		k.m.planned()
	}
	// A commit may have come since the plan was made: what it names is no orphan.
	before := current
	if current, err = k.current(ctx); err != nil {
		return err
	}
	if err := checkSnapshots(ctx, current, k.whole); err != nil {
		return fmt.Errorf("look for orphans: %w", err)
	}
	named, err := namedSince(ctx, before, current)
	if err != nil {
		return fmt.Errorf("look for orphans: %w", err)
	}
	fs, err := current.FS(ctx)
	if err != nil {
		return fmt.Errorf("remove orphans: %w", err)
	}
	var failed error
	for _, f := range plan.OrphanFiles() {
		if named[path.Base(f.Path)] || isNoted(current, f.Path) {
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

// namedSince returns the base names of the files that the table as it is now
// names, and did not name before. Every file of a table has a name of its own.
func namedSince(ctx context.Context, before, now *table.Table) (map[string]bool, error) {
	named := map[string]bool{path.Base(now.MetadataLocation()): true}
	for f := range now.Metadata().PreviousFiles() {
		named[path.Base(f.MetadataFile)] = true
	}
	fs, err := now.FS(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range now.Metadata().Snapshots() {
		if before.SnapshotByID(s.SnapshotID) != nil {
			continue
		}
		named[path.Base(s.ManifestList)] = true
		manifests, err := s.Manifests(fs)
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		for _, m := range manifests {
			if named[path.Base(m.FilePath())] {
				continue // read already
			}
			named[path.Base(m.FilePath())] = true
			if _, err := readManifest(fs, m, func(e iceberg.ManifestEntry) { named[path.Base(e.DataFile().FilePath())] = true }); err != nil {
				return nil, err
			}
		}
	}
	return named, nil
}

// checkWritten reports files that were written for a commit and are gone.
func checkWritten(ctx context.Context, current *table.Table, files []iceberg.DataFile) error {
	fs, err := current.FS(ctx)
	if err != nil {
		return err
	}
	for _, f := range files {
		in, err := fs.Open(f.FilePath())
		if err == nil {
			err = in.Close()
		}
		if err != nil {
			return fmt.Errorf("a file that was written is gone, as if it were an orphan (do not remove those that are younger than this takes): %w", err)
		}
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
