package ddl_test

import (
	"errors"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/catalog/catalogtest"
	"icehose/catalog/ddl"
)

// The suite's own text is a schema written by hand.
func TestConformance(t *testing.T) {
	t.Run("postgresql", func(t *testing.T) {
		sql, want := catalogtest.PostgreSQL()
		got, err := ddl.Read("schema.sql", []byte(sql), catalog.PostgreSQL)
		if err != nil {
			t.Fatal(err)
		}
		catalogtest.Check(t, want, got)
	})
	for _, engine := range []catalog.Engine{catalog.MySQL, catalog.MariaDB} {
		t.Run(string(engine), func(t *testing.T) {
			sql, want := catalogtest.MySQL(engine)
			got, err := ddl.Read("schema.sql", []byte("USE shop;\n"+sql), engine)
			if err != nil {
				t.Fatal(err)
			}
			catalogtest.Check(t, want, got)
		})
	}
}

func TestUnreadable(t *testing.T) {
	tests := []struct {
		name, text string
		engine     catalog.Engine
		want       string
	}{
		{"no engine", "CREATE TABLE t (id int);", "", "f.sql:1: cannot tell whose dump this is"},
		{"no table", "SELECT 1;", catalog.PostgreSQL, "f.sql:1: defines no table"},
		{"pg syntax", "CREATE TABLE a (id int);\n\n-- größe\nCREATE TABLE b (\n id int,,\n x int);", catalog.PostgreSQL, `f.sql:5: syntax error at or near ","`},
		{"pg twice", "CREATE TABLE a (id int);\n-- x\n\nCREATE TABLE public.a (id int);", catalog.PostgreSQL, "f.sql:4: table public.a is defined twice, first in line 1"},
		{"pg column of a table twice", "CREATE TABLE a (id int,\n id int);", catalog.PostgreSQL, "f.sql:1: table public.a: column id is defined twice"},
		{"pg column added twice", "CREATE TABLE a (id int);\nALTER TABLE a ADD COLUMN IF NOT EXISTS id text;\nALTER TABLE a ADD COLUMN id int;", catalog.PostgreSQL, "f.sql:3: alter table public.a: column id is defined twice"},
		{"pg like", "CREATE TABLE a (id int);\nCREATE TABLE b (LIKE a);", catalog.PostgreSQL, "f.sql:2: table public.b: LIKE another table"},
		{"pg as", "CREATE TABLE a (id int);\nCREATE TABLE b AS SELECT 1;", catalog.PostgreSQL, "f.sql:2: CREATE TABLE AS"},
		{"pg column twice", "CREATE TABLE a (id int);\nALTER TABLE a ADD COLUMN id2 int; ALTER TABLE a RENAME COLUMN nope TO b;", catalog.PostgreSQL, "f.sql:2: rename column public.a.nope"},
		{"my no database", "CREATE TABLE t (id int);", catalog.MySQL, "f.sql:1: the dump does not name its database"},
		{"my syntax", "USE d;\nCREATE TABLE t (\n `id` int,\n `x` nosuch(3)\n);", catalog.MySQL, "f.sql:4: create table d.t: column x cannot be parsed"},
		{"my open", "USE d;\nCREATE TABLE t (id int", catalog.MySQL, "f.sql:2: create table d.t: ( without )"},
		{"my like", "USE d;\nCREATE TABLE t LIKE u;", catalog.MySQL, "f.sql:2: create table d.t: want its columns"},
		{"my key", "USE d;\nCREATE TABLE t (id int, PRIMARY KEY (nr));", catalog.MySQL, "f.sql: read schema: table d.t has no column nr"},
		{"oracle", "CREATE TABLE t (id NUMBER)", catalog.Oracle, "f.sql:1: dumps of oracle cannot be read"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ddl.Read("f.sql", []byte(test.text), test.engine)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if located, ok := errors.AsType[*ddl.Error](err); !ok && !strings.HasPrefix(test.want, "f.sql: ") {
				t.Errorf("no place in %v", located)
			}
		})
	}
}

// What dump programs write around tables is passed over; key and column
// changes of dump programs other than the engine's own are played.
func TestAround(t *testing.T) {
	tests := []struct {
		name, text string
		engine     catalog.Engine
		want       string // table: column type, ...; key
	}{
		{"pg copy", "CREATE TABLE a (id int);\nCOPY public.a (id) FROM stdin;\n1\n'\n\\.\nALTER TABLE a ADD PRIMARY KEY (id);", catalog.PostgreSQL, "public.a: id integer; id"},
		{"pg search path", "SET search_path = app, pg_catalog;\nCREATE TABLE a (id int PRIMARY KEY);\nALTER TABLE a RENAME id TO nr; ALTER TABLE a RENAME TO b; ALTER TABLE b ALTER nr TYPE bigint", catalog.PostgreSQL, "app.b: nr bigint; nr"},
		{"pg drop", "CREATE TABLE a (id int); CREATE TABLE b (id int); DROP TABLE a;", catalog.PostgreSQL, "public.b: id integer; "},
		{"pg extension", "CREATE TABLE a (g public.geometry(Point,4326), h public.hstore)", catalog.PostgreSQL, "public.a: g public.geometry(point,4326), h public.hstore; "},
		{"my banner", "-- MySQL dump 10.13  Distrib 8.0.36\n--\n-- Host: localhost    Database: d\n-- ------\nCREATE TABLE `t` (\n`id` int NOT NULL\n);\nALTER TABLE `t`\n  ADD PRIMARY KEY (`id`), ADD COLUMN x json AFTER id, MODIFY `id` bigint NOT NULL AUTO_INCREMENT;", "", "d.t: id bigint, x json; id"},
		{"my executed", "USE d;\n/*!40101 SET x = 1 */;\n/*!50001 CREATE TABLE*/ `t` (`g` point NOT NULL /*!80003 SRID 0 */, `i` int /*!80023 INVISIBLE */, SPATIAL KEY `s` (`g`)) /*!50100 PARTITION BY KEY () */;", catalog.MySQL, "d.t: g point, i int; "},
		{"my trigger", "USE d;\nCREATE TABLE t (a int);\nDELIMITER ;;\nCREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN CREATE TABLE u (a int); SET @a = ';'; END ;;\nDELIMITER ;\nALTER TABLE t CHANGE a b varchar(3);", catalog.MySQL, "d.t: b varchar(3); "},
		{"my words", "USE d;\nCREATE TABLE t (a BOOL, b INTEGER, c DEC(5), d DOUBLE PRECISION, e NATIONAL CHAR(3), f CHARACTER VARYING(4), g uuid DEFAULT uuid(), h inet6)", catalog.MariaDB, "d.t: a tinyint(1), b int, c decimal(5,0), d double, e char(3), f varchar(4), g uuid, h inet6; "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, err := ddl.Read("f.sql", []byte(test.text), test.engine)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, table := range s.Tables {
				columns := make([]string, len(table.Columns))
				for i, c := range table.Columns {
					columns[i] = c.Name + " " + c.Declared
				}
				got = append(got, table.FullName()+": "+strings.Join(columns, ", ")+"; "+strings.Join(table.Key, ","))
			}
			if text := strings.Join(got, "\n"); text != test.want {
				t.Errorf("got  %s\nwant %s", text, test.want)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	for _, engine := range []string{string(catalog.PostgreSQL), string(catalog.MySQL)} {
		postgres, _ := catalogtest.PostgreSQL()
		my, _ := catalogtest.MySQL(catalog.MySQL)
		for _, s := range []string{postgres, "USE shop;\n" + my, "", "CREATE TABLE", "USE d; CREATE TABLE t (", "/*!", "/*!50000", "'", "DELIMITER", "CREATE TABLE a (x int default (1);", "\\restrict x\nCOPY a FROM stdin;\n"} {
			f.Add(s, engine)
		}
	}
	// The parsers compile themselves on their first call, for longer than a worker
	// has for one input.
	for _, engine := range []catalog.Engine{catalog.PostgreSQL, catalog.MySQL} {
		if _, err := ddl.Read("f.sql", []byte("CREATE TABLE d.t (id int);"), engine); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, text, engine string) {
		s, err := ddl.Read("f.sql", []byte(text), catalog.Engine(engine))
		if (s == nil) == (err == nil) {
			t.Fatal("want a schema or an error")
		}
	})
}
