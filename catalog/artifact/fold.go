package artifact

import (
	"errors"
	"fmt"
	"strings"

	"icehose/catalog"
	"icehose/cdc"
)

// Where a position's parts are, counted from 1 as SQL does: epoch and body are
// the floor, and a load has rank 0.
const (
	floorLength = 4 + 1 + 32
	bodyStart   = 4 + 1 + 1
	rankAt      = floorLength + 1 + 1
)

// currentView is the statement that creates the view of a table's current rows:
// the fold of a changelog, or a mirror with the defaults of later columns.
//
// The fold is that of sink.Folder with one exception that the view shows:
// sink.Folder looks up what a key change left out in the row of the old key,
// and the view lists such a column in cdc_unresolved.
func currentView(d dialect, t *catalog.Table) ([]byte, error) {
	columns, data := t.LakeColumns()
	v := &view{d: d, t: t, columns: columns[:data]}
	for i := range v.columns {
		c := &v.columns[i]
		fill := ""
		if c.Default != nil {
			if c.Mask != "" {
				return nil, fmt.Errorf("default of column %s: the column is masked, and its default would not be", c.Name)
			}
			if t.IsKey(c.Name) {
				return nil, fmt.Errorf("default of column %s: a key column is never null", c.Name)
			}
			if !c.NotNull {
				return nil, fmt.Errorf("default of column %s: without not_null: true a null of the source cannot be told from one of an older row", c.Name)
			}
			var err error
			if fill, err = d.defaultOf(c); err != nil {
				return nil, err
			}
		}
		v.defaults = append(v.defaults, fill)
	}
	var b strings.Builder
	if hasDefaults(v.columns) {
		b.WriteString("-- A column with a default was added later: null in older rows means the default.\n")
	}
	switch {
	case t.Mode == catalog.Mirror:
		v.mirror(&b)
	case len(t.Key) > 0:
		v.keyed(&b)
	case t.Mode == catalog.Changelog:
		v.unkeyed(&b)
	default:
		return nil, errors.New("no view for mode " + string(t.Mode))
	}
	return []byte(b.String()), nil
}

// A view writes one statement.
type view struct {
	d        dialect
	t        *catalog.Table
	columns  []catalog.Column // the source's
	defaults []string         // per column; empty for none
}

// result renders column i of the view from an expression of its stored value.
func (v *view) result(i int, expression string) string {
	c := &v.columns[i]
	if v.defaults[i] != "" {
		expression = "coalesce(" + expression + ", " + v.defaults[i] + ")"
	}
	folded := v.d.folded(expression, c.Type)
	if folded == v.d.quote(c.Name) {
		return folded
	}
	return folded + " AS " + v.d.quote(c.Name)
}

// metadata renders the two metadata columns that the view keeps.
func (v *view) metadata(position, committed string) string {
	return fmt.Sprintf("  %s AS %s,\n  %s AS %s", position, v.d.quote(catalog.ColumnPosition),
		v.d.folded(committed, catalog.Type{Kind: catalog.TimestampTZ}), v.d.quote(catalog.ColumnCommittedAt))
}

func (v *view) create(b *strings.Builder) {
	if v.d == spark {
		b.WriteString("-- Where the catalog has no views, make it a TEMPORARY VIEW, without the database.\n")
	}
	fmt.Fprintf(b, "CREATE OR REPLACE VIEW %s AS\n", v.d.table(v.t, currentSuffix))
}

func (v *view) mirror(b *strings.Builder) {
	v.create(b)
	b.WriteString("SELECT\n")
	for i, c := range v.columns {
		fmt.Fprintf(b, "  %s,\n", v.result(i, v.d.quote(c.Name)))
	}
	fmt.Fprintf(b, "%s\nFROM %s;\n", v.metadata(v.d.quote(catalog.ColumnPosition), v.d.quote(catalog.ColumnCommittedAt)), v.d.table(v.t, ""))
}

// keyed folds by key: a row lives if its position is above every end of its
// key, and each column has the value of the latest change that carries it.
func (v *view) keyed(b *strings.Builder) {
	d, table := v.d, v.d.table(v.t, "")
	position, operation, oldKey := d.quote(catalog.ColumnPosition), d.quote(catalog.ColumnOperation), d.quote(catalog.ColumnOldKey)
	b.WriteString("-- Current rows: per key the changes above its last end (a delete, or a key change\n" +
		"-- away from it), per column the latest that carries it. cdc_unresolved lists columns\n" +
		"-- whose value no change of this key carries.\n")
	v.create(b)
	key := d.list(v.t.Key, "")
	fmt.Fprintf(b, `WITH ended AS (
  SELECT %[1]s, max(%[2]s) AS cdc_ended
  FROM (
    SELECT %[1]s, %[2]s
    FROM %[3]s
    WHERE %[4]s = 'delete'
    UNION ALL
    SELECT %[5]s, %[2]s
    FROM %[3]s
    WHERE %[6]s IS NOT NULL AND %[4]s <> 'delete'
  ) AS ends
  GROUP BY %[1]s
),
alive AS (
  SELECT c.*
  FROM %[3]s AS c
  LEFT JOIN ended AS e ON %[7]s
  WHERE c.%[4]s <> 'delete' AND (e.cdc_ended IS NULL OR c.%[2]s > e.cdc_ended)
)
SELECT
`, key, position, table, operation, oldKeys(d, v.t, false), oldKey, d.equal(v.t.Key, "c.", "e."))
	var missing []string
	for i, c := range v.columns {
		name := d.quote(c.Name)
		switch {
		case v.t.IsKey(c.Name):
			fmt.Fprintf(b, "  %s,\n", v.result(i, name))
		case c.MayBeUnchanged:
			// What a key change left out lies in the row of the old key: it ends the search.
			known := fmt.Sprintf("FILTER (WHERE NOT %s OR %s IS NOT NULL)", d.listed(c.Name), oldKey)
			unknown := fmt.Sprintf("coalesce(max_by(%s, %s) %s, true)", d.listed(c.Name), position, known)
			value := fmt.Sprintf("max_by(%s, %s) %s", name, position, known)
			if v.defaults[i] != "" { // what is not known is not the default
				value = fmt.Sprintf("CASE WHEN NOT %s THEN coalesce(%s, %s) END", unknown, value, v.defaults[i])
				fmt.Fprintf(b, "  %s AS %s,\n", d.folded(value, c.Type), name)
			} else {
				fmt.Fprintf(b, "  %s,\n", v.result(i, value))
			}
			missing = append(missing, fmt.Sprintf("CASE WHEN %s THEN '%s' END", unknown, c.Name))
		default:
			fmt.Fprintf(b, "  %s,\n", v.result(i, fmt.Sprintf("max_by(%s, %s)", name, position)))
		}
	}
	fmt.Fprintf(b, "%s,\n", v.metadata("max("+position+")", fmt.Sprintf("max_by(%s, %s)", d.quote(catalog.ColumnCommittedAt), position)))
	lacking := "CAST(NULL AS " + d.typeName(catalog.Type{Kind: catalog.String}) + ")"
	if len(missing) > 0 {
		lacking = d.joined(missing)
	}
	fmt.Fprintf(b, "  %s AS %s\nFROM alive\nGROUP BY %s;\n", lacking, d.quote(unresolved), key)
}

// oldKeys renders the key before a key change, as the key's columns.
func oldKeys(d dialect, t *catalog.Table, folded bool) string {
	parts := make([]string, len(t.Key))
	for n, at := range t.KeyColumns() {
		c := t.Columns[at]
		expression := d.oldKey(n, c.Type)
		if folded {
			expression = d.folded(expression, c.Type)
		}
		parts[n] = expression + " AS " + d.quote(c.Name)
	}
	return strings.Join(parts, ", ")
}

// unkeyed keeps the rows of the newest load and of the inserts after it; a row
// is identified by its position.
func (v *view) unkeyed(b *strings.Builder) {
	d, table := v.d, v.d.table(v.t, "")
	position := d.quote(catalog.ColumnPosition)
	floor := fmt.Sprintf("substr(%s, 1, %d)", position, floorLength)
	isLoad := fmt.Sprintf("substr(%s, %d, 1) = '0'", position, rankAt)
	b.WriteString("-- Current rows of a table without a key: the newest load and the inserts after it,\n" +
		"-- each once, however often it was delivered. An update or a delete of such a table\n" +
		"-- means nothing, since nothing says of which row it speaks.\n")
	v.create(b)
	fmt.Fprintf(b, `WITH newest AS (
  SELECT max(%[1]s) AS cdc_floor
  FROM %[2]s
  WHERE %[3]s
)
SELECT DISTINCT
`, floor, table, isLoad)
	for i, c := range v.columns {
		fmt.Fprintf(b, "  %s,\n", v.result(i, d.quote(c.Name)))
	}
	fmt.Fprintf(b, `%s
FROM %s AS c
CROSS JOIN newest AS n
WHERE %s IN ('load', 'insert')
  AND (
    n.cdc_floor IS NULL
    OR (%[4]s AND %[5]s = n.cdc_floor)
    OR (NOT %[4]s AND (%[5]s > n.cdc_floor OR (%[5]s = n.cdc_floor AND substr(%[6]s, %[7]d, 32) = '%[8]s')))
  );
`, v.metadata(position, d.quote(catalog.ColumnCommittedAt)), table, d.quote(catalog.ColumnOperation), isLoad, floor, position, bodyStart, cdc.Body{})
}

// mergeStatement brings the folded table up to date with the view for every key
// that has changed lately. It folds those keys anew, so it may be run twice, and
// changes may come in any order.
func mergeStatement(d dialect, t *catalog.Table) []byte {
	var b strings.Builder
	b.WriteString("-- Brings the folded table up to date for the keys that changed within the window.\n" +
		"-- Run it without the line marked WINDOW the first time, after a load or a reload,\n" +
		"-- and after deliveries that were late by more than the window.\n")
	if len(t.Key) == 0 {
		b.WriteString("-- Before the run after a reload, empty the folded table.\n")
	}
	columns := viewColumns(t)
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	window := fmt.Sprintf("WHERE %s >= current_timestamp - INTERVAL '7' DAY -- WINDOW", d.quote(catalog.ColumnCommittedAt))
	fmt.Fprintf(&b, "MERGE INTO %s AS t\nUSING (\n", d.table(t, foldedSuffix))
	if len(t.Key) == 0 {
		if d == athena { // the view's times have no zone there
			window = fmt.Sprintf("WHERE %s >= CAST(current_timestamp AT TIME ZONE 'UTC' AS timestamp(6)) - INTERVAL '7' DAY -- WINDOW", d.quote(catalog.ColumnCommittedAt))
		}
		fmt.Fprintf(&b, "  SELECT *\n  FROM %s\n  %s\n) AS s\nON t.%[3]s = s.%[3]s\n", d.table(t, currentSuffix), window, d.quote(catalog.ColumnPosition))
		fmt.Fprintf(&b, "WHEN NOT MATCHED THEN INSERT (%s)\n  VALUES (%s);\n", d.list(names, ""), d.list(names, "s."))
		return []byte(b.String())
	}
	key := make([]string, len(t.Key))
	for n, at := range t.KeyColumns() {
		key[n] = d.folded(d.quote(t.Key[n]), t.Columns[at].Type) + " AS " + d.quote(t.Key[n])
	}
	var rest []string
	for _, name := range names {
		if !t.IsKey(name) {
			rest = append(rest, name)
		}
	}
	fmt.Fprintf(&b, `  WITH recent AS (
    SELECT *
    FROM %[1]s
    %[2]s
  ),
  touched AS (
    SELECT %[3]s
    FROM recent
    UNION
    SELECT %[4]s
    FROM recent
    WHERE %[5]s IS NOT NULL AND %[6]s <> 'delete'
  )
  SELECT %[7]s, %[8]s
  FROM touched AS k
  LEFT JOIN %[9]s AS c ON %[10]s
) AS s
ON %[11]s
`, d.table(t, ""), window, strings.Join(key, ", "), oldKeys(d, t, true), d.quote(catalog.ColumnOldKey), d.quote(catalog.ColumnOperation),
		d.list(t.Key, "k."), d.list(rest, "c."), d.table(t, currentSuffix), d.equal(t.Key, "k.", "c."), d.equal(t.Key, "t.", "s."))
	sets := make([]string, len(rest))
	for i, name := range rest {
		sets[i] = d.quote(name) + " = s." + d.quote(name)
	}
	fmt.Fprintf(&b, "WHEN MATCHED AND s.%[1]s IS NULL THEN DELETE\nWHEN MATCHED THEN UPDATE SET\n  %[2]s\n"+
		"WHEN NOT MATCHED AND s.%[1]s IS NOT NULL THEN INSERT (%[3]s)\n  VALUES (%[4]s);\n",
		d.quote(catalog.ColumnPosition), strings.Join(sets, ",\n  "), d.list(names, ""), d.list(names, "s."))
	return []byte(b.String())
}
