package iceberg

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// A lakeCatalog is a catalog with one correction: a commit whose requirements no
// longer hold is reported as table.ErrCommitFailed, as the race for the
// catalog's row is, and not as an error of unknown outcome. The SQL and Glue
// catalogs of iceberg-go 0.7 do the latter. All that it writes to the local
// file system goes through the disk.
type lakeCatalog struct {
	icecatalog.Catalog
	disk *disk
}

// CreateTable creates a table whose metadata is on the disk.
func (c *lakeCatalog) CreateTable(ctx context.Context, id table.Identifier, schema *iceberg.Schema, options ...icecatalog.CreateTableOpt) (
	*table.Table, error,
) {
	if _, err := c.Catalog.CreateTable(c.disk.with(ctx), id, schema, options...); err != nil {
		return nil, err
	}
	return c.LoadTable(ctx, id)
}

// LoadTable returns a table that commits through c.
func (c *lakeCatalog) LoadTable(ctx context.Context, id table.Identifier) (*table.Table, error) {
	t, err := c.Catalog.LoadTable(ctx, id)
	if err != nil {
		return nil, err
	}
	files := t.FS
	if isLocal(t.Location()) {
		files = func(context.Context) (iceio.IO, error) { return c.disk, nil }
	}
	return table.New(t.Identifier(), t.Metadata(), t.MetadataLocation(), files, c), nil
}

// CommitTable implements table.CatalogIO.
func (c *lakeCatalog) CommitTable(ctx context.Context, id table.Identifier, requirements []table.Requirement, updates []table.Update) (
	table.Metadata, string, error,
) {
	metadata, location, err := c.Catalog.CommitTable(c.disk.with(ctx), id, requirements, updates)
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "requirement failed") {
		err = fmt.Errorf("%w: %w", table.ErrCommitFailed, err)
	}
	return metadata, location, err
}
