package iceberg

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/apache/iceberg-go"

	"icehose/catalog"
	"icehose/sink"
)

// SetSync changes what forces files to the disk.
func (s *Store) SetSync(sync func(*os.File) error) {
	s.disk.wait()
	s.disk.sync = sync
}

// SetPlanned sets what happens between the search for orphans and their removal.
func (m *Maintenance) SetPlanned(f func()) { m.planned = f }

// Loosen lets the target file size be small, and the delete ratio above 1, so
// that what is meant for large tables happens to small ones.
func (m *Maintenance) Loosen() { m.loose = true }

// Expiry returns how many of the newest snapshots of t stay at a time, and how
// many others are to go.
func (s *Store) Expiry(ctx context.Context, t *catalog.Table, r Retention, now time.Time) (keep, gone int, err error) {
	current, err := s.catalog.LoadTable(ctx, identifier(t))
	if err != nil {
		return 0, 0, err
	}
	e := r.expiry(current, now)
	return e.keep, e.gone, nil
}

// Snapshots returns when the snapshots of t came, the oldest first.
func (s *Store) Snapshots(ctx context.Context, t *catalog.Table) ([]time.Time, error) {
	current, err := s.catalog.LoadTable(ctx, identifier(t))
	if err != nil {
		return nil, err
	}
	var times []time.Time
	for _, snapshot := range current.Metadata().Snapshots() {
		times = append(times, time.UnixMilli(snapshot.TimestampMs))
	}
	return times, nil
}

// SetProperty sets a property of a table, as another engine may do.
func (s *Store) SetProperty(ctx context.Context, t *catalog.Table, name, value string) error {
	current, err := s.catalog.LoadTable(ctx, identifier(t))
	if err != nil {
		return err
	}
	tx := current.NewTransaction()
	if err := tx.SetProperties(iceberg.Properties{name: value}); err != nil {
		return err
	}
	_, err = tx.Commit(ctx)
	return err
}

// Dir returns the folder of the lake.
func (s *Store) Dir() string { return s.dir }

// Repartition partitions t by buckets of a column, as another engine may do.
func (s *Store) Repartition(ctx context.Context, t *catalog.Table, column string, buckets int) error {
	current, err := s.catalog.LoadTable(ctx, identifier(t))
	if err != nil {
		return err
	}
	tx := current.NewTransaction()
	if err := tx.UpdateSpec(true).AddField(column, iceberg.BucketTransform{NumBuckets: buckets}, column+"_bucket").Commit(); err != nil {
		return err
	}
	_, err = tx.Commit(ctx)
	return err
}

// LastingAt reports whether a lake of that location takes an error for one that
// trying again does not mend.
func LastingAt(location string, err error) bool {
	return errors.Is((&Store{location: location}).lasting(err), sink.ErrPermanent)
}
