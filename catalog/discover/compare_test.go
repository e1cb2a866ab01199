package discover_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/discover"
)

const head = "version: 1\ndatabase: d\nsource: {engine: postgresql, position: postgres}\n"

// oneTable is a file with the table public.c and the columns given, one a line.
func oneTable(settings string, columns ...string) string {
	return head + "tables:\n  - source: public.c\n" + settings + "    columns:\n      - " + strings.Join(columns, "\n      - ") + "\n"
}

const changelog = "    mode: changelog\n"

// A name of the file means the source column of that very name first, and one
// of another case only where nothing else is meant by it.
func TestNamesOfOtherCase(t *testing.T) {
	tests := []struct {
		name, sql string
		columns   []string
		want      string // in the error; empty: nothing differs
	}{
		{
			"exact name first", `CREATE TABLE c (id int, "A" bigint, a integer)`,
			[]string{"{name: id, type: int}", "{name: a, type: int, source_type: integer}"},
			"column public.c.A: its name in the lake, a, is already that of column a of the file: describe one of the two",
		},
		{"both described", `CREATE TABLE c (id int, "A" bigint, a integer)`, []string{"{name: id, type: int}", "{name: a, type: int, source_type: integer}", "{name: a_2, source: A, type: long, source_type: bigint}"}, ""},
		{"exact name is named by another", `CREATE TABLE c ("A" bigint, a integer)`, []string{"{name: b, source: a, type: int, source_type: integer}", "{name: a, type: long, source_type: bigint}"}, ""},
		{"two of other case", `CREATE TABLE c ("Id" bigint, "ID" integer)`, []string{"{name: id, type: int, source_type: integer}"}, "column public.c.ID: its name in the lake, id, is already that of column id of the file"},
		{"one of other case", `CREATE TABLE c ("Id" bigint)`, []string{"{name: id, type: long, source_type: bigint}"}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := oneTable(changelog, test.columns...)
			r, err := discover.Update("pipeline.yaml", []byte(file), read(t, catalog.PostgreSQL, test.sql), discover.Options{})
			switch {
			case test.want != "":
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %q", err, test.want)
				}
			case err != nil:
				t.Error(err)
			case string(r.Text) != file || len(r.Notes) > 0:
				t.Errorf("got %v and\n%s\nwant no difference", r.Notes, cmp.Diff(file, string(r.Text)))
			}
		})
	}
}

// A new column whose name without capitals is an older column's too has its own
// default, not that of the other one.
func TestDefaultOfOtherCase(t *testing.T) {
	sql := `CREATE TABLE c (a integer DEFAULT 1 NOT NULL, "A" integer DEFAULT 2 NOT NULL)`
	text, _ := run(t, oneTable(changelog, "{name: b, source: a, type: int, source_type: integer}"), read(t, catalog.PostgreSQL, sql), discover.Options{})
	if want := `{name: a, type: int, source_type: integer, not_null: true, default: "2"}`; !strings.Contains(text, want) {
		t.Errorf("no %s in\n%s", want, text)
	}
}

// A default of bytes is their hexadecimal digits, padded as the source does it.
func TestDefaultOfBytes(t *testing.T) {
	head := "version: 1\ndatabase: d\nsource: {engine: mariadb, position: mysql}\ntables:\n  - source: s.c\n    mode: changelog\n    columns:\n      - {name: a, type: int, source_type: int}\n"
	sql := "USE s; CREATE TABLE c (a int, v varbinary(5) NOT NULL DEFAULT 'ab', b binary(4) NOT NULL DEFAULT 'ab', x varbinary(5) NOT NULL DEFAULT 0x00ff);"
	text, notes := run(t, head, read(t, catalog.MariaDB, sql), discover.Options{})
	for _, want := range []string{`source_type: varbinary(5), not_null: true, default: "6162"}`, `source_type: binary(4), not_null: true, default: "61620000"}`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if !strings.Contains(notes, "attention s.c x: rows from before it was added have a default that is not a plain value") {
		t.Errorf("notes: %s", notes)
	}
}

// What discover does with a type that changed in the source: it follows where
// the lake can, once, and leaves the rest to a person.
func TestTypeChanges(t *testing.T) {
	my := func(declared string) *catalog.SourceSchema {
		return read(t, catalog.MySQL, "USE public; CREATE TABLE c (a "+declared+");")
	}
	pg := func(declared string) *catalog.SourceSchema {
		return read(t, catalog.PostgreSQL, "CREATE TABLE c (a "+declared+");")
	}
	mirror := "    mode: mirror\n    key: [a]\n"
	tests := []struct {
		name, settings, column string
		source                 *catalog.SourceSchema
		want, note             string // the column as discover leaves it, and part of the note
	}{
		{
			"wider", changelog, `{name: a, type: int, source_type: integer}`, pg("bigint"),
			`{name: a, type: long, source_type: bigint}`, "changed public.c a: long, was int: the source has widened it from integer to bigint",
		},
		{
			"type was written already", changelog, `{name: a, type: "decimal(20,0)", source_type: bigint}`, my("bigint unsigned"),
			`{name: a, type: "decimal(20,0)", source_type: bigint unsigned}`, "changed public.c a: bigint unsigned in the source, was bigint: decimal(20,0) holds all its values",
		},
		{
			"narrower", changelog, `{name: a, type: "decimal(12,2)", source_type: "numeric(12,2)"}`, pg("numeric(10,2)"),
			`{name: a, type: "decimal(12,2)", source_type: "numeric(10,2)"}`, "decimal(12,2) holds all its values",
		},
		{
			"integer in a decimal", changelog, `{name: a, type: "decimal(20,0)", source_type: bigint unsigned}`, my("bigint"),
			`{name: a, type: "decimal(20,0)", source_type: bigint}`, "holds all its values",
		},
		{
			"decimal too short for an integer", changelog, `{name: a, type: "decimal(10,2)", source_type: "numeric(10,2)"}`, pg("integer"),
			`{name: a, type: "decimal(10,2)", source_type: "numeric(10,2)"}`, `write type: int, source_type: integer if the type can be reached in place; otherwise a new column or table with this, and a new load; to keep decimal(10,2), write source_type: integer alone`,
		},
		{
			"not in place", changelog, `{name: a, type: long, source_type: bigint}`, my("bigint unsigned"),
			`{name: a, type: long, source_type: bigint}`, `attention public.c a: the type in the source was bigint and is now bigint unsigned, for which decimal(20,0) is proposed; the file keeps long; a value that is no long fails; none is changed in silence; write type: "decimal(20,0)", source_type: bigint unsigned if`,
		},
		{
			"a loss that the file does not name", changelog, `{name: a, type: timestamp, source_type: datetime}`, my("datetime(3) DEFAULT '0000-00-00 00:00:00'"),
			`{name: a, type: timestamp, source_type: datetime}`, `write type: timestamp, source_type: datetime(3), loses: ["null"] if`,
		},
		{
			"doubled quotes", changelog, `{name: a, type: string, source_type: 'enum(''a'',''b'')'}`, my("enum('a','b','c')"),
			`{name: a, type: string, source_type: "enum('a','b','c')"}`, "changed public.c a: enum('a','b','c') in the source",
		},
		{
			"escaped quotes", changelog, `{name: a, type: string, source_type: "enum('\"','\\')"}`, my("enum('c')"),
			`{name: a, type: string, source_type: "enum('c')"}`, "changed public.c a",
		},
		{
			"key of equality deletes", mirror, `{name: a, type: int, source_type: integer}`, pg("bigint PRIMARY KEY"),
			`{name: a, type: int, source_type: integer}`, "attention public.c a: the source has widened it from integer to bigint; the file keeps int, because it is the key of a mirror with equality deletes, " +
				"and a delete of a long does not find a row that was written as int; a value beyond int fails out_of_range; create the lake table anew with type: long, source_type: bigint, and load it",
		},
		{
			"key of copies on write", mirror + "    readers: [duckdb]\n", `{name: a, type: int, source_type: integer}`, pg("bigint PRIMARY KEY"),
			`{name: a, type: long, source_type: bigint}`, "changed public.c a: long, was int",
		},
		{
			"type is an anchor", changelog, `{name: a, type: &t int, source_type: integer}`, pg("bigint"),
			`{name: a, type: &t int, source_type: integer}`, "attention public.c a: long, was int: the source has widened it from integer to bigint; not written, because a YAML anchor or alias",
		},
		{
			"column is an anchor", changelog, `&c {name: a, type: int, source_type: integer}`, pg("bigint"),
			`&c {name: a, type: int, source_type: integer}`, "write the column out in its own words, with type: long, source_type: bigint",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := oneTable(test.settings, test.column)
			if test.source.Engine == catalog.MySQL {
				file = strings.Replace(file, "{engine: postgresql, position: postgres}", "{engine: mysql, position: mysql}", 1)
			}
			text, notes := run(t, file, test.source, discover.Options{})
			if !strings.Contains(text, "      - "+test.want+"\n") {
				t.Errorf("got\n%s\nwant the column %s", text, test.want)
			}
			if !strings.Contains(notes, test.note) {
				t.Errorf("got the notes\n%s\nwant %q", notes, test.note)
			}
			if again, more := run(t, text, test.source, discover.Options{}); again != text || strings.Contains("\n"+more, "\nchanged ") {
				t.Errorf("a second run is not the same: %s\n%s", more, cmp.Diff(text, again))
			}
		})
	}
	t.Run("a column by alias", func(t *testing.T) {
		file := oneTable(changelog, "&c {name: a, type: int, source_type: integer}") + "  - source: public.e\n    mode: changelog\n    columns:\n      - *c\n"
		s := read(t, catalog.PostgreSQL, "CREATE TABLE c (a int); CREATE TABLE e (a bigint);")
		text, notes := run(t, file, s, discover.Options{})
		if text != file || !strings.Contains(notes, "attention public.e a: long, was int: the source has widened it from integer to bigint; not written") {
			t.Errorf("got %s\n%s\nwant the file as it was, and a note", notes, cmp.Diff(file, text))
		}
	})
}

// The proposed partition is valid once its # is taken away.
func TestPartitionComment(t *testing.T) {
	text, _ := run(t, "", read(t, catalog.PostgreSQL, "CREATE TABLE c (id int PRIMARY KEY)"), discover.Options{})
	p, err := catalog.Parse("pipeline.yaml", []byte(strings.Replace(text, "# partition:", "partition:", 1)))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if got := p.Tables[0].Partition; len(got) != 1 || got[0].String() != "bucket(16, id)" {
		t.Errorf("got partition %v, want bucket(16, id)", got)
	}
}

// What is wrong in the file has the line that it has there, not one of the text
// that nobody sees.
func TestPlaceOfFaults(t *testing.T) {
	s := read(t, catalog.PostgreSQL, "CREATE TABLE c (id int PRIMARY KEY, a int); CREATE TABLE e (id int)")
	file := head + "tables:\n  - source: public.c\n    columns:\n      - {name: id, type: int}\n  - source: public.e\n    mode: miror\n    columns:\n      - {name: id, type: int}\n"
	_, err := discover.Update("pipeline.yaml", []byte(file), s, discover.Options{})
	if want := `pipeline.yaml:9: tables[1].mode: want mirror, changelog, got "miror"`; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	// The file is right until the table that is new gets the same target.
	file = head + "routes: [{match: public.%, target: one}]\ntables:\n  - source: public.e\n    mode: changelog\n    columns:\n      - {name: id, type: int}\n"
	_, err = discover.Update("pipeline.yaml", []byte(file), s, discover.Options{})
	if want := "in the text that would be written: pipeline.yaml:11: tables[1].source: already the target of tables[0]"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// The key of a table that a person has begun is of the person's columns.
func TestBegunKey(t *testing.T) {
	s := read(t, catalog.PostgreSQL, "CREATE TABLE c (id int, part int, n int, PRIMARY KEY (id, part))")
	tests := []struct {
		name, column string
		mode         catalog.Mode
		key          []string
	}{
		{"renamed", "{name: c_id, source: id, type: int}", catalog.Mirror, []string{"c_id", "part"}},
		{"masked", "{name: id, type: int, mask: sha256}", catalog.Changelog, nil},
		{"excluded", "{name: id, type: int, exclude: true}", catalog.Changelog, nil},
		{"another type", "{name: id, type: double}", catalog.Changelog, nil},
		{"no key column", "{name: n_2, source: n, type: string}", catalog.Mirror, []string{"id", "part"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text, notes := run(t, oneTable("", test.column), s, discover.Options{})
			p, err := catalog.Parse("pipeline.yaml", []byte(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if got := p.Tables[0]; got.Mode != test.mode || !cmp.Equal(got.Key, test.key) {
				t.Errorf("got %s with key %v, want %s with %v", got.Mode, got.Key, test.mode, test.key)
			}
			if said := strings.Contains(notes, "the primary key cannot be the key in the lake"); said != (test.key == nil) {
				t.Errorf("got the notes\n%s", notes)
			}
		})
	}
}

// A table that was completed without a key, for a reason that still stands,
// differs in nothing.
func TestNoKeyForAReason(t *testing.T) {
	s := read(t, catalog.PostgreSQL, `CREATE TABLE c (id int PRIMARY KEY, "ID" int)`)
	text, _ := run(t, oneTable("", "{name: id, type: int, mask: sha256}", "{name: id_2, source: ID, type: int}"), s, discover.Options{})
	if again, notes := run(t, text, s, discover.Options{}); again != text || notes != "" {
		t.Errorf("got %s\n%s\nwant no difference", notes, cmp.Diff(text, again))
	}
}
