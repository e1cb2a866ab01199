package dms

import (
	"math"
	"time"

	"icehose/cdc"
)

// The metadata fields that are read; every other is ignored.
const (
	fieldTimestamp = iota
	fieldRecordType
	fieldOperation
	fieldKeyType
	fieldKeyValue
	fieldSchema
	fieldTable
	fieldTransaction
	fieldRecord
	fieldPrevTransaction
	fieldPrevRecord
	fieldCommit
	fieldPosition
	fieldOther // any other
	fieldCount
)

// Why the metadata of a record is refused.
const (
	reasonRecordType  = "record-type is neither data nor control"
	reasonTypeKind    = "record-type is not a string"
	reasonOperation   = "operation is not one of a data record"
	reasonNoOperation = "neither record-type control nor an operation"
	reasonOpKind      = "operation is not a string"
	reasonSchemaKind  = "schema-name is not a string"
	reasonTableKind   = "table-name is not a string"
)

// maxIntegerSize is how many bytes an integer may have: 20 digits and room for
// zeros before them.
const maxIntegerSize = 40

// A slot is a metadata field as it stands in the record.
type slot struct {
	cdc.Value
	at int
}

// metadata holds the fields of the record being decoded. They are interpreted
// when all of the record is known to be well-formed and no later duplicate can
// replace them.
type metadata struct {
	slots   [fieldCount]slot
	day     day
	scratch []byte
}

// read reads the metadata object, forgetting what an earlier one said. It
// returns another kind when the value is not an object.
func (m *metadata) read(s *scanner, k *keys) (cdc.Kind, bool) {
	m.slots = [fieldCount]slot{}
	if s.space() != '{' {
		var v cdc.Value
		ok := s.value(&v, 1)
		return v.Kind, ok
	}
	s.i++
	for member := k.object(&k.own); ; {
		if !member.next(s) {
			return cdc.Object, s.reason == ""
		}
		field := &m.slots[member.key.field]
		field.at = s.i
		if !s.value(&field.Value, 2) {
			return cdc.Object, false
		}
	}
}

// fieldOf returns the number of the metadata field called name.
func fieldOf(name []byte) int {
	switch string(name) {
	case "timestamp":
		return fieldTimestamp
	case "record-type":
		return fieldRecordType
	case "operation":
		return fieldOperation
	case "partition-key-type":
		return fieldKeyType
	case "partition-key-value":
		return fieldKeyValue
	case "schema-name":
		return fieldSchema
	case "table-name":
		return fieldTable
	case "transaction-id":
		return fieldTransaction
	case "transaction-record-id":
		return fieldRecord
	case "prev-transaction-id":
		return fieldPrevTransaction
	case "prev-transaction-record-id":
		return fieldPrevRecord
	case "commit-timestamp":
		return fieldCommit
	case "stream-position":
		return fieldPosition
	}
	return fieldOther
}

// apply fills c from the fields. A reason other than "" refuses the record;
// at is 0 when a field that is not there is the cause.
func (m *metadata) apply(t *texts, c *cdc.Change, rowsOnly bool) (at int, reason string) {
	if at, reason = m.operation(t, c); reason != "" {
		return at, reason
	}
	schema, table := &m.slots[fieldSchema], &m.slots[fieldTable]
	if !schema.isText() {
		return schema.at, reasonSchemaKind
	}
	if !table.isText() {
		return table.at, reasonTableKind
	}
	c.Schema = t.name(fieldSchema, m.text(fieldSchema))
	c.Table = t.name(fieldTable, m.text(fieldTable))
	c.StreamPosition = t.once(m.text(fieldPosition))
	c.BuiltAt = m.time(fieldTimestamp)
	c.CommittedAt = m.time(fieldCommit)
	c.TransactionID, c.HasTransactionID = m.integer(fieldTransaction)
	c.TransactionRecordID, c.HasRecordID = m.integer(fieldRecord)
	if rowsOnly {
		return 0, ""
	}
	c.PartitionKeyType = t.name(fieldKeyType, m.text(fieldKeyType))
	c.PartitionKeyValue = t.once(m.text(fieldKeyValue))
	prev, ok1 := m.integer(fieldPrevTransaction)
	record, ok2 := m.integer(fieldPrevRecord)
	if ok1 && ok2 {
		c.PrevTransactionID, c.PrevRecordID, c.HasPrev = prev, record, true
	}
	return 0, ""
}

// operation reads record-type and operation, either of which may be missing.
func (m *metadata) operation(t *texts, c *cdc.Change) (at int, reason string) {
	kind, word := &m.slots[fieldRecordType], &m.slots[fieldOperation]
	if !kind.isText() {
		return kind.at, reasonTypeKind
	}
	if !word.isText() {
		return word.at, reasonOpKind
	}
	recordType := string(m.text(fieldRecordType))
	name := m.text(fieldOperation)
	switch {
	case recordType == "control":
	case recordType != "" && recordType != "data":
		return kind.at, reasonRecordType
	default:
		if c.Operation = operationOf(name); c.Operation != cdc.Control {
			return 0, ""
		}
		if recordType == "data" {
			return word.at, reasonOperation
		}
		if len(name) == 0 {
			return 0, reasonNoOperation
		}
	}
	c.Operation = cdc.Control
	c.ControlName = t.name(fieldOperation, name)
	return 0, ""
}

// operationOf returns the data operation called name, or Control.
func operationOf(name []byte) cdc.Operation {
	switch string(name) {
	case "load":
		return cdc.Load
	case "insert":
		return cdc.Insert
	case "update":
		return cdc.Update
	case "delete":
		return cdc.Delete
	}
	return cdc.Control
}

// isText reports whether the field is a string or counts as none.
func (s *slot) isText() bool {
	return s.Kind == cdc.String || s.Kind == cdc.Missing || s.Kind == cdc.Null
}

// text returns the text of a field: empty when it is missing or null, the raw
// JSON when it is no string. It is valid until the next call.
func (m *metadata) text(field int) []byte {
	s := &m.slots[field]
	switch {
	case s.Kind == cdc.Missing || s.Kind == cdc.Null:
		return nil
	case s.Kind != cdc.String:
		return s.Raw
	case !s.Escaped:
		return s.Raw[1 : len(s.Raw)-1]
	}
	m.scratch, _ = s.AppendText(m.scratch[:0])
	return m.scratch
}

// integer reads a number or a string of decimal digits. ok is false for
// anything else, and for a number above 64 bits.
func (m *metadata) integer(field int) (n uint64, ok bool) {
	if k := m.slots[field].Kind; k != cdc.Number && k != cdc.String {
		return 0, false
	}
	text := m.text(field)
	if len(text) == 0 || len(text) > maxIntegerSize {
		return 0, false
	}
	for i, c := range text {
		if !isDigit(c) {
			return 0, false
		}
		digit := uint64(c - '0')
		if i >= 19 && n > (math.MaxUint64-digit)/10 { // 19 digits always fit
			return 0, false
		}
		n = n*10 + digit
	}
	return n, true
}

// time reads a time, zero when the field is not one.
func (m *metadata) time(field int) time.Time {
	if m.slots[field].Kind != cdc.String {
		return time.Time{}
	}
	return m.day.parse(m.text(field))
}
