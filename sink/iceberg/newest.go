package iceberg

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/apache/iceberg-go"

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
)

// NewestCommit returns the newest commit time of the source among the rows of
// a snapshot, as the bounds in its manifests tell; the zero time when they do
// not. It may be that of a row which was replaced since: the lake holds that
// change all the same. No data file is read.
func (s *Store) NewestCommit(ctx context.Context, t *catalog.Table, snapshotID int64) (time.Time, error) {
	newest, err := s.newestCommit(ctx, t, snapshotID)
	if err != nil {
		return time.Time{}, fmt.Errorf("read bounds of %s.%s: %w", t.Database(), t.Name(), oneLine(err))
	}
	return newest, nil
}

// HasSnapshot reports whether t still has a snapshot.
func (s *Store) HasSnapshot(ctx context.Context, t *catalog.Table, snapshotID int64) (bool, error) {
	current, err := s.catalog.LoadTable(ctx, identifier(t))
	if err != nil {
		return false, fmt.Errorf("find snapshot of %s.%s: %w", t.Database(), t.Name(), oneLine(err))
	}
	return current.SnapshotByID(snapshotID) != nil, nil
}

func (s *Store) newestCommit(ctx context.Context, t *catalog.Table, snapshotID int64) (newest time.Time, err error) {
	current, err := s.catalog.LoadTable(ctx, identifier(t))
	if err != nil {
		return newest, err
	}
	snapshot := current.SnapshotByID(snapshotID)
	if snapshot == nil {
		return newest, fmt.Errorf("snapshot %d is gone", snapshotID)
	}
	field, ok := current.Schema().FindFieldByName(catalog.ColumnCommittedAt)
	if !ok {
		return newest, nil
	}
	lists, err := lake.NewLists(ctx, current, isOurs)
	if err != nil {
		return newest, err
	}
	manifests, err := lists.Whole(snapshot)
	if err != nil {
		return newest, err
	}
	for _, m := range manifests {
		if m.ManifestContent() != iceberg.ManifestContentData {
			continue
		}
		_, err := readManifest(lists.FS(), m, func(e iceberg.ManifestEntry) {
			// A timestamp's bound is its microseconds, little-endian.
			if bound := e.DataFile().UpperBoundValues()[field.ID]; len(bound) == 8 {
				if at := time.UnixMicro(int64(binary.LittleEndian.Uint64(bound))).UTC(); at.After(newest) {
					newest = at
				}
			}
		})
		if err != nil {
			return newest, err
		}
	}
	return newest, nil
}
