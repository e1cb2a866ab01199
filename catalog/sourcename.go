package catalog

import (
	"fmt"
	"strings"
)

// SourceNames finds the columns of a table by the names that its source has for
// them. It is the one rule for records, live rows, dumps and schemas: a source:
// counts exactly as it is spelled, also that of an excluded column, and takes
// its name from all others; a column without one takes every name left that
// lower-cases to its own.
type SourceNames struct {
	exact, folded map[string]int // index in Table.Columns
}

// SourceNames returns those of the table. A column that is nil has none.
func (t *Table) SourceNames() SourceNames {
	n := SourceNames{exact: make(map[string]int), folded: make(map[string]int)}
	for i, c := range t.Columns {
		switch {
		case c == nil:
		case c.Source != "":
			n.exact[c.Source] = i
		default:
			n.folded[c.Name] = i
		}
	}
	return n
}

// Find returns the index in Table.Columns of the column that a name is for; -1
// when the file has none.
func (n SourceNames) Find(name string) int {
	if i, ok := n.exact[name]; ok {
		return i
	}
	if i, ok := n.folded[strings.ToLower(name)]; ok {
		return i
	}
	return -1
}

// PlaceColumns returns the place in names, which are all that a source has, of
// each column of the lake that comes from the source, in order. A column that is
// there in two spellings is an error, as it is in a record. Names of no column
// are passed over.
func (t *Table) PlaceColumns(names []string) ([]int, error) {
	source := t.SourceNames()
	found := make(map[int][]int)
	for at, name := range names {
		if i := source.Find(name); i >= 0 {
			found[i] = append(found[i], at)
		}
	}
	var places []int
	for i, c := range t.Columns {
		if c.Exclude {
			continue
		}
		switch at := found[i]; {
		case len(at) == 0:
			return nil, fmt.Errorf("the source has no column %s", c.Name)
		case len(at) > 1 && names[at[0]] == names[at[1]]:
			return nil, fmt.Errorf("column %s: the source has it twice", c.Name)
		case len(at) > 1:
			return nil, fmt.Errorf("column %s: the source has it in two spellings: a source: in the pipeline file says which", c.Name)
		default:
			places = append(places, at[0])
		}
	}
	return places, nil
}
