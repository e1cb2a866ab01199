package catalog

import (
	"fmt"
	"slices"
)

// CurrentSuffix is what the name of a changelog's current table has more: the
// table of its current rows, which merges keep.
const CurrentSuffix = "_folded"

// ColumnUnresolved lists the columns of a current row whose value the changelog
// does not give, comma-separated; null for none.
const ColumnUnresolved = "cdc_unresolved"

// Current returns the definition of a changelog's current table: a mirror with
// the same key, or keyed by the position if the changelog has none. Its rows
// are never delivered, only merged.
func (t *Table) Current() *Table {
	lake, data := t.LakeColumns()
	c := &Table{
		Source: t.Source, Target: t.Target, Mode: Mirror, Key: slices.Clone(t.Key), Position: t.Position, PositionText: t.PositionText, Readers: t.Readers,
		database: t.database, name: t.name + CurrentSuffix, keyColumns: nil,
	}
	for _, column := range lake[:data] {
		column.Mask, column.MayBeUnchanged, column.RenamedFrom = "", false, ""
		c.Columns = append(c.Columns, &column)
	}
	if len(t.Key) == 0 {
		c.Key = []string{ColumnPosition}
		return c
	}
	c.Columns = append(c.Columns, &Column{Name: ColumnUnresolved, Type: Type{Kind: String}})
	for _, name := range c.Key {
		c.keyColumns = append(c.keyColumns, slices.IndexFunc(c.Columns, func(column *Column) bool { return column.Name == name }))
	}
	return c
}

// currentTables refuses a table that has the name of a changelog's current table:
// icehose merge would write into it.
func (c *checker) currentTables(p *Pipeline) {
	for i, t := range p.Tables {
		if t == nil || t.Mode != Changelog {
			continue
		}
		name := t.database + "." + t.name + CurrentSuffix
		if j, ok := p.byTarget[name]; ok {
			c.fail(fmt.Sprintf("tables[%d]%s", j, c.targetField(p.Tables[j])), name,
				"the current table that icehose merge makes of tables[%d], the changelog %s, has this name: give one of the two another target:", i, t.Source)
		}
	}
}
