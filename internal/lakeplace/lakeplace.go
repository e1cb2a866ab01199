// Package lakeplace opens a lake wherever it is.
//
// In come flags, or the variables of a Lambda function, that say where: a folder,
// a SQLite catalog, Glue or a REST catalog; out goes the open store of package
// sink/iceberg. A kong command embeds Flags; whoever needs them all at once
// calls OpenLake.
package lakeplace

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"icehose/catalog/iceberg/remote"
	"icehose/sink/iceberg"
)

// Flags say where the tables are: Lake or Catalog, never both.
type Flags struct {
	Lake      string            `help:"Directory of a local lake." placeholder:"DIR"`
	Catalog   remote.Kind       `help:"Instead of --lake, an Iceberg catalog: glue, rest:URL or sqlite:PATH." placeholder:"KIND"`
	URI       string            `name:"uri" help:"Address of the REST catalog, if --catalog does not say it; endpoint of Glue, if not the region's own." placeholder:"URL"`
	Warehouse string            `help:"URI below which new tables lie, as database/table; for REST also the warehouse's name." placeholder:"URI"`
	Prop      map[string]string `help:"Property for the catalog and its storage, in iceberg-go's words: glue.region, s3.region, token, rest.sigv4-enabled." placeholder:"NAME=VALUE"`
}

// sqliteKind is the catalog that is a SQLite database, with tables anywhere.
const sqliteKind = "sqlite"

// Place tells lakes apart. Of the properties, which may be secrets, it holds
// what says where Glue is.
func (f *Flags) Place() string {
	return strings.Join([]string{f.Lake, string(f.Catalog), f.URI, f.Warehouse, f.Prop["glue.region"], f.Prop["glue.id"]}, "\n")
}

// OpenBeside opens the lake for tables that no sink writes, beside whoever
// writes the others.
func (f *Flags) OpenBeside(ctx context.Context) (*iceberg.Store, error) {
	return f.OpenLake(ctx, iceberg.Options{Beside: true})
}

// OpenLake opens the lake that the flags name. Warehouse and Properties of o are
// those of the flags.
func (f *Flags) OpenLake(ctx context.Context, o iceberg.Options) (*iceberg.Store, error) {
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
