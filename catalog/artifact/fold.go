package artifact

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"icehose/catalog"
)

// Where a position's parts are, counted from 1 as SQL does: epoch and body are
// the floor, and a load has rank 0.
const (
	floorLength = 4 + 1 + 32
	bodyStart   = 4 + 1 + 1
	rankAt      = floorLength + 1 + 1

	changeLength = rankAt + 1 + 16
	loadLength   = rankAt + 1 + 69
)

// keyChangeHops is how many key changes in a row the SQL follows to find a
// value that none of them carried. What lies further back is listed in
// cdc_unresolved; sink.Folder follows any number. Engines evaluate a common
// table expression each time that it is named, so each hop multiplies the reads.
const keyChangeHops = 1

// A fold writes the SQL that folds a changelog.
//
// The result is that of sink.Folder with one exception that it shows itself:
// see keyChangeHops. So of changes at one position each column takes the greatest
// value, where null counts as the column's default, or else is the least; or, where
// changes may share one, they are taken one after the other (ties.go). Key columns are those of the current table from the first
// step on, where the dialect's differ.
type fold struct {
	d        Dialect
	t        *catalog.Table
	log      string           // the changelog as a relation
	columns  []catalog.Column // the source's
	defaults []string         // per column; empty for none
	partial  []int            // columns that a change may leave out
	distinct bool             // rows of one position that differ are changes of their own
}

// newFold returns a fold of the changelog, or of the mirror, as it is now.
func newFold(d Dialect, t *catalog.Table) *fold {
	columns, data := t.LakeColumns()
	f := &fold{d: d, t: t, log: d.table(t, ""), columns: columns[:data], distinct: t.SharesPositions()}
	for i := range f.columns {
		c := &f.columns[i]
		fill := ""
		if c.Default != nil {
			fill = d.parse(d.text(string(*c.Default)), c.Type)
		}
		f.defaults = append(f.defaults, fill)
		if c.MayBeUnchanged && !t.IsKey(c.Name) && t.Mode == catalog.Changelog && len(t.Key) > 0 {
			f.partial = append(f.partial, i)
		}
	}
	return f
}

// A cte is a common table expression.
type cte struct{ name, body string }

// query renders common table expressions and the statement that uses them.
func query(ctes []cte, statement string) string {
	parts := make([]string, len(ctes))
	for i, c := range ctes {
		parts[i] = c.name + " AS (\n" + indent(c.body) + "\n)"
	}
	return "WITH " + strings.Join(parts, ",\n") + "\n" + statement
}

// indent moves every line two spaces to the right.
func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }

// currentView is the statement that creates the view of a table's current rows:
// the fold of a changelog, or a mirror with the defaults of later columns.
func currentView(d Dialect, t *catalog.Table) ([]byte, error) {
	f := newFold(d, t)
	var b strings.Builder
	if hasDefaults(f.columns) {
		b.WriteString("-- A column with a default was added later: null in older rows means the default.\n")
	}
	create := fmt.Sprintf("CREATE OR REPLACE VIEW %s AS\n", d.table(t, currentSuffix))
	if d == Spark {
		create = "-- Where the catalog has no views, make it a TEMPORARY VIEW, without the database.\n" + create
	}
	switch {
	case t.Mode == catalog.Mirror:
		b.WriteString(create + f.mirror() + ";\n")
	case len(t.Key) > 0:
		b.WriteString("-- Current rows: per key the changes above its last end (a delete, or a key change\n" +
			"-- away from it), per column the latest that carries it. cdc_unresolved lists columns\n" +
			"-- whose value the changelog does not give.\n" + create + query(f.keyed(false)) + ";\n")
	case t.Mode == catalog.Changelog:
		b.WriteString("-- Current rows of a table without a key: the newest load and the inserts after it,\n" +
			"-- each once, however often it was delivered. An update or a delete of such a table\n" +
			"-- means nothing, since nothing says of which row it speaks.\n" + create +
			query([]cte{f.newest()}, f.unkeyedRows(f.log, "")) + ";\n")
	default:
		return nil, errors.New("no view for mode " + string(t.Mode))
	}
	return []byte(b.String()), nil
}

// named renders an expression under a name, which is left out if it is the same.
func (f *fold) named(expression, name string) string {
	if quoted := f.d.quote(name); expression != quoted {
		return expression + " AS " + quoted
	}
	return expression
}

// filled renders an expression of column i's value with the column's default.
func (f *fold) filled(i int, expression string) string {
	if f.defaults[i] != "" {
		return "coalesce(" + expression + ", " + f.defaults[i] + ")"
	}
	return expression
}

// metadata renders the two metadata columns that the view keeps.
func (f *fold) metadata(position, committed string) string {
	return "  " + f.named(position, catalog.ColumnPosition) + ",\n  " +
		f.named(f.d.folded(committed, catalog.Type{Kind: catalog.TimestampTZ}), catalog.ColumnCommittedAt)
}

// mirror selects the rows of a mirror with their defaults.
func (f *fold) mirror() string {
	var b strings.Builder
	b.WriteString("SELECT\n")
	for i, c := range f.columns {
		fmt.Fprintf(&b, "  %s,\n", f.named(f.d.folded(f.filled(i, f.d.quote(c.Name)), c.Type), c.Name))
	}
	fmt.Fprintf(&b, "%s\nFROM %s", f.metadata(f.d.quote(catalog.ColumnPosition), f.d.quote(catalog.ColumnCommittedAt)), f.log)
	return b.String()
}

// keys renders the key columns of a row of the changelog.
func (f *fold) keys(qualifier string) []string {
	out := make([]string, len(f.t.Key))
	for n, at := range f.t.KeyColumns() {
		out[n] = f.d.folded(qualifier+f.d.quote(f.t.Key[n]), f.t.Columns[at].Type)
	}
	return out
}

// oldKeys renders the key before a key change.
func (f *fold) oldKeys(qualifier string) []string {
	return f.keysIn(qualifier + f.d.quote(catalog.ColumnOldKey))
}

// keysIn renders the key columns that an expression of a key's text holds.
func (f *fold) keysIn(text string) []string {
	out := make([]string, len(f.t.Key))
	for n, at := range f.t.KeyColumns() {
		c := f.t.Columns[at]
		out[n] = f.d.folded(f.d.oldKey(text, n, c.Type), c.Type)
	}
	return out
}

// asKey renders expressions under the names of the key columns.
func (f *fold) asKey(expressions []string) string {
	out := make([]string, len(expressions))
	for n, e := range expressions {
		out[n] = f.named(e, f.t.Key[n])
	}
	return strings.Join(out, ", ")
}

// sameKey compares expressions with the key columns of a relation.
func (f *fold) sameKey(expressions []string, qualifier string) string {
	out := make([]string, len(expressions))
	for n, e := range expressions {
		out[n] = e + " = " + qualifier + f.d.quote(f.t.Key[n])
	}
	return strings.Join(out, " AND ")
}

// otherKey says that the key of a row c of the changelog is not the one before.
func (f *fold) otherKey() string {
	now, before := f.keys("c."), f.oldKeys("c.")
	out := make([]string, len(now))
	for n := range now {
		out[n] = before[n] + " <> " + now[n]
	}
	return "(" + strings.Join(out, " OR ") + ")"
}

// moved says that a row c of the changelog changed its key.
func (f *fold) moved() string {
	return fmt.Sprintf("c.%s IS NOT NULL AND c.%s <> 'delete'", f.d.quote(catalog.ColumnOldKey), f.d.quote(catalog.ColumnOperation))
}

// ends lists every position at which a key's row ended: by a delete, or by a
// key change away from it.
func (f *fold) ends() cte {
	position := f.d.quote(catalog.ColumnPosition)
	return cte{"ends", fmt.Sprintf(`SELECT %s, %s AS cdc_end
FROM %s AS c
WHERE c.%s = 'delete'
UNION ALL
SELECT %s, %s
FROM %s AS c
WHERE %s
  AND %s`, f.asKey(f.keys("c.")), "c."+position, f.log, f.d.quote(catalog.ColumnOperation),
		f.asKey(f.oldKeys("c.")), "c."+position, f.log, f.moved(), f.otherKey())}
}

// keyed returns the common table expressions and the select of the current
// rows of a table with a key. With touched set there is one row for every key
// of the relation touched, null but for the key if the key has no row, with
// cdc_ended, the position of the key's last end.
func (f *fold) keyed(touched bool) ([]cte, string) {
	d := f.d
	position := d.quote(catalog.ColumnPosition)
	only := func([]string) string { return "" }
	if touched {
		only = func(keys []string) string { return "\nJOIN touched AS k ON " + f.sameKey(keys, "k.") }
	}
	ctes := []cte{
		f.ends(),
		{"ended", fmt.Sprintf("SELECT %[1]s, max(e.cdc_end) AS cdc_ended\nFROM ends AS e%[2]s\nGROUP BY %[1]s",
			d.list(f.t.Key, "e."), only(qualified(d, f.t.Key, "e.")))},
		{"latest", f.latestColumns().query(f.asKey(f.keys("c.")), d.list(f.t.Key, "a."), fmt.Sprintf(`FROM %s AS c%s
LEFT JOIN ended AS e ON %s
WHERE c.%s <> 'delete' AND (e.cdc_ended IS NULL OR c.%s > e.cdc_ended)`, f.rows(), only(f.keys("c.")), f.sameKey(f.keys("c."), "e."),
			d.quote(catalog.ColumnOperation), position), strings.Join(f.keys("c."), ", "))},
	}
	from, key := "latest AS l", "l."
	if touched {
		from, key = "touched AS k\nLEFT JOIN latest AS l ON "+d.equal(f.t.Key, "k.", "l.")+"\nLEFT JOIN ended AS e ON "+d.equal(f.t.Key, "k.", "e."), "k."
	}
	sources := []string{"l."}
	if len(f.partial) > 0 {
		before := "latest"
		for hop := 1; hop <= keyChangeHops; hop++ {
			ctes = append(ctes, f.hop(hop, before)...)
			before = fmt.Sprintf("before%d", hop)
			source := fmt.Sprintf("b%d", hop)
			from += fmt.Sprintf("\nLEFT JOIN %s AS %s ON %s", before, source, d.equal(f.t.Key, key, source+"."))
			sources = append(sources, source+".")
		}
	}
	var b strings.Builder
	b.WriteString("SELECT\n")
	for i, c := range f.columns {
		name := d.quote(c.Name)
		switch {
		case f.t.IsKey(c.Name):
			fmt.Fprintf(&b, "  %s,\n", key+name)
		case f.isPartial(i):
			fmt.Fprintf(&b, "  %s,\n", f.named(d.folded(f.known(i, sources), c.Type), c.Name))
		default:
			fmt.Fprintf(&b, "  %s,\n", f.named(d.folded(f.filled(i, "l."+name), c.Type), c.Name))
		}
	}
	fmt.Fprintf(&b, "  %s,\n%s", f.named(f.unresolved(sources), unresolved), f.metadata("l."+position, "l."+d.quote(catalog.ColumnCommittedAt)))
	if touched {
		b.WriteString(",\n  e.cdc_ended")
	}
	b.WriteString("\nFROM " + from)
	return ctes, b.String()
}

func qualified(d Dialect, names []string, qualifier string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = qualifier + d.quote(n)
	}
	return out
}

func (f *fold) isPartial(i int) bool {
	return slices.Contains(f.partial, i)
}

// latestColumns aggregates the rows of one key since its last end.
func (f *fold) latestColumns() *aggregate {
	position := f.d.quote(catalog.ColumnPosition)
	a, top := &aggregate{}, position
	if f.distinct {
		a.inner, top = append(a.inner, fmt.Sprintf("max(%s) AS %s", f.order(), tieOrder)), tieOrder
	}
	for i, c := range f.columns {
		if !f.t.IsKey(c.Name) && !f.isPartial(i) {
			f.newestValue(a, i, f.filled(i, "c."+f.d.quote(c.Name)), f.defaults[i] == "", "", top, c.Name)
		}
	}
	f.partialColumns(a)
	a.inner, a.outer = append(a.inner, fmt.Sprintf("max(c.%[1]s) AS %[1]s", position)), append(a.outer, "a."+position)
	f.newestValue(a, len(f.columns), f.committed(), true, "", top, catalog.ColumnCommittedAt)
	return a
}

// partialColumns aggregates the columns that a change may leave out: the value of
// the latest row that carries the column, and whether there is none, or a later
// one that lacks it and changed the key. What a key change left out lies in the row
// of the old key, so it ends the search; cdc_moved and cdc_moved_key say where to
// go on.
func (f *fold) partialColumns(a *aggregate) {
	if len(f.partial) == 0 {
		return
	}
	position, oldKey := f.order(), "c."+f.d.quote(catalog.ColumnOldKey)
	for _, i := range f.partial {
		name, carries := f.columns[i].Name, "NOT "+f.d.listed(&f.columns[i])
		a.inner = append(a.inner, fmt.Sprintf("max(%s) FILTER (WHERE %s) AS cdc_carried_%d", position, carries, i),
			fmt.Sprintf("max(%s) FILTER (WHERE %s OR %s IS NOT NULL) AS cdc_known_%d", position, carries, oldKey, i))
		f.newestValue(a, i, f.filled(i, "c."+f.d.quote(name)), f.defaults[i] == "", carries, fmt.Sprintf("cdc_carried_%d", i), name)
		a.outer = append(a.outer, fmt.Sprintf("coalesce(a.cdc_carried_%[1]d <> a.cdc_known_%[1]d, true) AS cdc_unknown_%[1]d", i))
	}
	a.inner = append(a.inner, f.d.greatestPair(position, oldKey, []string{oldKey + " IS NOT NULL"})+" AS cdc_move")
	moved, key := f.d.parts("a.cdc_move")
	a.outer = append(a.outer, f.positionIn(moved)+" AS cdc_moved", key+" AS cdc_moved_key")
}

// hop goes from the rows of a step to the rows of their old keys, just before
// the key change: hopN says where to look, endedN where the old key's row
// began, beforeN what it was.
func (f *fold) hop(n int, before string) []cte {
	d := f.d
	old := make([]string, len(f.t.Key)) // the old key's columns beside the key's own
	for i := range old {
		old[i] = fmt.Sprintf("cdc_old_%d", i)
	}
	var asOld []string
	for i, e := range f.keysIn("p.cdc_moved_key") {
		asOld = append(asOld, e+" AS "+old[i])
	}
	unknown := make([]string, len(f.partial))
	for i, at := range f.partial {
		unknown[i] = fmt.Sprintf("p.cdc_unknown_%d", at)
	}
	hop, ended := fmt.Sprintf("hop%d", n), fmt.Sprintf("ended%d", n)
	oldIs := func(expressions []string) string {
		parts := make([]string, len(expressions))
		for i, e := range expressions {
			parts[i] = e + " = h." + old[i]
		}
		return strings.Join(parts, " AND ")
	}
	position := "c." + d.quote(catalog.ColumnPosition)
	values := &aggregate{}
	f.partialColumns(values)
	return []cte{
		{hop, fmt.Sprintf("SELECT %s, %s, p.cdc_moved\nFROM %s AS p\nWHERE p.cdc_moved IS NOT NULL AND (%s)",
			d.list(f.t.Key, "p."), strings.Join(asOld, ", "), before, strings.Join(unknown, " OR "))},
		{ended, fmt.Sprintf("SELECT %[1]s, max(e.cdc_end) AS cdc_ended\nFROM %[2]s AS h\nJOIN ends AS e ON %[3]s AND e.cdc_end < h.cdc_moved\nGROUP BY %[1]s",
			d.list(f.t.Key, "h."), hop, oldIs(qualified(d, f.t.Key, "e.")))},
		{fmt.Sprintf("before%d", n), values.query(d.list(f.t.Key, "h."), d.list(f.t.Key, "a."), fmt.Sprintf(`FROM %[1]s AS h
JOIN %[2]s AS c ON %[3]s AND %[4]s < h.cdc_moved
LEFT JOIN %[5]s AS e ON %[6]s
WHERE c.%[7]s <> 'delete' AND (e.cdc_ended IS NULL OR %[4]s > e.cdc_ended)`, hop, f.rows(), oldIs(f.keys("c.")), position,
			ended, d.equal(f.t.Key, "h.", "e."), d.quote(catalog.ColumnOperation)), d.list(f.t.Key, "h."))},
	}
}

// known renders the value of a column from the first source that knows it.
func (f *fold) known(i int, sources []string) string {
	var b strings.Builder
	b.WriteString("CASE")
	for _, s := range sources {
		fmt.Fprintf(&b, " WHEN NOT %scdc_unknown_%d THEN %s", s, i, f.filled(i, s+f.d.quote(f.columns[i].Name)))
	}
	b.WriteString(" END")
	return b.String()
}

// unresolved renders the list of the columns that no source knows.
func (f *fold) unresolved(sources []string) string {
	if len(f.partial) == 0 {
		return "CAST(NULL AS " + f.d.typeName(catalog.Type{Kind: catalog.String}) + ")"
	}
	missing := make([]string, len(f.partial))
	for n, i := range f.partial {
		parts := make([]string, len(sources))
		for k, s := range sources {
			parts[k] = fmt.Sprintf("coalesce(%scdc_unknown_%d, true)", s, i)
		}
		missing[n] = fmt.Sprintf("CASE WHEN %s THEN '%s' END", strings.Join(parts, " AND "), f.columns[i].Name)
	}
	return f.d.joined(missing)
}
