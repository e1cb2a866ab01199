package discover_test

import (
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/catalog/discover"
)

// Names that the lake cannot have are given others, with the reason; those that
// need quotes are said to.
func TestReservedNames(t *testing.T) {
	text, _ := run(t, "", read(t, catalog.PostgreSQL, `CREATE TABLE "order"."order" (id int PRIMARY KEY, "select" int, _deleted boolean, cdc_position text, "_file" int);
CREATE TABLE "order"."user" (id int PRIMARY KEY);
CREATE TABLE "order".comment (id int PRIMARY KEY);
CREATE TABLE "order".comment_history (id int PRIMARY KEY);
CREATE TABLE "order".vote_current (id int PRIMARY KEY);
CREATE TABLE "public".vote (id int PRIMARY KEY);`), discover.Options{})
	p, err := catalog.Parse("pipeline.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if got := p.Database; got != "lake" {
		t.Errorf("database is %s", got)
	}
	for _, part := range []string{
		"target: order_order # order is a reserved word, and Athena's OPTIMIZE and VACUUM take no quotes\n",
		"target: order_comment_history # comment_history is generated for comment\n",
		"target: public_vote # vote_current would be generated for it, and another table is that already\n",
		"- source: order.user\n    # a reserved word: quote it in queries\n",
		"{name: select, type: int, source_type: integer} # a reserved word: quote it in queries\n",
		"{name: source_deleted, source: _deleted, type: boolean,", "{name: source_file, source: _file, type: int,", "{name: source_cdc_position, source: cdc_position,",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

// Keys that cannot be keys in the lake make a changelog, with the reason.
func TestKeysThatAreNone(t *testing.T) {
	s := read(t, catalog.PostgreSQL, `CREATE TABLE f (a double precision PRIMARY KEY, b int);
CREATE TABLE g (a int GENERATED ALWAYS AS (b * 2) STORED PRIMARY KEY, b int);
CREATE TABLE n (a int PRIMARY KEY); ALTER TABLE n REPLICA IDENTITY NOTHING;`)
	s.Tables = append(s.Tables, &catalog.SourceTable{
		Schema: "public", Name: "z", Key: []string{"a"}, Columns: []*catalog.SourceColumn{{Name: "a", Nullable: true, Type: catalog.SourceType{Name: "integer"}}},
	})
	text, notes := run(t, "", s, discover.Options{})
	p, err := catalog.Parse("pipeline.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range p.Tables {
		if table.Mode != catalog.Changelog || table.Name() != "n" && len(table.Key) > 0 {
			t.Errorf("%s is a %s with key %v", table.Source, table.Mode, table.Key)
		}
	}
	for _, why := range []string{"a is a double: Iceberg refuses", "a is computed", "a may be null", "REPLICA IDENTITY NOTHING"} {
		if !strings.Contains(notes, why) || !strings.Contains(text, why) {
			t.Errorf("no reason %q in\n%s", why, notes)
		}
	}
	// It is said once: a later run does not ask the person again.
	if again, more := run(t, text, s, discover.Options{}); again != text || more != "" {
		t.Errorf("a second run says: %s", more)
	}
}
