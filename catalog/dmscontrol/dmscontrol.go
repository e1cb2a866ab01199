// Package dmscontrol reads a schema from the control records of a stream that
// AWS DMS wrote.
//
// In come stream records; out comes a catalog.SourceSchema of every table that
// a create-table record defines, in DMS's words for types. The last definition
// of a table wins, whichever shard had it. What the bodies of other control
// records look like is not documented: columns in them that have a type are
// added or changed, none is ever removed. The schema is as far as such records
// tell: no defaults, comments, generated columns or replica identity, and
// DMS's types, which do not tell a char from a varchar or a timestamp with a
// zone from one without. Rows are passed over, and so are DMS's own tables.
package dmscontrol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/cdc/dms"
	"icehose/cdc/kinesis"
)

// Read reads the schema from records; engine is the source's, which records do
// not tell. It fails when no record defines a table.
func Read(engine catalog.Engine, records iter.Seq2[kinesis.Record, error]) (*catalog.SourceSchema, error) {
	s, err := read(engine, records)
	if err != nil {
		return nil, fmt.Errorf("read schema from control records: %w", err)
	}
	return s, nil
}

// A definition is what one record says of a table.
type definition struct {
	table   *catalog.SourceTable
	create  bool // all of the table; else the columns that changed
	builtAt time.Time
}

func read(engine catalog.Engine, records iter.Seq2[kinesis.Record, error]) (*catalog.SourceSchema, error) {
	definitions, bare, err := collect(records)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(definitions, func(a, b definition) int { return a.builtAt.Compare(b.builtAt) })
	found := make(map[string]*catalog.SourceTable)
	for _, d := range definitions {
		t := found[d.table.FullName()]
		switch {
		case d.create:
			found[d.table.FullName()] = d.table
		case t != nil:
			merge(t, d.table)
		}
	}
	switch {
	case len(found) > 0:
	case bare > 0:
		return nil, errors.New("control records have no details: set IncludeControlDetails=true on the endpoint")
	default:
		return nil, errors.New("no control record defines a table: DMS writes create-table when a task starts")
	}
	s := &catalog.SourceSchema{Engine: engine, Words: catalog.DMS, Unknown: []catalog.Aspect{
		catalog.AspectTypes, catalog.AspectDefaults, catalog.AspectGenerated, catalog.AspectComments, catalog.AspectIdentity,
		catalog.AspectOutOfLine, catalog.AspectPartition, catalog.AspectZeroDates,
	}}
	for _, t := range found {
		t.MarkLOBs(catalog.DMS)
		s.Tables = append(s.Tables, t)
	}
	return s, s.Sort()
}

// An Alteration is a control record that says that a table was changed.
type Alteration struct {
	Operation string    `json:"operation"` // in DMS's words, such as add-column
	Table     string    `json:"table"`     // schema.table
	BuiltAt   time.Time `json:"built_at"`  // when DMS wrote the record
}

// Alterations lists the control records that alter tables, by the time they
// were built: those whose bodies nobody documents, so that they only tell that
// something happened. The creation of tables, and the drop that precedes it when
// a task starts, are not among them, nor is anything of DMS's own tables.
func Alterations(records iter.Seq2[kinesis.Record, error]) ([]Alteration, error) {
	decoder := dms.New(dms.Settings{})
	var found []Alteration
	var c cdc.Change
	for record, err := range records {
		if err != nil {
			return nil, fmt.Errorf("read control records: %w", err)
		}
		if decoder.Decode(record.Data, &c) != nil || c.Operation != cdc.Control || c.Schema == "" || cdc.IsInternal(c.Table) ||
			c.ControlName == createTable || c.ControlName == "drop-table" {
			continue
		}
		found = append(found, Alteration{Operation: strings.Clone(c.ControlName), Table: c.Schema + "." + c.Table, BuiltAt: c.BuiltAt})
	}
	slices.SortStableFunc(found, func(a, b Alteration) int { return a.BuiltAt.Compare(b.BuiltAt) })
	return found, nil
}

// collect reads the definitions of all records, and counts the records that
// should have one.
func collect(records iter.Seq2[kinesis.Record, error]) (definitions []definition, bare int, err error) {
	decoder := dms.New(dms.Settings{})
	var c cdc.Change
	for record, err := range records {
		if err != nil {
			return nil, 0, err
		}
		// A record that cannot be decoded is the transform's to report.
		if decoder.Decode(record.Data, &c) != nil || c.Operation != cdc.Control || c.Schema == "" || cdc.IsInternal(c.Table) {
			continue
		}
		t, err := define(&c)
		switch {
		case err != nil && c.ControlName == createTable:
			return nil, 0, fmt.Errorf("record %s of shard %s: %s of %s.%s: %w", record.SequenceNumber, record.ShardID, c.ControlName, c.Schema, c.Table, err)
		case err != nil: // of a form that is not documented
		case t != nil:
			definitions = append(definitions, definition{t, c.ControlName == createTable, c.BuiltAt})
		case c.ControlBody == nil:
			bare++
		}
	}
	return definitions, bare, nil
}

const createTable = "create-table"

// merge adds the columns of a change to a table, or changes their types.
func merge(t, change *catalog.SourceTable) {
	for _, c := range change.Columns {
		if old := t.Column(c.Name); old != nil {
			*old = *c
			continue
		}
		t.Columns = append(t.Columns, c)
	}
}

// define reads the table's definition; nil when the record has none.
func define(c *cdc.Change) (*catalog.SourceTable, error) {
	if c.ControlBody == nil {
		return nil, nil //nolint:nilnil // not every control record defines a table
	}
	var body struct {
		Definition *struct {
			Columns columns  `json:"columns"`
			Key     []string `json:"primary-key"`
		} `json:"table-def"`
	}
	if err := json.Unmarshal(c.ControlBody, &body); err != nil {
		return nil, fmt.Errorf("table-def: %w", err)
	}
	if body.Definition == nil || len(body.Definition.Columns) == 0 {
		return nil, nil //nolint:nilnil // as above
	}
	t := &catalog.SourceTable{
		Schema: strings.Clone(c.Schema), Name: strings.Clone(c.Table), Columns: body.Definition.Columns, Key: body.Definition.Key,
	}
	for _, k := range t.Key {
		if !slices.ContainsFunc(t.Columns, func(c *catalog.SourceColumn) bool { return c.Name == k }) {
			return nil, fmt.Errorf("primary-key names %s, which is no column", k)
		}
	}
	return t, nil
}

// columns are the members of a JSON object in the order they are written: the
// order of the table.
type columns []*catalog.SourceColumn

// UnmarshalJSON implements json.Unmarshaler.
func (c *columns) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return errors.Join(errors.New("columns: want an object"), err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var def struct {
			Type      string `json:"type"`
			Nullable  *bool  `json:"nullable"`
			Length    int    `json:"length"`
			Precision int    `json:"precision"`
			Scale     int    `json:"scale"`
		}
		if err := d.Decode(&def); err != nil {
			return fmt.Errorf("column %v: %w", name, err)
		}
		if def.Type == "" {
			return fmt.Errorf("column %v has no type", name)
		}
		column := &catalog.SourceColumn{
			Name: fmt.Sprint(name), Declared: def.Type, Type: catalog.SourceType{Name: strings.ToLower(def.Type)}, Nullable: def.Nullable == nil || *def.Nullable,
		}
		switch {
		case def.Precision > 0:
			column.Type.Params = []int{def.Precision, def.Scale}
			column.Declared += "(" + strconv.Itoa(def.Precision) + "," + strconv.Itoa(def.Scale) + ")"
		case def.Length > 0:
			column.Type.Params = []int{def.Length}
			column.Declared += "(" + strconv.Itoa(def.Length) + ")"
		}
		*c = append(*c, column)
	}
	return nil
}
