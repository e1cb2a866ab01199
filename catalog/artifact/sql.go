package artifact

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"icehose/catalog"
)

// Suffixes of the names that SQL artifacts create beside a table.
const (
	currentSuffix = "_current" // view: the current rows
	foldedSuffix  = "_folded"  // table: the current rows, as of the last merge
)

// unresolved is the view's list of columns whose value the changelog does not have.
const unresolved = "cdc_unresolved"

// sql makes a dialect's files of one table.
func (g *generator) sql(d dialect, t *catalog.Table) error {
	columns, data := t.LakeColumns()
	path := string(d) + "/" + fileName(t)
	if d == spark {
		g.add(path+".create.sql", g.sparkTable(t, columns))
	}
	for _, c := range columns {
		if d == athena && c.Type.Kind == catalog.Fixed {
			g.note(t, "Athena cannot read column %s: it has no %s", c.Name, c.Type)
		}
	}
	if t.Mode == catalog.Changelog || hasDefaults(columns[:data]) {
		view, err := currentView(d, t)
		if err != nil {
			return err
		}
		g.add(path+".current.sql", view)
	}
	if t.Mode == catalog.Changelog {
		g.add(path+".folded.sql", g.foldedTable(d, t))
		g.add(path+".merge.sql", mergeStatement(d, t))
	}
	g.add(path+".maintain.sql", maintenance(d, t))
	return nil
}

// sparkTable is the exact definition of the table, for those who create tables
// with Spark. Athena has none: every table has a column with a time zone, and
// Athena's CREATE TABLE can make neither that nor required columns.
func (g *generator) sparkTable(t *catalog.Table, columns []catalog.Column) []byte {
	var b bytes.Buffer
	for _, c := range columns {
		if !spark.canCreate(c.Type) {
			fmt.Fprintf(&b, "-- Spark cannot create column %s: it has no %s.\n", c.Name, c.Type)
		}
	}
	if b.Len() > 0 {
		g.note(t, "Spark cannot create the table: see spark/%s.create.sql", fileName(t))
		b.WriteString("-- Create this table with icehose catalog apply.\n")
		return b.Bytes()
	}
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s (\n", spark.table(t, ""))
	for i, c := range columns {
		null, comma := "", ","
		if t.IsKey(c.Name) {
			null = " NOT NULL"
		}
		if i == len(columns)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, "  %s %s%s%s\n", spark.quote(c.Name), spark.typeName(c.Type), null, comma)
	}
	fmt.Fprintf(&b, ")\nUSING iceberg\nLOCATION %s\nTBLPROPERTIES (\n  'format-version' = '2'", spark.text(g.location(tableLocation(t))))
	properties := catalog.TableProperties()
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&b, ",\n  '%s' = '%s'", name, properties[name])
	}
	b.WriteString("\n);\n")
	if len(t.Key) > 0 {
		fmt.Fprintf(&b, "\nALTER TABLE %s SET IDENTIFIER FIELDS %s;\n", spark.table(t, ""), spark.list(t.Key, ""))
	}
	return b.Bytes()
}

// foldedTable is the table that the merge keeps.
func (g *generator) foldedTable(d dialect, t *catalog.Table) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "-- Holds the rows of %s as of the last merge. Fill it by running the merge\n-- statement without its marked line.\n", d.table(t, currentSuffix))
	columns := viewColumns(t)
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s (\n", ddlTable(d, t, foldedSuffix))
	for i, c := range columns {
		comma := ","
		if i == len(columns)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, "  `%s` %s%s\n", c.Name, ddlType(d, d.foldedType(c.Type)), comma)
	}
	location := d.text(g.location(tableLocation(t) + foldedSuffix))
	if d == spark {
		fmt.Fprintf(&b, ")\nUSING iceberg\nLOCATION %s\nTBLPROPERTIES ('format-version' = '2');\n", location)
	} else {
		fmt.Fprintf(&b, ")\nLOCATION %s\nTBLPROPERTIES ('table_type' = 'ICEBERG', 'format' = 'parquet', 'write_compression' = 'zstd');\n", location)
	}
	return b.Bytes()
}

// ddlTable names a table in Athena's Hive statements, which quote as Spark does.
func ddlTable(_ dialect, t *catalog.Table, suffix string) string { return spark.table(t, suffix) }

// ddlType is the type of a column in CREATE TABLE.
func ddlType(d dialect, t catalog.Type) string {
	if d == spark {
		return spark.typeName(t)
	}
	switch t.Kind {
	case catalog.Int:
		return "int"
	case catalog.Float:
		return "float"
	case catalog.String:
		return "string"
	case catalog.Timestamp:
		return "timestamp"
	case catalog.Binary:
		return "binary"
	case catalog.Boolean, catalog.Long, catalog.Double, catalog.Decimal, catalog.Date, catalog.Time, catalog.TimestampTZ,
		catalog.UUID, catalog.Fixed:
	}
	return athena.typeName(t)
}

// viewColumns are the columns of the view of current rows.
func viewColumns(t *catalog.Table) []catalog.Column {
	columns, data := t.LakeColumns()
	columns = columns[:data+2]
	if t.Mode == catalog.Changelog && len(t.Key) > 0 {
		columns = append(columns, catalog.Column{Name: unresolved, Type: catalog.Type{Kind: catalog.String}})
	}
	return columns
}

// maintenance are statements to run from time to time.
func maintenance(d dialect, t *catalog.Table) []byte {
	var b strings.Builder
	b.WriteString("-- Run these regularly: each delivery adds a snapshot, small files and, in a\n-- mirror, delete files that slow every reader down.\n")
	if t.Mode == catalog.Mirror {
		b.WriteString(`-- Not for a mirror that icehose's own sink writes: what it knows of deleted keys
-- lies in files that only table properties name, which the removal of orphan
-- files takes for garbage. Such a table is maintained by the sink.
`)
	}
	if d == athena {
		name := t.Database() + "." + t.Name()
		fmt.Fprintf(&b, "OPTIMIZE %s REWRITE DATA USING BIN_PACK;\n\nALTER TABLE %s SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '604800');\n\nVACUUM %s;\n",
			name, ddlTable(d, t, ""), name)
		return []byte(b.String())
	}
	name := d.text(t.Database() + "." + t.Name())
	options := ""
	if t.Mode == catalog.Mirror {
		options = ", options => map('delete-file-threshold', '1')"
	}
	fmt.Fprintf(&b, `CALL system.rewrite_data_files(table => %[1]s%[2]s);

CALL system.rewrite_position_delete_files(table => %[1]s);

CALL system.rewrite_manifests(table => %[1]s);

CALL system.expire_snapshots(table => %[1]s, retain_last => 20);

CALL system.remove_orphan_files(table => %[1]s);
`, name, options)
	return []byte(b.String())
}
