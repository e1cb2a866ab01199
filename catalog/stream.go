package catalog

import (
	"fmt"

	"icehose/cdc"
)

// A Delivery is what one delivery stream does with the tables of a pipeline
// file. The zero value delivers each of them as the file says.
type Delivery struct {
	// Only leaves out the tables that the file has in another mode: some other
	// stream delivers those.
	Only Mode
	// Mode, Database and Suffix are those of Table.As.
	Mode             Mode
	Database, Suffix string
}

// For returns the pipeline as one delivery stream delivers it: its tables, in
// file order, with their mode and target there. A pipeline without any is not
// an error.
func (p *Pipeline) For(d Delivery) (*Pipeline, error) {
	out := *p
	out.Tables, out.bySource, out.byTarget = nil, make(map[string]int), make(map[string]int)
	for _, t := range p.Tables {
		if d.Only != "" && t.Mode != d.Only {
			continue
		}
		as, err := t.As(d.Mode, d.Database, d.Suffix)
		if err != nil {
			return nil, err
		}
		target := as.database + "." + as.name
		if i, ok := out.byTarget[target]; ok {
			return nil, fmt.Errorf("deliver table %s: %s is the target of %s already", t.Source, target, out.Tables[i].Source)
		}
		out.bySource[p.fold(t.Source)], out.byTarget[target] = len(out.Tables), len(out.Tables)
		out.Tables = append(out.Tables, as)
	}
	return &out, nil
}

// As returns the table as a delivery stream with settings of its own delivers
// it: in another mode, to another database, to a name with a suffix. Empty
// arguments keep what the pipeline file says. Of the partition fields it keeps
// those that the table can have in that mode.
func (t *Table) As(mode Mode, database, suffix string) (*Table, error) {
	out := *t
	switch mode {
	case "":
	case Mirror, Changelog:
		out.Mode = mode
	default:
		return nil, fmt.Errorf("deliver table %s: mode: want mirror or changelog, got %q", t.Source, mode)
	}
	if database != "" {
		out.database = database
	}
	out.name += suffix
	if !lakeName.MatchString(out.database) || !lakeName.MatchString(out.name) {
		return nil, fmt.Errorf("deliver table %s: target: want lower-case names of letters, digits and underscores, got %q",
			t.Source, out.database+"."+out.name)
	}
	if ReservedTable(out.database) || ReservedTable(out.name) {
		return nil, fmt.Errorf("deliver table %s: target %s.%s: a reserved word, and Athena's OPTIMIZE and VACUUM take no quotes", t.Source, out.database, out.name)
	}
	out.partitionBy(t.Partition)
	if out.Mode == Mirror && len(out.Key) > 0 && out.Position.Source == cdc.SourceNone {
		return nil, fmt.Errorf("deliver table %s: a mirror with a key needs a position", t.Source)
	}
	return &out, nil
}
