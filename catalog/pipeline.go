package catalog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"icehose/cdc"
)

// A Pipeline is the content of pipeline.yaml: the one reviewed description of
// what flows from which source table to which lake table, and how.
type Pipeline struct {
	Version  int    `yaml:"version"`  // of the file format; 1
	Database string `yaml:"database"` // destination database (namespace) of tables that name none
	Source   Source `yaml:"source"`
	// Names says how the schema and table names of records compare with those
	// of this file.
	Names Names `yaml:"names,omitempty"`
	// Include lists the source tables that flow, as schema.table with % for
	// any text; those that match none are dropped. Empty: all of them.
	Include []string `yaml:"include,omitempty"`
	// Exclude lists source tables to drop, in the same form; it wins over
	// Include. The task's own awsdms_* tables are dropped without being listed.
	Exclude []string `yaml:"exclude,omitempty"`
	// Routes name lake tables by pattern: of entries of Tables that have no
	// target of their own. The first that matches counts.
	Routes         []Route      `yaml:"routes,omitempty"`
	OnUnknownTable UnknownTable `yaml:"on_unknown_table,omitempty"`
	Epochs         []Epoch      `yaml:"epochs,omitempty"`
	// Readers lists the engines that read the tables which list none of their
	// own. How a mirror's deletes are written follows from them.
	Readers  []Reader       `yaml:"readers,omitempty"`
	Tables   []*Table       `yaml:"tables"`
	bySource map[string]int // "schema.table", folded as Names says -> index in Tables
	byTarget map[string]int // "database.table" -> index in Tables
}

// Names is a way to compare names of schemas and tables.
type Names string

// The settings of names. Column names are not meant: they compare without
// regard to case unless a column has a source:.
const (
	NamesExact Names = "exact"
	NamesFold  Names = "fold" // ASCII letters without regard to case
)

// A Route names the lake tables of source tables. "match: sales.%" and "target:
// lake.sales_%" make of sales.Orders the table sales_orders of database lake.
type Route struct {
	// Match is schema.table; each % is any text, the shortest that fits.
	Match string `yaml:"match"`
	// Target is database.table or table; the n-th % is what the n-th % of
	// Match stood for, lower-cased. It may have fewer of them.
	Target string `yaml:"target"`
}

// A Source says how the endpoint writes what it reads.
type Source struct {
	Engine   Engine           `yaml:"engine"`
	Position cdc.PositionKind `yaml:"-"`
	// PositionText is the position kind as the file spells it; the default of
	// tables that declare none. postgres, sqlserver and oracle read the
	// stream-position (two log sequence numbers; one of three hexadecimal
	// parts; a system change number in decimal), mysql the transaction-id,
	// and all four number the changes of a transaction by
	// transaction-record-id: the endpoint writes these with
	// IncludeTransactionDetails. column:NAME reads up to 38 decimal digits of
	// a column, none orders nothing.
	PositionText string    `yaml:"position"`
	Nulls        Nulls     `yaml:"nulls,omitempty"`
	Unchanged    Unchanged `yaml:"unchanged,omitempty"`
	// BeforeImage is BeforeImageSettings.FieldName, default "before-image".
	BeforeImage string `yaml:"before_image,omitempty"`
	// BeforePrefix is the column prefix of add-before-image-columns, such as
	// "BI_"; empty when the endpoint does not use it.
	BeforePrefix string `yaml:"before_prefix,omitempty"`
}

// An Engine is a source database engine.
type Engine string

// The engines.
const (
	PostgreSQL Engine = "postgresql"
	MySQL      Engine = "mysql"
	MariaDB    Engine = "mariadb"
	Oracle     Engine = "oracle"
	SQLServer  Engine = "sqlserver"
)

// Nulls says whether the endpoint writes null and empty columns
// (IncludeNullAndEmpty).
type Nulls string

// The settings of nulls. With NullsIncluded a column that is missing for
// another reason fails; with NullsOmitted a missing column is null, unless the
// source has no null in it (not_null).
const (
	NullsIncluded Nulls = "included"
	NullsOmitted  Nulls = "omitted"
)

// Unchanged says how an update shows a large column that it did not change.
type Unchanged string

// The settings of unchanged.
const (
	UnchangedNever  Unchanged = "never"  // the value is always there
	UnchangedAbsent Unchanged = "absent" // the column is missing
	UnchangedNull   Unchanged = "null"   // the column is null
)

// UnknownTable says what becomes of a change of a table that is not in the file.
type UnknownTable string

// The settings of on_unknown_table.
const (
	UnknownFail UnknownTable = "fail"
	UnknownDrop UnknownTable = "drop"
)

// An Epoch starts when the source's numbering does: at a restore or failover.
type Epoch struct {
	Epoch uint16    `yaml:"epoch"`
	Since time.Time `yaml:"since"` // commit time of the first change that belongs to it
}

// A Table is one source table and its destination.
type Table struct {
	Source string `yaml:"source"`           // schema.table as the records spell it
	Target string `yaml:"target,omitempty"` // database.table or table; default: what a route says, else the source table, lower-cased
	Mode   Mode   `yaml:"mode"`
	// Key lists the lake names of the key columns; empty for a table without.
	Key          []string         `yaml:"key,omitempty"`
	Position     cdc.PositionKind `yaml:"-"`
	PositionText string           `yaml:"position,omitempty"`
	OnLoad       OnLoad           `yaml:"on_load,omitempty"`
	OnInsert     OnInsert         `yaml:"on_insert,omitempty"`
	// Partition is the partition spec of the lake table; empty for none.
	Partition []PartitionField `yaml:"-"`
	// PartitionText lists column, bucket(N, column), truncate(N, column),
	// year(column), month(column), day(column) or hour(column). A mirror is
	// partitioned by key columns only.
	PartitionText []string `yaml:"partition,omitempty"`
	// Readers lists the engines that read the table; empty: those of the file.
	// One that cannot read equality deletes makes the sink copy on write.
	Readers   []Reader    `yaml:"readers,omitempty"`
	Nulls     Nulls       `yaml:"nulls,omitempty"`
	Unchanged Unchanged   `yaml:"unchanged,omitempty"`
	Loads     []LoadStart `yaml:"loads,omitempty"`
	Columns   []*Column   `yaml:"columns"`

	database, name string
	route          int // index in Routes, counted from 1; 0 when none named the table
	keyColumns     []int
}

// A Mode is a write mode.
type Mode string

// The write modes.
const (
	Mirror    Mode = "mirror"    // the table holds current rows by key
	Changelog Mode = "changelog" // the table holds every change, appended
)

// OnLoad says how a load record of the first load is delivered to a mirror.
type OnLoad string

// The settings of on_load.
const (
	LoadInsert OnLoad = "insert"
	LoadUpsert OnLoad = "upsert"
)

// OnInsert says how an insert is delivered to a mirror.
type OnInsert string

// The settings of on_insert.
const (
	InsertUpdate OnInsert = "update" // an upsert: a repeat is harmless
	InsertInsert OnInsert = "insert" // duplicates accepted
)

// A LoadStart announces a reload: records built at Since or later belong to
// it, and reflect everything committed at or below Floor.
type LoadStart struct {
	Floor     cdc.Body  `yaml:"-"`
	FloorText digitText `yaml:"floor"` // 32 hex digits
	Since     time.Time `yaml:"since"`
	// Finished says that all rows of the load have come and that rows below
	// the floor, which it did not bring again, were removed. Until then such
	// rows may be left over, and nothing can be said about them.
	Finished bool `yaml:"finished,omitempty"`
}

// A Column is one column of a table.
type Column struct {
	Name       string `yaml:"name"`                  // in the lake: lower case
	Source     string `yaml:"source,omitempty"`      // in the record; default: any spelling that lower-cases to Name
	Type       Type   `yaml:"-"`                     // Iceberg
	TypeText   string `yaml:"type"`                  // as the file spells it
	SourceType string `yaml:"source_type,omitempty"` // the source's own spelling, such as "character(2)"
	// MayBeUnchanged marks a TOAST or LOB column, which an update may leave
	// out because it did not change it.
	MayBeUnchanged bool   `yaml:"may_be_unchanged,omitempty"`
	Exclude        bool   `yaml:"exclude,omitempty"` // not in the lake at all
	Mask           Mask   `yaml:"mask,omitempty"`
	AllowLossy     []Loss `yaml:"allow_lossy,omitempty"`
	// Loses lists the losses that the choice of the type brings with it, as
	// discover found them. Each must be in AllowLossy before anything is
	// generated.
	Loses []Loss `yaml:"loses,omitempty"`
	// NotNull says that the source forbids nulls; a key column needs no saying.
	NotNull bool `yaml:"not_null,omitempty"`
	// Default is the canonical text of what the source gave the rows it had
	// when the column was added: rows written to the lake before are null there
	// and mean this. It can only be told from a null of the source itself when
	// the source column is NOT NULL.
	Default *Literal `yaml:"default,omitempty"`
	// RenamedFrom is the lake name the column had before; apply renames it and
	// keeps its field id.
	RenamedFrom string `yaml:"renamed_from,omitempty"`
	// FormerNames lists the lake names that the column had before RenamedFrom:
	// rows of a changelog name a column that a change did not carry as it was
	// called then. They stay here, as RenamedFrom does, while such rows do.
	FormerNames []string `yaml:"former_names,omitempty"`
}

// A Mask hides a column's values.
type Mask string

// The masks.
const (
	MaskSHA256 Mask = "sha256" // hex digest of the canonical value; the column is a string
	MaskNull   Mask = "null"
)

// A Loss is a conversion that does not keep the value, which a person allowed.
type Loss string

// The losses.
const (
	LossRound   Loss = "round"   // fraction digits beyond the type's scale are rounded half up
	LossNull    Loss = "null"    // a value the type cannot hold becomes null
	LossInvalid Loss = "replace" // text that is not valid Unicode gets U+FFFD
)

// The metadata columns. Every lake table has the first two, a changelog all.
const (
	ColumnPosition    = "cdc_position"
	ColumnCommittedAt = "cdc_committed_at"
	ColumnOperation   = "cdc_operation"
	ColumnOldKey      = "cdc_old_key" // canonical text of the key before a key change: a JSON array of strings
	ColumnAbsent      = "cdc_absent"  // names of the columns the change did not carry: comma-separated
)

// Database returns the destination database.
func (t *Table) Database() string { return t.database }

// Name returns the destination table's name.
func (t *Table) Name() string { return t.name }

// KeyColumns returns the indexes into Columns of the key, in key order.
func (t *Table) KeyColumns() []int { return t.keyColumns }

// LakeColumns returns what the Iceberg table holds, in order: the columns that
// are not excluded, then the metadata columns of the table's mode. The second
// result is the number of columns that are the source's.
func (t *Table) LakeColumns() (columns []Column, data int) {
	for _, c := range t.Columns {
		if c.Exclude {
			continue
		}
		lake := *c
		if c.Mask == MaskSHA256 {
			lake.Type = Type{Kind: String}
		}
		columns = append(columns, lake)
	}
	data = len(columns)
	columns = append(columns,
		Column{Name: ColumnPosition, Type: Type{Kind: String}},
		Column{Name: ColumnCommittedAt, Type: Type{Kind: TimestampTZ}})
	if t.Mode == Changelog {
		columns = append(columns,
			Column{Name: ColumnOperation, Type: Type{Kind: String}},
			Column{Name: ColumnOldKey, Type: Type{Kind: String}},
			Column{Name: ColumnAbsent, Type: Type{Kind: String}})
	}
	return columns, data
}

// IsKey reports whether the lake column called name is part of the key.
func (t *Table) IsKey(name string) bool {
	return slices.Contains(t.Key, name)
}

// BySource finds the table of a source schema and table; nil if the file has none.
func (p *Pipeline) BySource(schema, table string) *Table {
	if i, ok := p.bySource[p.fold(schema+"."+table)]; ok {
		return p.Tables[i]
	}
	return nil
}

// Choose returns the tables named, each once, as schema.table of the source; all
// of them without names. A name of none is an error.
func (p *Pipeline) Choose(names []string) ([]*Table, error) {
	if len(names) == 0 {
		return p.Tables, nil
	}
	var tables []*Table
	for _, name := range names {
		schema, table, _ := strings.Cut(name, ".")
		t := p.BySource(schema, table)
		if t == nil {
			return nil, fmt.Errorf("no table %s", name)
		}
		if !slices.Contains(tables, t) {
			tables = append(tables, t)
		}
	}
	return tables, nil
}

// ByTarget finds the table delivered to database.table; nil if the file has none.
func (p *Pipeline) ByTarget(database, table string) *Table {
	if i, ok := p.byTarget[database+"."+table]; ok {
		return p.Tables[i]
	}
	return nil
}

// EpochAt returns the epoch of a change committed at the given time.
func (p *Pipeline) EpochAt(committed time.Time) uint16 {
	var epoch uint16
	for _, e := range p.Epochs {
		if !e.Since.After(committed) {
			epoch = e.Epoch
		}
	}
	return epoch
}

// LoadAt returns the announced load that a load record built at the given time
// belongs to; ok is false for the first load, whose floor is zero.
func (t *Table) LoadAt(builtAt time.Time) (load LoadStart, ok bool) {
	for _, l := range t.Loads {
		if !l.Since.After(builtAt) {
			load, ok = l, true
		}
	}
	return load, ok
}

// LoadOpen reports whether the last announced load is not finished: rows of the
// lake may be left over, or still to come. An older load that was never finished
// says nothing once a later one is: that swept whatever was below its floor.
func (t *Table) LoadOpen() bool {
	return len(t.Loads) > 0 && !t.Loads[len(t.Loads)-1].Finished
}
