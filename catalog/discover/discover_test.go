package discover_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/catalogtest"
	"icehose/catalog/ddl"
	"icehose/catalog/discover"
)

var update = flag.Bool("update", false, "write golden files anew")

func read(t *testing.T, engine catalog.Engine, sql string) *catalog.SourceSchema {
	t.Helper()
	s, err := ddl.Read("schema.sql", []byte(sql), engine)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(t *testing.T, file string, s *catalog.SourceSchema, o discover.Options) (text, notes string) {
	t.Helper()
	r, err := discover.Update("pipeline.yaml", []byte(file), s, o)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, n := range r.Notes {
		text := n.Text
		if n.Kind == discover.Attention {
			for _, more := range []string{n.Meanwhile, n.Edit} {
				if more != "" {
					text += "; " + more
				}
			}
		}
		fmt.Fprintf(&b, "%s %s %s: %s\n", n.Kind, n.Table, n.Column, text)
	}
	return string(r.Text), b.String()
}

// The pipeline file that was written by hand for TPC-C is what discover
// proposes, apart from modes, which are a person's choice. The hand also marked
// three char(2) as possibly unchanged: with at most 12 bytes they are shorter
// than the pointer that would take their place, so PostgreSQL never moves them.
func TestTPCC(t *testing.T) {
	for _, path := range []string{"../../internal/tpcc/schema.sql", "../../testdata/events/tpcc/schema.sql"} {
		sql, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := run(t, "", read(t, catalog.PostgreSQL, string(sql)), discover.Options{Database: "tpcc"})
		got, err := catalog.Parse("pipeline.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		want, err := catalog.Load("../../testdata/events/tpcc/pipeline.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Source, got.Source); diff != "" {
			t.Errorf("source (-hand +discovered):\n%s", diff)
		}
		short := map[string]bool{"c_middle": true, "c_state": true, "c_credit": true}
		for _, table := range want.Tables {
			found := got.BySource("public", table.Name())
			if found == nil {
				t.Errorf("%s: table %s was not discovered", path, table.Source)
				continue
			}
			var hand, discovered []catalog.Column
			for _, c := range table.Columns {
				c := *c
				c.MayBeUnchanged = c.MayBeUnchanged && !short[c.Name]
				hand = append(hand, c)
			}
			for _, c := range found.Columns {
				c := *c
				c.NotNull = false // the hand did not write it
				discovered = append(discovered, c)
			}
			if diff := cmp.Diff(hand, discovered); diff != "" {
				t.Errorf("%s: columns of %s (-hand +discovered):\n%s", path, table.Source, diff)
			}
			if diff := cmp.Diff(table.Key, found.Key); diff != "" {
				t.Errorf("%s: key of %s (-hand +discovered):\n%s", path, table.Source, diff)
			}
		}
		if len(got.Tables) != len(want.Tables) {
			t.Errorf("%s: %d tables, want %d", path, len(got.Tables), len(want.Tables))
		}
		modes := make(map[string]catalog.Mode)
		for _, table := range got.Tables {
			if table.Mode == catalog.Changelog {
				modes[table.Name()] = table.Mode
			}
		}
		if diff := cmp.Diff(map[string]catalog.Mode{"customer": catalog.Changelog, "history": catalog.Changelog}, modes); diff != "" {
			t.Errorf("changelogs (-want +got):\n%s", diff)
		}
	}
}

// The proposals for the suite's schemas, for a person to read.
func TestGolden(t *testing.T) {
	postgres, _ := catalogtest.PostgreSQL()
	my, _ := catalogtest.MySQL(catalog.MySQL)
	for name, s := range map[string]*catalog.SourceSchema{
		"postgresql": read(t, catalog.PostgreSQL, postgres),
		"mysql":      read(t, catalog.MySQL, "USE shop;\n"+my),
	} {
		text, notes := run(t, "", s, discover.Options{})
		got := text + "\n# Notes:\n# " + strings.ReplaceAll(strings.TrimSpace(notes), "\n", "\n# ") + "\n"
		path := "../../testdata/golden/discover/" + name + ".yaml"
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil { //nolint:gosec // a golden file for all to read
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-file +code):\n%s", path, diff)
		}
		// What was just written needs nothing.
		again, more := run(t, text, s, discover.Options{})
		if again != text || strings.Contains(more, "added") || strings.Contains(more, "changed") {
			t.Errorf("%s: a second run is not the same:\n%s\n%s", name, more, cmp.Diff(text, again))
		}
	}
}

const shop = `CREATE TABLE orders (id bigint PRIMARY KEY, total numeric(10,2) NOT NULL);
CREATE TABLE item (id integer PRIMARY KEY, label varchar(10));`

const edited = `# Größe: mine
version: 1
database: shop
source: {engine: postgresql, position: postgres} # one line
readers: [duckdb] # nobody else
tables: # the tables
  # first comment
  - source: public.orders # ✓ reviewed
    target: "bestellungen"   # odd   spacing
    mode: changelog
    key: [id]

    columns:
      # the id
      - {name: id, type: long, source_type: bigint}
      - name: total   # block
        type: "decimal(10,2)"
        source_type: "numeric(10,2)" # "ü" before
        allow_lossy: [round]
      # after the last column

  - source: public.item
    mode: mirror
    key: [id]
    columns: [ {name: id, type: int, source_type: integer}, {name: label, type: string, mask: sha256, source_type: "character varying(10)"} ]
  # after the last table
exclude: ["public.log%"]
`

// What a person wrote stays byte for byte; what is new is put between.
func TestUpdateKeepsThePerson(t *testing.T) {
	text, notes := run(t, edited, read(t, catalog.PostgreSQL, shop), discover.Options{})
	if text != edited || notes != "" {
		t.Errorf("an update of nothing changed the file or said something: %s\n%s", notes, cmp.Diff(edited, text))
	}
	grown := `CREATE TABLE orders (id bigint PRIMARY KEY, total numeric(14,2) NOT NULL, state varchar(5) DEFAULT 'new' NOT NULL, seen timestamptz DEFAULT now() NOT NULL, "Odd name" int);
CREATE TABLE item (id bigint PRIMARY KEY, name varchar(10), extra text[]);
CREATE TABLE log_2020 (id int);
CREATE TABLE fresh (id int PRIMARY KEY);`
	text, notes = run(t, edited, read(t, catalog.PostgreSQL, grown), discover.Options{})
	want := edited
	for _, change := range [][2]string{
		{"type: int, source_type: integer}", "type: long, source_type: bigint}"},
		{`type: "decimal(10,2)"`, `type: "decimal(14,2)"`},
		{`source_type: "numeric(10,2)"`, `source_type: "numeric(14,2)"`},
		{"        allow_lossy: [round]\n", "        allow_lossy: [round]\n" +
			`      - {name: state, type: string, source_type: character varying(5), not_null: true, default: "new"} # default: the present one, which rows from before it was added have, unless it was changed since
      - {name: seen, type: timestamptz, source_type: timestamp with time zone, not_null: true} # years before 1 fail: the type cannot hold them; DMS writes infinity as the end of the year 9999
      - {name: odd_name, source: Odd name, type: int, source_type: integer} # renamed: the lake takes lower-case letters, digits and underscores
`},
		{`"character varying(10)"} ]`, `"character varying(10)"}, {name: name, type: string, source_type: character varying(10), may_be_unchanged: true}, {name: extra, type: string, source_type: "text[]", may_be_unchanged: true} ]`},
		{"may_be_unchanged: true} ]\n", "may_be_unchanged: true} ]\n" + `  - source: public.fresh
    mode: mirror # current rows by key: no value is kept out of line, so every update has its whole row
    key: [id]
    on_load: insert # fast; rows that a repeated load brings twice are found by reconcile. upsert makes repeats harmless
    on_insert: update # an upsert: an insert that comes twice, or after its row was loaded, is harmless
    # partition: ["bucket(16, id)"] # suits many millions of rows; by key columns alone, since a delete has no others, and before the table has rows
    columns:
      - {name: id, type: int, source_type: integer}
`},
	} {
		if strings.Count(want, change[0]) != 1 {
			t.Fatalf("%q is not in the text once", change[0])
		}
		want = strings.Replace(want, change[0], change[1], 1)
	}
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	for _, part := range []string{
		"added public.fresh", "changed public.orders total: decimal(14,2), was decimal(10,2)", "changed public.item id: long, was int",
		"added public.orders state: string", "attention public.orders seen: rows from before it was added have a default that is not a plain value",
		"attention public.item label: the source has no such column: kept; it is null in new rows; if it was renamed to name, write renamed_from: label there",
	} {
		if !strings.Contains(notes, part) {
			t.Errorf("no note %q in\n%s", part, notes)
		}
	}
	again, more := run(t, text, read(t, catalog.PostgreSQL, grown), discover.Options{})
	if again != text {
		t.Errorf("a second run changed the file: %s", more)
	}
}

// What cannot be done safely is said, and left.
func TestUpdateNeedsAPerson(t *testing.T) {
	sql := `CREATE TABLE orders (id bigint, nr int PRIMARY KEY, total double precision);`
	text, notes := run(t, edited, read(t, catalog.PostgreSQL, sql), discover.Options{})
	for _, part := range []string{
		"attention public.orders : the primary key is [nr] in the source and [id] in the file",
		"attention public.orders total: the type in the source was numeric(10,2) and is now double precision, for which double is proposed; the file keeps decimal(10,2)",
		"attention public.item : the source has no such table: kept",
	} {
		if !strings.Contains(notes, part) {
			t.Errorf("no note %q in\n%s", part, notes)
		}
	}
	if !strings.Contains(text, `type: "decimal(10,2)"`) {
		t.Error("the type was changed")
	}
}

// Windows line ends, no line end, tables in other places, begun tables.
func TestUpdateForms(t *testing.T) {
	s := read(t, catalog.PostgreSQL, shop)
	head := "version: 1\ndatabase: shop\nsource: {engine: postgresql, position: postgres}\n"
	for name, file := range map[string]string{
		"crlf, no readers": strings.ReplaceAll(strings.Replace(edited, "readers: [duckdb] # nobody else\n", "", 1), "\n", "\r\n"),
		"crlf, new table":  strings.ReplaceAll(strings.Replace(edited, "public.item", "public.itemx", 1), "\n", "\r\n"),
		"crlf":             strings.ReplaceAll(edited, "\n", "\r\n"),
		"comments":         "# mine\n\n  # and more",
		"no tables":        head,
		"no line end":      head + "tables:",
		"empty list":       head + "tables: [] # none yet\nexclude: [a.b]\n",
		"begun":            head + "tables:\n- source: public.orders\n  columns:\n  - {name: total_2, source: total, type: string}\n",
		"begun, no list":   head + "tables:\n  -\n    source: public.orders\n    # a comment\n",
		"anchored":         head + "tables: &t\n  - &o\n    source: public.orders\n    mode: mirror\n    key: [id]\n    columns:\n    - name: id\n      type: long\n",
		"another position": "tables:\n    - source: public.item\n      mode: changelog\n      columns:\n          - {name: id, type: int}\n\n\n# end of tables\n" + head,
	} {
		t.Run(name, func(t *testing.T) {
			text, notes := run(t, file, s, discover.Options{})
			p, err := catalog.Parse("pipeline.yaml", []byte(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if p.BySource("public", "orders") == nil || p.BySource("public", "item") == nil || len(p.BySource("public", "orders").Columns) != 2 {
				t.Errorf("not complete:\n%s\n%s", text, notes)
			}
			for line := range strings.Lines(file) {
				if line = strings.TrimRight(line, "\r\n"); !strings.Contains(text, line) && line != "tables: [] # none yet" {
					t.Errorf("line %q is gone", line)
				}
			}
			if begun := strings.HasPrefix(name, "begun"); begun && strings.Count(text, "on_load: insert") != strings.Count(text, "mode: mirror") {
				t.Errorf("on_load is not proposed for each mirror:\n%s", text)
			}
			if readers := p.BySource("public", "item").Readers; len(readers) == 0 && p.BySource("public", "item").Mode == catalog.Mirror {
				t.Error("no readers were proposed")
			}
			if strings.HasPrefix(name, "crlf") && strings.Count(text, "\n") != strings.Count(text, "\r\n") {
				t.Error("line ends are mixed")
			}
			again, _ := run(t, text, s, discover.Options{})
			if again != text {
				t.Errorf("a second run is not the same:\n%s", cmp.Diff(text, again))
			}
		})
	}
}

func TestRefused(t *testing.T) {
	head := "version: 1\ndatabase: d\nsource: {engine: postgresql, position: postgres}\n"
	tests := []struct {
		name, sql, file string
		options         discover.Options
		want            []string
	}{
		{"unknown type", "CREATE TABLE a (id int, g public.geometry(Point,4326));", "", discover.Options{}, []string{`column public.a.g: no Iceberg type is known for public.geometry(point,4326): carry its text with --as-text`}},
		{"columns that collide", `CREATE TABLE a ("Id" int, id int, "ID" int);`, "", discover.Options{}, []string{"column public.a.id: its name in the lake, id, is already that of Id", "column public.a.ID"}},
		{"tables that collide", `CREATE TABLE a (id int); CREATE TABLE "A" (id int); CREATE TABLE "public"."á" (i int); CREATE TABLE "é" (i int); CREATE TABLE "_" (i int)`, "", discover.Options{}, []string{"its name in the lake, public__, is taken"}},
		{"no selection", "CREATE TABLE a (id int);", "", discover.Options{Tables: []string{"sales.%"}}, []string{"--tables: sales.% matches none of the source's tables, such as public.a"}},
		{"a schema alone", "CREATE TABLE a (id int);", "", discover.Options{Tables: []string{"public"}}, []string{`--tables: want schema.table, with % for any text, such as public.% for all of schema public, got "public"`}},
		{"another engine", "CREATE TABLE a (id int);", "version: 1\ndatabase: d\nsource: {engine: mysql, position: mysql}\n", discover.Options{}, []string{"the file is of a mysql source, but this is postgresql"}},
		{"broken file", "CREATE TABLE a (id int);", "version: [1", discover.Options{}, []string{"pipeline.yaml:1"}},
		{"invalid file", "CREATE TABLE a (id int);", head + "tables:\n  - source: public.b\n    mode: miror\n    columns: [{name: x, type: int}]\n", discover.Options{}, []string{`pipeline.yaml:6: tables[0].mode: want mirror, changelog, got "miror"`}},
		{"tables in brackets", "CREATE TABLE a (id int);", head + "tables: [{source: public.b, mode: mirror, columns: [{name: x, type: int}]}]\n", discover.Options{}, []string{"pipeline.yaml:4: tables: cannot be added to a list in brackets"}},
		{"tables are text", "CREATE TABLE a (id int);", head + "tables: x\n", discover.Options{}, []string{"pipeline.yaml:4"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := discover.Update("pipeline.yaml", []byte(test.file), read(t, catalog.PostgreSQL, test.sql), test.options)
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}

// A table that is gone from the source can be asked for by its name.
func TestSelectionOfWhatIsGone(t *testing.T) {
	s := read(t, catalog.PostgreSQL, "CREATE TABLE other (id int);")
	text, notes := run(t, edited, s, discover.Options{Tables: []string{"public.item"}})
	if text != edited || !strings.Contains(notes, "attention public.item : the source has no such table: kept") || strings.Contains(notes, "orders") {
		t.Errorf("notes: %s", notes)
	}
}

func TestSelectOfNothing(t *testing.T) {
	_, err := discover.Select(&catalog.SourceSchema{Engine: catalog.MySQL}, []string{"a.%"})
	if err == nil || err.Error() != "the source has no table, or none that the account may see" {
		t.Errorf("got %v", err)
	}
}

// A column that is in the file needs no mapping, and so a person can help
// discover past what it refuses.
func TestAPersonHelps(t *testing.T) {
	sql := `CREATE TABLE a (id int PRIMARY KEY, "ID" int, g public.geometry(Point,4326), v public.vector(3));`
	file := "version: 1\ndatabase: d\nsource: {engine: postgresql, position: postgres}\ntables:\n  - source: public.a\n    columns:\n      - {name: other_id, source: ID, type: int}\n      - {name: g, type: binary, exclude: true}\n"
	text, _ := run(t, file, read(t, catalog.PostgreSQL, sql), discover.Options{AsText: []string{"vector"}})
	p, err := catalog.Parse("pipeline.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, 0, 4)
	for _, c := range p.Tables[0].Columns {
		got = append(got, c.Name+" "+c.Type.String())
	}
	if diff := cmp.Diff([]string{"other_id int", "g binary", "id int", "v string"}, got); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
}

// However odd the names and comments of a source are, the file is valid YAML
// and says the same.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"a", "A b", "null", "1", "ünï", "'", `"`, "x: y", "# no", "- a", "{}", "cdc_operation", "\n", "\u2028", "\xca", "no", "0x1", "1e5", "~", "\\", "\x7f", "select"} {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, table, column, comment string) {
		if table == "" || column == "" {
			return
		}
		s := &catalog.SourceSchema{Engine: catalog.MySQL, Words: catalog.MySQL, Tables: []*catalog.SourceTable{{
			Schema: "s", Name: table, Comment: comment, Key: []string{column},
			Columns: []*catalog.SourceColumn{{Name: column, Declared: "int", Type: catalog.SourceType{Name: "int"}}},
		}}}
		r, err := discover.Update("f", nil, s, discover.Options{Database: "d"})
		if !utf8.ValidString(table) || !utf8.ValidString(column) {
			if err == nil {
				t.Error("a name that is not UTF-8 was taken")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := catalog.Parse("f", r.Text)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Tables[0]; got.Source != "s."+table || got.Columns[0].Source != "" && got.Columns[0].Source != column {
			t.Errorf("table %q column %q became %q %q", table, column, got.Source, got.Columns[0].Source)
		}
		again, err := discover.Update("f", r.Text, s, discover.Options{Database: "d"})
		if err != nil || string(again.Text) != string(r.Text) {
			t.Errorf("a second run differs: %v", err)
		}
	})
}
