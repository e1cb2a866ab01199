package dmssim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"icehose/catalog"
)

// A State says what is known of a value.
type State uint8

// The states. Unknown is a column that the source did not send, such as those
// beside the key of a delete; Unchanged is an unchanged value out of line.
const (
	Unknown State = iota
	Null
	Known
	Unchanged
)

// A Datum is a value as PostgreSQL's text.
type Datum struct {
	State State
	Text  string
}

// A Table is what control records say of a table.
type Table struct {
	Schema, Name string
	Columns      []Column
	Key          []string // names of the primary key's columns, in key order; nil without one

	// Of a table that was read from the server:
	source   *catalog.SourceTable // its name, key and replica identity
	computed []string             // generated columns that keep the replica identity from being published
}

// FullName returns "schema.table".
func (t *Table) FullName() string { return t.Schema + "." + t.Name }

func (t *Table) column(name string) int {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return i
		}
	}
	return -1
}

// An Operation is the word in metadata.operation.
type Operation string

// The operations of data records.
const (
	Load   Operation = "load"
	Insert Operation = "insert"
	Update Operation = "update"
	Delete Operation = "delete"
)

// The operations of control records. DMS knows no truncate.
const (
	CreateTable      Operation = "create-table"
	DropTable        Operation = "drop-table"
	AddColumn        Operation = "add-column"
	DropColumn       Operation = "drop-column"
	RenameColumn     Operation = "rename-column"
	RenameTable      Operation = "rename-table"
	ColumnTypeChange Operation = "column-type-change"
)

// A RecordID names a record of a transaction, counted from 1.
type RecordID struct{ Transaction, Record uint64 }

// A Transaction is what a change says of its transaction.
type Transaction struct {
	RecordID
	Previous       RecordID // the record before it in the task; zero for the first
	Committed      time.Time
	StreamPosition string // empty on rows of the task's own tables
}

// A Message is one record before it is text.
type Message struct {
	Table     *Table
	Operation Operation
	Built     time.Time
	Row       []Datum // one for each column; nil for control records
	Before    []Datum // the old row as far as it is known; nil if it is not
	// Transaction is nil for loads and control records.
	Transaction *Transaction
}

// TimeLayout is the form of every time in metadata: six digits, always.
const TimeLayout = "2006-01-02T15:04:05.000000Z"

// A PartitionKey is what a record is partitioned by: Key is what Kinesis
// hashes, Value what metadata says of it, if it says anything.
type PartitionKey struct {
	Type       PartitionKeyType
	Value, Key string
}

// PartitionKey returns the partition key of a data record.
func (s *Settings) PartitionKey(m *Message) PartitionKey {
	t := m.Table
	mapping := s.ObjectMappings[t.FullName()]
	kind := mapping.PartitionKeyType
	if kind == DefaultPartitionKey {
		kind = SchemaTablePartition
		if m.Operation == Load || s.ParallelApplyThreads > 0 {
			kind = PrimaryKeyPartition
		}
	}
	switch {
	case kind == PrimaryKeyPartition && len(t.Key) == 0,
		kind == TransactionPartition && m.Transaction == nil,
		kind == AttributeName && s.attribute(m, mapping.PartitionKeyName) == "":
		kind = SchemaTablePartition
	}
	k := PartitionKey{Type: kind}
	switch kind {
	case PrimaryKeyPartition:
		// How DMS joins a key of several columns is not known.
		parts := make([]string, 0, len(t.Key)+2)
		if s.PartitionIncludeSchemaTable {
			parts = append(parts, t.Schema, t.Name)
		}
		for _, name := range t.Key {
			parts = append(parts, s.attribute(m, name))
		}
		k.Value = strings.Join(parts, ".")
	case TransactionPartition:
		k.Value = strconv.FormatUint(m.Transaction.Transaction, 10)
	case ConstantPartition:
		k.Value = mapping.PartitionKeyName
	case AttributeName:
		k.Value = s.attribute(m, mapping.PartitionKeyName)
	case SchemaTablePartition, DefaultPartitionKey, taskPartition:
		k.Key = strings.TrimPrefix(t.FullName(), ".")
		return k
	}
	if runes := []rune(k.Value); len(runes) > maxPartitionKeyRunes {
		k.Value = string(runes[:maxPartitionKeyRunes])
	}
	k.Key = k.Value
	if k.Key == "" { // Kinesis takes no empty key
		k.Key = t.FullName()
	}
	return k
}

// attribute is the text of a column in a partition key.
func (s *Settings) attribute(m *Message, name string) string {
	i := m.Table.column(name)
	if i < 0 || m.Row[i].State != Known {
		return ""
	}
	_, text := s.encode(&m.Table.Columns[i], m.Row[i].Text)
	return text
}

// AppendData appends the JSON of a data record.
func (s *Settings) AppendData(dst []byte, m *Message, key PartitionKey) []byte {
	w := &jsonWriter{buf: dst, formatted: s.MessageFormat == JSON}
	w.openObject()
	w.key("data")
	w.openObject()
	for i := range m.Table.Columns {
		s.writeDatum(w, m.Table.Columns[i].Name, &m.Table.Columns[i], m.Row[i], m.Operation)
	}
	if s.BeforeImageColumnPrefix != "" && m.Operation == Update {
		for i := range m.Table.Columns {
			s.writeDatum(w, s.BeforeImageColumnPrefix+m.Table.Columns[i].Name, &m.Table.Columns[i], before(m, i), m.Operation)
		}
	}
	w.closeObject()
	if s.EnableBeforeImage && m.Operation == Update {
		w.key(s.BeforeImageFieldName)
		w.openObject()
		for i := range m.Table.Columns {
			c := &m.Table.Columns[i]
			if d := before(m, i); d.State != Unknown && s.inBeforeImage(m.Table, c) {
				s.writeDatum(w, c.Name, c, d, m.Operation)
			}
		}
		w.closeObject()
	}
	s.writeMetadata(w, m, "data", key)
	w.closeObject()
	return w.buf
}

func before(m *Message, i int) Datum {
	if m.Before == nil {
		return Datum{}
	}
	return m.Before[i]
}

func (s *Settings) inBeforeImage(t *Table, c *Column) bool {
	switch s.BeforeImageColumnFilter {
	case columnFilterAll:
		return true
	case columnFilterNonLOB:
		return !c.isLOB()
	}
	return slices.Contains(t.Key, c.Name)
}

func (s *Settings) writeDatum(w *jsonWriter, name string, c *Column, d Datum, op Operation) {
	f, text := formNull, ""
	switch d.State {
	case Known:
		f, text = s.encode(c, d.Text)
	case Unchanged:
		if s.UnchangedTOAST == TOASTAbsent && op == Update {
			return
		}
	case Null, Unknown:
	}
	if !s.IncludeNullAndEmpty && (f == formNull || f == formText && text == "") {
		return
	}
	w.key(name)
	switch f {
	case formNull:
		w.literal("null")
	case formText:
		w.text(text)
	case formLiteral:
		w.literal(text)
	}
}

func (s *Settings) writeMetadata(w *jsonWriter, m *Message, recordType string, key PartitionKey) {
	w.key("metadata")
	w.openObject()
	w.field("timestamp", m.Built.UTC().Format(TimeLayout))
	w.field("record-type", recordType)
	w.field("operation", string(m.Operation))
	w.field("partition-key-type", string(key.Type))
	if s.IncludePartitionValue && key.Type != SchemaTablePartition {
		w.field("partition-key-value", key.Value)
	}
	w.field("schema-name", m.Table.Schema)
	w.field("table-name", m.Table.Name)
	if x := m.Transaction; x != nil {
		w.number("transaction-id", strconv.FormatUint(x.Transaction, 10))
		if s.IncludeTransactionDetails {
			w.number("transaction-record-id", strconv.FormatUint(x.Record, 10))
			if x.Previous.Record > 0 {
				w.number("prev-transaction-id", strconv.FormatUint(x.Previous.Transaction, 10))
				w.number("prev-transaction-record-id", strconv.FormatUint(x.Previous.Record, 10))
			}
			w.field("commit-timestamp", x.Committed.UTC().Format(TimeLayout))
			if x.StreamPosition != "" {
				w.field("stream-position", x.StreamPosition)
			}
		}
	}
	w.closeObject()
}
