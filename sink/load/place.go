package load

import (
	"fmt"
	"slices"
	"strings"

	"icehose/catalog"
)

// Place finds the columns of a table among the names that a source has: one
// with a source: in its exact spelling, another in any spelling that
// lower-cases to its name. Names that no column has are left out. It returns
// the place in names of each column.
func Place(columns []*catalog.Column, names []string) ([]int, error) {
	exact := make(map[string]bool)
	for _, c := range columns {
		exact[c.Source] = true
	}
	places := make([]int, len(columns))
	for i, c := range columns {
		matches := func(name string) bool {
			if c.Source != "" {
				return name == c.Source
			}
			return strings.ToLower(name) == c.Name && !exact[name]
		}
		places[i] = slices.IndexFunc(names, matches)
		if places[i] < 0 {
			return nil, fmt.Errorf("the source has no column %s", c.Name)
		}
		if c.Source == "" && slices.ContainsFunc(names[places[i]+1:], matches) {
			return nil, fmt.Errorf("column %s: the source has it in two spellings: a source: in the pipeline file says which", c.Name)
		}
	}
	return places, nil
}
