package catalog

const (
	noteLOB    = "a LOB: DMS may write it as null first and send the value later"
	noteBit1   = "one bit is true or false"
	noteBinary = "bytes; the log has no zero bytes at the end of a binary(n): they are put there again"
)

var mysqlTypes = map[string]Mapping{ //nolint:gochecknoglobals // constant table
	"tinyint": plain(Int), "smallint": plain(Int), "mediumint": plain(Int), "int": plain(Int), "integer": plain(Int), "bigint": plain(Long),
	"year":  plain(Int),
	"float": noted(Float, noteMinusZero), "double": noted(Double, noteMinusZero), "real": noted(Double, noteMinusZero), "double precision": noted(Double, noteMinusZero),
	"date":       plain(Date),
	"datetime":   noted(Timestamp, "without a zone: DMS writes a Z behind it that means nothing"),
	"timestamp":  plain(TimestampTZ),
	"time":       noted(String, "a duration of up to 838 hours, which a time of day cannot hold: "+noteText),
	"char":       noted(String, notePadded),
	"varchar":    plain(String),
	"tinytext":   noted(String, noteLOB),
	"text":       noted(String, noteLOB),
	"mediumtext": noted(String, noteLOB),
	"longtext":   noted(String, noteLOB),
	"json":       noted(String, "the document's text; "+noteLOB),
	"enum":       noted(String, "the label"),
	"set":        noted(String, "the labels, with commas between them"),
	"binary":     noted(Binary, noteBinary),
	"varbinary":  plain(Binary),
	"tinyblob":   noted(Binary, noteLOB),
	"blob":       noted(Binary, noteLOB),
	"mediumblob": noted(Binary, noteLOB),
	"longblob":   noted(Binary, noteLOB),
}

// mysqlShapes are the spatial types: bytes of MySQL's own form (SRID, then WKB).
var mysqlShapes = [...]string{ //nolint:gochecknoglobals // constant table
	"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection",
}

// mysqlLOBs are the types that DMS treats as large objects.
var mysqlLOBs = [...]string{ //nolint:gochecknoglobals // constant table
	"tinytext", "text", "mediumtext", "longtext", "json", "tinyblob", "blob", "mediumblob", "longblob", "vector",
}

// IsLOB reports whether DMS treats a MySQL or MariaDB type as a large object.
func (t *SourceType) IsLOB() bool {
	for _, name := range mysqlLOBs {
		if t.Name == name {
			return true
		}
	}
	return isShape(t.Name)
}

func isShape(name string) bool {
	for _, shape := range mysqlShapes {
		if name == shape {
			return true
		}
	}
	return false
}

func mapMySQL(engine Engine, c *SourceColumn) (Mapping, bool) {
	t := &c.Type
	p, hasParam := t.Param(0)
	switch t.Name {
	case "tinyint":
		if hasParam && p == 1 {
			return noted(Int, "tinyint(1) holds -128 to 127; if it is only ever 0 and 1, boolean is the better type"), true
		}
		return plain(Int), true
	case "int", "integer":
		if t.Unsigned {
			return noted(Long, "int unsigned reaches 4294967295, beyond an int"), true
		}
		return plain(Int), true
	case "bigint":
		if t.Unsigned {
			return Mapping{Type: Type{Kind: Decimal, Precision: 20}, Note: "bigint unsigned reaches 18446744073709551615, beyond a long"}, true
		}
		return plain(Long), true
	case "decimal", "numeric", "dec", "fixed":
		s, _ := t.Param(1)
		if !hasParam {
			p = 10 // MySQL's own default
		}
		return decimalOf(p, s, ""), true
	case "bit":
		if !hasParam || p == 1 {
			return noted(Boolean, noteBit1), true
		}
		return noted(Binary, "bits as bytes; how DMS writes them is not documented: compare a few rows before relying on it"), true
	case "uuid", "inet4", "inet6", "xmltype":
		if engine != MariaDB {
			return Mapping{}, false
		}
		if t.Name == "uuid" {
			return plain(UUID), true
		}
		return noted(String, noteText), true
	case "vector":
		return noted(Binary, "its floats as bytes; "+noteLOB), true
	}
	if isShape(t.Name) {
		return noted(Binary, "SRID and well-known binary; "+noteLOB), true
	}
	m, ok := mysqlTypes[t.Name]
	if ok && c.ZeroDates && (m.Type.Kind == Date || m.Type.Kind == Timestamp || m.Type.Kind == TimestampTZ) {
		m.Losses = []Loss{LossNull}
		m.Note = "may hold 0000-00-00, which DMS writes as null"
	}
	return m, ok
}
