package artifact

import (
	"fmt"
	"slices"
	"strings"

	"icehose/catalog"
	"icehose/cdc"
)

// Names of the columns that say until when a row of the history was current.
const (
	validFrom       = "cdc_valid_from"
	validTo         = "cdc_valid_to"          // null while it still is
	validToPosition = "cdc_valid_to_position" // likewise
)

// historyView is the changelog as a slowly changing view: each row of each key,
// or each row of a table without, with the time and the position from which on it
// was current, and until when.
//
// It resolves what a change left out within one key. What a key change left out
// is listed in cdc_unresolved: the view of current rows looks it up.
func historyView(d Dialect, t *catalog.Table) []byte {
	f := newFold(d, t)
	var b strings.Builder
	b.WriteString("-- Every row that there ever was, from cdc_position on and until cdc_valid_to_position,\n" +
		"-- which is null for current rows. The times are those at which the source committed:\n" +
		"-- of a load those in loads: of the pipeline file, and of a repair that of its reading.\n" +
		"-- Without cdc_valid_from a row was there from the beginning, as those of a first load.\n" +
		"-- A row that a change with an earlier time, or none, has replaced was there at no time.\n")
	if len(f.partial) > 0 {
		b.WriteString("-- What a change left out is that of the position before, whatever the times say.\n")
	}
	b.WriteString("-- The rows as of a position, or of a time:\n" +
		asComment(AsOfPosition(d, t, "POSITION")) + asComment(AsOfTime(d, t, "YYYY-MM-DD HH:MM:SS")))
	if d == Spark {
		b.WriteString("-- Where the catalog has no views, make it a TEMPORARY VIEW, without the database.\n")
	}
	history := f.history
	if len(t.Key) == 0 {
		history = f.unkeyedHistory
	}
	fmt.Fprintf(&b, "CREATE OR REPLACE VIEW %s AS\n%s;\n", d.table(t, historySuffix), query(history()))
	return []byte(b.String())
}

func asComment(statement string) string {
	return "--   " + strings.ReplaceAll(statement, "\n", "\n--   ") + "\n"
}

// AsOfPosition is the query of the rows that a changelog's table had just after
// the change at a position.
func AsOfPosition(d Dialect, t *catalog.Table, position string) string {
	literal, until := d.text(position), d.quote(validToPosition)
	return fmt.Sprintf("SELECT * FROM %s\nWHERE %s <= %s AND (%s IS NULL OR %s > %s)",
		d.table(t, historySuffix), d.quote(catalog.ColumnPosition), literal, until, until, literal)
}

// AsOfTime is the query of the rows that a changelog's table had when everything
// that the source had committed by a time, in UTC, was in it.
func AsOfTime(d Dialect, t *catalog.Table, time string) string {
	literal := "TIMESTAMP " + d.text(time)
	if d == Spark {
		literal = "TIMESTAMP " + d.text(time+"Z")
	}
	from := d.quote(validFrom)
	return fmt.Sprintf("SELECT * FROM %s\nWHERE (%s IS NULL OR %s <= %s) AND (%s IS NULL OR %s > %s)",
		d.table(t, historySuffix), from, from, literal, d.quote(validToPosition), d.quote(validTo), literal)
}

// time renders when the source committed a row c of the changelog; null is from the
// beginning. A loaded row has no time of its own: it belongs to the last of loads:
// of its floor that had begun when its record was built, which its position
// tells. A first load, whose floor is zero, tells of all that was before. What is
// in no load: a repair, which stands at the time when the source was read.
func (f *fold) time() string {
	position := "c." + f.d.quote(catalog.ColumnPosition)
	body, built := bodyOf(position), fmt.Sprintf("substr(%s, %d, %d)", position, rankAt+2, builtLength)
	var b strings.Builder
	fmt.Fprintf(&b, "CASE WHEN NOT (%s) OR %s THEN NULL", isLoad(position), atZero(position))
	for _, l := range slices.Backward(f.t.Loads) {
		fmt.Fprintf(&b, " WHEN %s = '%s' AND %s >= '%0*x' THEN TIMESTAMP '%s UTC'", body, l.Floor, built, builtLength, l.Since.UnixMicro(),
			l.Since.UTC().Format("2006-01-02 15:04:05.000000"))
	}
	fmt.Fprintf(&b, " ELSE %s END", f.d.moment(built))
	return fmt.Sprintf("coalesce(c.%s, %s)", f.d.quote(catalog.ColumnCommittedAt), b.String())
}

func bodyOf(position string) string {
	return fmt.Sprintf("substr(%s, %d, %d)", position, bodyStart, floorLength-bodyStart+1)
}

// atZero says that a position's body is zero: that of a first load.
func atZero(position string) string { return fmt.Sprintf("%s = '%s'", bodyOf(position), cdc.Body{}) }

// builtLength is how many digits of a load's position say when its record was built.
const builtLength = 14

// moment renders the time of a number of microseconds in hexadecimal digits.
func (d Dialect) moment(digits string) string {
	if d == Spark {
		return fmt.Sprintf("timestamp_micros(CAST(conv(%s, 16, 10) AS BIGINT))", digits)
	}
	return fmt.Sprintf("CAST(from_unixtime_nanos(from_base(%s, 16) * 1000) AS timestamp(6) with time zone)", digits)
}

// until renders the earliest time in a column of all rows behind one in an order;
// null if one of them is from the beginning. Clocks step, so that the next row
// need not be the one with the earliest time.
func until(column, partition, order string) string {
	window := fmt.Sprintf("(%sORDER BY %s DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)", partition, order)
	return fmt.Sprintf("CASE WHEN count(*) OVER %[2]s = count(%[1]s) OVER %[2]s THEN min(%[1]s) OVER %[2]s END", column, window)
}

// history returns the common table expressions and the select of the history.
func (f *fold) history() ([]cte, string) {
	d := f.d
	position, operation := d.quote(catalog.ColumnPosition), d.quote(catalog.ColumnOperation)
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
	time := f.time() + " AS cdc_time"
	events := cte{"events", fmt.Sprintf(`SELECT %s, c.%s, %s, c.%s, c.%s, c.%s
FROM %s AS c
UNION ALL
SELECT %s, c.%s, %s, 'moved', CAST(NULL AS %s), CAST(NULL AS %s)
FROM %s AS c
WHERE %s
  AND %s`, columns, position, time, operation, absent, oldKey, f.log,
		none, position, time, text, text, f.log, f.moved(), f.otherKey())}
	once := cte{"once", f.once()}
	window := fmt.Sprintf("PARTITION BY %s ORDER BY c.%s", d.list(f.t.Key, "c."), position)
	// A life begins after an end, and with a key change to the key.
	lives := cte{"lives", fmt.Sprintf(`SELECT c.*,
  lead(c.%[1]s) OVER (%[2]s) AS %[3]s,
  %[4]s AS %[5]s,
  count(CASE WHEN c.%[6]s = 'delete' OR c.%[7]s IS NOT NULL THEN 1 END) OVER (%[2]s ROWS UNBOUNDED PRECEDING) AS cdc_life
FROM once AS c`, position, window, d.quote(validToPosition),
		until("c.cdc_time", "PARTITION BY "+d.list(f.t.Key, "c.")+" ", "c."+position), d.quote(validTo), operation, oldKey)}
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
			carried := fmt.Sprintf("last_value(CASE WHEN c.cdc_carried_%d THEN %s END) IGNORE NULLS OVER (%s)", i, d.array(name), life)
			fmt.Fprintf(&b, "  %s,\n", f.named(d.folded("element_at("+carried+", 1)", c.Type), c.Name))
			missing = append(missing, fmt.Sprintf("CASE WHEN %s IS NULL THEN '%s' END", carried, c.Name))
		default:
			fmt.Fprintf(&b, "  %s,\n", f.named(d.folded(name, c.Type), c.Name))
		}
	}
	lacking := "CAST(NULL AS " + text + ")"
	if len(missing) > 0 {
		lacking = d.joined(missing)
	}
	tz := catalog.Type{Kind: catalog.TimestampTZ}
	// The ends are rows of the windows, and taken out only after them.
	fmt.Fprintf(&b, "  %s,\n  c.%s,\n  c.%s,\n  %s,\n  %s,\n  %s\nFROM lives AS c", f.named(lacking, unresolved), operation, position,
		f.named(d.folded("c.cdc_time", tz), validFrom), f.named("c."+d.quote(validToPosition), validToPosition), f.named(d.folded("c."+d.quote(validTo), tz), validTo))
	names := make([]string, 0, len(f.columns)+5)
	for _, c := range f.columns {
		names = append(names, c.Name)
	}
	names = append(names, unresolved, catalog.ColumnPosition, validFrom, validToPosition, validTo)
	return []cte{events, once, lives, {"resolved", b.String()}},
		fmt.Sprintf("SELECT %s\nFROM resolved\nWHERE %s <> 'delete'", d.list(names, ""), operation)
}

// once selects the events of keys, those at one position as one, as the fold takes
// them: it ends the row if one of them does, and each column has the greatest of
// the values that they give it.
func (f *fold) once() string {
	if f.distinct {
		return f.onceDistinct()
	}
	d := f.d
	position, operation := "c."+d.quote(catalog.ColumnPosition), "c."+d.quote(catalog.ColumnOperation)
	ends := operation + " IN ('delete', 'moved')"
	var b strings.Builder
	fmt.Fprintf(&b, "SELECT %s,\n", d.list(f.t.Key, "c."))
	for i, c := range f.columns {
		name := d.quote(c.Name)
		switch {
		case f.t.IsKey(c.Name):
		case f.isPartial(i):
			carries := fmt.Sprintf("NOT %s AND NOT %s", ends, d.listed(&c))
			fmt.Fprintf(&b, "  max(CASE WHEN %s THEN %s END) AS %s,\n", carries, f.filled(i, "c."+name), name)
			fmt.Fprintf(&b, "  count(CASE WHEN %s THEN 1 END) > 0 AS cdc_carried_%d,\n", carries, i)
		default:
			fmt.Fprintf(&b, "  max(%s) AS %s,\n", f.filled(i, "c."+name), name)
		}
	}
	fmt.Fprintf(&b, "  %s, max(c.cdc_time) AS cdc_time,\n  CASE WHEN count(CASE WHEN %s THEN 1 END) > 0 THEN 'delete' ELSE max(%s) END AS %s,\n  max(c.%s) AS %s\nFROM events AS c\nGROUP BY %s, %s",
		position, ends, operation, d.quote(catalog.ColumnOperation), d.quote(catalog.ColumnOldKey), d.quote(catalog.ColumnOldKey), d.list(f.t.Key, "c."), position)
	return b.String()
}

// unkeyedHistory is history for a table without a key: a row ends with the next
// load above it.
func (f *fold) unkeyedHistory() ([]cte, string) {
	d := f.d
	position, tz := "c."+d.quote(catalog.ColumnPosition), catalog.Type{Kind: catalog.TimestampTZ}
	floors := cte{"floors", fmt.Sprintf(`SELECT %[1]s AS cdc_floor, min(%[2]s) AS cdc_first, CASE WHEN count(*) = count(%[3]s) THEN min(%[3]s) END AS cdc_time
FROM %[4]s AS c
WHERE %[5]s
GROUP BY %[1]s
UNION ALL
SELECT '', CAST(NULL AS %[6]s), CAST(NULL AS %[7]s)`, floorOf(position), position, f.time(), f.log, isLoad(position), d.typeName(catalog.Type{Kind: catalog.String}), d.typeName(tz))}
	// What lies between a floor and the next one ends with the first row of that.
	spans := cte{"spans", fmt.Sprintf(`SELECT f.cdc_floor, lead(f.cdc_floor) OVER (ORDER BY f.cdc_floor) AS cdc_next,
  lead(f.cdc_first) OVER (ORDER BY f.cdc_floor) AS %s,
  %s AS %s
FROM floors AS f`, d.quote(validToPosition), until("f.cdc_time", "", "f.cdc_floor"), d.quote(validTo))}
	names := make([]string, 0, len(f.columns))
	var columns strings.Builder
	for i, c := range f.columns {
		names = append(names, c.Name)
		fmt.Fprintf(&columns, "  %s,\n", f.named(d.folded("max("+f.filled(i, "c."+d.quote(c.Name))+")", c.Type), c.Name))
	}
	log := f.log
	if f.distinct {
		log = f.lastOf(log)
	}
	rows := cte{"events", fmt.Sprintf(`SELECT
%[1]s  %[2]s, max(%[3]s) AS cdc_time
FROM %[4]s AS c
WHERE c.%[5]s IN ('load', 'insert')
GROUP BY %[2]s`, columns.String(), position, f.time(), log, d.quote(catalog.ColumnOperation))}
	floor := floorOf(position)
	return []cte{floors, spans, rows}, fmt.Sprintf(`SELECT %s, %s, %s, s.%s, %s
FROM events AS c
JOIN spans AS s ON (%[6]s AND %[7]s = s.cdc_floor) OR (NOT %[6]s
  AND (%[7]s > s.cdc_floor OR (%[7]s = s.cdc_floor AND %[8]s))
  AND (s.cdc_next IS NULL OR %[7]s < s.cdc_next OR (%[7]s = s.cdc_next AND NOT %[8]s)))`, d.list(names, "c."), position, f.named(d.folded("c.cdc_time", tz), validFrom), d.quote(validToPosition),
		f.named(d.folded("s."+d.quote(validTo), tz), validTo), isLoad(position), floor, atZero(position))
}
