package catalog

import (
	"fmt"

	"icehose/cdc"
)

// As returns the table as a delivery stream with settings of its own delivers
// it: in another mode, to another database, to a name with a suffix. Empty
// arguments keep what the pipeline file says.
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
	if out.Mode == Mirror && len(out.Key) > 0 && out.Position.Source == cdc.SourceNone {
		return nil, fmt.Errorf("deliver table %s: a mirror with a key needs a position", t.Source)
	}
	return &out, nil
}
