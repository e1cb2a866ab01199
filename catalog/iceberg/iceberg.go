// Package iceberg makes the tables of an Iceberg catalog what the pipeline file
// says they are.
//
// In comes a checked pipeline and a catalog of iceberg-go: SQL, Glue or REST.
// Out comes a Plan: what must be done to which table, and what cannot be done
// and why; and, with Apply, the tables created and evolved. A column keeps its
// field id through widening and renaming, so that old files are read right.
//
// Apply may be run again, and by two at once: each change of a table is one
// atomic commit that is planned anew when another one came first.
//
// It does not touch rows and it drops no table. Partitions change for rows to
// come, and not at all where equality deletes would no longer find older ones.
// It checks what iceberg-go does not: that identifiers are required columns and
// stay where they are.
package iceberg

import (
	"context"
	"errors"
	"fmt"

	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
)

// Tables is what is needed of a catalog. All of iceberg-go's have it.
type Tables interface {
	LoadTable(ctx context.Context, id table.Identifier) (*table.Table, error)
	CreateTable(ctx context.Context, id table.Identifier, schema *Schema, options ...icecatalog.CreateTableOpt) (*table.Table, error)
	CheckNamespaceExists(ctx context.Context, namespace table.Identifier) (bool, error)
	CreateNamespace(ctx context.Context, namespace table.Identifier, properties Properties) error
}

// A Lake is a catalog and the place of its tables.
type Lake struct {
	// Tables is the catalog; nil, for Plan, is one without any table.
	Tables Tables
	// Location is the URI below which new tables lie, as database/table; empty
	// leaves the place to the catalog.
	Location string
	// AllowDrop lets columns go that the pipeline file does not have.
	AllowDrop bool
	// OnlyExisting leaves out the tables that are not there: somebody else makes
	// them.
	OnlyExisting bool
}

// ErrRefused is wrapped by Apply when the plan has refusals. Then nothing was
// changed.
var ErrRefused = errors.New("refused: the plan has changes that are not safe")

// identifier is the table's name in the catalog.
func identifier(t *catalog.Table) table.Identifier {
	return icecatalog.ToIdentifier(t.Database(), t.Name())
}

func fullName(t *catalog.Table) string { return t.Database() + "." + t.Name() }

// load returns the table, or nil if there is none.
func (l *Lake) load(ctx context.Context, t *catalog.Table) (*table.Table, error) {
	if l.Tables == nil {
		return nil, nil //nolint:nilnil // no table is an answer
	}
	loaded, err := l.Tables.LoadTable(ctx, identifier(t))
	switch {
	case errors.Is(err, icecatalog.ErrNoSuchTable), errors.Is(err, icecatalog.ErrNoSuchNamespace):
		return nil, nil //nolint:nilnil // no table is an answer
	case err != nil:
		return nil, fmt.Errorf("load table %s: %w", fullName(t), err)
	}
	return loaded, nil
}
