package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// DMS is not an engine: it says that types are in the words of DMS's control
// records, such as INT32. No pipeline file has it.
const DMS Engine = "dms"

// A SourceSchema is what a source says of its tables, whoever read it: a live
// server, a schema dump or the control records of a stream.
type SourceSchema struct {
	Engine Engine
	// Words says whose words the types are in: the engine's own, or DMS's.
	Words Engine
	// Version is the server's, empty where the format has none.
	Version string
	// Unknown lists what the format cannot tell; those fields are zero and
	// mean nothing.
	Unknown []Aspect
	// KnowsEarlier says that the source tells what is in rows from before a
	// column was added: see SourceColumn.Earlier.
	KnowsEarlier bool
	Tables       []*SourceTable // by schema and name
	// LeftOut lists what is no table to read from, as far as the format tells.
	LeftOut []LeftOut
}

// A LeftOut is a relation of the source whose changes cannot be had.
type LeftOut struct {
	Schema, Name string
	Why          LeftOutWhy
}

// FullName returns schema.name.
func (l *LeftOut) FullName() string { return l.Schema + "." + l.Name }

// LeftOutWhy says what a relation is, if it is no table to read from.
type LeftOutWhy string

// The reasons.
const (
	LeftOutUnlogged  LeftOutWhy = "unlogged"    // a table whose changes are not in the log
	LeftOutParent    LeftOutWhy = "partitioned" // its partitions have the rows
	LeftOutView      LeftOutWhy = "view"
	LeftOutForeign   LeftOutWhy = "foreign"   // its rows are another server's
	LeftOutExtension LeftOutWhy = "extension" // a table of one
)

// An Aspect is a part of a schema that some formats cannot tell.
type Aspect string

// The aspects.
const (
	AspectTypes     Aspect = "types" // the engine's own types; DMS's are there
	AspectDefaults  Aspect = "defaults"
	AspectGenerated Aspect = "generated columns"
	AspectComments  Aspect = "comments"
	AspectIdentity  Aspect = "replica identity"
	AspectOutOfLine Aspect = "out-of-line storage"
	AspectPartition Aspect = "partitions"
	AspectZeroDates Aspect = "zero dates"
)

// Knows reports whether the format tells the aspect.
func (s *SourceSchema) Knows(a Aspect) bool { return !slices.Contains(s.Unknown, a) }

// A SourceTable is a table that holds rows. Parents of partitions, views and
// temporary tables are not among them.
type SourceTable struct {
	Schema, Name string
	Comment      string
	Columns      []*SourceColumn // in table order
	// Key lists the columns of the primary key, in key order; empty when the
	// table has none.
	Key []string
	// KeyDeferrable says that PostgreSQL may check the key as late as the
	// commit: it is no replica identity then.
	KeyDeferrable   bool
	ReplicaIdentity ReplicaIdentity // PostgreSQL
	// IdentityColumns lists the columns of the index that is the replica
	// identity, in its order; empty where the identity is another one, and where
	// the index is gone or not valid.
	IdentityColumns []string
	// PartitionOf is the schema.table whose partition it is; empty for others.
	PartitionOf string
	// Line is where a file defines it, 1-based; 0 for a server.
	Line int
}

// FullName returns schema.table.
func (t *SourceTable) FullName() string { return t.Schema + "." + t.Name }

// Column finds a column by its exact name; nil if there is none.
func (t *SourceTable) Column(name string) *SourceColumn {
	for _, c := range t.Columns {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// A ReplicaIdentity says which old values PostgreSQL's log has for an update
// or delete.
type ReplicaIdentity string

// The replica identities.
const (
	IdentityDefault ReplicaIdentity = "default" // the primary key
	IdentityFull    ReplicaIdentity = "full"
	IdentityNothing ReplicaIdentity = "nothing"
	IdentityIndex   ReplicaIdentity = "index" // of a unique index
)

// A SourceColumn is one column of a source table.
type SourceColumn struct {
	Name string
	// Declared is the type as the engine spells it: "character varying(10)",
	// "bigint(20) unsigned", "public.mood".
	Declared string
	// Type is Declared taken apart. A domain is what it is made of.
	Type     SourceType
	Nullable bool
	Default  *SourceDefault // nil without one, or when it is null
	// Earlier is the text of what rows from before the column was added have in
	// it, where the source keeps that. Default is for rows to come: it may have
	// changed since. nil where the rows have no such value, or had it written
	// into them.
	Earlier   *string
	Generated Generated
	Comment   string
	// OutOfLine says that the source may keep the value apart from its row, so
	// that an update of other columns may not carry it: a column that
	// PostgreSQL can move to its TOAST table, a LOB of another engine.
	OutOfLine bool
	// ZeroDates says that the column may hold 0000-00-00, as far as its default
	// and the server's sql_mode show.
	ZeroDates bool
}

// A SourceDefault is a default value: the text of a literal, without quotes,
// or an expression.
type SourceDefault struct {
	Text       string
	Expression bool
}

// Generated says where a column's values come from.
type Generated string

// The origins of values. The zero value is a column that is written to.
const (
	GeneratedStored   Generated = "stored"
	GeneratedVirtual  Generated = "virtual"
	GeneratedIdentity Generated = "identity" // numbers of the server: identity or auto_increment
)

// Computed reports whether values are computed from other columns.
func (g Generated) Computed() bool { return g == GeneratedStored || g == GeneratedVirtual }

// Table finds a table; nil if there is none.
func (s *SourceSchema) Table(schema, name string) *SourceTable {
	for _, t := range s.Tables {
		if t.Schema == schema && t.Name == name {
			return t
		}
	}
	return nil
}

// Sort puts the tables in order and checks that no two are the same; readers
// end with it.
func (s *SourceSchema) Sort() error {
	slices.SortStableFunc(s.Tables, func(a, b *SourceTable) int {
		return cmp.Or(strings.Compare(a.Schema, b.Schema), strings.Compare(a.Name, b.Name))
	})
	for i, t := range s.Tables {
		if i > 0 && s.Tables[i-1].FullName() == t.FullName() {
			return fmt.Errorf("read schema: table %s is defined twice, in lines %d and %d", t.FullName(), s.Tables[i-1].Line, t.Line)
		}
		for j, c := range t.Columns {
			if slices.ContainsFunc(t.Columns[:j], func(o *SourceColumn) bool { return o.Name == c.Name }) {
				return fmt.Errorf("read schema: column %s.%s is defined twice", t.FullName(), c.Name)
			}
		}
		for _, k := range t.Key {
			if t.Column(k) == nil {
				return fmt.Errorf("read schema: table %s has no column %s, which its key names", t.FullName(), k)
			}
		}
	}
	return nil
}
