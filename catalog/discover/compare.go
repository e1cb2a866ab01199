package discover

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"icehose/catalog"
)

// complete gives a table that a person has begun its write mode and key. The
// person's own columns count as they are described.
func (u *updater) complete(d *document, node ast.Node, fresh *proposal, have *catalog.Table, sources []*catalog.SourceColumn) error {
	t := fresh.source
	p := described(fresh, have, sources)
	u.proposeKey(p, t)
	if len(have.Key) > 0 {
		p.key = have.Key
	}
	first := pairs(node)
	if len(first) == 0 || isFlow(node) {
		return fmt.Errorf("%s: table %s: cannot be completed: write it with one line for each setting", d.name, t.FullName())
	}
	at, err := d.offset(first[0].Key)
	if err != nil {
		return err
	}
	line := d.lineOf(at)
	indent := strings.Repeat(" ", at-d.lines[line])
	var w writer
	w.printf("%smode: %s # %s\n", indent, p.mode, p.modeWhy)
	if len(p.key) > 0 && len(have.Key) == 0 {
		w.printf("%skey: [%s]\n", indent, strings.Join(scalars(p.key), ", "))
	}
	w.choices(indent, p, node)
	d.insert(d.lines[line+1], w.String())
	u.added(p)
	return nil
}

// described is a table as the file will describe it: the person's columns, and
// those that are added.
func described(fresh *proposal, have *catalog.Table, sources []*catalog.SourceColumn) *proposal {
	t := fresh.source
	p := &proposal{source: t}
	for i, c := range have.Columns {
		if sources[i] == nil {
			continue
		}
		column := proposedColumn{Column: *c, source: sources[i]}
		column.Type, _ = catalog.ParseType(c.TypeText) // Parse says what is wrong in it, with the line
		column.MayBeUnchanged = !c.Exclude && (c.MayBeUnchanged || sources[i].OutOfLine && !slices.Contains(t.Key, sources[i].Name))
		p.columns = append(p.columns, column)
	}
	p.columns = append(p.columns, fresh.columns...)
	return p
}

func isFlow(n ast.Node) bool {
	m, ok := n.(*ast.MappingNode)
	return ok && m.IsFlowStyle
}

// compareColumn brings a column's type up to date where that is safe, and
// notes what a person must decide.
func (u *updater) compareColumn(d *document, node ast.Node, c *catalog.Column, s *catalog.SourceColumn, have *catalog.Table, t *catalog.SourceTable) error {
	if c.Exclude {
		return nil
	}
	if c.NotNull && s.Nullable && !slices.Contains(t.Key, s.Name) {
		u.note(Note{Kind: Attention, Table: t.FullName(), Column: c.Name, Text: "may be null in the source", Edit: "remove not_null"})
	}
	if u.schema.Knows(catalog.AspectOutOfLine) && s.OutOfLine && !c.MayBeUnchanged && !slices.Contains(t.Key, s.Name) {
		n := Note{
			Kind: Attention, Table: t.FullName(), Column: c.Name, Text: "an update may leave it out, because the source keeps it out of line",
			Meanwhile: "such an update is taken to make it null", Edit: "may_be_unchanged: true",
		}
		if cmp.Or(have.Nulls, u.nulls) == catalog.NullsIncluded {
			n.Meanwhile = "such an update fails missing_column"
		}
		u.note(n)
	}
	return u.compareType(d, node, c, s, have, t)
}

func (u *updater) compareType(d *document, node ast.Node, c *catalog.Column, s *catalog.SourceColumn, table *catalog.Table, t *catalog.SourceTable) error {
	spelled := spelling(u.schema.Words, s)
	switch {
	case c.SourceType == "" || sameText(u.schema.Engine, c.SourceType, spelled):
		return nil
	case u.schema.Words == catalog.DMS && !strings.HasPrefix(c.SourceType, dmsPrefix):
		u.compareWithRecords(c, s, t)
		return nil
	}
	now, err := u.mapType(s)
	if _, unmapped := errors.AsType[*catalog.UnmappedError](err); unmapped {
		u.typeChanged(c, t, fmt.Sprintf("was %s and is now %s, for which no Iceberg type is known", c.SourceType, spelled),
			"a type: that holds its values, source_type: "+scalar(spelled), spelled)
		return nil
	}
	if err != nil {
		return err
	}
	have, err := catalog.ParseType(c.TypeText)
	if err != nil {
		return nil //nolint:nilerr // Parse says so, with the line
	}
	before, known := mapSpelling(u.schema.Engine, c.SourceType)
	evolves := known && before.Type == have && Widens(have, now.Type)
	edit := "type: " + scalar(now.Type.String()) + ", source_type: " + scalar(spelled)
	if losses := unsaid(now.Losses, c); len(losses) > 0 {
		edit += ", loses: [" + strings.Join(losses, ", ") + "]"
		evolves = false
	} else if holds(have, now.Type) {
		return u.restate(d, node, c, spelled, t)
	}
	if !evolves {
		u.typeChanged(c, t, fmt.Sprintf("was %s and is now %s, for which %s is proposed", c.SourceType, spelled, now.Type), edit, spelled)
		return nil
	}
	n := Note{
		Kind: Changed, Table: t.FullName(), Column: c.Name, Text: fmt.Sprintf("%s, was %s: the source has widened it from %s to %s", now.Type, have, c.SourceType, spelled),
		Meanwhile: fmt.Sprintf("a value beyond %s fails out_of_range", have), Edit: edit,
	}
	if u.storedKey(table, c) && now.Type.Kind == catalog.Long {
		n.Kind = Attention
		n.Text = fmt.Sprintf("the source has widened it from %s to %s; the file keeps %s, because it is the key of a mirror with equality deletes, "+
			"and a delete of a %s does not find a row that was written as %s", c.SourceType, spelled, have, now.Type, have)
		n.Edit = "create the lake table anew with " + edit + ", and load it"
		u.note(n)
		return nil
	}
	written, err := d.rewrite(node, [][2]string{{"type", now.Type.String()}, {"source_type", spelled}})
	if err != nil {
		return err
	}
	if !written {
		n = sharedText(n)
	}
	u.note(n)
	return nil
}

// restate writes the source's new type beside a type that holds all its values.
func (u *updater) restate(d *document, node ast.Node, c *catalog.Column, spelled string, t *catalog.SourceTable) error {
	n := Note{
		Kind: Changed, Table: t.FullName(), Column: c.Name, Edit: "source_type: " + scalar(spelled),
		Text: fmt.Sprintf("%s in the source, was %s: %s holds all its values", spelled, c.SourceType, c.TypeText),
	}
	written, err := d.rewrite(node, [][2]string{{"source_type", spelled}})
	if err != nil {
		return err
	}
	if !written {
		n = sharedText(n)
	}
	u.note(n)
	return nil
}

// sharedText makes of a change what a person has to do.
func sharedText(n Note) Note {
	n.Kind = Attention
	n.Text += "; not written, because a YAML anchor or alias makes the column's text that of another place too"
	n.Edit = "write the column out in its own words, with " + n.Edit
	return n
}

// rewrite replaces members of a column, all or none: none when one of them is
// not the column's own text.
func (d *document) rewrite(column ast.Node, members [][2]string) (bool, error) {
	if _, shared := column.(*ast.AnchorNode); shared {
		return false, nil
	}
	nodes := make([]ast.Node, len(members))
	for i, m := range members {
		if nodes[i] = own(column, m[0]); nodes[i] == nil {
			return false, nil
		}
	}
	for i, m := range members {
		if err := d.replace(nodes[i], scalar(m[1])); err != nil {
			return false, err
		}
	}
	return true, nil
}

// storedKey reports whether deletes find rows by the column as it is stored.
func (u *updater) storedKey(have *catalog.Table, c *catalog.Column) bool {
	t := *have
	if len(t.Readers) == 0 {
		t.Readers = u.readBy
	}
	return slices.Contains(t.UniqueKeys(), c.Name) && t.DeleteFormat() == catalog.EqualityDeletes
}

// unsaid returns the losses of a mapping that the column does not name, as the
// file spells them.
func unsaid(losses []catalog.Loss, c *catalog.Column) []string {
	var out []string
	for _, l := range losses {
		if !slices.Contains(c.Loses, l) && !slices.Contains(c.AllowLossy, l) {
			out = append(out, quoted(string(l)))
		}
	}
	return out
}

// holds reports whether a type has every value of the other one.
func holds(have, other catalog.Type) bool {
	if have.Kind != catalog.Decimal {
		return Widens(other, have)
	}
	digits := have.Precision - have.Scale
	switch other.Kind { //nolint:exhaustive // no other kind has exact numbers
	case catalog.Int:
		return digits >= len("2147483648")
	case catalog.Long:
		return digits >= len("9223372036854775808")
	case catalog.Decimal:
		return have.Scale >= other.Scale && digits >= other.Precision-other.Scale
	}
	return false
}

// typeChanged notes a type that the file cannot follow by itself; edit is what
// would describe the new one. spelled is its source_type, empty where that is
// not known in the file's words.
func (u *updater) typeChanged(c *catalog.Column, t *catalog.SourceTable, how, edit, spelled string) {
	edit = "write " + edit + " if the type can be reached in place; otherwise a new column or table with this, and a new load"
	if spelled != "" {
		edit += "; to keep " + c.TypeText + ", write source_type: " + scalar(spelled) + " alone"
	}
	u.note(Note{
		Kind: Attention, Table: t.FullName(), Column: c.Name, Text: "the type in the source " + how + "; the file keeps " + c.TypeText,
		Meanwhile: "a value that is no " + c.TypeText + " fails; none is changed in silence",
		Edit:      edit,
	})
}

// compareWithRecords compares a column whose type the file knows in the
// engine's words with DMS's, which tell less: whether numbers have grown.
func (u *updater) compareWithRecords(c *catalog.Column, s *catalog.SourceColumn, t *catalog.SourceTable) {
	now, err := catalog.MapType(catalog.DMS, s)
	have, bad := catalog.ParseType(c.TypeText)
	// DMS calls every money NUMERIC(38,4), and a float4 either of two names.
	if err == nil && bad == nil && have != now.Type && len(now.Losses) == 0 && c.SourceType != "money" && have.Kind != catalog.Float && Widens(have, now.Type) {
		u.typeChanged(c, t, fmt.Sprintf("was %s and is %s in a control record, for which %s is proposed", c.SourceType, s.Declared, now.Type), "type: "+scalar(now.Type.String()), "")
	}
}

// mapSpelling maps a source_type as the file spells it.
func mapSpelling(engine catalog.Engine, spelled string) (catalog.Mapping, bool) {
	if rest, ok := strings.CutPrefix(spelled, dmsPrefix); ok {
		engine, spelled = catalog.DMS, rest
	}
	typ, err := catalog.ParseSourceType(spelled)
	if err != nil {
		return catalog.Mapping{}, false
	}
	m, err := catalog.MapType(engine, &catalog.SourceColumn{Declared: spelled, Type: typ})
	return m, err == nil
}

// sameText reports whether two spellings are of one type: a person may write
// varchar(10) for character varying(10).
func sameText(engine catalog.Engine, a, b string) bool {
	return canonicalSpelling(engine, a) == canonicalSpelling(engine, b)
}

func canonicalSpelling(engine catalog.Engine, s string) string {
	t, err := catalog.ParseSourceType(s)
	if err != nil {
		return s
	}
	short := map[string]string{"varchar": "character varying", "char": "character", "int": "integer", "int4": "integer", "int8": "bigint", "int2": "smallint", "bool": "boolean", "timestamp": "timestamp without time zone", "timestamptz": "timestamp with time zone", "float8": "double precision", "float4": "real", "decimal": "numeric"}
	if long, ok := short[t.Name]; ok && engine == catalog.PostgreSQL {
		t.Name = long
	}
	if engine != catalog.PostgreSQL && t.Name != "tinyint" && t.Name != "bit" && (strings.HasSuffix(t.Name, "int") || t.Name == "year") {
		t.Params = nil // a display width
	}
	return t.String()
}

// Widens reports whether an Iceberg table can be evolved from one type to the
// other, or has it already.
func Widens(from, to catalog.Type) bool {
	switch {
	case from == to:
		return true
	case from.Kind == catalog.Int && to.Kind == catalog.Long, from.Kind == catalog.Float && to.Kind == catalog.Double:
		return true
	case from.Kind == catalog.Decimal && to.Kind == catalog.Decimal:
		return from.Scale == to.Scale && to.Precision >= from.Precision
	}
	return false
}

// addColumns writes columns behind the last one of a table.
func (u *updater) addColumns(d *document, table ast.Node, seq *ast.SequenceNode, fresh []proposedColumn) error {
	var w writer
	said := make(map[string]bool)
	switch {
	case seq == nil || len(seq.Values) == 0:
		first := pairs(table)
		if len(first) == 0 || isFlow(table) || member(table, "columns") != nil {
			return fmt.Errorf("%s: columns: cannot be edited: want a list with one dash for each column", d.name)
		}
		at, err := d.offset(first[0].Key)
		if err != nil {
			return err
		}
		line := d.lineOf(at)
		column := at - d.lines[line]
		indent := strings.Repeat(" ", column)
		w.WriteString(indent + "columns:\n")
		for i := range fresh {
			w.column(indent+"  ", &fresh[i], said)
		}
		d.insert(d.blockEnd(line, column-1), w.String())
	default:
		items, whys := make([]string, len(fresh)), make([]string, len(fresh))
		for i := range fresh {
			items[i] = flow(&fresh[i])
			if !said[fresh[i].why] {
				whys[i] = fresh[i].why
			}
			said[fresh[i].why] = true
		}
		return d.appendItems(member(table, "columns"), items, whys)
	}
	return nil
}
