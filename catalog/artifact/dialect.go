package artifact

import (
	"fmt"
	"slices"
	"strings"

	"icehose/catalog"
)

// A Dialect is an engine's SQL.
type Dialect string

// The dialects.
const (
	Athena Dialect = "athena" // engine version 3: Trino's SQL, Hive's in ALTER
	Spark  Dialect = "spark"  // 3.4 or newer with Iceberg's extensions; erasure and merges 4.0
)

// quote renders a name of the pipeline file, which is lower-case letters,
// digits and underscores, so that reserved words are names too.
func (d Dialect) quote(name string) string {
	if d == Spark {
		return "`" + name + "`"
	}
	return `"` + name + `"`
}

// table renders database.name.
func (d Dialect) table(t *catalog.Table, suffix string) string {
	return d.quote(t.Database()) + "." + d.quote(t.Name()+suffix)
}

// list renders names, each with an optional qualifier.
func (d Dialect) list(names []string, qualifier string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = qualifier + d.quote(n)
	}
	return strings.Join(quoted, ", ")
}

// equal renders the comparison of two sides' columns.
func (d Dialect) equal(names []string, left, right string) string {
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = left + d.quote(n) + " = " + right + d.quote(n)
	}
	return strings.Join(parts, " AND ")
}

// differ renders whether any column of t has not the value that s has; two nulls
// are equal.
func (d Dialect) differ(names []string) string {
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = "t." + d.quote(n) + " IS DISTINCT FROM s." + d.quote(n)
		if d == Spark {
			parts[i] = "NOT (t." + d.quote(n) + " <=> s." + d.quote(n) + ")"
		}
	}
	return "(" + strings.Join(parts, "\n    OR ") + ")"
}

// sets renders the assignments of an UPDATE from the relation s.
func (d Dialect) sets(names []string) string {
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = d.quote(n) + " = s." + d.quote(n)
	}
	return strings.Join(parts, ",\n  ")
}

// text renders a string literal. Spark reads backslashes in it.
func (d Dialect) text(s string) string {
	if d == Spark {
		s = strings.ReplaceAll(s, `\`, `\\`)
		return "'" + strings.ReplaceAll(s, "'", `\'`) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// typeName is the type of a column as the engine reads it.
func (d Dialect) typeName(t catalog.Type) string {
	names := map[catalog.TypeKind][2]string{
		catalog.Boolean: {"boolean", "BOOLEAN"}, catalog.Int: {"integer", "INT"}, catalog.Long: {"bigint", "BIGINT"},
		catalog.Float: {"real", "FLOAT"}, catalog.Double: {"double", "DOUBLE"}, catalog.Date: {"date", "DATE"},
		catalog.Time: {"time(6)", "STRING"}, catalog.Timestamp: {"timestamp(6)", "TIMESTAMP_NTZ"},
		catalog.TimestampTZ: {"timestamp(6) with time zone", "TIMESTAMP"}, catalog.String: {"varchar", "STRING"},
		catalog.UUID: {"uuid", "STRING"}, catalog.Fixed: {"varbinary", "BINARY"}, catalog.Binary: {"varbinary", "BINARY"},
	}
	if t.Kind == catalog.Decimal {
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	}
	if d == Spark {
		return names[t.Kind][1]
	}
	return names[t.Kind][0]
}

// canCreate reports whether the engine's CREATE TABLE can make a column of the
// type, and not just one that looks like it.
func (d Dialect) canCreate(t catalog.Type) bool {
	switch t.Kind {
	case catalog.Time, catalog.UUID, catalog.Fixed:
		return false
	case catalog.TimestampTZ:
		return d == Spark
	case catalog.Boolean, catalog.Int, catalog.Long, catalog.Float, catalog.Double, catalog.Decimal, catalog.Date,
		catalog.Timestamp, catalog.String, catalog.Binary:
		return true
	}
	return false
}

// foldedType is the type of a column in views and folded tables. Athena's views
// and its CREATE TABLE have no time zones, no time and no uuid.
func (d Dialect) foldedType(t catalog.Type) catalog.Type {
	if d == Athena {
		switch t.Kind {
		case catalog.TimestampTZ:
			return catalog.Type{Kind: catalog.Timestamp}
		case catalog.Time, catalog.UUID:
			return catalog.Type{Kind: catalog.String}
		case catalog.Boolean, catalog.Int, catalog.Long, catalog.Float, catalog.Double, catalog.Decimal, catalog.Date,
			catalog.Timestamp, catalog.String, catalog.Fixed, catalog.Binary:
		}
	}
	if t.Kind == catalog.Fixed {
		return catalog.Type{Kind: catalog.Binary}
	}
	return t
}

// folded renders an expression of a column's type as one of its foldedType.
func (d Dialect) folded(expression string, t catalog.Type) string {
	if d == Athena {
		switch t.Kind {
		case catalog.TimestampTZ:
			return "CAST(" + expression + " AT TIME ZONE 'UTC' AS timestamp(6))"
		case catalog.Time, catalog.UUID:
			return "CAST(" + expression + " AS varchar)"
		case catalog.Boolean, catalog.Int, catalog.Long, catalog.Float, catalog.Double, catalog.Decimal, catalog.Date,
			catalog.Timestamp, catalog.String, catalog.Fixed, catalog.Binary:
		}
	}
	return expression
}

// parse renders an expression of canonical text as a value of the type.
func (d Dialect) parse(expression string, t catalog.Type) string {
	switch t.Kind {
	case catalog.String:
		return expression
	case catalog.UUID, catalog.Time:
		if d == Spark {
			return expression
		}
	case catalog.Fixed, catalog.Binary:
		if d == Spark {
			return "unhex(" + expression + ")"
		}
		return "from_hex(" + expression + ")"
	case catalog.Timestamp:
		if d == Athena {
			expression = "replace(" + expression + ", 'T', ' ')"
		}
	case catalog.TimestampTZ:
		if d == Athena {
			expression = "replace(replace(" + expression + ", 'T', ' '), 'Z', ' UTC')"
		}
	case catalog.Boolean, catalog.Int, catalog.Long, catalog.Float, catalog.Double, catalog.Decimal, catalog.Date:
	}
	return "CAST(" + expression + " AS " + d.typeName(t) + ")"
}

// oldKey renders the n-th key column's value in the text of an old key.
func (d Dialect) oldKey(text string, n int, t catalog.Type) string {
	function := "json_extract_scalar"
	if d == Spark {
		function = "get_json_object"
	}
	return d.parse(fmt.Sprintf("%s(%s, '$[%d]')", function, text, n), t)
}

// greatestPair renders the greatest pair of two expressions among the rows of a
// group for which conditions hold. Neither may be null there.
func (d Dialect) greatestPair(first, second string, conditions []string) string {
	pair := fmt.Sprintf("max(ROW(%s, %s))", first, second)
	if d == Spark {
		pair = fmt.Sprintf("max(struct(%s AS a, %s AS b))", first, second)
	}
	if len(conditions) > 0 {
		pair += " FILTER (WHERE " + strings.Join(conditions, " AND ") + ")"
	}
	return pair
}

// parts renders the first part of a pair and the second.
func (d Dialect) parts(pair string) (first, second string) {
	if d == Spark {
		return pair + ".a", pair + ".b"
	}
	return "(" + pair + ")[1]", "(" + pair + ")[2]"
}

// rises renders whether any column of t has a lesser value than s, where null is
// the least.
func (d Dialect) rises(names []string) string {
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = fmt.Sprintf("coalesce(s.%[1]s > t.%[1]s, t.%[1]s IS NULL AND s.%[1]s IS NOT NULL)", d.quote(n))
	}
	return "(" + strings.Join(parts, "\n    OR ") + ")"
}

// raises renders the assignments of an UPDATE of the greater of t's and s's.
func (d Dialect) raises(names []string) string {
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = fmt.Sprintf("%[1]s = CASE WHEN t.%[1]s IS NULL OR s.%[1]s > t.%[1]s THEN s.%[1]s ELSE t.%[1]s END", d.quote(n))
	}
	return strings.Join(parts, ",\n  ")
}

// seconds renders a time with a zone as Unix seconds.
func (d Dialect) seconds(expression string) string {
	if d == Spark {
		return "unix_seconds(" + expression + ")"
	}
	return "CAST(floor(to_unixtime(" + expression + ")) AS bigint)"
}

// array renders an array of one element.
func (d Dialect) array(expression string) string {
	if d == Spark {
		return "array(" + expression + ")"
	}
	return "ARRAY[" + expression + "]"
}

// listed renders whether cdc_absent lists a column, by whichever name it had.
func (d Dialect) listed(c *catalog.Column) string {
	function := "contains"
	if d == Spark {
		function = "array_contains"
	}
	names := c.Names()
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%s(split(coalesce(%s, ''), ','), '%s')", function, d.quote(catalog.ColumnAbsent), name)
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return "(" + strings.Join(parts, " OR ") + ")"
}

// joined renders the non-null texts among expressions, separated by commas, or
// null if there are none.
func (d Dialect) joined(expressions []string) string {
	list := strings.Join(expressions, ",\n        ")
	if d == Spark {
		return "nullif(concat_ws(',',\n        " + list + "), '')"
	}
	return "nullif(array_join(ARRAY[\n        " + list + "], ','), '')"
}

// hasDefaults reports whether a column of the table was added with a default.
func hasDefaults(columns []catalog.Column) bool {
	return slices.ContainsFunc(columns, func(c catalog.Column) bool { return c.Default != nil })
}
