package transform

import (
	"encoding/json"
	"slices"

	"icehose/cdc"
)

// A Drift says that the source announced a change of a table that the pipeline
// file describes. What DMS writes of an ALTER is not documented, so only the
// column names of a table definition are read.
type Drift struct {
	Table     string // schema.table of the source
	Statement string // create-table, add-column, drop-table, ... as the source names it
	// Defined says that the record held the table's definition. Then Unknown
	// are its columns that the file does not have, Missing those of the file
	// that it does not have: the source's spelling and the lake's names, sorted.
	Defined          bool
	Unknown, Missing []string
}

// driftOf returns nil for what is no drift: a marker of the task, or the
// create-table that begins every load when it defines the columns of the file.
func driftOf(p *plan, c *cdc.Change) *Drift {
	switch c.ControlName {
	case "create-table", "rename-table", "drop-table", "change-columns", "add-column", "drop-column", "rename-column", "column-type-change":
	default:
		return nil
	}
	d := &Drift{Table: p.table.Source, Statement: c.ControlName}
	var body struct {
		Definition struct {
			Columns map[string]json.RawMessage `json:"columns"`
		} `json:"table-def"`
	}
	if len(c.ControlBody) == 0 || json.Unmarshal(c.ControlBody, &body) != nil || len(body.Definition.Columns) == 0 {
		return d
	}
	d.Defined = true
	found := make(map[int]bool)
	for name := range body.Definition.Columns {
		at := p.find([]byte(name))
		if at == noColumn {
			d.Unknown = append(d.Unknown, name)
		}
		found[at] = true
	}
	for i := range p.columns {
		if !found[i] {
			d.Missing = append(d.Missing, p.columns[i].source.Name)
		}
	}
	slices.Sort(d.Unknown)
	if c.ControlName == "create-table" && len(d.Unknown) == 0 && len(d.Missing) == 0 {
		return nil
	}
	slices.Sort(d.Missing)
	return d
}
