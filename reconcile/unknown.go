package reconcile

import (
	"slices"

	"icehose/catalog"
)

// UnknownColumns returns those of the names, which are all that a source's table
// has, that no column of the pipeline file is for: Pinned.Unknown of a source. A
// column that is excluded or masked is known.
func UnknownColumns(t *catalog.Table, names []string) []string {
	known := t.SourceNames()
	var unknown []string
	for _, name := range names {
		if known.Find(name) < 0 {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}
