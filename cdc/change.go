package cdc

import (
	"slices"
	"strings"
	"time"
)

// An Operation says what a change did to its row. The four data operations
// are closed; everything else a source writes is Control.
type Operation uint8

// The operations. The zero value is not one of them.
const (
	Load    Operation = iota + 1 // a row as the full load read it
	Insert                       // a row that was added
	Update                       // a row that was changed
	Delete                       // a row that was removed
	Control                      // not a row: DDL, or a marker of the replication task
)

// String returns the lower-case name that appears in cdc_operation.
func (o Operation) String() string {
	switch o {
	case Load:
		return "load"
	case Insert:
		return "insert"
	case Update:
		return "update"
	case Delete:
		return "delete"
	case Control:
		return "control"
	}
	return "invalid"
}

// A Field is one column of a record, in the record's own spelling and order.
// Name is unescaped. It is not part of the record: it may be kept, and never
// changes.
type Field struct {
	Name  []byte
	Value Value
}

// Fields are the columns of one image of a row, in record order. A column
// that is not in the list is missing, which differs from null and from empty.
type Fields []Field

// Get returns the value of the column called name, exactly spelled. A name
// that occurs twice yields its last value, as every JSON reader does. The
// zero Value (Kind Missing) means that the record does not have the column.
func (f Fields) Get(name string) Value {
	for _, field := range slices.Backward(f) {
		if string(field.Name) == name {
			return field.Value
		}
	}
	return Value{}
}

// A Change is one decoded source event. Byte slices, names of fields aside,
// alias the record that it was decoded from: they are valid as long as the
// record is, and until the next decode into the same Change.
type Change struct {
	Operation Operation
	// ControlName is the source's word for a Control change, such as
	// "create-table"; empty for data.
	ControlName string
	// ControlBody is the raw JSON of the control details, nil when the
	// endpoint does not write them.
	ControlBody []byte

	Schema string // as the source spells it; empty for the task's own tables
	Table  string

	Data Fields // the row after the change; for a delete what the source still knew of it
	// Before is the row before the change, as far as the endpoint writes it.
	// HasBefore tells an empty before-image ({}) from none.
	Before    Fields
	HasBefore bool

	// Times are UTC, and zero when not written or not readable: whoever needs
	// one must refuse zero.
	BuiltAt     time.Time // when the message was built; orders nothing but loads
	CommittedAt time.Time // commit time at the source

	// Transaction details; HasTransactionID and so on tell zero from absent.
	TransactionID       uint64
	HasTransactionID    bool
	TransactionRecordID uint64
	HasRecordID         bool
	PrevTransactionID   uint64
	PrevRecordID        uint64
	HasPrev             bool
	StreamPosition      string // raw; its form depends on the source engine

	PartitionKeyType  string // schema-table, primary-key, task-id, ...
	PartitionKeyValue string
}

// IsInternal reports whether a table is one of the replication task's own, such
// as awsdms_status. A transformation rule may have written its name in capitals.
func IsInternal(table string) bool {
	const prefix = "awsdms_"
	return len(table) >= len(prefix) && strings.EqualFold(table[:len(prefix)], prefix)
}

// An Origin is where a record stood in the stream that carried it. It breaks
// ties between loads and identifies a record in reports; it never orders
// changes. The zero Origin is allowed: records from a Direct PUT have none.
type Origin struct {
	Shard    string // "shardId-000000000003"
	Sequence string // decimal, up to 56 digits
}
