package merge

import (
	"fmt"

	"icehose/catalog"
)

// unfinished warns of a reload that the current table of a changelog without a key
// shows while it arrives: from its first row on, what was below its floor is gone.
func unfinished(t *catalog.Table) []string {
	if len(t.Key) > 0 || !t.LoadOpen() {
		return nil
	}
	return []string{fmt.Sprintf("the load of floor %s is not finished: from its first row on the current table, which has no key, holds what has come of it and the changes above it, "+
		"and nothing from before. If the load was given up, delete its rows (cdc_operation load, of that floor) from the changelog, take it out of loads: and merge with --rebuild; "+
		"or load anew", t.Loads[len(t.Loads)-1].Floor)}
}
