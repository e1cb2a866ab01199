package drift

import (
	"fmt"
	"slices"
	"strings"

	"icehose/catalog"
)

// glue compares the tables of the Data Catalog.
func (c *comparer) glue(have []Table) {
	byName := make(map[string]*Table)
	for i := range have {
		byName[have[i].Database+"."+have[i].Name] = &have[i]
	}
	for _, database := range c.deployed.Missing {
		c.find(Finding{
			ID: "no-database", Where: "database " + database, Consequence: "none of its tables is there: their records fail Iceberg.NoSuchTable and go to the error bucket",
			Fix: "icehose catalog apply makes it with its tables, or name the database that there is: database: and target: in the pipeline file",
		})
	}
	for _, t := range c.pipeline.Tables {
		if slices.Contains(c.deployed.Missing, t.Database()) {
			continue
		}
		name := t.Database() + "." + t.Name()
		where := "table " + name
		table := byName[name]
		if table == nil {
			c.find(Finding{ID: "no-table", Where: where, Consequence: "its records fail Iceberg.NoSuchTable and go to the error bucket", Fix: "icehose catalog apply"})
			continue
		}
		c.parameters(where, table)
		c.columns(where, t, table)
	}
}

// parameters looks for what an update by CloudFormation strips.
func (c *comparer) parameters(where string, table *Table) {
	for _, p := range []struct {
		name, have, want string
		ok               bool
	}{
		{"table_type", table.Parameters["table_type"], "ICEBERG", strings.EqualFold(table.Parameters["table_type"], "ICEBERG")},
		{"metadata_location", table.Parameters["metadata_location"], "the newest metadata file", table.Parameters["metadata_location"] != ""},
	} {
		if !p.ok {
			c.find(Finding{
				ID: "not-iceberg", Where: where, Field: p.name, Have: p.have, Want: p.want,
				Consequence: "Glue does not say that this is an Iceberg table, or where its metadata is: Athena and Firehose fail on it. An update by CloudFormation does that",
				Fix:         "put table_type and metadata_location back: aws glue get-table-versions has the last good ones; else register the newest file of the table's metadata folder",
			})
		}
	}
}

// columns compares names and types.
func (c *comparer) columns(where string, t *catalog.Table, table *Table) {
	have := make(map[string]string)
	for _, column := range table.Storage.Columns {
		if column.Parameters["iceberg.field.current"] != "false" { // Glue keeps columns that were dropped
			have[column.Name] = column.Type
		}
	}
	columns, _ := t.LakeColumns()
	for _, column := range columns {
		want := hiveType(column.Type)
		got, ok := have[column.Name]
		delete(have, column.Name)
		switch {
		case !ok:
			c.find(Finding{
				ID: "no-column", Where: where, Field: column.Name, Want: want,
				Consequence: "Firehose drops its values, or fails the records", Fix: "icehose catalog apply",
			})
		case !strings.EqualFold(got, want):
			c.find(Finding{
				ID: "column-type", Where: where, Field: column.Name, Have: got, Want: want,
				Consequence: "values do not fit, and their records go to the error bucket", Fix: "icehose catalog plan says whether the type can be changed",
			})
		}
	}
	for name, typ := range have {
		c.find(Finding{
			ID: "column-not-in-file", Where: where, Field: name, Have: typ,
			Consequence: "it is null in every new row", Fix: "icehose catalog apply --allow-drop, or add it to the pipeline file",
		})
	}
}

// hiveType is the type that Glue shows for a column of an Iceberg table.
func hiveType(t catalog.Type) string {
	switch t.Kind {
	case catalog.Long:
		return "bigint"
	case catalog.Decimal:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case catalog.Timestamp, catalog.TimestampTZ:
		return "timestamp"
	case catalog.Time, catalog.UUID:
		return "string"
	case catalog.Fixed, catalog.Binary:
		return "binary"
	case catalog.Boolean, catalog.Int, catalog.Float, catalog.Double, catalog.Date, catalog.String:
		return t.Kind.String()
	}
	return t.String()
}
