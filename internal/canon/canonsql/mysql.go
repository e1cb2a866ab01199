package canonsql

import (
	"fmt"
	"strings"

	"icehose/catalog"
)

// QuoteMySQL quotes a name.
func QuoteMySQL(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

var mysqlBinaries = []string{ //nolint:gochecknoglobals // constant table
	"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector",
	"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection",
}

var mysqlTexts = []string{ //nolint:gochecknoglobals // constant table
	"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json", "enum", "set",
}

// MySQL renders columns of a MySQL or MariaDB table.
func MySQL(columns []Column) Rows {
	var r Rows
	for i := range columns {
		c := &columns[i]
		name := "t." + QuoteMySQL(c.Spelled)
		text := name
		switch {
		case c.Mask == catalog.MaskNull:
			text = "NULL"
		case c.plain(mysqlBinaries...):
			text = "HEX(" + name + ")"
		case c.plain("bit"):
			text = mysqlBit(c, name)
		case c.plain("float"):
			text = name + " + 0e0" // as a float it is written with six digits
		}
		r.Texts = append(r.Texts, text)
		r.Canonical = append(r.Canonical, mysqlMasked(c, name))
	}
	return r
}

func mysqlMasked(c *Column, name string) string {
	if c.Mask == catalog.MaskNull {
		return "CONVERT(NULL USING utf8mb4)"
	}
	text := mysqlText(c, name)
	if text == "" {
		return ""
	}
	if c.Mask == catalog.MaskSHA256 {
		return "SHA2(" + text + ", 256)"
	}
	return text
}

// mysqlBit renders bits: as a number where they are truth values, else as the
// hexadecimal text of their bytes.
func mysqlBit(c *Column, name string) string {
	if c.Column.Type.Kind != catalog.Binary && c.Column.Type.Kind != catalog.Fixed {
		return name + " + 0"
	}
	return fmt.Sprintf("LPAD(HEX(%s + 0), %d, '0')", name, (c.param(0, 1)+7)/8*2)
}

func (c *Column) isMySQLInteger() bool {
	return c.plain("tinyint", "smallint", "mediumint", "int", "integer", "bigint", "year")
}

// mysqlText is a closed switch over the lake's types.
func mysqlText(c *Column, name string) string {
	wide := c.plain("bigint") && c.Type.Unsigned
	switch c.Column.Type.Kind {
	case catalog.Boolean:
		if c.plain("tinyint", "bit") {
			return fmt.Sprintf("CASE %[1]s + 0 WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE %[2]s END", name, mysqlChar(name+" + 0"))
		}
	case catalog.Int:
		if c.isMySQLInteger() && !c.plain("bigint") && (!c.Type.Unsigned || !c.plain("int", "integer")) {
			return mysqlChar(name + " + 0") // which takes away what ZEROFILL adds
		}
	case catalog.Long:
		if c.isMySQLInteger() && !wide {
			return mysqlChar(name + " + 0")
		}
	case catalog.Decimal:
		t := &c.Column.Type
		switch {
		case c.isMySQLInteger() && t.Scale == 0 && t.Precision >= 20:
			return mysqlChar(name + " + 0")
		case c.plain("decimal", "numeric", "dec", "fixed") && c.param(1, 0) == t.Scale && c.param(0, 10) <= t.Precision && !c.Type.Unsigned:
			return mysqlChar(name)
		}
	case catalog.Date:
		if c.plain("date") {
			return mysqlDate(c, name, mysqlChar(name))
		}
	case catalog.Timestamp:
		if c.plain("datetime") {
			return mysqlDate(c, name, fmt.Sprintf("CONVERT(DATE_FORMAT(%s, '%%Y-%%m-%%dT%%H:%%i:%%s.%%f') USING utf8mb4)", name))
		}
	case catalog.TimestampTZ:
		if c.plain("timestamp") {
			return mysqlDate(c, name, fmt.Sprintf("CONVERT(DATE_FORMAT(%s, '%%Y-%%m-%%dT%%H:%%i:%%s.%%fZ') USING utf8mb4)", name))
		}
	case catalog.String:
		return mysqlString(c, name)
	case catalog.UUID:
		if c.plain("uuid") {
			return mysqlChar(name)
		}
	case catalog.Fixed:
		if c.plain(mysqlBinaries...) {
			return orNull(c, fmt.Sprintf("LENGTH(%s) = %d", name, c.Column.Type.Length), mysqlHex(name), mysqlHex(name))
		}
	case catalog.Binary:
		switch {
		case c.plain("bit"):
			return "LOWER(" + mysqlChar(mysqlBit(c, name)) + ")"
		case c.plain(mysqlBinaries...):
			return mysqlHex(name)
		}
	case catalog.Float, catalog.Double, catalog.Time: // no function gives bits of a float; TIME is no time of day
	}
	return ""
}

func mysqlChar(expression string) string { return "CONVERT(" + expression + " USING utf8mb4)" }

func mysqlHex(name string) string { return "LOWER(" + mysqlChar("HEX("+name+")") + ")" }

// mysqlDate makes dates with a zero NULL where that is allowed. A zero date's
// text is one that no lake has.
func mysqlDate(c *Column, name, text string) string {
	if !allows(c.Column, catalog.LossNull) {
		return text
	}
	return fmt.Sprintf("CASE WHEN YEAR(%[1]s) > 0 AND MONTH(%[1]s) > 0 AND DAYOFMONTH(%[1]s) > 0 THEN %[2]s END", name, text)
}

func mysqlString(c *Column, name string) string {
	fixed := catalog.FixedTextOf(c.SourceType)
	switch {
	case fixed.Is() && (fixed != catalog.FixedTextOf(c.Type.String()) || c.Type.Unsigned || !c.plain("decimal", "numeric", "time")):
		return "" // the server's text has other digits, or zeros before them
	case c.plain(mysqlTexts...) && catalog.PaddedChar(c.SourceType):
		return "TRIM(TRAILING ' ' FROM " + mysqlChar(name) + ")"
	case c.plain(mysqlTexts...), c.plain("time", "uuid", "inet4", "inet6", "decimal", "numeric"), c.isMySQLInteger():
		return mysqlChar(name)
	}
	return ""
}

// MySQLDigest returns the statement that digests rows: per bucket its number,
// the number of rows, the number of rows whose hash is known, which must be the
// same, and the sums of the upper and the lower 64 bits of their hashes.
func (r *Rows) MySQLDigest(d Digest) string {
	hash := func(from int) string {
		return fmt.Sprintf("SUM(CAST(CONV(SUBSTRING(r, %d, 16), 16, 10) AS UNSIGNED))", from)
	}
	having := ""
	if !d.whole() {
		having = fmt.Sprintf(" WHERE b >= %d AND b < %d", d.First, d.Last)
	}
	return "SELECT b, COUNT(*), COUNT(r), " + hash(1) + ", " + hash(17) +
		" FROM (SELECT " + mysqlBucket("SHA2(CONCAT("+strings.Join(d.keyOf(len(r.Canonical)), ", ")+"), 256)", d.Buckets) + " AS b, " +
		"SHA2(CONCAT(" + strings.Join(fieldNames(len(r.Canonical)), ", ") + "), 256) AS r FROM (" +
		"SELECT " + list("f", r.mysqlFields(nil)) + " FROM " + d.From + " t" + d.where() + ") f) h" + having + " GROUP BY b"
}

// mysqlFields gives fields of the given columns; nil for all.
func (r *Rows) mysqlFields(columns []int) []string {
	var fields []string
	field := func(text string) {
		fields = append(fields, fmt.Sprintf("COALESCE(CONCAT(LENGTH(%[1]s), ':', %[1]s), 'N:')", text))
	}
	if columns == nil {
		for _, text := range r.Canonical {
			field(text)
		}
		return fields
	}
	for _, i := range columns {
		field(r.Canonical[i])
	}
	return fields
}

// mysqlBucket takes the last bits of the first 16 bytes of a hash.
func mysqlBucket(hash string, buckets int) string {
	return fmt.Sprintf("(CONV(SUBSTRING(%s, 27, 6), 16, 10) & %d)", hash, buckets-1)
}

// MySQLInBuckets returns a condition over t that is met by the rows of the
// given buckets. The engine must render the key exactly, or without a key, all.
func (r *Rows) MySQLInBuckets(key []int, buckets int, only []int) string {
	bucket := r.MySQLBucket(key, buckets)
	if first, last, ok := span(only); ok {
		return fmt.Sprintf("%s BETWEEN %d AND %d", bucket, first, last)
	}
	return bucket + " IN (" + join(only) + ")"
}

// MySQLBucket returns the number of a row's bucket over t. The engine must render
// the key exactly, or without a key, all.
func (r *Rows) MySQLBucket(key []int, buckets int) string {
	if len(key) == 0 {
		key = nil
	}
	return mysqlBucket("SHA2(CONCAT("+strings.Join(r.mysqlFields(key), ", ")+"), 256)", buckets)
}
