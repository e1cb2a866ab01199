package artifact

import (
	"fmt"
	"strings"

	"icehose/catalog"
)

// Names of the columns that say until when a row of the history was current.
const (
	validFrom       = "cdc_valid_from"
	validTo         = "cdc_valid_to"          // null while it still is
	validToPosition = "cdc_valid_to_position" // likewise
)

// historyView is the changelog as a slowly changing view: each row of each key
// with the time and the position from which on it was current, and until when.
//
// It resolves what a change left out within one key. What a key change left out
// is listed in cdc_unresolved: the view of current rows looks it up.
func historyView(d Dialect, t *catalog.Table) []byte {
	f := newFold(d, t)
	var b strings.Builder
	b.WriteString("-- Every row that a key ever had, from cdc_position on and until cdc_valid_to_position,\n" +
		"-- which is null for current rows. The times are those at which the source committed.\n" +
		"-- The rows as of a position, or of a time:\n" +
		asComment(AsOfPosition(d, t, "POSITION")) + asComment(AsOfTime(d, t, "YYYY-MM-DD HH:MM:SS")))
	if d == Spark {
		b.WriteString("-- Where the catalog has no views, make it a TEMPORARY VIEW, without the database.\n")
	}
	fmt.Fprintf(&b, "CREATE OR REPLACE VIEW %s AS\n%s;\n", d.table(t, historySuffix), query(f.history()))
	return []byte(b.String())
}

func asComment(statement string) string {
	return "--   " + strings.ReplaceAll(statement, "\n", "\n--   ") + "\n"
}

// AsOfPosition is the query of the rows that a keyed changelog's table had
// just after the change at a position.
func AsOfPosition(d Dialect, t *catalog.Table, position string) string {
	return asOf(d, t, catalog.ColumnPosition, validToPosition, d.text(position))
}

// AsOfTime is the query of the rows that a keyed changelog's table had when
// everything that the source had committed by a time, in UTC, was in it.
func AsOfTime(d Dialect, t *catalog.Table, time string) string {
	literal := "TIMESTAMP " + d.text(time)
	if d == Spark {
		literal = "TIMESTAMP " + d.text(time+"Z")
	}
	return asOf(d, t, validFrom, validTo, literal)
}

func asOf(d Dialect, t *catalog.Table, from, to, literal string) string {
	return fmt.Sprintf("SELECT * FROM %s\nWHERE %s <= %s AND (%s IS NULL OR %s > %s)",
		d.table(t, historySuffix), d.quote(from), literal, d.quote(to), d.quote(to), literal)
}

// history returns the common table expressions and the select of the history.
func (f *fold) history() ([]cte, string) {
	d := f.d
	position, committed, operation := d.quote(catalog.ColumnPosition), d.quote(catalog.ColumnCommittedAt), d.quote(catalog.ColumnOperation)
	absent, oldKey := d.quote(catalog.ColumnAbsent), d.quote(catalog.ColumnOldKey)
	var rest, nulls []string
	for _, c := range f.columns {
		if !f.t.IsKey(c.Name) {
			rest = append(rest, "c."+d.quote(c.Name))
			nulls = append(nulls, "CAST(NULL AS "+d.typeName(c.Type)+")")
		}
	}
	text := d.typeName(catalog.Type{Kind: catalog.String})
	columns := strings.Join(append([]string{f.asKey(f.keys("c."))}, rest...), ", ")
	none := strings.Join(append([]string{f.asKey(f.oldKeys("c."))}, nulls...), ", ")
	events := cte{"events", fmt.Sprintf(`SELECT %s, c.%s, c.%s, c.%s, c.%s, c.%s
FROM %s AS c
UNION ALL
SELECT %s, c.%s, c.%s, 'moved', CAST(NULL AS %s), CAST(NULL AS %s)
FROM %s AS c
WHERE %s
  AND %s`, columns, position, committed, operation, absent, oldKey, f.log,
		none, position, committed, text, text, f.log, f.moved(), f.otherKey("c."))}
	// A row that was delivered twice is one row.
	once := cte{"once", fmt.Sprintf("SELECT c.*, row_number() OVER (PARTITION BY %s, c.%s ORDER BY c.%s) AS cdc_copy\nFROM events AS c",
		d.list(f.t.Key, "c."), position, operation)}
	window := fmt.Sprintf("PARTITION BY %s ORDER BY c.%s", d.list(f.t.Key, "c."), position)
	// A life begins after an end, and with a key change to the key.
	lives := cte{"lives", fmt.Sprintf(`SELECT c.*,
  lead(c.%[1]s) OVER (%[2]s) AS %[3]s,
  lead(c.%[4]s) OVER (%[2]s) AS %[5]s,
  count(CASE WHEN c.%[6]s IN ('delete', 'moved') OR c.%[7]s IS NOT NULL THEN 1 END) OVER (%[2]s ROWS UNBOUNDED PRECEDING) AS cdc_life
FROM once AS c
WHERE c.cdc_copy = 1`, position, window, d.quote(validToPosition), committed, d.quote(validTo), operation, oldKey)}
	life := fmt.Sprintf("PARTITION BY %s, c.cdc_life ORDER BY c.%s ROWS UNBOUNDED PRECEDING", d.list(f.t.Key, "c."), position)
	var b strings.Builder
	b.WriteString("SELECT\n")
	var missing []string
	for i, c := range f.columns {
		name := "c." + d.quote(c.Name)
		switch {
		case f.t.IsKey(c.Name):
			fmt.Fprintf(&b, "  %s,\n", name)
		case f.isPartial(i):
			carried := fmt.Sprintf("last_value(CASE WHEN c.%s NOT IN ('delete', 'moved') AND NOT %s THEN %s END) IGNORE NULLS OVER (%s)",
				operation, d.listed(c.Name), d.array(name), life)
			value := "element_at(" + carried + ", 1)"
			if f.defaults[i] != "" { // what is not known is not the default
				value = fmt.Sprintf("CASE WHEN %s IS NOT NULL THEN %s END", carried, f.filled(i, value))
			}
			fmt.Fprintf(&b, "  %s,\n", f.named(d.folded(value, c.Type), c.Name))
			missing = append(missing, fmt.Sprintf("CASE WHEN %s IS NULL THEN '%s' END", carried, c.Name))
		default:
			fmt.Fprintf(&b, "  %s,\n", f.named(d.folded(f.filled(i, name), c.Type), c.Name))
		}
	}
	lacking := "CAST(NULL AS " + text + ")"
	if len(missing) > 0 {
		lacking = d.joined(missing)
	}
	tz := catalog.Type{Kind: catalog.TimestampTZ}
	// The ends are rows of the windows, and taken out only after them.
	fmt.Fprintf(&b, "  %s,\n  c.%s,\n  c.%s,\n  %s,\n  %s,\n  %s\nFROM lives AS c", f.named(lacking, unresolved), operation, position,
		f.named(d.folded("c."+committed, tz), validFrom), f.named("c."+d.quote(validToPosition), validToPosition), f.named(d.folded("c."+d.quote(validTo), tz), validTo))
	names := make([]string, 0, len(f.columns)+5)
	for _, c := range f.columns {
		names = append(names, c.Name)
	}
	names = append(names, unresolved, catalog.ColumnPosition, validFrom, validToPosition, validTo)
	return []cte{events, once, lives, {"resolved", b.String()}},
		fmt.Sprintf("SELECT %s\nFROM resolved\nWHERE %s NOT IN ('delete', 'moved')", d.list(names, ""), operation)
}
