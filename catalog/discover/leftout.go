package discover

import (
	"fmt"
	"slices"

	"icehose/catalog"
)

// skipEmpty leaves out tables without columns that the file does not have: no
// pipeline file can describe one.
func (u *updater) skipEmpty(p *catalog.Pipeline) {
	u.tables = slices.DeleteFunc(u.tables, func(t *catalog.SourceTable) bool {
		if len(t.Columns) > 0 || find(p, t) >= 0 {
			return false
		}
		if !p.Excluded(t.FullName()) {
			u.note(Note{
				Kind: Attention, Table: t.FullName(), Text: "the table has no columns: left out",
				Edit: "give it a column, or name it under exclude:",
			})
		}
		return true
	})
}

// noteLeftOut names the tables that cannot flow because of a setting of theirs.
// What is no table by nature, such as a view, is expected to be left out.
func (u *updater) noteLeftOut(p *catalog.Pipeline) {
	filter := catalog.Pipeline{Include: u.options.Tables}
	for i := range u.schema.LeftOut {
		l := &u.schema.LeftOut[i]
		name := l.FullName()
		if l.Why != catalog.LeftOutUnlogged || filter.Excluded(name) || p.Excluded(name) ||
			find(p, &catalog.SourceTable{Schema: l.Schema, Name: l.Name}) >= 0 { // update has said it
			continue
		}
		u.note(Note{
			Kind: Attention, Table: name, Text: "the table is UNLOGGED: left out, because its changes are not in the source's log",
			Edit: "make it LOGGED in the source, or name it under exclude:",
		})
	}
}

// goneTable is the note of a table of the file that is not among the source's.
func (u *updater) goneTable(p *catalog.Pipeline, t *catalog.Table) Note {
	n := Note{
		Kind: Attention, Table: t.Source, Text: "the source has no such table: kept",
		Edit: "remove the table from the file when its rows are of no more use",
	}
	for i := range u.schema.LeftOut {
		l := &u.schema.LeftOut[i]
		if find(&catalog.Pipeline{Names: p.Names, Tables: []*catalog.Table{t}}, &catalog.SourceTable{Schema: l.Schema, Name: l.Name}) < 0 {
			continue
		}
		n.Text = fmt.Sprintf("the source has it as %s: kept", natures[l.Why])
		if l.Why == catalog.LeftOutUnlogged {
			n.Meanwhile = "none of its changes are delivered, and nothing fails"
			n.Edit = "make it LOGGED in the source and load it anew, or remove it from the file when its rows are of no more use"
		}
	}
	return n
}

// natures says what a relation is that was left out.
var natures = map[catalog.LeftOutWhy]string{ //nolint:gochecknoglobals // constant table
	catalog.LeftOutUnlogged:  "an UNLOGGED table, whose changes are not in its log",
	catalog.LeftOutParent:    "a table with partitions, which have its rows: each is a table of its own",
	catalog.LeftOutView:      "a view, which has no rows of its own",
	catalog.LeftOutForeign:   "a foreign table, whose rows are another server's",
	catalog.LeftOutExtension: "a table of an extension",
}
