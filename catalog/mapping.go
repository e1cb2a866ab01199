package catalog

import "fmt"

// A Mapping is the Iceberg type that holds a source column's values.
type Mapping struct {
	Type Type
	// Losses must be allowed in the pipeline file before anything is generated
	// for the column: values that the source may well hold do not arrive as
	// they are. Empty when every ordinary value arrives whole.
	Losses []Loss
	// Note says what a person should know of the choice, and which rare values
	// fail loudly because the type cannot hold them; empty when there is
	// nothing to say.
	Note string
}

// An UnmappedError is a source type that has no Iceberg type.
type UnmappedError struct {
	Words Engine
	Type  string // as declared
}

// Error implements error.
func (e *UnmappedError) Error() string {
	return fmt.Sprintf("map %s type %s: no Iceberg type is known for it", e.Words, e.Type)
}

// maxPrecision is that of an Iceberg decimal.
const maxPrecision = 38

// MapType chooses the Iceberg type of a source column. It never falls back: a
// type that is not in its tables is an *UnmappedError. words is whose words
// the type is in: PostgreSQL, MySQL, MariaDB or DMS.
func MapType(words Engine, c *SourceColumn) (Mapping, error) {
	var m Mapping
	var known bool
	switch words {
	case PostgreSQL:
		m, known = mapPostgres(&c.Type)
	case MySQL, MariaDB:
		m, known = mapMySQL(words, c)
	case DMS:
		m, known = mapDMS(&c.Type)
	case Oracle, SQLServer:
	}
	if !known {
		return Mapping{}, &UnmappedError{Words: words, Type: c.Declared}
	}
	return m, nil
}

// The notes that several types share.
const (
	noteInfinity    = "years before 1 fail: the type cannot hold them; DMS writes infinity as the end of the year 9999"
	noteFloatNaN    = "DMS writes NaN and infinities as null; " + noteMinusZero
	noteMinusZero   = "the sign of minus zero is not kept"
	notePadded      = "trailing blanks mean nothing and are trimmed"
	noteText        = "the text that the source writes for it"
	noteNumericText = "beyond 38 digits Iceberg has no decimal: the digits are kept as text"
)

func plain(kind TypeKind) Mapping { return Mapping{Type: Type{Kind: kind}} }

func noted(kind TypeKind, note string) Mapping { return Mapping{Type: Type{Kind: kind}, Note: note} }

// decimalOf maps a decimal of precision p and scale s, of which either may be
// outside of what Iceberg has: numeric(3,5) has five fraction digits, and
// numeric(5,-2) seven whole ones.
func decimalOf(p, s int, note string) Mapping {
	if s < 0 {
		p, s = p-s, 0
	}
	p = max(p, s)
	if p > maxPrecision {
		return noted(String, noteNumericText)
	}
	return Mapping{Type: Type{Kind: Decimal, Precision: p, Scale: s}, Note: note}
}

var postgresTypes = map[string]Mapping{ //nolint:gochecknoglobals // constant table
	"boolean":  plain(Boolean),
	"smallint": plain(Int), "integer": plain(Int), "bigint": plain(Long),
	"oid": plain(Long), "xid": plain(Long), "cid": plain(Long), // 32 bits without sign
	"xid8": {Type: Type{Kind: Decimal, Precision: 20}, Note: "64 bits without sign are more than a long"},
	"real": noted(Float, noteFloatNaN), "double precision": noted(Double, noteFloatNaN),
	// 64 bits with as many fraction digits as the currency has: at most 19 whole digits, at most 4 after the point.
	"money":                       {Type: Type{Kind: Decimal, Precision: 23, Scale: 4}, Note: "an amount without its currency, which lc_monetary names"},
	"date":                        noted(Date, noteInfinity),
	"time without time zone":      noted(Time, "24:00:00 fails: the type cannot hold it"),
	"time with time zone":         noted(String, "a time with an offset has no Iceberg type: "+noteText),
	"timestamp without time zone": noted(Timestamp, noteInfinity),
	"timestamp with time zone":    noted(TimestampTZ, noteInfinity),
	"interval":                    noted(String, "months, days and seconds have no Iceberg type: "+noteText),
	"character varying":           plain(String), "text": plain(String), "name": plain(String), `"char"`: plain(String),
	"character": noted(String, notePadded), "bpchar": noted(String, notePadded),
	"bytea": plain(Binary), "uuid": plain(UUID),
	"json": noted(String, "the document's text"), "jsonb": noted(String, "the document's text"), "jsonpath": plain(String), "xml": plain(String),
	"bit": noted(String, "its digits 0 and 1"), "bit varying": noted(String, "its digits 0 and 1"),
}

// postgresExtensions are types of extensions that arrive as their text.
var postgresExtensions = map[string]Mapping{ //nolint:gochecknoglobals // constant table
	"citext": noted(String, "compares without case in the source, with case in the lake"),
	"hstore": noted(String, noteText), "ltree": noted(String, noteText), "lquery": noted(String, noteText), "ltxtquery": noted(String, noteText),
}

// postgresTexts are the built-in types that arrive as PostgreSQL's own text.
var postgresTexts = [...]string{ //nolint:gochecknoglobals // constant table
	"point", "line", "lseg", "box", "path", "polygon", "circle", "inet", "cidr", "macaddr", "macaddr8", "tsvector", "tsquery", "gtsvector",
	"int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange",
	"int4multirange", "int8multirange", "nummultirange", "tsmultirange", "tstzmultirange", "datemultirange",
	"regclass", "regcollation", "regconfig", "regdictionary", "regnamespace", "regoper", "regoperator", "regproc", "regprocedure", "regrole", "regtype",
	"pg_lsn", "pg_snapshot", "txid_snapshot", "tid", "aclitem", "refcursor", "int2vector", "oidvector",
	"pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list", "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary",
}

func mapPostgres(t *SourceType) (Mapping, bool) {
	if t.Array {
		element := *t
		element.Array = false
		_, known := mapPostgres(&element)
		return noted(String, "an array: "+noteText), known
	}
	switch t.Class {
	case "":
	case ClassEnum:
		return noted(String, "an enumeration: the label"), true
	case ClassComposite:
		return noted(String, "a composite: "+noteText), true
	case ClassRange:
		return noted(String, "a range: "+noteText), true
	case ClassDomain:
		return Mapping{}, true // only ever the element of an array
	case ClassOther:
		m, ok := postgresExtensions[unqualified(t.Name)]
		return m, ok
	}
	if t.Name == "numeric" {
		p, ok := t.Param(0)
		if !ok {
			return noted(String, "numeric without precision: its digits as text. Set mapUnboundedNumericAsString=true on the endpoint, or DMS cuts it to 6 fraction digits"), true
		}
		s, _ := t.Param(1)
		return decimalOf(p, s, ""), true
	}
	if m, ok := postgresTypes[t.Name]; ok {
		return m, true
	}
	if len(t.Name) > 9 && t.Name[:9] == "interval " { // interval day to second
		return postgresTypes["interval"], true
	}
	for _, name := range postgresTexts {
		if name == t.Name {
			return noted(String, noteText), true
		}
	}
	return Mapping{}, false
}

// IsPostgresType reports whether PostgreSQL has a type of this name by itself.
func IsPostgresType(name string) bool {
	_, known := mapPostgres(&SourceType{Name: name})
	return known
}

// unqualified cuts the schema off the name of an extension's type.
func unqualified(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '.' {
			return name[i+1:]
		}
	}
	return name
}
