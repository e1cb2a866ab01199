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
	currentSuffix = catalog.CurrentViewSuffix // view: the current rows
	foldedSuffix  = catalog.CurrentSuffix     // table: the current rows, as of the last merge
	historySuffix = catalog.HistorySuffix     // view: every row that a key ever had
)

// unresolved is the view's list of columns whose value the changelog does not have.
const unresolved = catalog.ColumnUnresolved

// sql makes a dialect's files of one table.
func (g *generator) sql(d Dialect, t *catalog.Table) error {
	columns, data := t.LakeColumns()
	path := string(d) + "/" + fileName(t)
	if d == Spark {
		g.add(path+".create.sql", g.sparkTable(t, columns))
	}
	for _, c := range columns {
		if d == Athena && c.Type.Kind == catalog.Fixed {
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
		g.add(path+".erase.sql", erasure(d, t))
		g.add(path+".retain.sql", retention(d, t))
		merge, err := mergeStatement(d, t)
		if err != nil {
			return err
		}
		g.add(path+".merge.sql", merge)
		g.add(path+".history.sql", historyView(d, t))
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
		if !Spark.canCreate(c.Type) {
			fmt.Fprintf(&b, "-- Spark cannot create column %s: it has no %s.\n", c.Name, c.Type)
		}
	}
	if b.Len() > 0 {
		g.note(t, "Spark cannot create the table: see spark/%s.create.sql", fileName(t))
		b.WriteString("-- Create this table with icehose catalog apply.\n")
		return b.Bytes()
	}
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s (\n", Spark.table(t, ""))
	for i, c := range columns {
		null, comma := "", ","
		if t.IsKey(c.Name) {
			null = " NOT NULL"
		}
		if i == len(columns)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, "  %s %s%s%s\n", Spark.quote(c.Name), Spark.typeName(c.Type), null, comma)
	}
	fmt.Fprintf(&b, ")\nUSING iceberg\n%sLOCATION %s\nTBLPROPERTIES (\n  'format-version' = '2'", sparkPartition(t), Spark.text(g.location(tableLocation(t))))
	b.WriteString(sparkProperties(t) + "\n);\n")
	if len(t.Key) > 0 {
		fmt.Fprintf(&b, "\nALTER TABLE %s SET IDENTIFIER FIELDS %s;\n", Spark.table(t, ""), Spark.list(t.Key, ""))
	}
	return b.Bytes()
}

// sparkProperties renders the properties of a table, each after a comma.
func sparkProperties(t *catalog.Table) string {
	var b strings.Builder
	properties := t.Properties()
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&b, ",\n  '%s' = '%s'", name, properties[name])
	}
	return b.String()
}

// sparkPartition renders the table's PARTITIONED BY line; empty for none.
func sparkPartition(t *catalog.Table) string {
	if len(t.Partition) == 0 {
		return ""
	}
	parts := make([]string, len(t.Partition))
	for i, f := range t.Partition {
		column := Spark.quote(f.Column)
		switch f.Transform {
		case catalog.PartitionIdentity:
			parts[i] = column
		case catalog.PartitionBucket, catalog.PartitionTruncate:
			parts[i] = fmt.Sprintf("%s(%d, %s)", f.Transform, f.Width, column)
		case catalog.PartitionYear, catalog.PartitionMonth, catalog.PartitionDay, catalog.PartitionHour:
			parts[i] = fmt.Sprintf("%ss(%s)", f.Transform, column)
		}
	}
	return "PARTITIONED BY (" + strings.Join(parts, ", ") + ")\n"
}

// foldedTable is the table that the merge keeps.
func (g *generator) foldedTable(d Dialect, t *catalog.Table) []byte {
	return []byte(fmt.Sprintf("-- Holds the rows of %s as of the last merge: icehose merge fills it.\n%s;\n",
		d.table(t, currentSuffix), createFolded(d, t, g.location(tableLocation(t)+foldedSuffix))))
}

// createFolded creates the table that the merge keeps. What catalog.Table.Current
// says is what icehose creates; an engine's types may be poorer.
func createFolded(d Dialect, t *catalog.Table, location string) string {
	var b strings.Builder
	columns := viewColumns(t)
	current := t.Current()
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s (\n", ddlTable(d, t, foldedSuffix))
	for i, c := range columns {
		null, comma := "", ","
		if d == Spark && current.IsKey(c.Name) {
			null = " NOT NULL"
		}
		if i == len(columns)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, "  `%s` %s%s%s\n", c.Name, ddlType(d, d.foldedType(c.Type)), null, comma)
	}
	b.WriteString(")\n")
	if d == Spark {
		b.WriteString("USING iceberg\n")
	}
	if location != "" {
		fmt.Fprintf(&b, "LOCATION %s\n", d.text(location))
	}
	if d == Athena {
		b.WriteString("TBLPROPERTIES ('table_type' = 'ICEBERG', 'format' = 'parquet', 'write_compression' = 'zstd')")
		return b.String()
	}
	b.WriteString("TBLPROPERTIES (\n  'format-version' = '2'" + sparkProperties(current) + "\n)")
	return b.String()
}

// ddlTable names a table in Athena's Hive statements, which quote as Spark does.
func ddlTable(_ Dialect, t *catalog.Table, suffix string) string { return Spark.table(t, suffix) }

// ddlType is the type of a column in CREATE TABLE.
func ddlType(d Dialect, t catalog.Type) string {
	if d == Spark {
		return Spark.typeName(t)
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
	return Athena.typeName(t)
}

// viewColumns are the columns of the view of current rows.
func viewColumns(t *catalog.Table) []catalog.Column {
	columns, data := t.LakeColumns()
	out := slices.Clone(columns[:data])
	if t.Mode == catalog.Changelog && len(t.Key) > 0 {
		out = append(out, catalog.Column{Name: unresolved, Type: catalog.Type{Kind: catalog.String}})
	}
	return append(out, columns[data:data+2]...)
}

func viewColumnNames(t *catalog.Table) []string {
	columns := viewColumns(t)
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return names
}

// vacuumSeconds is for how long Athena's VACUUM keeps snapshots: a week.
const vacuumSeconds = 7 * 24 * 60 * 60

// maintenance are statements to run from time to time.
func maintenance(d Dialect, t *catalog.Table) []byte {
	var b strings.Builder
	b.WriteString("-- Run these regularly: each delivery adds a snapshot, small files and, in a\n-- mirror, delete files that slow every reader down.\n")
	if t.Mode == catalog.Mirror {
		b.WriteString(`-- Not for a mirror that icehose's own sink writes: what it knows of deleted keys
-- lies in files that only table properties name, which the removal of orphan
-- files takes for garbage. Such a table is maintained by the sink.
`)
	}
	b.WriteString(maintainTable(d, t, "", t.Mode == catalog.Mirror))
	if t.Mode == catalog.Changelog {
		b.WriteString("\n-- The current table: a merge writes delete files.\n" + maintainTable(d, t, foldedSuffix, true))
	}
	return []byte(b.String())
}

// maintainTable are the statements for one table, which has delete files or not.
func maintainTable(d Dialect, t *catalog.Table, suffix string, deletes bool) string {
	name := t.Database() + "." + t.Name() + suffix
	if d == Athena {
		return fmt.Sprintf("OPTIMIZE %s REWRITE DATA USING BIN_PACK;\n\nALTER TABLE %s SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '%d');\n\nVACUUM %s;\n",
			name, ddlTable(d, t, suffix), vacuumSeconds, name)
	}
	options := ""
	if deletes {
		options = ", options => map('delete-file-threshold', '1')"
	}
	return fmt.Sprintf(`CALL system.rewrite_data_files(table => %[1]s%[2]s);

CALL system.rewrite_position_delete_files(table => %[1]s);

CALL system.rewrite_manifests(table => %[1]s);

CALL system.expire_snapshots(table => %[1]s, retain_last => 20);

CALL system.remove_orphan_files(table => %[1]s);
`, d.text(name), options)
}
