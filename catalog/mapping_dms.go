package catalog

const noteSigned = "DMS names it by bytes or by bits: the type holds either"

// dmsTypes are the words of DMS's control records. STRING, INT16, INT32,
// INT64, DOUBLE, FLOAT, BOOL, TIMESTAMP and DATE32 are in captures; the others
// are of the guide's tables, or in the style of those.
var dmsTypes = map[string]Mapping{ //nolint:gochecknoglobals // constant table
	"bool": plain(Boolean), "boolean": plain(Boolean),
	"int1": plain(Int), "int2": plain(Int), "int4": plain(Int), "int16": plain(Int), "int32": plain(Int), "int64": plain(Long),
	"int8": noted(Long, noteSigned), "uint1": plain(Int), "uint2": plain(Int), "uint4": plain(Long), "uint16": plain(Int), "uint32": plain(Long),
	"uint8":  {Type: Type{Kind: Decimal, Precision: 20}, Note: noteSigned},
	"uint64": {Type: Type{Kind: Decimal, Precision: 20}},
	"float":  noted(Float, noteFloatNaN), "real4": noted(Float, noteFloatNaN),
	"double": noted(Double, noteFloatNaN), "real8": noted(Double, noteFloatNaN),
	"date": plain(Date), "date32": plain(Date), "time": plain(Time), "time32": plain(Time), "time64": plain(Time),
	"timestamp": noted(Timestamp, "DMS does not tell a timestamp with zone from one without: make it timestamptz if it has one"),
	"datetime":  noted(Timestamp, "DMS does not tell a timestamp with zone from one without: make it timestamptz if it has one"),
	"wstring":   plain(String), "clob": noted(String, noteLOB), "nclob": noted(String, noteLOB),
	"blob": noted(Binary, noteLOB), "bytes": plain(Binary),
}

// The precision and scale that DMS gives to a numeric without them, and the
// length of "false".
const (
	dmsPrecision, dmsScale = 28, 6
	dmsBooleanLength       = 5
)

func mapDMS(t *SourceType) (Mapping, bool) {
	p, hasParam := t.Param(0)
	switch t.Name {
	case "string":
		if hasParam && p == dmsBooleanLength {
			return noted(String, "DMS also writes a boolean as STRING of length 5: make it boolean if it is one"), true
		}
		return plain(String), true
	case "numeric":
		if !hasParam {
			return Mapping{}, false
		}
		s, _ := t.Param(1)
		m := decimalOf(p, s, "")
		if p == dmsPrecision && s == dmsScale {
			m.Losses = []Loss{LossRound}
			m.Note = "what DMS makes of a numeric without precision, cut to 6 fraction digits: set mapUnboundedNumericAsString=true, or allow it"
		}
		return m, true
	}
	m, ok := dmsTypes[t.Name]
	return m, ok
}

// isDMSLOB reports whether a word of DMS's names a large object.
func isDMSLOB(name string) bool { return name == "clob" || name == "nclob" || name == "blob" }

// MarkLOBs sets OutOfLine of the large objects of a source whose types are in
// the words of MySQL, MariaDB or DMS.
func (t *SourceTable) MarkLOBs(words Engine) {
	for _, c := range t.Columns {
		switch words {
		case MySQL, MariaDB:
			c.OutOfLine = c.Type.IsLOB()
		case DMS:
			c.OutOfLine = isDMSLOB(c.Type.Name)
		case PostgreSQL, Oracle, SQLServer:
		}
	}
}
