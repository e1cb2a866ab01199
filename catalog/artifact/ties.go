package artifact

import (
	"fmt"
	"slices"
	"strings"

	"icehose/catalog"
)

// Where two changes of one row may have one position, each row gets an order: the
// position, and orderDigits of its rank among the rows of the same key and position,
// by what sink.Folder's Distinct says.
const (
	tieOrder    = "cdc_order"
	orderDigits = 10
)

// order renders by what the rows c of a source are ordered.
func (f *fold) order() string {
	if f.distinct {
		return "c." + tieOrder
	}
	return "c." + f.d.quote(catalog.ColumnPosition)
}

// positionIn renders the position in an order.
func (f *fold) positionIn(order string) string {
	if f.distinct {
		return fmt.Sprintf("substr(%[1]s, 1, length(%[1]s) - %[2]d)", order, orderDigits)
	}
	return order
}

// ranked renders the rank of a row c among those for which some expressions are the
// same: of the earliest it is 1, or of the latest. time is its commit time.
func (f *fold) ranked(same []string, time string, latestFirst bool) string {
	direction := " ASC NULLS FIRST"
	if latestFirst {
		direction = " DESC NULLS LAST"
	}
	by := []string{time + direction}
	for i, c := range f.columns {
		if f.t.IsKey(c.Name) {
			continue
		}
		if f.isPartial(i) {
			by = append(by, fmt.Sprintf("CASE WHEN %s THEN 0 ELSE 1 END%s", f.d.listed(&f.columns[i]), direction))
		}
		by = append(by, f.filled(i, "c."+f.d.quote(c.Name))+direction)
	}
	by = append(by, "c."+f.d.quote(catalog.ColumnOldKey)+direction)
	return fmt.Sprintf("row_number() OVER (PARTITION BY %s\n    ORDER BY %s)", strings.Join(same, ", "), strings.Join(by, ", "))
}

// ordered is a relation c as one whose rows have cdc_order, if that is needed; keys
// are the key of a row.
func (f *fold) ordered(relation string, keys []string, time, where string) string {
	if !f.distinct {
		return relation
	}
	same := append(slices.Clone(keys), "c."+f.d.quote(catalog.ColumnPosition))
	rank := fmt.Sprintf("lpad(CAST(%s AS %s), %d, '0')", f.ranked(same, time, false), f.d.typeName(catalog.Type{Kind: catalog.String}), orderDigits)
	return fmt.Sprintf("(\n  SELECT c.*, concat(c.%s, %s) AS %s\n  FROM %s AS c%s\n)", f.d.quote(catalog.ColumnPosition), rank, tieOrder, relation, where)
}

// rows is the changelog as the rows of keys that give columns.
func (f *fold) rows() string {
	return f.ordered(f.log, f.keys("c."), f.committed(), fmt.Sprintf("\n  WHERE c.%s <> 'delete'", f.d.quote(catalog.ColumnOperation)))
}

func (f *fold) committed() string { return "c." + f.d.quote(catalog.ColumnCommittedAt) }

// lastOf is a relation c with the last row of each position alone.
func (f *fold) lastOf(relation string) string {
	position := "c." + f.d.quote(catalog.ColumnPosition)
	rank := f.ranked([]string{position}, f.committed(), true)
	return fmt.Sprintf("(\n  SELECT *\n  FROM (\n    SELECT c.*, %s AS %s\n    FROM %s AS c\n    WHERE c.%s IN ('load', 'insert')\n  ) AS c\n  WHERE c.%[2]s = 1\n)",
		rank, tieOrder, relation, f.d.quote(catalog.ColumnOperation))
}

// onceDistinct is once where rows of one position are changes of their own.
func (f *fold) onceDistinct() string {
	d := f.d
	position, operation, oldKey := d.quote(catalog.ColumnPosition), "c."+d.quote(catalog.ColumnOperation), d.quote(catalog.ColumnOldKey)
	ends := operation + " IN ('delete', 'moved')"
	a := &aggregate{inner: []string{fmt.Sprintf("max(%s) FILTER (WHERE NOT %s) AS %s", f.order(), ends, tieOrder)}}
	for i, c := range f.columns {
		expression := f.filled(i, "c."+d.quote(c.Name))
		switch {
		case f.t.IsKey(c.Name):
		case f.isPartial(i):
			carries, carried := fmt.Sprintf("NOT %s AND NOT %s", ends, d.listed(&f.columns[i])), fmt.Sprintf("cdc_carried_%d", i)
			a.inner = append(a.inner, fmt.Sprintf("max(%s) FILTER (WHERE %s) AS %s", f.order(), carries, carried))
			f.newestValue(a, i, expression, f.defaults[i] == "", carries, carried, c.Name)
			a.outer = append(a.outer, fmt.Sprintf("a.%[1]s IS NOT NULL AS %[1]s", carried))
		default:
			f.newestValue(a, i, expression, f.defaults[i] == "", "NOT "+ends, tieOrder, c.Name)
		}
	}
	a.inner = append(a.inner, "max(c.cdc_time) AS cdc_time",
		fmt.Sprintf("CASE WHEN count(CASE WHEN %s THEN 1 END) > 0 THEN 'delete' ELSE max(%s) END AS %s", ends, operation, d.quote(catalog.ColumnOperation)),
		fmt.Sprintf("max(c.%[1]s) AS %[1]s", oldKey))
	a.outer = append(a.outer, "a.cdc_time", "a."+d.quote(catalog.ColumnOperation), "a."+oldKey)
	keys := qualified(d, f.t.Key, "c.")
	group := strings.Join(keys, ", ") + ", c." + position
	return a.query(group, d.list(f.t.Key, "a.")+", a."+position, "FROM "+f.ordered("events", keys, "c.cdc_time", "")+" AS c", group)
}
