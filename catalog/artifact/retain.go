package artifact

import (
	"fmt"
	"strings"

	"icehose/catalog"
)

// RetainDays is for how many days, at least, retention keeps a row that was
// replaced, and whatever replaced it. It is far above the longest that a record
// can be late: the stream's retention and the days in which Firehose's errors are
// sent again.
const RetainDays = 90

// retention are the statements that shrink a changelog: they remove rows that
// no fold needs any more. The rows that the fold gives stay what they are.
func retention(d Dialect, t *catalog.Table) []byte {
	f := newFold(d, t)
	before := fmt.Sprintf("current_timestamp - INTERVAL '%d' DAY", RetainDays)
	var b strings.Builder
	fmt.Fprintf(&b, `-- Removes rows that no fold needs any more: what a change, a delete or a load has
-- replaced more than %[1]d days ago, loaded rows too. So the history of the last %[1]d
-- days stays whole, and a record that is late by less finds what it must be
-- compared with; never set fewer days than a record can be late. Views and merges
-- give the same rows before and after. No merge of this table may run beside. It
-- may be killed at any time; each run can free what the one before made free. The
-- maintenance statements then free the space.
`, RetainDays)
	if len(t.Key) > 0 {
		fmt.Fprintf(&b, "-- A delete stays as long as the current table has a row that it is still to remove.\n"+
			"-- Who never merges creates that table all the same, empty: %s.folded.sql.\n", fileName(t))
	}
	for _, statement := range f.retention(before) {
		b.WriteString(statement + ";\n\n")
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// Retention returns the statements that remove what no fold needs of the rows
// that were replaced before a time, given as SQL.
func Retention(d Dialect, t *catalog.Table, before string) []string {
	return newFold(d, t).retention(before)
}

func (f *fold) retention(before string) []string {
	d := f.d
	position, operation := d.quote(catalog.ColumnPosition), d.quote(catalog.ColumnOperation)
	// What has replaced rows: it counts from its own time on, so that the rows that
	// it replaced are the last ones of their time in the history.
	old := fmt.Sprintf("%s < %s", f.time(), before)
	// A row with a later time than what replaced it: clocks step.
	young := fmt.Sprintf("coalesce(%s >= %s, false)", f.time(), before)
	if len(f.t.Key) == 0 {
		return []string{f.unkeyedRetention(old, young)}
	}
	names := f.asKey(f.keys("c."))
	end := func(keys []string, which string) string {
		return fmt.Sprintf("SELECT %s, c.%s AS cdc_end\nFROM %s AS c\nWHERE %s\n  AND %s", f.asKey(keys), position, f.log, which, old)
	}
	deleted, complete := fmt.Sprintf("c.%s = 'delete'", operation), fmt.Sprintf("c.%s <> 'delete' AND c.%s IS NULL", operation, d.quote(catalog.ColumnAbsent))
	// A row below its key's last end, or below a complete row of the key, gives
	// no column.
	needed := []cte{{"bars", fmt.Sprintf("SELECT %[1]s, max(b.cdc_end) AS cdc_bar\nFROM (\n%[2]s\n) AS b\nGROUP BY %[1]s", d.list(f.t.Key, "b."),
		indent(strings.Join([]string{end(f.keys("c."), deleted), end(f.oldKeys("c."), f.moved()+"\n  AND "+f.otherKey()), end(f.keys("c."), complete)}, "\nUNION ALL\n")))}}
	unprotected := ""
	if len(f.partial) > 0 {
		// The rows of an old key stay as long as a key change may look into them.
		needed = append(needed, cte{"sources", fmt.Sprintf("SELECT DISTINCT %s\nFROM %s AS c\nWHERE %s AND c.%s IS NOT NULL",
			f.asKey(f.oldKeys("c.")), f.log, f.moved(), d.quote(catalog.ColumnAbsent))})
		unprotected = fmt.Sprintf("\n  AND NOT EXISTS (SELECT 1 FROM sources AS p WHERE %s)", f.sameKey(f.keys("c."), "p."))
	}
	superseded := fmt.Sprintf("c.%s < b.cdc_bar AND NOT %s", position, young) + unprotected
	rows := fmt.Sprintf(`SELECT DISTINCT %s, c.%s
FROM %s AS c
JOIN bars AS b ON %s
WHERE c.%s <> 'delete' AND c.%s IS NULL
  AND %s`, names, position, f.log, f.sameKey(f.keys("c."), "b."), operation, d.quote(catalog.ColumnOldKey), superseded)
	lowest, unneeded := f.lowest(), fmt.Sprintf("(w.cdc_lowest IS NULL OR w.cdc_lowest >= c.%s)", position)
	if len(f.partial) > 0 {
		unneeded += fmt.Sprintf(" AND (w.cdc_current IS NULL OR w.cdc_above > c.%s)", position)
	}
	ends := fmt.Sprintf(`SELECT DISTINCT %[1]s, c.%[2]s
FROM %[3]s AS c
LEFT JOIN lowest AS w ON %[4]s
WHERE %[6]s
  AND %[5]s AND %[7]s
UNION
SELECT %[1]s, c.%[2]s
FROM %[3]s AS c
JOIN bars AS b ON %[8]s
LEFT JOIN lowest AS w ON %[9]s
WHERE %[10]s
  AND %[5]s
  AND %[11]s AND %[7]s`, names, position, f.log, f.sameKey(f.keys("c."), "w."), old, deleted, unneeded,
		f.sameKey(f.keys("c."), "b."), f.sameKey(f.oldKeys("c."), "w."), f.moved(), superseded)
	remove := func(source, kind string) string {
		return fmt.Sprintf("MERGE INTO %s AS t\nUSING (\n%s\n) AS s\nON %s AND t.%s = s.%s AND %s\nWHEN MATCHED THEN DELETE",
			f.log, indent(source), f.sameKey(f.keys("t."), "s."), position, position, kind)
	}
	ended := fmt.Sprintf("(t.%s = 'delete' OR t.%s IS NOT NULL)", operation, d.quote(catalog.ColumnOldKey))
	return []string{
		remove(query(needed, rows), "NOT "+ended),
		remove(query(append(needed, lowest), ends), ended),
	}
}

// lowest says of each key what an end of its row is there for. An end stays as
// long as a row lies below it, which would rise again: in the changelog, or in the
// current table, if no merge has seen the end yet. A current row above the end may
// still have a column from below it, if no complete row and no other end lies
// between: cdc_above.
func (f *fold) lowest() cte {
	d := f.d
	position, operation := d.quote(catalog.ColumnPosition), d.quote(catalog.ColumnOperation)
	none := "CAST(NULL AS " + d.typeName(catalog.Type{Kind: catalog.String}) + ")"
	row := func(keys []string, lowest, above, current, from string) string {
		line := fmt.Sprintf("SELECT %s, %s AS cdc_lowest", f.asKey(keys), lowest)
		if len(f.partial) > 0 {
			line += fmt.Sprintf(", %s AS cdc_above, %s AS cdc_current", above, current)
		}
		return line + "\nFROM " + from
	}
	log := f.log + " AS c\nWHERE "
	parts := []string{
		row(f.keys("c."), "c."+position, fmt.Sprintf("CASE WHEN c.%s IS NULL THEN c.%s END", d.quote(catalog.ColumnAbsent), position), none, fmt.Sprintf("%sc.%s <> 'delete'", log, operation)),
		row(qualified(d, f.t.Key, "g."), "g."+position, none, "g."+position, d.table(f.t, foldedSuffix)+" AS g"),
	}
	most := ""
	if len(f.partial) > 0 {
		most = ", max(w.cdc_above) AS cdc_above, max(w.cdc_current) AS cdc_current"
		parts = append(parts, row(f.keys("c."), none, "c."+position, none, fmt.Sprintf("%sc.%s = 'delete'", log, operation)),
			row(f.oldKeys("c."), none, "c."+position, none, log+f.moved()+"\n  AND "+f.otherKey()))
	}
	return cte{"lowest", fmt.Sprintf("SELECT %[1]s, min(w.cdc_lowest) AS cdc_lowest%[2]s\nFROM (\n%[3]s\n) AS w\nGROUP BY %[1]s",
		d.list(f.t.Key, "w."), most, indent(strings.Join(parts, "\nUNION ALL\n")))}
}

// unkeyedRetention removes what the newest load that is old enough has replaced.
func (f *fold) unkeyedRetention(old, young string) string {
	position := "c." + f.d.quote(catalog.ColumnPosition)
	newest := cte{"newest", fmt.Sprintf("SELECT max(%s) AS cdc_floor\nFROM %s AS c\nWHERE %s\n  AND %s", floorOf(position), f.log, isLoad(position), old)}
	replaced := fmt.Sprintf(`SELECT DISTINCT %[1]s
FROM %[2]s AS c
CROSS JOIN newest AS n
WHERE NOT %[3]s
  AND (%[4]s < n.cdc_floor OR (%[4]s = n.cdc_floor AND NOT %[5]s AND %[6]s))`, position, f.log, young, floorOf(position), isLoad(position), "NOT "+atZero(position))
	return fmt.Sprintf("MERGE INTO %[1]s AS t\nUSING (\n%[2]s\n) AS s\nON t.%[3]s = s.%[3]s\nWHEN MATCHED THEN DELETE",
		f.log, indent(query([]cte{newest}, replaced)), f.d.quote(catalog.ColumnPosition))
}

// erasure are the statements that remove the rows of one key from everywhere.
func erasure(d Dialect, t *catalog.Table) []byte {
	e := &eraser{d: d, t: t}
	e.where, e.whereFolded = e.condition()
	log, folded := d.table(t, ""), d.table(t, foldedSuffix)
	e.printf(`-- Removes a person's rows, not only the current ones, and then their bytes. Replace
-- each ${column} by an SQL literal, of the type that the current table has. No merge
-- of this table may run beside these statements but the one that they ask for:
-- pause its schedule, and wait for one that runs, which would bring the row back.
`)
	if d == Spark {
		e.printf("-- Spark must be 4.0 or newer: before, CALL took no function as an argument.\n")
	}
	if len(t.Key) == 0 {
		e.printf("-- The table has no key: keep the columns that tell the person's rows, and drop the others.\n")
	} else {
		f := &fold{d: d, t: t}
		e.printf(`-- A key may have had other values: erase what this query lists too, one after the
-- other, and begin with the oldest.
SELECT DISTINCT %[1]s, %[2]s
FROM %[3]s
WHERE %[2]s IS NOT NULL AND (%[4]s OR (%[5]s));

`, d.list(t.Key, ""), d.quote(catalog.ColumnOldKey), log, e.match(f.keys("")), e.match(f.oldKeys("")))
	}
	e.printf("-- 1. The changelog.\nDELETE FROM %s\nWHERE %s;\n\n", log, e.where)
	e.rewrite("")
	e.printf(`-- Now run icehose merge. It moves the tag icehose_merged away from the snapshot that
-- still has the rows, and which expiry would spare for the tag. Other tags and
-- branches that have them keep them: drop those.

-- 2. The current table, which the merge before that one may have given them again.
DELETE FROM %s
WHERE %s;

`, folded, e.whereFolded)
	e.rewrite(foldedSuffix)
	e.printf("-- 3. Each of these must be 0. Else run what is above again; delete files are left\n-- where a file was not rewritten, and still has the rows.\n")
	e.printf("SELECT count(*) AS cdc_left FROM %s\nWHERE %s;\n\nSELECT count(*) AS cdc_left FROM %s\nWHERE %s;\n\n", log, e.where, folded, e.whereFolded)
	for _, suffix := range []string{"", foldedSuffix} {
		e.printf("SELECT count(*) AS cdc_left FROM %s\nWHERE content <> 0;\n\n", metadataOf(d, t, suffix, "files"))
	}
	e.printf("-- Tags and branches that expiry would spare, with their snapshots: drop them.\n")
	for _, suffix := range []string{"", foldedSuffix} {
		e.printf("SELECT count(*) AS cdc_left FROM %s\nWHERE name NOT IN ('main', 'icehose_merged');\n\n", metadataOf(d, t, suffix, "refs"))
	}
	e.forget()
	e.printf("-- A record that is still in the stream, or among Firehose's errors, brings its row\n-- back: run the statements again after the stream's retention.\n")
	return []byte(e.text.String())
}

// forget removes the bytes of what was deleted, and looks for what has kept them.
func (e *eraser) forget() {
	if e.d == Athena {
		e.printf(`-- 4. A day later: the bytes go with the older snapshots. VACUUM takes every file
-- that no snapshot names and that is older than the age set here, also one that
-- Firehose or a merge has written and not committed yet: never set less than they
-- need, all retries included. VACUUM may end with ICEBERG_VACUUM_MORE_RUNS_NEEDED:
-- repeat it until it succeeds, before the properties are set back: to the values given
-- here, which are those of T.maintain.sql and Athena's defaults, or to what they were
-- (SHOW TBLPROPERTIES says so, before step 1). What stays are the least and the
-- greatest values of files that are gone, 16 characters of each column, in manifests:
-- Athena rewrites none, Spark does before this step, for both tables:
--   CALL system.rewrite_manifests(table => '%s')
`, e.t.Database()+"."+e.t.Name())
	} else {
		e.printf("-- 4. The bytes go with the older snapshots. Queries of those fail from here on.\n")
	}
	for _, suffix := range []string{"", foldedSuffix} {
		e.purge(suffix)
	}
	e.printf(`-- 5. Each of these must be 0: snapshots of before the DELETE still hold the bytes.
-- Replace ${cdc_deleted} by when the DELETE of the same table began, as a literal in
-- the form TIMESTAMP '2026-01-31 12:00:00.000 UTC'. If the changelog's is not 0, the
-- tag icehose_merged has not moved: run icehose merge, which says so if it cannot set
-- it, and step 4 again.
`)
	for _, suffix := range []string{"", foldedSuffix} {
		e.printf("SELECT count(*) AS cdc_left FROM %s\nWHERE committed_at < ${cdc_deleted}\n  AND snapshot_id NOT IN (SELECT snapshot_id FROM %s WHERE name = 'main');\n\n",
			metadataOf(e.d, e.t, suffix, "snapshots"), metadataOf(e.d, e.t, suffix, "refs"))
	}
}

// An eraser writes the erasure of a table's rows.
type eraser struct {
	d                  Dialect
	t                  *catalog.Table
	text               strings.Builder
	where, whereFolded string // the person's rows of the changelog and of the current table
}

func (e *eraser) printf(format string, args ...any) { fmt.Fprintf(&e.text, format, args...) }

// match compares expressions of the key with what stands for it.
func (e *eraser) match(expressions []string) string {
	parts := make([]string, len(expressions))
	for i, x := range expressions {
		parts[i] = x + " = ${" + e.t.Key[i] + "}"
	}
	return strings.Join(parts, " AND ")
}

// condition renders which rows are the person's. The literals are of the types of
// the current table, where the dialect's differ.
func (e *eraser) condition() (log, folded string) {
	f := &fold{d: e.d, t: e.t}
	if len(e.t.Key) > 0 {
		return fmt.Sprintf("%s OR (%s)", e.match(f.keys("")), e.moved(f)), e.match(qualified(e.d, e.t.Key, ""))
	}
	columns, data := e.t.LakeColumns()
	logs, currents := make([]string, data), make([]string, data)
	for i, c := range columns[:data] {
		literal := " = ${" + c.Name + "}"
		logs[i], currents[i] = e.d.folded(e.d.quote(c.Name), c.Type)+literal, e.d.quote(c.Name)+literal
	}
	return strings.Join(logs, " AND "), strings.Join(currents, " AND ")
}

// moved says that a row changed its key, which was the person's.
func (e *eraser) moved(f *fold) string {
	return fmt.Sprintf("%s IS NOT NULL AND %s", e.d.quote(catalog.ColumnOldKey), e.match(f.oldKeys("")))
}

// metadataOf names a relation of a table's metadata: its files, refs or snapshots.
func metadataOf(d Dialect, t *catalog.Table, suffix, what string) string {
	if d == Spark {
		return d.table(t, suffix) + "." + what
	}
	return d.quote(t.Database()) + `."` + t.Name() + suffix + "$" + what + `"`
}

// rewrite takes rows that were deleted out of the files that still have them.
func (e *eraser) rewrite(suffix string) {
	name := e.t.Database() + "." + e.t.Name() + suffix
	if e.d == Athena {
		e.printf(`-- Else OPTIMIZE leaves a file alone that is large enough and has one delete file.
-- It may end with ICEBERG_OPTIMIZE_MORE_RUNS_NEEDED: repeat it until it succeeds.
ALTER TABLE %s SET TBLPROPERTIES ('optimize_rewrite_delete_file_threshold' = '1', 'optimize_rewrite_data_file_threshold' = '1');

OPTIMIZE %s REWRITE DATA USING BIN_PACK;

`, ddlTable(e.d, e.t, suffix), name)
		return
	}
	e.printf("CALL system.rewrite_data_files(table => %[1]s, options => map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true'));\n\n"+
		"CALL system.rewrite_position_delete_files(table => %[1]s, options => map('rewrite-all', 'true'));\n\n"+
		"CALL system.rewrite_manifests(table => %[1]s);\n\n", e.d.text(name))
}

// purge removes the snapshots that still have what was deleted.
func (e *eraser) purge(suffix string) {
	name := e.t.Database() + "." + e.t.Name() + suffix
	if e.d == Athena {
		e.printf(`ALTER TABLE %[1]s SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '86400');

VACUUM %[2]s;

ALTER TABLE %[1]s SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '%[3]d', 'optimize_rewrite_delete_file_threshold' = '2', 'optimize_rewrite_data_file_threshold' = '5');

`, ddlTable(e.d, e.t, suffix), name, vacuumSeconds)
		return
	}
	e.printf("CALL system.expire_snapshots(table => %s, older_than => current_timestamp(), retain_last => 1);\n\n", e.d.text(name))
}
