package catalog

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Names returns the lake names that rows may call the column by, its own first: a
// row of a changelog lists what its change did not carry by the names of its day.
func (c *Column) Names() []string {
	names := []string{c.Name}
	if c.RenamedFrom != "" {
		names = append(names, c.RenamedFrom)
	}
	return append(names, c.FormerNames...)
}

// Named returns the index of the column that has the name, or had it before; -1 for
// none. A name that a column has now is that column's alone.
func Named(columns []Column, name string) int {
	if at := slices.IndexFunc(columns, func(c Column) bool { return c.Name == name }); at >= 0 {
		return at
	}
	return slices.IndexFunc(columns, func(c Column) bool { return slices.Contains(c.Names(), name) })
}

// AppendAbsent appends the indexes of the columns that a text of cdc_absent lists,
// each once. It passes over a name that no column has or had: of a column that is
// gone, whose values nobody asks for.
func AppendAbsent(dst []int, columns []Column, text []byte) ([]int, error) {
	if len(text) == 0 {
		return dst, nil
	}
	first := len(dst)
	for name := range bytes.SplitSeq(text, []byte{','}) {
		switch at := Named(columns, string(name)); {
		case at >= 0:
			if !slices.Contains(dst[first:], at) {
				dst = append(dst, at)
			}
		case !lakeName.Match(name) || strings.HasPrefix(string(name), "cdc_"):
			return dst, fmt.Errorf("%s is not a list of names of columns", ColumnAbsent)
		}
	}
	return dst, nil
}
