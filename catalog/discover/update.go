package discover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"icehose/catalog"
)

// update brings an existing file up to date.
func (u *updater) update(text []byte, p *catalog.Pipeline) error {
	d, err := parseDocument(u.name, text)
	if err != nil {
		return err
	}
	if p.Source.Engine != "" && !sameFamily(p.Source.Engine, u.schema.Engine) {
		return fmt.Errorf("%s: the file is of a %s source, but this is %s", u.name, p.Source.Engine, u.schema.Engine)
	}
	u.onUnknown, u.nulls, u.readBy = p.OnUnknownTable, p.Source.Nulls, p.Readers
	place := newTargets(p, "")
	var fresh []*proposal
	for _, t := range u.tables {
		if p.Excluded(t.FullName()) {
			continue
		}
		i := find(p, t)
		if i < 0 {
			if proposed := u.propose(t, nil); proposed != nil {
				place.place(u, proposed)
				fresh = append(fresh, proposed)
				u.added(proposed)
			}
			continue
		}
		seq := sequence(member(d.root, "tables"))
		if seq == nil || i >= len(seq.Values) {
			return fmt.Errorf("%s: tables: cannot be edited: want a list", u.name)
		}
		if err := u.updateTable(d, seq.Values[i], p.Tables[i], t); err != nil {
			return err
		}
	}
	u.gone(p)
	if err := u.readers(d, p, fresh); err != nil {
		return err
	}
	if err := addTables(d, fresh); err != nil {
		return err
	}
	u.text = d.result()
	return nil
}

// sameFamily reports whether two engines have the same words: whoever says
// mysql may mean MariaDB.
func sameFamily(a, b catalog.Engine) bool {
	my := func(e catalog.Engine) bool { return e == catalog.MySQL || e == catalog.MariaDB }
	return a == b || my(a) && my(b)
}

// gone notes the tables of the file that the source does not have any more.
func (u *updater) gone(p *catalog.Pipeline) {
	for _, t := range p.Tables {
		if t == nil || p.Excluded(t.Source) {
			continue
		}
		filter := catalog.Pipeline{Include: u.options.Tables}
		if filter.Excluded(t.Source) {
			continue
		}
		if !slices.ContainsFunc(u.schema.Tables, func(s *catalog.SourceTable) bool {
			return find(&catalog.Pipeline{Names: p.Names, Tables: []*catalog.Table{t}}, s) == 0
		}) {
			u.note(u.goneTable(p, t))
		}
	}
}

// readers proposes the readers of a file whose mirrors have none.
func (u *updater) readers(d *document, p *catalog.Pipeline, fresh []*proposal) error {
	lacking := slices.ContainsFunc(fresh, func(t *proposal) bool { return t.mode == catalog.Mirror && len(t.key) > 0 }) ||
		slices.ContainsFunc(p.Tables, func(t *catalog.Table) bool { return t != nil && len(t.UniqueKeys()) > 0 && len(t.Readers) == 0 })
	tables := member(d.root, "tables")
	if len(p.Readers) > 0 || !lacking {
		return nil
	}
	at := len(d.text)
	if tables != nil {
		key, err := d.offset(tables.Key)
		if err != nil {
			return err
		}
		at = d.lines[d.lineOf(key)]
	}
	d.insert(at, readersLine())
	u.note(Note{Kind: Added, Text: "readers: who reads the tables decides how deletes are written", Edit: strings.TrimSpace(readersLine())})
	return nil
}

// addTables writes tables behind the last one.
func addTables(d *document, fresh []*proposal) error {
	if len(fresh) == 0 {
		return nil
	}
	tables := member(d.root, "tables")
	seq := sequence(tables)
	indent, at, before := "  ", len(d.text), ""
	switch {
	case tables == nil:
		before = "tables:\n"
	case seq == nil || seq.IsFlowStyle && len(seq.Values) == 0:
		keyAt, err := d.offset(tables.Key)
		if err != nil {
			return err
		}
		line := d.lineOf(keyAt)
		if rest := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(d.line(line)), "tables:")); rest != "" && !strings.HasPrefix(rest, "#") {
			if seq == nil || !strings.HasPrefix(rest, "[]") {
				return fmt.Errorf("%s:%d: tables: cannot be edited: want a list", d.name, line+1)
			}
			open := d.lines[line] + strings.Index(d.line(line), "[]")
			d.edits = append(d.edits, edit{open, open + 2, ""})
		}
		at = d.lines[line+1]
	case seq.IsFlowStyle:
		return fmt.Errorf("%s:%d: tables: cannot be added to a list in brackets: write it with one dash for each table", d.name, seq.Start.Position.Line)
	default:
		last := seq.Values[len(seq.Values)-1]
		lastAt, err := d.offset(last)
		if err != nil {
			return err
		}
		dash, err := d.dashBefore(lastAt)
		if err != nil {
			return err
		}
		indent = strings.Repeat(" ", dash-d.lines[d.lineOf(dash)])
		at = d.blockEnd(d.lineOf(dash), len(indent))
	}
	var w writer
	w.WriteString(before)
	for _, p := range fresh {
		w.table(indent, p)
	}
	d.insert(at, w.String())
	return nil
}

// updateTable adds what is new in a table of the file and notes what differs.
func (u *updater) updateTable(d *document, node ast.Node, have *catalog.Table, t *catalog.SourceTable) error {
	node = unwrapAnchor(node)
	fresh := u.propose(t, have)
	if fresh == nil {
		return nil
	}
	sources := pair(have, t)
	if have.Mode == "" {
		if err := u.complete(d, node, fresh, have, sources); err != nil {
			return err
		}
	} else {
		u.compareKey(fresh, have, sources)
	}
	columns := sequence(member(node, "columns"))
	for i, c := range have.Columns {
		if c == nil {
			continue
		}
		source := sources[i]
		if source == nil {
			continue
		}
		if columns == nil || i >= len(columns.Values) {
			return fmt.Errorf("%s: columns of %s: cannot be edited: want a list", d.name, t.FullName())
		}
		if err := u.compareColumn(d, columns.Values[i], c, source, have, t); err != nil {
			return err
		}
	}
	u.noteGone(fresh, have, sources)
	if len(fresh.columns) == 0 {
		return nil
	}
	if have.Mode != "" {
		for i := range fresh.columns {
			u.later(&fresh.columns[i], t)
		}
	}
	if err := u.addColumns(d, node, columns, fresh.columns); err != nil {
		return err
	}
	for _, c := range fresh.columns {
		u.note(Note{Kind: Added, Table: t.FullName(), Column: c.Name, Text: c.TypeText, Meanwhile: "rows are delivered without it", Edit: "- " + flow(&c)})
	}
	return nil
}

func unwrapAnchor(n ast.Node) ast.Node {
	if a, ok := n.(*ast.AnchorNode); ok {
		return a.Value
	}
	return n
}

// pair finds the source column that each column of the file means, nil where
// there is none, by the rule of catalog.SourceNames. Of several spellings of one
// column it means its own name; without that, nothing says which one is meant.
func pair(have *catalog.Table, t *catalog.SourceTable) []*catalog.SourceColumn {
	names := have.SourceNames()
	found := make([][]*catalog.SourceColumn, len(have.Columns))
	for _, s := range t.Columns {
		if i := names.Find(s.Name); i >= 0 {
			found[i] = append(found[i], s)
		}
	}
	sources := make([]*catalog.SourceColumn, len(have.Columns))
	for i, several := range found {
		if len(several) == 1 {
			sources[i] = several[0]
			continue
		}
		if own := slices.IndexFunc(several, func(s *catalog.SourceColumn) bool { return s.Name == have.Columns[i].Name }); own >= 0 {
			sources[i] = several[own]
		}
	}
	return sources
}
