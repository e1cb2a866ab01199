package iceberg

import (
	"context"
	"os"

	"github.com/apache/iceberg-go"

	"icehose/catalog"
)

// SetSync changes what forces files to the disk.
func (s *Store) SetSync(sync func(*os.File) error) { s.disk.sync = sync }

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
