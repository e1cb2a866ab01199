package canonsql

import (
	"fmt"
	"strings"

	"icehose/catalog"
)

// QuotePostgres quotes a name.
func QuotePostgres(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Postgres renders columns of a PostgreSQL table.
func Postgres(columns []Column) Rows {
	var r Rows
	for i := range columns {
		c := &columns[i]
		name := "t." + QuotePostgres(c.Spelled)
		text := name
		switch {
		case c.Mask == catalog.MaskNull:
			text = "NULL"
		case c.plain("money"):
			text = name + "::numeric" // its text has a currency
		}
		r.Texts = append(r.Texts, text)
		r.Canonical = append(r.Canonical, postgresMasked(c, name))
	}
	return r
}

func postgresMasked(c *Column, name string) string {
	if c.Mask == catalog.MaskNull {
		return "NULL::text"
	}
	text := postgresText(c, name)
	if c.Mask != catalog.MaskSHA256 || text == "" {
		return text
	}
	if c.Column.Type.Kind == catalog.Float || c.Column.Type.Kind == catalog.Double {
		return "" // the mask is of the decimal text
	}
	return fmt.Sprintf("encode(sha256(convert_to(%s, 'UTF8')), 'hex')", text)
}

// postgresText is a closed switch over the lake's types.
func postgresText(c *Column, name string) string {
	switch c.Column.Type.Kind {
	case catalog.Boolean:
		if c.plain("boolean") {
			return name + "::text"
		}
	case catalog.Int:
		if c.plain("smallint", "integer") {
			return name + "::text"
		}
	case catalog.Long:
		if c.plain("smallint", "integer", "bigint", "oid", "xid", "cid") {
			return name + "::text"
		}
	case catalog.Float:
		if c.plain("real") {
			return fmt.Sprintf("CASE WHEN %[1]s = 'NaN' THEN '7fc00000' ELSE encode(float4send(%[1]s + 0::real), 'hex') END", name)
		}
	case catalog.Double:
		if c.plain("double precision") {
			return fmt.Sprintf("CASE WHEN %[1]s = 'NaN' THEN '7ff8000000000000' ELSE encode(float8send(%[1]s + 0::double precision), 'hex') END", name)
		}
	case catalog.Decimal:
		return postgresDecimal(c, name)
	case catalog.Date:
		if c.plain("date") {
			return between(c, name, "date", name+"::text")
		}
	case catalog.Time:
		if c.plain("time", "time without time zone") {
			return orNull(c, name+" < '24:00:00'", fmt.Sprintf("to_char(%s, 'HH24:MI:SS.US')", name), name+"::text")
		}
	case catalog.Timestamp:
		if c.plain("timestamp", "timestamp without time zone") {
			return between(c, name, "timestamp", fmt.Sprintf(`to_char(%s, 'YYYY-MM-DD"T"HH24:MI:SS.US')`, name))
		}
	case catalog.TimestampTZ:
		if c.plain("timestamp with time zone") {
			return between(c, name, "timestamptz", fmt.Sprintf(`to_char(%s, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`, name))
		}
	case catalog.String:
		return postgresString(c, name)
	case catalog.UUID:
		if c.plain("uuid") {
			return name + "::text"
		}
	case catalog.Fixed:
		if c.plain("bytea") {
			return orNull(c, fmt.Sprintf("octet_length(%s) = %d", name, c.Column.Type.Length), "encode("+name+", 'hex')", "encode("+name+", 'hex')")
		}
	case catalog.Binary:
		if c.plain("bytea") {
			return "encode(" + name + ", 'hex')"
		}
	}
	return ""
}

// orNull renders a value that meets the condition, and otherwise something
// that no lake has, or NULL where that is allowed. NULL does not meet it.
func orNull(c *Column, condition, text, otherwise string) string {
	if allows(c.Column, catalog.LossNull) {
		otherwise = "NULL"
	}
	if text == otherwise {
		return text
	}
	return fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", condition, text, otherwise)
}

// between is orNull for the years that Iceberg's engines agree on. Beyond them
// PostgreSQL's text of a time says BC or infinity.
func between(c *Column, name, typ, text string) string {
	return orNull(c, fmt.Sprintf("%[1]s >= %[2]s '0001-01-01' AND %[1]s < %[2]s '10000-01-01'", name, typ), text, name+"::text")
}

// postgresDecimal renders numbers of at most the lake's scale.
func postgresDecimal(c *Column, name string) string {
	t := &c.Column.Type
	switch {
	case c.plain("smallint", "integer", "bigint", "xid8") && t.Scale == 0 && t.Precision >= 20:
		return name + "::text"
	case c.plain("money") && t.Scale >= 2 && t.Precision-t.Scale >= 19:
		return fmt.Sprintf("round(%s::numeric, %d)::text", name, t.Scale)
	case !c.plain("numeric"):
		return ""
	}
	precision, scale := c.param(0, -1), c.param(1, 0)
	if precision < 0 || scale > t.Scale || max(precision-scale, 0) > t.Precision-t.Scale {
		return "" // digits may be lost, or be too many: canon decides
	}
	text := name + "::text"
	if scale != t.Scale {
		text = fmt.Sprintf("round(%s, %d)::text", name, t.Scale)
	}
	return orNull(c, name+" <> 'NaN'", text, text)
}

// postgresString renders the text that the server writes for a value.
func postgresString(c *Column, name string) string {
	padded := catalog.PaddedChar(c.SourceType)
	blank := c.plain("character", "bpchar")
	if fixed := catalog.FixedTextOf(c.SourceType); fixed.Is() && (fixed != catalog.FixedTextOf(c.Type.String()) || !c.plain("numeric")) {
		return "" // the server's text has other digits
	}
	switch {
	case blank && padded, c.plain("text", "character varying", "name", "json", "jsonb", "xml", "uuid", "interval", "bit", "bit varying") && !padded:
		return name + "::text" // of a character it cuts the blanks
	case blank:
		return fmt.Sprintf("CASE WHEN num_nulls(%[1]s) = 0 THEN concat(%[1]s) END", name)
	}
	// concat, unlike a cast, takes every type's own output: inet, boolean, enumerations, arrays. IS NULL would
	// take a composite with a NULL in it for one.
	text := fmt.Sprintf("CASE WHEN num_nulls(%[1]s) = 0 THEN concat(%[1]s) END", name)
	if c.plain("money") {
		text = name + "::numeric::text"
	}
	if padded {
		text = fmt.Sprintf("rtrim(%s, ' ')", text)
	}
	return text
}

// PostgresDigest returns the statement that digests rows: per bucket its
// number, the number of rows, and the sums of the upper and the lower 64 bits
// of their hashes, as signed numbers: 2^63 must be added to each for each row.
func (r *Rows) PostgresDigest(d Digest) string {
	row := strings.Join(fieldNames(len(r.Canonical)), " || ")
	hash := func(from int) string {
		return fmt.Sprintf("sum(('x' || encode(substr(r, %d, 8), 'hex'))::bit(64)::bigint # (-9223372036854775808)::bigint)", from)
	}
	bucket := fmt.Sprintf("(get_byte(k, 15) | (get_byte(k, 14) << 8) | (get_byte(k, 13) << 16)) & %d", d.Buckets-1)
	wanted := ""
	if !d.whole() {
		wanted = fmt.Sprintf(" WHERE (%[1]s) >= %[2]d AND (%[1]s) < %[3]d", bucket, d.First, d.Last)
	}
	return "SELECT b, count(*), " + hash(1) + ", " + hash(9) +
		" FROM (SELECT " + bucket + " AS b, sha256(convert_to(" + row + ", 'UTF8')) AS r" +
		" FROM (SELECT *, sha256(convert_to(" + strings.Join(d.keyOf(len(r.Canonical)), " || ") + ", 'UTF8')) AS k" +
		" FROM (SELECT " + list("f", postgresFields(len(r.Canonical))) +
		" FROM (SELECT " + list("c", r.Canonical) + " FROM " + d.From + " t" + d.where() +
		// Without OFFSET 0 the planner would write each expression out wherever its result is used.
		" OFFSET 0) c OFFSET 0) f OFFSET 0) k" + wanted + " OFFSET 0) h GROUP BY b"
}

func postgresFields(n int) []string {
	fields := make([]string, n)
	for i := range fields {
		fields[i] = fmt.Sprintf("coalesce(octet_length(c%[1]d) || ':' || c%[1]d, 'N:')", i)
	}
	return fields
}

// PostgresInBuckets returns a condition over t that is met by the rows of the
// given buckets. The engine must render the key exactly, or without a key, all.
func (r *Rows) PostgresInBuckets(key []int, buckets int, only []int) string {
	bucket := r.PostgresBucket(key, buckets)
	if first, last, ok := span(only); ok {
		return fmt.Sprintf("%s <@ int4range(%d, %d)", bucket, first, last+1) // BETWEEN would hash twice
	}
	return fmt.Sprintf("%s = ANY ('{%s}'::integer[])", bucket, join(only))
}

// PostgresBucket returns the number of a row's bucket over t. The engine must
// render the key exactly, or without a key, all.
func (r *Rows) PostgresBucket(key []int, buckets int) string {
	columns := key
	if len(key) == 0 {
		for i := range r.Canonical {
			columns = append(columns, i)
		}
	}
	fields := make([]string, len(columns))
	for n, i := range columns {
		fields[n] = fmt.Sprintf("coalesce(octet_length(%[1]s) || ':' || (%[1]s), 'N:')", r.Canonical[i])
	}
	return fmt.Sprintf("(('x' || encode(substr(sha256(convert_to(%s, 'UTF8')), 14, 3), 'hex'))::bit(24)::integer & %d)", strings.Join(fields, " || "), buckets-1)
}
