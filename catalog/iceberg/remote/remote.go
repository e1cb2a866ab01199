// Package remote opens Iceberg catalogs that are servers: AWS Glue and the REST
// protocol.
//
// In comes a kind, an address and properties in the words of iceberg-go; out
// goes its catalog. Nothing is read from the server before a table is asked
// for, except the configuration that a REST catalog sends. A lake in a folder
// is opened by sink/iceberg.
package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	_ "github.com/apache/iceberg-go/catalog/glue" // registers glue
	_ "github.com/apache/iceberg-go/catalog/rest" // registers rest
	_ "github.com/apache/iceberg-go/io/gocloud/s3"

	lake "icehose/catalog/iceberg"
)

// A Kind is a catalog's protocol.
type Kind string

// The kinds.
const (
	Glue Kind = "glue"
	REST Kind = "rest"
)

// Options say where the catalog is.
type Options struct {
	Kind Kind
	// URI is the address of a REST catalog; of Glue, its endpoint if it is not
	// the region's own.
	URI string
	// Warehouse is the URI below which new tables lie, as database/table. A
	// REST catalog may take a name for it, and places tables itself then.
	Warehouse string
	// Properties are given to iceberg-go as they are: glue.region, glue.id,
	// s3.region, credential, token, rest.sigv4-enabled and so on.
	Properties map[string]string
}

// Open returns the lake behind a catalog.
func Open(ctx context.Context, o Options) (*lake.Lake, error) {
	properties := iceberg.Properties{}
	maps.Copy(properties, o.Properties)
	properties["type"] = string(o.Kind)
	if o.Warehouse != "" {
		properties["warehouse"] = o.Warehouse
	}
	location := o.Warehouse
	switch o.Kind {
	case Glue:
		if !strings.Contains(o.Warehouse, "://") {
			return nil, errors.New("open glue catalog: want a warehouse URI such as s3://my-lake/warehouse: Glue does not place tables itself")
		}
		if o.URI != "" {
			properties["glue.endpoint"] = o.URI
		}
	case REST:
		if o.URI == "" {
			return nil, errors.New("open rest catalog: want the address of the catalog")
		}
		properties["uri"] = o.URI
		if !strings.Contains(location, "://") {
			location = ""
		}
	default:
		return nil, fmt.Errorf("open catalog: want glue, rest or sqlite, got %q", o.Kind)
	}
	// The name of a section of iceberg-go's own configuration file, which thus
	// counts as well.
	opened, err := icecatalog.Load(ctx, "icehose", properties)
	if err != nil {
		return nil, fmt.Errorf("open %s catalog: %w", o.Kind, err)
	}
	return &lake.Lake{Tables: opened, Location: location}, nil
}
