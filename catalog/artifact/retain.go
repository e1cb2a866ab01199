package artifact

import (
	"fmt"
	"strings"

	"icehose/catalog"
)

// RetainDays is the age in days below which retention leaves every row of a
// changelog alone. It is far above the longest that a record can be late: the
// stream's retention and the days in which Firehose's errors are sent again.
const RetainDays = 90

// retention are the statements that shrink a changelog: they remove rows that
// no fold needs any more. The rows that the fold gives stay what they are.
func retention(d Dialect, t *catalog.Table) []byte {
	f := newFold(d, t)
	before := fmt.Sprintf("current_timestamp - INTERVAL '%d' DAY", RetainDays)
	var b strings.Builder
	fmt.Fprintf(&b, `-- Removes rows that no fold needs any more: what a later change, a delete or a
-- reload has replaced. Nothing younger than %d days goes, so that a record that
-- is late by less finds what it must be compared with; never set fewer days than
-- a record can be late. Views and merges give the same rows before and after.
-- It may be run at any time and be killed at any time; each run can free what
-- the one before made free. The maintenance statements then free the space.
`, RetainDays)
	for _, statement := range f.retention(before) {
		b.WriteString(statement + ";\n\n")
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// Retention returns the statements that remove what no fold needs of the rows
// that were committed before a time, given as SQL.
func Retention(d Dialect, t *catalog.Table, before string) []string {
	return newFold(d, t).retention(before)
}

func (f *fold) retention(before string) []string {
	d := f.d
	position, operation := d.quote(catalog.ColumnPosition), d.quote(catalog.ColumnOperation)
	old := fmt.Sprintf("c.%s < %s", d.quote(catalog.ColumnCommittedAt), before)
	if len(f.t.Key) == 0 {
		return []string{fmt.Sprintf(`MERGE INTO %[1]s AS t
USING (
%[2]s
) AS s
ON t.%[3]s = s.%[3]s
WHEN MATCHED THEN DELETE`, f.log, indent(query([]cte{f.newest()}, fmt.Sprintf("SELECT DISTINCT c.%s\nFROM %s AS c\nCROSS JOIN newest AS n\nWHERE %s\n  AND NOT %s",
			position, f.log, old, counts("c."+position)))), position)}
	}
	names := f.asKey(f.keys("c."))
	// A row below its key's last end, or below a complete row of the key, gives
	// no column.
	complete := fmt.Sprintf("SELECT %s, c.%s\nFROM %s AS c\nWHERE c.%s <> 'delete' AND c.%s IS NULL", names, position, f.log, operation, d.quote(catalog.ColumnAbsent))
	needed := []cte{f.ends(), {"bars", fmt.Sprintf("SELECT %[1]s, max(b.cdc_end) AS cdc_bar\nFROM (\n%[2]s\n) AS b\nGROUP BY %[1]s",
		d.list(f.t.Key, "b."), indent("SELECT * FROM ends\nUNION ALL\n"+complete))}}
	unprotected := ""
	if len(f.partial) > 0 {
		// The rows of an old key stay as long as a key change may look into them.
		needed = append(needed, cte{"sources", fmt.Sprintf("SELECT DISTINCT %s\nFROM %s AS c\nWHERE %s AND c.%s IS NOT NULL",
			f.asKey(f.oldKeys("c.")), f.log, f.moved(), d.quote(catalog.ColumnAbsent))})
		unprotected = fmt.Sprintf("\n  AND NOT EXISTS (SELECT 1 FROM sources AS p WHERE %s)", f.sameKey(f.keys("c."), "p."))
	}
	superseded := fmt.Sprintf("c.%s < b.cdc_bar", position) + unprotected
	rows := fmt.Sprintf(`SELECT DISTINCT %s, c.%s
FROM %s AS c
JOIN bars AS b ON %s
WHERE %s
  AND c.%s <> 'delete' AND c.%s IS NULL
  AND %s`, names, position, f.log, f.sameKey(f.keys("c."), "b."), old, operation, d.quote(catalog.ColumnOldKey), superseded)
	// An end stays as long as a row lies below it, which would rise again.
	lowest := cte{"lowest", fmt.Sprintf("SELECT %s, min(c.%s) AS cdc_lowest\nFROM %s AS c\nWHERE c.%s <> 'delete'\nGROUP BY %s",
		names, position, f.log, operation, strings.Join(f.keys("c."), ", "))}
	unneeded := fmt.Sprintf("(w.cdc_lowest IS NULL OR w.cdc_lowest >= c.%s)", position)
	ends := fmt.Sprintf(`SELECT DISTINCT %[1]s, c.%[2]s
FROM %[3]s AS c
LEFT JOIN lowest AS w ON %[4]s
WHERE %[5]s
  AND c.%[6]s = 'delete' AND %[7]s
UNION
SELECT %[1]s, c.%[2]s
FROM %[3]s AS c
JOIN bars AS b ON %[8]s
LEFT JOIN lowest AS w ON %[9]s
WHERE %[5]s
  AND %[10]s
  AND %[11]s AND %[7]s`, names, position, f.log, f.sameKey(f.keys("c."), "w."), old, operation, unneeded,
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

// erasure are the statements that remove the rows of one key from everywhere.
func erasure(d Dialect, t *catalog.Table) []byte {
	columns, data := t.LakeColumns()
	match := func(names []string) string {
		parts := make([]string, len(names))
		for i, n := range names {
			parts[i] = d.quote(n) + " = ${" + n + "}"
		}
		return strings.Join(parts, " AND ")
	}
	var b strings.Builder
	b.WriteString("-- Removes a person's rows, not only the current ones. Replace each ${column} by an\n-- SQL literal.\n")
	if len(t.Key) == 0 {
		names := make([]string, data)
		for i, c := range columns[:data] {
			names[i] = c.Name
		}
		b.WriteString("-- The table has no key: keep the columns that tell the person's rows, and drop the others.\n")
		for _, table := range []string{d.table(t, ""), d.table(t, foldedSuffix)} {
			fmt.Fprintf(&b, "DELETE FROM %s\nWHERE %s;\n\n", table, match(names))
		}
	} else {
		f := &fold{d: d, t: t}
		old := f.oldKeys("")
		parts := make([]string, len(old))
		for i, e := range old {
			parts[i] = e + " = ${" + t.Key[i] + "}"
		}
		was := strings.Join(parts, " AND ")
		fmt.Fprintf(&b, `-- A key may have had other values: erase what this query lists too, one after the
-- other, and begin with the oldest.
SELECT DISTINCT %[1]s, %[2]s
FROM %[3]s
WHERE %[2]s IS NOT NULL AND (%[4]s OR (%[5]s));

-- The changelog first: else a merge between the two could bring the row back.
DELETE FROM %[3]s
WHERE %[4]s OR (%[2]s IS NOT NULL AND %[5]s);

DELETE FROM %[6]s
WHERE %[4]s;

`, d.list(t.Key, ""), d.quote(catalog.ColumnOldKey), d.table(t, ""), match(t.Key), was, d.table(t, foldedSuffix))
	}
	b.WriteString("-- Now no query of the newest snapshots finds them. The bytes go with the older\n-- snapshots and the files that only they name. Run icehose merge before: the tag\n-- icehose_merged keeps the snapshot that was merged last.\n")
	for _, suffix := range []string{"", foldedSuffix} {
		b.WriteString(purge(d, t, suffix))
	}
	b.WriteString("-- A record that is still in the stream, or among Firehose's errors, brings its row\n-- back: run the statements again after the stream's retention.\n")
	return []byte(b.String())
}

// purge frees the space of rows that were deleted from a table.
func purge(d Dialect, t *catalog.Table, suffix string) string {
	name := t.Database() + "." + t.Name() + suffix
	if d == Athena {
		return fmt.Sprintf("OPTIMIZE %s REWRITE DATA USING BIN_PACK;\nALTER TABLE %s SET TBLPROPERTIES ('vacuum_max_snapshot_age_seconds' = '60');\nVACUUM %s;\n", name, ddlTable(d, t, suffix), name)
	}
	name = d.text(name)
	return fmt.Sprintf("CALL system.rewrite_data_files(table => %[1]s, options => map('delete-file-threshold', '1'));\n"+
		"CALL system.expire_snapshots(table => %[1]s, older_than => current_timestamp(), retain_last => 1);\n", name)
}
