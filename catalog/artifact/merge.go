package artifact

import (
	"fmt"
	"slices"
	"strings"

	"icehose/catalog"
	"icehose/cdc"
)

// A Merge is the SQL that brings the current table of a changelog up to date:
// the keys that new files speak of are folded anew over the whole changelog.
// So it may be run twice, and rows may come in any order.
//
// Its statements hold tokens in the form ${name}, which Fill replaces.
type Merge struct {
	// Read counts what is new: columns cdc_read, rows; cdc_late, those at or
	// below the position that an earlier merge has seen; cdc_highest, the
	// greatest position, null for none; cdc_malformed, rows whose position has
	// not the form of one; cdc_stranger, the greatest position that is not of the
	// table's kind, null for none. Of changes whose commit time is known, which
	// loads are not, and nothing is where positions are those of arrival, cdc_change, the greatest position, and cdc_time, when it was
	// committed, in Unix seconds; cdc_latest, when the latest was; cdc_regressed,
	// how many were committed more than RegressSeconds after the newest change
	// that earlier merges have seen, and yet lie at or below it.
	Read string
	// Changes is the query of what becomes of the keys that are touched: the
	// columns of the current table, and cdc_ended or, without a key, cdc_ghost.
	Changes string
	// Steps and Last are Changes in parts: each step is a relation that later
	// ones name, and Last the query. An engine that can keep a step does not
	// evaluate it again each time that it is named.
	Steps []Step
	Last  string
	// Count says what Apply is about to do: columns cdc_changed, rows inserted
	// or updated, and cdc_deleted.
	Count string
	// Apply merges a relation with the columns of Changes into the current
	// table. It does nothing if the current table is not the one expected.
	Apply string
}

// A Step is a query under a name.
type Step struct {
	Name string `json:"name"`
	SQL  string `json:"sql"`
}

// A MergeRange is what a run of a merge reads and expects. All texts are SQL.
type MergeRange struct {
	Added    string // relation: the new rows of the changelog
	Log      string // relation: the changelog as of the end of the range
	Changes  string // relation: the result of Merge.Changes, for Merge.Apply
	Fence    string // condition: the current table is as the run has found it
	Position string // greatest position that earlier runs have seen, "" for none
	Change   string // greatest position of a change that they have seen, "" for none
	Time     int64  // when that was committed, in Unix seconds
	Rebuild  bool   // every key is touched, and rows without a source go
}

// RegressSeconds is how much later than the newest change one at a lower position
// may have been committed without suspicion: as in the sink.
const RegressSeconds = 15 * 60

// Fill replaces the tokens of a statement of a Merge.
func (r *MergeRange) Fill(statement string) string {
	return strings.NewReplacer("${added}", r.Added, "${log}", r.Log, "${changes}", r.Changes, "${fence}", r.Fence,
		"${position}", r.Position, "${change}", r.Change, "${time}", fmt.Sprint(r.Time), "${rebuild}", fmt.Sprint(r.Rebuild)).Replace(statement)
}

// NewMerge returns the SQL of the merge of a changelog.
func NewMerge(d Dialect, t *catalog.Table) (*Merge, error) {
	f := newFold(d, t)
	if t.Mode != catalog.Changelog {
		return nil, fmt.Errorf("make merge of %s: the table is no changelog", fileName(t))
	}
	f.log = "${log}"
	position := d.quote(catalog.ColumnPosition)
	timed := fmt.Sprintf("c.%s IS NOT NULL AND NOT %s", d.quote(catalog.ColumnCommittedAt), isLoad("c."+position))
	if t.Position.Source == cdc.SourceNone { // positions of arrival order nothing
		timed = "false"
	}
	m := &Merge{Read: fmt.Sprintf(`SELECT count(*) AS cdc_read, count(CASE WHEN c.%[1]s <= '${position}' THEN 1 END) AS cdc_late,
  max(c.%[1]s) AS cdc_highest, count(CASE WHEN c.%[1]s IS NULL OR length(c.%[1]s) NOT IN (%[2]d, %[3]d) THEN 1 END) AS cdc_malformed,
  max(CASE WHEN %[4]s THEN c.%[1]s END) AS cdc_stranger,
  max(CASE WHEN %[5]s THEN c.%[1]s END) AS cdc_change, max_by(%[6]s, CASE WHEN %[5]s THEN c.%[1]s END) AS cdc_time,
  max(CASE WHEN %[5]s THEN %[6]s END) AS cdc_latest,
  count(CASE WHEN %[5]s AND c.%[1]s <= '${change}' AND %[6]s > ${time} + %[7]d THEN 1 END) AS cdc_regressed
FROM ${added} AS c`, position, changeLength, loadLength, strange(t.Position, "c."+position), timed,
		d.seconds("c."+d.quote(catalog.ColumnCommittedAt)), RegressSeconds)}
	if len(t.Key) == 0 {
		m.Count, m.Apply = f.unkeyedCount(), f.unkeyedApply()
	} else {
		m.Count, m.Apply = f.keyedCount(), f.keyedApply()
	}
	ctes, statement := f.changes()
	m.Changes, m.Last = query(ctes, statement), statement
	for _, c := range ctes {
		m.Steps = append(m.Steps, Step{Name: c.name, SQL: c.body})
	}
	return m, nil
}

// strange says that a change's position is not of a kind: what cdc's
// PositionKind.Fits says.
func strange(kind cdc.PositionKind, position string) string {
	arrival, form := fmt.Sprintf("length(%s) <> %d", position, changeLength), ""
	high := func(digits int, sign string) string {
		return fmt.Sprintf(" OR substr(%s, %d, %d) %s '%s'", position, bodyStart, digits, sign, strings.Repeat("0", digits))
	}
	switch kind.Source {
	case cdc.SourceNone:
		arrival = fmt.Sprintf("length(%s) = %d", position, changeLength)
	case cdc.SourcePostgres:
		form = high(16, "=")
	case cdc.SourceMySQL, cdc.SourceOracle:
		form = high(16, "<>")
	case cdc.SourceSQLServer:
		form = high(12, "<>")
	case cdc.SourceColumn:
	}
	return fmt.Sprintf("NOT %s AND (%s%s)", isLoad(position), arrival, form)
}

// Added returns the relation of the rows that files gained between two
// snapshots of the changelog.
func Added(d Dialect, t *catalog.Table, from, to string) string {
	if d == Spark {
		return fmt.Sprintf("%s WITH ('start-snapshot-id' = '%s', 'end-snapshot-id' = '%s')", d.table(t, ""), from, to)
	}
	return fmt.Sprintf(`(SELECT * FROM %[1]s FOR VERSION AS OF %[3]s WHERE "$path" NOT IN (SELECT "$path" FROM %[1]s FOR VERSION AS OF %[2]s))`,
		d.table(t, ""), from, to)
}

// AddedFiles is Added for Athena, of files that are known: only they are read.
func AddedFiles(t *catalog.Table, to string, files []string) string {
	return fmt.Sprintf(`(SELECT * FROM %s WHERE "$path" IN (%s))`, AsOfSnapshot(Athena, t, to), texts(files))
}

// AddedBut is Added for Athena without some files.
func AddedBut(t *catalog.Table, from, to string, files []string) string {
	added := Added(Athena, t, from, to)
	if len(files) == 0 {
		return added
	}
	return fmt.Sprintf(`%s AND "$path" NOT IN (%s))`, strings.TrimSuffix(added, ")"), texts(files))
}

// Parts are the rows of a relation, a changelog as of a snapshot, in so many
// relations for Athena, all rows of a key in one.
func Parts(t *catalog.Table, log string, n int) []string {
	if n < 2 {
		return []string{log}
	}
	f := newFold(Athena, t)
	parts := []string{"'|'"}
	for i, at := range t.KeyColumns() {
		text := "CAST(" + f.keys("")[i] + " AS varchar)"
		if kind := t.Columns[at].Type.Kind; kind == catalog.Binary || kind == catalog.Fixed {
			text = "to_hex(" + f.keys("")[i] + ")"
		}
		parts = append(parts, text)
	}
	if len(t.Key) == 0 {
		parts = append(parts, Athena.quote(catalog.ColumnPosition))
	}
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("(SELECT * FROM %s WHERE mod(crc32(to_utf8(concat(%s))), %d) = %d)", log, strings.Join(parts, ", '|', "), n, i)
	}
	return out
}

func texts(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = Athena.text(v)
	}
	return strings.Join(quoted, ", ")
}

// AsOfSnapshot returns the changelog as of a snapshot.
func AsOfSnapshot(d Dialect, t *catalog.Table, snapshot string) string {
	if d == Spark {
		return d.table(t, "") + " VERSION AS OF " + snapshot
	}
	return d.table(t, "") + " FOR VERSION AS OF " + snapshot
}

// A PastColumn is what a snapshot has of a column that the table has now.
type PastColumn struct {
	Name  string // its name then; "" if it was not there
	Other bool   // its type was another
}

// AsOfPresent is AsOfSnapshot with the columns that the changelog has now, one of
// past for each: engines read a snapshot with those of when it was made.
func AsOfPresent(d Dialect, t *catalog.Table, snapshot string, past []PastColumn) string {
	columns, _ := t.LakeColumns()
	items := make([]string, len(columns))
	for i, c := range columns {
		switch p := past[i]; {
		case p.Name == "":
			items[i] = fmt.Sprintf("CAST(NULL AS %s) AS %s", d.typeName(c.Type), d.quote(c.Name))
		case p.Other:
			items[i] = fmt.Sprintf("CAST(%s AS %s) AS %s", d.quote(p.Name), d.typeName(c.Type), d.quote(c.Name))
		case p.Name != c.Name:
			items[i] = d.quote(p.Name) + " AS " + d.quote(c.Name)
		default:
			items[i] = d.quote(c.Name)
		}
	}
	return fmt.Sprintf("(SELECT %s FROM %s)", strings.Join(items, ", "), AsOfSnapshot(d, t, snapshot))
}

// Fenced is in the error of a statement of Spark's that the fence has kept from
// its work: there an empty MERGE would be a commit too. In Athena's dialect such a
// statement does nothing.
const Fenced = "icehose: the current table is not as the merge has found it"

// Fence returns the condition that a snapshot is still the current table's
// newest; "" is for a table without any.
func Fence(d Dialect, t *catalog.Table, snapshot string) string {
	refs := d.quote(t.Database()) + `."` + t.Name() + foldedSuffix + `$refs"`
	if d == Spark {
		refs = d.table(t, foldedSuffix) + ".refs"
	}
	condition := fmt.Sprintf("EXISTS (SELECT 1 FROM %s WHERE name = 'main' AND snapshot_id = %s)", refs, snapshot)
	if snapshot == "" {
		condition = fmt.Sprintf("NOT EXISTS (SELECT 1 FROM %s WHERE name = 'main')", refs)
	}
	if d == Spark {
		condition = fmt.Sprintf("CASE WHEN %s THEN true ELSE raise_error('%s') END", condition, Fenced)
	}
	return condition
}

// CurrentTable names the table that a merge keeps, as the dialect quotes it.
func CurrentTable(d Dialect, t *catalog.Table) string { return d.table(t, foldedSuffix) }

// CreateCurrent is the statement that creates that table if there is none, below
// the warehouse, a URI; "" leaves the place to the catalog. In Athena it is one
// of Hive's dialect.
func CreateCurrent(d Dialect, t *catalog.Table, warehouse string) string {
	location := ""
	if warehouse != "" {
		location = strings.TrimRight(warehouse, "/") + "/" + tableLocation(t) + foldedSuffix
	}
	return createFolded(d, t, location)
}

// AddToCurrent is the statement that adds a column to that table, which has been
// created without. In Athena it is one of Hive's dialect.
func AddToCurrent(d Dialect, t *catalog.Table, c catalog.Column) string {
	return fmt.Sprintf("ALTER TABLE %s ADD COLUMNS (`%s` %s)", ddlTable(d, t, foldedSuffix), c.Name, ddlType(d, d.foldedType(c.Type)))
}

// LogTable names the changelog, as the dialect quotes it.
func LogTable(d Dialect, t *catalog.Table) string { return d.table(t, "") }

// changes returns the common table expressions and the select of what becomes
// of the keys that are touched.
func (f *fold) changes() ([]cte, string) {
	if len(f.t.Key) == 0 {
		return f.unkeyedChanges()
	}
	ctes, statement := f.keyed(true)
	return append(f.touched(), ctes...), statement
}

// touched lists the keys whose row may have changed: those that new rows speak
// of, and those that have inherited from one of them by a key change.
func (f *fold) touched() []cte {
	keys := f.d.list(f.t.Key, "")
	current := f.d.table(f.t, foldedSuffix)
	body := fmt.Sprintf(`SELECT %s
FROM ${added} AS c
UNION
SELECT %s
FROM ${added} AS c
WHERE %s
UNION
SELECT %s
FROM %s
WHERE ${rebuild}`, f.asKey(f.keys("c.")), f.asKey(f.oldKeys("c.")), f.moved(), keys, current)
	if len(f.partial) == 0 {
		return []cte{{"touched", body}}
	}
	ctes := []cte{{"spoken", body}}
	from := "spoken"
	parts := []string{"SELECT " + keys + "\nFROM spoken"}
	for n := 1; n <= keyChangeHops; n++ {
		heirs := fmt.Sprintf("heirs%d", n)
		ctes = append(ctes, cte{heirs, fmt.Sprintf("SELECT %s\nFROM %s AS c\nJOIN %s AS k ON %s\nWHERE %s AND c.%s IS NOT NULL",
			f.asKey(f.keys("c.")), f.log, from, f.sameKey(f.oldKeys("c."), "k."), f.moved(), f.d.quote(catalog.ColumnAbsent))})
		parts = append(parts, "SELECT "+keys+"\nFROM "+heirs)
		from = heirs
	}
	return append(ctes, cte{"touched", strings.Join(parts, "\nUNION\n")})
}

// The guards of a merge keep a run that read an older changelog from taking
// back what a newer one did.
func (f *fold) dies() string {
	position := f.d.quote(catalog.ColumnPosition)
	return fmt.Sprintf("s.%[1]s IS NULL AND (${rebuild} OR t.%[1]s <= s.cdc_ended)", position)
}

func (f *fold) updates() string {
	position := f.d.quote(catalog.ColumnPosition)
	return fmt.Sprintf("s.%[1]s IS NOT NULL AND (${rebuild} OR t.%[1]s <= s.%[1]s)\n  AND %[2]s", position, f.d.differ(f.others()))
}

// others are the columns of the current table that are not its key's. A row whose
// others are equal stays as it is: an update would only write it once more.
func (f *fold) others() []string {
	return slices.DeleteFunc(viewColumnNames(f.t), f.t.Current().IsKey)
}

// keyedApply merges what became of the touched keys.
func (f *fold) keyedApply() string {
	d := f.d
	names := viewColumnNames(f.t)
	return fmt.Sprintf(`MERGE INTO %s AS t
USING (SELECT * FROM ${changes} AS r WHERE ${fence}) AS s
ON %s
WHEN MATCHED AND %s THEN DELETE
WHEN MATCHED AND %s THEN UPDATE SET
  %s
WHEN NOT MATCHED AND s.%s IS NOT NULL THEN INSERT (%s)
  VALUES (%s)`, d.table(f.t, foldedSuffix), d.equal(f.t.Key, "t.", "s."), f.dies(), f.updates(),
		d.sets(f.others()), d.quote(catalog.ColumnPosition), d.list(names, ""), d.list(names, "s."))
}

func (f *fold) keyedCount() string {
	position := f.d.quote(catalog.ColumnPosition)
	return fmt.Sprintf(`SELECT
  count(CASE WHEN s.%[1]s IS NOT NULL AND (t.%[1]s IS NULL OR %[2]s) THEN 1 END) AS cdc_changed,
  count(CASE WHEN t.%[1]s IS NOT NULL AND %[3]s THEN 1 END) AS cdc_deleted
FROM ${changes} AS s
LEFT JOIN %[4]s AS t ON %[5]s`, position, f.updates(), f.dies(), f.d.table(f.t, foldedSuffix), f.d.equal(f.t.Key, "t.", "s."))
}

// mergeStatement is the merge as one statement, for those who run it themselves.
func mergeStatement(d Dialect, t *catalog.Table) ([]byte, error) {
	m, err := NewMerge(d, t)
	if err != nil {
		return nil, err
	}
	r := MergeRange{
		Added: Added(d, t, "${from}", "${to}"), Log: AsOfSnapshot(d, t, "${to}"),
		Fence: Fence(d, t, "${current}"), Position: "${position}",
	}
	r.Changes = "(\n" + r.Fill(m.Changes) + "\n)"
	var b strings.Builder
	fmt.Fprintf(&b, `-- Brings %[1]s up to date: the keys that new files of the changelog
-- speak of are folded anew, whenever their rows arrived. icehose merge runs it,
-- the first time too, and keeps account. To run it yourself, replace
--   ${from}     the snapshot of the changelog that the last run read up to
--   ${to}       the changelog's newest snapshot
--   ${current}  the newest snapshot of the current table
-- and keep ${to} for the next run only after this one has succeeded: a run that
-- was killed, or that is repeated, does no harm. If another run has changed the
-- current table since ${current}, this one %[2]s: begin again.
`, d.table(t, foldedSuffix), map[Dialect]string{Athena: "changes nothing", Spark: "fails"}[d])
	b.WriteString(r.Fill(m.Apply) + ";\n")
	return []byte(b.String()), nil
}
