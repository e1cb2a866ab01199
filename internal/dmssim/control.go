package dmssim

import "strconv"

// ControlKey returns the partition key of a control record. An object mapping
// cannot change it. Value is the task alone, as captures show.
func ControlKey(task string, t *Table) PartitionKey {
	k := PartitionKey{Type: taskPartition, Value: task, Key: task + "." + t.Schema + "." + t.Name}
	if t.Schema == "" {
		k.Key = task + "." + t.Name
	}
	return k
}

// AppendControl appends the JSON of a control record. Without
// IncludeControlDetails it has metadata only. The bodies of create-table and
// drop-table are as captured; those of the others are not known and hold the
// table's new definition.
func (s *Settings) AppendControl(dst []byte, m *Message, key PartitionKey) []byte {
	w := &jsonWriter{buf: dst, formatted: s.MessageFormat == JSON}
	w.openObject()
	if s.IncludeControlDetails {
		w.key("control")
		w.openObject()
		if m.Operation != DropTable {
			w.key("table-def")
			s.writeTableDef(w, m.Table)
		}
		w.closeObject()
	}
	s.writeMetadata(w, m, "control", key)
	w.closeObject()
	return w.buf
}

func (s *Settings) writeTableDef(w *jsonWriter, t *Table) {
	w.openObject()
	w.key("columns")
	w.openObject()
	for i := range t.Columns {
		c := &t.Columns[i]
		w.key(c.Name)
		w.openObject()
		s.writeType(w, c)
		w.key("nullable")
		w.literal(strconv.FormatBool(c.Nullable))
		w.closeObject()
	}
	w.closeObject()
	if len(t.Key) > 0 {
		w.key("primary-key")
		w.strings(t.Key)
	}
	w.closeObject()
}

// Lengths that DMS gives to types that have none.
const (
	booleanLength  = 5
	intervalLength = 17
	enumLength     = 64
)

// A controlType is a type as a control record has it.
type controlType struct {
	name                     string
	length, precision, scale int
}

func (s *Settings) writeType(w *jsonWriter, c *Column) {
	t := s.controlType(c)
	w.field("type", t.name)
	if t.length > 0 {
		w.number("length", strconv.Itoa(t.length))
	}
	if t.precision > 0 {
		w.number("precision", strconv.Itoa(t.precision))
		w.number("scale", strconv.Itoa(t.scale))
	}
}

// controlType maps a column's type. STRING, INT16, INT32, INT64, DOUBLE,
// FLOAT, BOOL, TIMESTAMP and DATE32 are in captures; NUMERIC with precision
// and scale, TIME, BLOB, CLOB and NCLOB are names of the guide's type table,
// in the same style.
func (s *Settings) controlType(c *Column) controlType {
	switch c.Kind {
	case Boolean:
		if s.MapBooleanAsBoolean {
			return controlType{name: "BOOL"}
		}
		return controlType{name: "STRING", length: booleanLength}
	case SmallInt:
		return controlType{name: "INT16"}
	case Integer:
		return controlType{name: "INT32"}
	case BigInt:
		return controlType{name: "INT64"}
	case Numeric:
		return s.numericType(c)
	case Money:
		return controlType{name: "NUMERIC", precision: maxDecimalPrecision, scale: 4}
	case Real:
		return controlType{name: "FLOAT"}
	case Double:
		return controlType{name: "DOUBLE"}
	case Char, Bit:
		return controlType{name: "STRING", length: max(c.Length, 1)}
	case Varchar, Text:
		if c.isLOB() {
			return controlType{name: s.longVarchar()}
		}
		return controlType{name: "STRING", length: c.Length}
	case JSONB:
		if s.MapJSONBAsCLOB {
			return controlType{name: "CLOB"}
		}
		return controlType{name: "NCLOB"}
	case JSONText, Array:
		return controlType{name: "NCLOB"}
	case Bytea:
		return controlType{name: "BLOB"}
	case Date:
		return controlType{name: "DATE32"}
	case Time:
		return controlType{name: "TIME"}
	case Timestamp, TimestampTZ:
		return controlType{name: "TIMESTAMP"}
	case Interval:
		return controlType{name: "STRING", length: intervalLength}
	case Other:
	}
	return controlType{name: "STRING", length: enumLength}
}

func (s *Settings) numericType(c *Column) controlType {
	switch {
	case c.Precision > maxDecimalPrecision:
		return controlType{name: "STRING", length: c.Precision + len("-.")}
	case c.Precision > 0:
		return controlType{name: "NUMERIC", precision: c.Precision, scale: c.Scale}
	case s.MapUnboundedNumericAsString:
		return controlType{name: "STRING"}
	}
	return controlType{name: "NUMERIC", precision: unboundedPrecision, scale: unboundedScale}
}

func (s *Settings) longVarchar() string {
	switch s.MapLongVarcharAs {
	case longVarcharAsString:
		return "STRING"
	case longVarcharAsCLOB:
		return "CLOB"
	}
	return "NCLOB"
}
