package reconcile

import (
	"fmt"
	"slices"

	"icehose/catalog"
)

// choose returns the tables that are compared, in the order of the pipeline file.
func choose(p *catalog.Pipeline, o *Options) ([]*catalog.Table, error) {
	known := func(name string) error {
		if !slices.ContainsFunc(p.Tables, func(t *catalog.Table) bool { return t.Source == name }) {
			return fmt.Errorf("the pipeline file has no table %q", name)
		}
		return nil
	}
	for _, name := range o.Tables {
		if err := known(name); err != nil {
			return nil, err
		}
	}
	for name := range o.Keys {
		if err := known(name); err != nil {
			return nil, err
		}
	}
	var tables []*catalog.Table
	for _, t := range p.Tables {
		_, keyed := o.Keys[t.Source]
		named := len(o.Tables) == 0 || slices.Contains(o.Tables, t.Source)
		if named && (keyed || o.Keys == nil) {
			tables = append(tables, t)
		}
	}
	return tables, nil
}

// only names the tables of a run, nil if they are all of the pipeline file.
func only(p *catalog.Pipeline, tables []*catalog.Table) (names []string) {
	if len(tables) == len(p.Tables) {
		return nil
	}
	for _, t := range tables {
		names = append(names, t.Source)
	}
	return names
}
