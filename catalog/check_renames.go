package catalog

import (
	"fmt"
	"strings"
)

// renames checks that every renamed_from means one column of the lake table, and
// one that no other column of the file means. An excluded column means none. The
// same goes for former_names.
func (c *checker) renames(field string, t *Table) {
	r := &renames{checker: c, names: make(map[string]int), renamed: make(map[string]int)}
	for i, col := range t.Columns {
		if col != nil && !col.Exclude {
			r.names[col.Name] = i
		}
	}
	for i, col := range t.Columns {
		if col == nil {
			continue
		}
		place := fmt.Sprintf("%s.columns[%d].", field, i)
		if col.RenamedFrom != "" {
			r.check(place+"renamed_from", "renamed_from", col.RenamedFrom, i, col,
				"remove renamed_from when the rename has been applied; otherwise rename in two steps, with an apply between them")
		}
		for j, name := range col.FormerNames {
			r.check(fmt.Sprintf("%sformer_names[%d]", place, j), "this name", name, i, col,
				"a row of a changelog that lists it in "+ColumnAbsent+" could mean either of the two: give that column another name, or, where the table is a mirror, remove this one")
		}
	}
}

// renames are the names of a table's columns.
type renames struct {
	*checker
	names, renamed map[string]int // name, now or before -> index of the column
}

// check checks one earlier name of a column; remove says what to remove, and other
// what to do where another column has the name.
func (r *renames) check(place, remove, from string, i int, col *Column, other string) {
	named, isName := r.names[from]
	first, twice := r.renamed[from]
	switch {
	case !lakeName.MatchString(from):
		r.fail(place, from, "want the name that the column had in the lake: lower-case letters, digits and underscores")
	case strings.HasPrefix(from, "cdc_"):
		r.fail(place, from, "a metadata column of every lake table: want the name that the column itself had in the lake")
	case from == col.Name:
		r.fail(place, from, "the name that the column has now: remove %s, or write the name it had before", remove)
	case col.Exclude:
		r.fail(place, from, "the column is excluded, so the lake has nothing to rename: remove %s", remove)
	case isName:
		r.fail(place, from, "columns[%d] has this name: %s", named, other)
	case twice && first == i:
		r.fail(place, from, "named twice: remove %s", remove)
	case twice:
		r.fail(place, from, "columns[%d] is renamed from it too: a column becomes one column, so remove %s from one of the two", first, remove)
	default:
		r.renamed[from] = i
	}
}
