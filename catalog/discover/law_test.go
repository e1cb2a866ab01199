package discover_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"icehose/catalog"
	"icehose/catalog/discover"
)

// drawColumn draws a column of one of a few types.
func drawColumn(t *rapid.T, name string) *catalog.SourceColumn {
	declared := rapid.SampledFrom([]string{"integer", "bigint", "numeric(10,2)", "numeric(12,2)", "text", "character varying(10)", "date", "real"}).Draw(t, "type of "+name)
	typ, err := catalog.ParseSourceType(declared)
	if err != nil {
		t.Fatal(err)
	}
	return &catalog.SourceColumn{Name: name, Declared: declared, Type: typ, Nullable: rapid.Bool().Draw(t, "null"), OutOfLine: declared == "text"}
}

func drawTable(t *rapid.T, name string) *catalog.SourceTable {
	id, err := catalog.ParseSourceType("integer")
	if err != nil {
		t.Fatal(err)
	}
	out := &catalog.SourceTable{Schema: "s", Name: name, Key: []string{"id"}, Columns: []*catalog.SourceColumn{{Name: "id", Declared: "integer", Type: id}}}
	for i := range rapid.IntRange(0, 4).Draw(t, "columns") {
		out.Columns = append(out.Columns, drawColumn(t, fmt.Sprintf("%s_c%d", name, i)))
	}
	return out
}

// evolve draws what became of a schema: columns and tables dropped, added,
// renamed and retyped, keys gone.
func evolve(t *rapid.T, tables []*catalog.SourceTable) []*catalog.SourceTable {
	var out []*catalog.SourceTable
	for _, old := range tables {
		if rapid.IntRange(0, 5).Draw(t, "drop table") == 0 {
			continue
		}
		table := *old
		table.Columns = nil
		for _, c := range old.Columns {
			what := rapid.SampledFrom([]string{"keep", "keep", "drop", "rename", "retype"}).Draw(t, c.Name)
			column := *c
			switch {
			case c.Name == "id" || what == "keep":
			case what == "drop":
				continue
			case what == "rename":
				column.Name += "_new"
			default:
				column = *drawColumn(t, c.Name)
			}
			table.Columns = append(table.Columns, &column)
		}
		if rapid.Bool().Draw(t, "add column") {
			table.Columns = append(table.Columns, drawColumn(t, "added"))
		}
		if rapid.IntRange(0, 5).Draw(t, "drop key") == 0 {
			table.Key = nil
		}
		out = append(out, &table)
	}
	if rapid.Bool().Draw(t, "add table") || len(out) == 0 {
		out = append(out, drawTable(t, "u"))
	}
	return out
}

var flowColumn = regexp.MustCompile(`^( *)- \{(.*)\}(.*)$`)

// edit draws what a person does to each line of a file.
func edit(t *rapid.T, text string) string {
	var out []string
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		column := flowColumn.FindStringSubmatch(line)
		key := strings.Contains(line, "name: id,")
		switch rapid.SampledFrom([]string{"", "", "comment", "above", "blank", "choose", "unfold", "delete", "swap"}).Draw(t, "edit") {
		case "comment":
			line += fmt.Sprintf(" # by hand %d", i)
		case "above":
			out = append(out, fmt.Sprintf("%s# above %d", strings.Repeat(" ", rapid.IntRange(0, 9).Draw(t, "indent")), i))
		case "blank":
			out = append(out, "")
		case "choose":
			if column != nil && !key {
				choice := rapid.SampledFrom([]string{"exclude: true", "mask: sha256", "mask: \"null\""}).Draw(t, "choice")
				line = column[1] + "- {" + column[2] + ", " + choice + "}" + column[3]
			}
			line = strings.Replace(line, "on_load: insert #", "on_load: upsert # mine:", 1)
			line = strings.Replace(line, "mode: mirror #", "mode: changelog # mine, and not because", 1)
		case "unfold":
			if column == nil {
				break
			}
			parts := strings.Split(column[2], ", ")
			parts[0] += column[3]
			line = column[1] + "- " + strings.Join(parts, "\n"+column[1]+"  ")
		case "delete":
			if column != nil && !key {
				continue
			}
		case "swap":
			if column != nil && len(out) > 0 && flowColumn.MatchString(out[len(out)-1]) {
				out = slices.Insert(out, len(out)-1, line)
				continue
			}
		}
		out = append(out, line)
	}
	return strings.Join(out, rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "line end"))
}

var types = regexp.MustCompile(`\b(type|source_type): ("[^"]*"|[^,}#]+)`)

// linesOf returns the lines of a text, with nothing in the places of types.
func linesOf(text string) []string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = types.ReplaceAllString(line, "$1: *")
	}
	return lines
}

// Whatever a person wrote between two runs, and whatever became of the source
// meanwhile, each of their lines is there afterwards, in its order, but for types
// that the source has widened; what became of each of their columns is said; and
// a third run has nothing to add.
func TestUpdateKeepsEveryLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var before []*catalog.SourceTable
		for i := range rapid.IntRange(1, 3).Draw(t, "tables") {
			before = append(before, drawTable(t, fmt.Sprintf("t%d", i)))
		}
		run := func(text string, tables []*catalog.SourceTable) *discover.Result {
			s := &catalog.SourceSchema{Engine: catalog.PostgreSQL, Words: catalog.PostgreSQL, Tables: tables}
			r, err := discover.Update("f", []byte(text), s, discover.Options{})
			if err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			return r
		}
		edited := edit(t, string(run("", before).Text))
		after := evolve(t, before)
		r := run(edited, after)
		kept := linesOf(string(r.Text))
		for _, line := range linesOf(edited) {
			at := slices.Index(kept, line)
			if at < 0 && line != "" {
				t.Fatalf("line %q is gone, or in another place:\n%s\nbecame\n%s", line, edited, r.Text)
			}
			kept = kept[at+1:]
		}
		if again := run(string(r.Text), after); string(again.Text) != string(r.Text) {
			t.Fatalf("a third run changes\n%s\nto\n%s", r.Text, again.Text)
		}
		p, err := catalog.Parse("f", []byte(edited))
		if err != nil {
			t.Fatal(err)
		}
		said := func(table, column string) bool {
			return slices.ContainsFunc(r.Notes, func(n discover.Note) bool { return n.Table == table && n.Column == column })
		}
		for _, table := range p.Tables {
			i := slices.IndexFunc(after, func(s *catalog.SourceTable) bool { return s.FullName() == table.Source })
			if i < 0 {
				if !said(table.Source, "") {
					t.Errorf("nothing is said of %s, which is gone", table.Source)
				}
				continue
			}
			for _, c := range table.Columns {
				now := after[i].Column(c.Name)
				if !c.Exclude && (now == nil || now.Declared != c.SourceType) && !said(table.Source, c.Name) {
					t.Errorf("nothing is said of %s.%s, which was %s and is now %+v", table.Source, c.Name, c.SourceType, now)
				}
			}
		}
	})
}
