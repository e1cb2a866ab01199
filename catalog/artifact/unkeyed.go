package artifact

import (
	"fmt"
	"strings"

	"icehose/catalog"
	"icehose/cdc"
)

// newest is the floor of the newest load of a table without a key.
func (f *fold) newest() cte {
	position := "c." + f.d.quote(catalog.ColumnPosition)
	return cte{"newest", fmt.Sprintf("SELECT max(%s) AS cdc_floor\nFROM %s AS c\nWHERE %s", floorOf(position), f.log, isLoad(position))}
}

func floorOf(position string) string { return fmt.Sprintf("substr(%s, 1, %d)", position, floorLength) }

func isLoad(position string) string { return fmt.Sprintf("substr(%s, %d, 1) = '0'", position, rankAt) }

// counts says that a row at a position belongs to the newest load or lies above it.
func counts(position string) string {
	return fmt.Sprintf(`(
  n.cdc_floor IS NULL
  OR (%[1]s AND %[2]s = n.cdc_floor)
  OR (NOT %[1]s AND (%[2]s > n.cdc_floor OR (%[2]s = n.cdc_floor AND substr(%[3]s, %[4]d, 32) = '%[5]s')))
)`, isLoad(position), floorOf(position), position, bodyStart, cdc.Body{})
}

// inserted says that a row of the changelog is a current one.
func (f *fold) inserted() string {
	return fmt.Sprintf("c.%s IN ('load', 'insert')\n  AND %s", f.d.quote(catalog.ColumnOperation), counts("c."+f.d.quote(catalog.ColumnPosition)))
}

// unkeyedColumns aggregates the columns of the rows of one position.
func (f *fold) unkeyedColumns() string {
	var b strings.Builder
	for i, c := range f.columns {
		fmt.Fprintf(&b, "  %s,\n", f.named(f.d.folded("max("+f.filled(i, "c."+f.d.quote(c.Name))+")", c.Type), c.Name))
	}
	return b.String() + f.metadata("c."+f.d.quote(catalog.ColumnPosition), "max(c."+f.d.quote(catalog.ColumnCommittedAt)+")")
}

// unkeyedRows selects the current rows among those of a relation: one of each
// position, whose columns have the greatest values, since a record that was
// delivered again may have been made a row by another pipeline file.
func (f *fold) unkeyedRows(from, more string) string {
	return fmt.Sprintf(`SELECT
%s%s
FROM %s AS c
CROSS JOIN newest AS n
WHERE %s
GROUP BY c.%s`, f.unkeyedColumns(), more, from, f.inserted(), f.d.quote(catalog.ColumnPosition))
}
