package iceberg

import (
	"context"
	"fmt"
	"strings"

	sqlcat "github.com/apache/iceberg-go/catalog/sql"
	"github.com/apache/iceberg-go/table"
)

// A lakeCatalog is the SQL catalog with one correction: a commit whose
// requirements no longer hold is reported as table.ErrCommitFailed, as the
// race for the catalog row is, and not as an error of unknown outcome.
type lakeCatalog struct{ *sqlcat.Catalog }

// LoadTable returns a table that commits through c.
func (c *lakeCatalog) LoadTable(ctx context.Context, id table.Identifier) (*table.Table, error) {
	t, err := c.Catalog.LoadTable(ctx, id)
	if err != nil {
		return nil, err
	}
	return table.New(t.Identifier(), t.Metadata(), t.MetadataLocation(), t.FS, c), nil
}

// CommitTable implements table.CatalogIO.
func (c *lakeCatalog) CommitTable(ctx context.Context, id table.Identifier, requirements []table.Requirement, updates []table.Update) (
	table.Metadata, string, error,
) {
	metadata, location, err := c.Catalog.CommitTable(ctx, id, requirements, updates)
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "requirement failed") {
		err = fmt.Errorf("%w: %w", table.ErrCommitFailed, err)
	}
	return metadata, location, err
}
