package main

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"icehose/catalog/iceberg/remote"
	"icehose/sink/iceberg"
)

// sqliteKind is the catalog that is a SQLite database, with tables anywhere.
const sqliteKind = "sqlite"

// store opens the lake that the flags name.
func (f *lakeFlags) store(ctx context.Context, o iceberg.Options) (*iceberg.Store, error) {
	if (f.Lake == "") == (f.Catalog == "") {
		return nil, errors.New("want --lake or --catalog")
	}
	if f.Lake != "" {
		if f.URI != "" || f.Warehouse != "" || len(f.Prop) > 0 {
			return nil, errors.New("--uri, --warehouse and --prop belong to --catalog, not to --lake")
		}
		return iceberg.Open(ctx, f.Lake, o)
	}
	kind, address, _ := strings.Cut(string(f.Catalog), ":")
	address = cmp.Or(address, f.URI)
	o.Warehouse, o.Properties = f.Warehouse, f.Prop
	if kind == sqliteKind {
		if address == "" {
			return nil, errors.New("--catalog sqlite: want the database too, as sqlite:PATH")
		}
		return iceberg.OpenSQLite(ctx, address, o)
	}
	l, err := remote.Open(ctx, remote.Options{Kind: remote.Kind(kind), URI: address, Warehouse: f.Warehouse, Properties: f.Prop})
	if err != nil {
		return nil, err
	}
	return iceberg.OpenLake(l, string(f.Catalog), o)
}
