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
// delivered again may have been made a row by another pipeline file; or, where rows
// may share one, its last row.
func (f *fold) unkeyedRows(from, more string) string {
	if f.distinct {
		from = f.lastOf(from)
	}
	return fmt.Sprintf(`SELECT
%s%s
FROM %s AS c
CROSS JOIN newest AS n
WHERE %s
GROUP BY c.%s`, f.unkeyedColumns(), more, from, f.inserted(), f.d.quote(catalog.ColumnPosition))
}

func (f *fold) unkeyedCount() string {
	position := f.d.quote(catalog.ColumnPosition)
	return fmt.Sprintf(`SELECT
  count(CASE WHEN NOT s.cdc_ghost AND (t.%[1]s IS NULL OR (${rebuild} AND %[3]s) OR %[4]s) THEN 1 END) AS cdc_changed,
  count(CASE WHEN s.cdc_ghost AND t.%[1]s IS NOT NULL THEN 1 END) AS cdc_deleted
FROM ${changes} AS s
LEFT JOIN %[2]s AS t ON t.%[1]s = s.%[1]s`, position, f.d.table(f.t, foldedSuffix), f.d.differ(f.others()), f.rises())
}

// rises says that a row of the current table changes, and raises to what: without
// all rows of its position at hand each column becomes the greater of two.
func (f *fold) rises() string {
	if f.distinct {
		return f.d.differ(f.others())
	}
	return f.d.rises(f.others())
}

func (f *fold) raises() string {
	if f.distinct {
		return f.d.sets(f.others())
	}
	return f.d.raises(f.others())
}

// unkeyedChanges lists the new rows that count, and the ghosts: rows of the
// current table that a reload has replaced.
func (f *fold) unkeyedChanges() ([]cte, string) {
	position := f.d.quote(catalog.ColumnPosition)
	names := f.d.list(viewColumnNames(f.t), "c.")
	added := "${added}"
	if f.distinct { // which of the rows of a position is the last one, all of them tell
		added = fmt.Sprintf("(SELECT w.* FROM %[1]s AS w WHERE w.%[2]s IN (SELECT n.%[2]s FROM ${added} AS n))", f.log, position)
	}
	return []cte{f.newest()}, fmt.Sprintf(`%s
UNION ALL
SELECT %s, true
FROM %s AS c
CROSS JOIN newest AS n
WHERE NOT %s
  OR (${rebuild} AND c.%s NOT IN (SELECT %s FROM %s))`, f.unkeyedRows(added, ", false AS cdc_ghost"), names, f.d.table(f.t, foldedSuffix), counts("c."+position),
		position, position, f.log)
}

func (f *fold) unkeyedApply() string {
	d := f.d
	names := viewColumnNames(f.t)
	return fmt.Sprintf(`MERGE INTO %[1]s AS t
USING (SELECT * FROM ${changes} AS r WHERE ${fence}) AS s
ON t.%[2]s = s.%[2]s
WHEN MATCHED AND s.cdc_ghost THEN DELETE
WHEN MATCHED AND ${rebuild} AND %[6]s THEN UPDATE SET
  %[5]s
WHEN MATCHED AND NOT ${rebuild} AND %[7]s THEN UPDATE SET
  %[8]s
WHEN NOT MATCHED AND NOT s.cdc_ghost THEN INSERT (%[3]s)
  VALUES (%[4]s)`, d.table(f.t, foldedSuffix), d.quote(catalog.ColumnPosition), d.list(names, ""), d.list(names, "s."), d.sets(f.others()),
		d.differ(f.others()), f.rises(), f.raises())
}
