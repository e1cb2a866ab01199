package merge

import (
	"context"
	"errors"
	"fmt"

	icecatalog "github.com/apache/iceberg-go/catalog"

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
)

// Changelogs returns the tables of p that are to be merged: those that are named,
// as schema.table of the source, or without names every changelog. A name that is
// none, or that of a mirror, is an error, and so is that nothing is a changelog.
func Changelogs(p *catalog.Pipeline, names []string) ([]*catalog.Table, error) {
	chosen, err := p.Choose(names)
	if err != nil {
		return nil, err
	}
	var tables []*catalog.Table
	for _, t := range chosen {
		switch {
		case t.Mode == catalog.Changelog:
			tables = append(tables, t)
		case len(names) > 0:
			return nil, fmt.Errorf("table %s is a %s: only a changelog is merged", t.Source, t.Mode)
		}
	}
	if len(tables) == 0 {
		return nil, errors.New("no table is a changelog: nothing to merge")
	}
	return tables, nil
}

// WithCurrent returns tables of a pipeline, each changelog followed by its current
// table if the lake has one.
func WithCurrent(ctx context.Context, tables lake.Tables, of []*catalog.Table) (all []*catalog.Table, err error) {
	for _, t := range of {
		all = append(all, t)
		if t.Mode != catalog.Changelog {
			continue
		}
		current := t.Current()
		_, err := tables.LoadTable(ctx, icecatalog.ToIdentifier(current.Database(), current.Name()))
		switch {
		case err == nil:
			all = append(all, current)
		case !errors.Is(err, icecatalog.ErrNoSuchTable) && !errors.Is(err, icecatalog.ErrNoSuchNamespace):
			return nil, fmt.Errorf("find current table %s.%s: %w", current.Database(), current.Name(), err)
		}
	}
	return all, nil
}

// Each merges one table after the other, with one. A table that cannot be merged
// is no reason to leave out those after it. When ctx ends no other is begun: left
// are those that were not.
func Each(ctx context.Context, tables []*catalog.Table, one func(*catalog.Table) (*Result, error)) (results []*Result, left []*catalog.Table, err error) {
	for i, t := range tables {
		if ctx.Err() != nil {
			return results, tables[i:], err
		}
		result, failure := one(t)
		if failure == nil {
			results = append(results, result)
		}
		err = errors.Join(err, failure)
	}
	return results, nil, err
}

// Restarted says of a Result with Regressed changes what has happened to them,
// and what to do.
const Restarted = "changes lie below one that was committed well before them, and lose to older rows: the source's numbering has restarted " +
	"(a restore, a failover). Put the time of it into epochs: of the pipeline file, deliver the changes since then again, and merge"
