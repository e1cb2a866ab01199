package discover

import (
	"fmt"
	"slices"
	"strings"

	"icehose/catalog"
)

// compareKey notes a key that is not the source's.
func (u *updater) compareKey(fresh *proposal, have *catalog.Table, columns []*catalog.SourceColumn) {
	t := fresh.source
	var sources []string
	for _, k := range have.Key {
		i := slices.IndexFunc(have.Columns, func(c *catalog.Column) bool { return c != nil && c.Name == k })
		if i < 0 {
			continue // Parse says so, with the line
		}
		if s := columns[i]; s != nil {
			sources = append(sources, s.Name)
		}
	}
	switch {
	case len(t.Key) == 0 && len(have.Key) == 0:
	case len(t.Key) == 0:
		u.note(Note{
			Kind: Attention, Table: t.FullName(), Text: fmt.Sprintf("the source has no primary key, the file has key [%s]", strings.Join(have.Key, ", ")),
			Meanwhile: "DMS sends no updates and deletes of a table without a primary key", Edit: "give the source a primary key, or make the table a changelog without key:",
		})
	case len(have.Key) == 0:
		alone := &updater{name: u.name, schema: u.schema, options: u.options}
		p := described(fresh, have, columns)
		if alone.proposeKey(p, t); len(p.key) == 0 {
			return // it was proposed without one, for a reason that stands
		}
		u.note(Note{
			Kind: Attention, Table: t.FullName(), Text: fmt.Sprintf("the source has the primary key [%s], the file has none", strings.Join(t.Key, ", ")),
			Meanwhile: "rows are told apart by their position alone", Edit: "write key:, and load the table anew",
		})
	default:
		u.compareKeys(have, t, sources)
	}
}

// compareKeys notes the columns that one of two keys has and the other has not.
// They do different harm. A column that the source's key has lost is missing in
// deletes, which fail. One that it has gained tells rows apart that are one row
// by the file's key, and nothing fails. In which order a key has its columns
// does not matter.
func (u *updater) compareKeys(have *catalog.Table, t *catalog.SourceTable, sources []string) {
	without := func(from, other []string) []string {
		return slices.DeleteFunc(slices.Clone(from), func(k string) bool { return slices.Contains(other, k) })
	}
	lost, gained := without(sources, t.Key), without(t.Key, sources)
	var meanwhile []string
	if len(gained) > 0 {
		harm := "overwrite each other, a delete of one removes all of them"
		if have.Mode == catalog.Changelog {
			harm = "are folded into one"
		}
		meanwhile = append(meanwhile, fmt.Sprintf("rows that differ in %s alone are one row by the file's key: they %s, and nothing fails", list(gained), harm))
	}
	if len(lost) > 0 {
		harm := "deletes, which carry only the source's key, fail missing_key"
		if t.ReplicaIdentity == catalog.IdentityFull {
			harm = fmt.Sprintf("an update that changes %s leaves the row with its old key in the lake", list(lost))
		}
		meanwhile = append(meanwhile, harm)
	}
	if len(meanwhile) == 0 {
		return
	}
	n := Note{
		Kind: Attention, Table: t.FullName(),
		Text:      fmt.Sprintf("the primary key is [%s] in the source and [%s] in the file", strings.Join(t.Key, ", "), strings.Join(sources, ", ")),
		Meanwhile: strings.Join(meanwhile, "; "), Edit: "change key:, and load the table anew",
	}
	if len(gained) > 0 {
		n.Edit = "stop the stream of the table now; then change key:, and load the table anew into a new lake table"
	}
	u.note(n)
}
