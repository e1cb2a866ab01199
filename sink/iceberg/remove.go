package iceberg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Remove removes the lake in dir: its catalog and its files, nothing else that
// stands there. It takes the lake's lock first, so a lake that somebody uses
// stays (ErrLocked), and leaves the lock file behind for those who wait for it.
func Remove(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("remove lake: %w", err)
	}
	release, err := lock(ctx, filepath.Join(dir, lockFile), false)
	if err != nil {
		return fmt.Errorf("remove lake %s: %w", dir, oneLine(err))
	}
	for _, name := range []string{catalogFile, catalogFile + "-wal", catalogFile + "-shm", catalogFile + "-journal", warehouse} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
	}
	if err = errors.Join(err, release()); err != nil {
		return fmt.Errorf("remove lake %s: %w", dir, oneLine(err))
	}
	return nil
}
