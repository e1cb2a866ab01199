//go:build postgres

package dmssim_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"icehose/internal/dmssim"
)

// identities has a table of each kind of replica identity, with columns id, u and v.
const identities = `CREATE TABLE t_plain (id int PRIMARY KEY, u int NOT NULL, v int);
CREATE TABLE t_included (id int, u int NOT NULL, v int, PRIMARY KEY (id) INCLUDE (u));
CREATE TABLE t_full (id int PRIMARY KEY DEFERRABLE, u int NOT NULL, v int); ALTER TABLE t_full REPLICA IDENTITY FULL;
CREATE TABLE t_computed (id int PRIMARY KEY, u int NOT NULL, v int, w int GENERATED ALWAYS AS (v * 2) STORED); ALTER TABLE t_computed REPLICA IDENTITY FULL;
CREATE TABLE t_wider (id int PRIMARY KEY DEFERRABLE, u int NOT NULL, v int, UNIQUE (u, id)); ALTER TABLE t_wider REPLICA IDENTITY USING INDEX t_wider_u_id_key;
CREATE TABLE t_other (id int PRIMARY KEY, u int NOT NULL UNIQUE, v int); ALTER TABLE t_other REPLICA IDENTITY USING INDEX t_other_u_key;
CREATE TABLE t_beside (id int NOT NULL, u int NOT NULL, v int, PRIMARY KEY (id)); CREATE UNIQUE INDEX beside ON t_beside (u) INCLUDE (id); ALTER TABLE t_beside REPLICA IDENTITY USING INDEX beside;
CREATE TABLE t_late (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, u int NOT NULL, v int);
CREATE TABLE t_nothing (id int PRIMARY KEY, u int NOT NULL, v int); ALTER TABLE t_nothing REPLICA IDENTITY NOTHING;
CREATE TABLE t_gone (id int PRIMARY KEY, u int NOT NULL, v int); CREATE UNIQUE INDEX gone ON t_gone (u); ALTER TABLE t_gone REPLICA IDENTITY USING INDEX gone; DROP INDEX gone;
CREATE TABLE t_keyless (id int, u int, v int);
CREATE TABLE t_keyless_full (id int, u int, v int); ALTER TABLE t_keyless_full REPLICA IDENTITY FULL;
CREATE TABLE parent (id int PRIMARY KEY DEFERRABLE, u int NOT NULL, v int) PARTITION BY RANGE (id);
CREATE TABLE t_part PARTITION OF parent FOR VALUES FROM (0) TO (100);`

// However a table's rows are identified, its application can go on updating and
// deleting while a capture runs, and when one was killed. What the capture does
// not have of the table, it says.
func TestIdentities(t *testing.T) {
	s := newSource(t, identities)
	c := open(t, s, nil)
	c.load(t)
	c.records = nil
	change := func() {
		for _, table := range []string{"t_plain", "t_included", "t_full", "t_computed", "t_wider", "t_other", "t_beside", "t_late", "t_nothing", "t_gone", "t_keyless", "t_keyless_full", "parent"} {
			s.exec(t, "INSERT INTO "+table+" VALUES (1, 2, 3); UPDATE "+table+" SET v = 4; DELETE FROM "+table)
		}
	}
	change()
	c.catchUp(t, s)
	got := make(map[string][]string)
	for _, story := range c.stories() {
		op, rest, _ := strings.Cut(story, " ")
		table, row, _ := strings.Cut(rest, " ")
		got[table] = append(got[table], op+" "+row)
	}
	inserted, updated := `insert {"id":1,"u":2,"v":3}`, `update {"id":1,"u":2,"v":4}`
	only, keyed, unkeyed := []string{inserted}, []string{inserted, updated, `delete {"id":1,"u":null,"v":null}`}, []string{inserted, updated, `delete {"id":null,"u":2,"v":null}`}
	want := map[string][]string{
		"t_plain": keyed, "t_included": keyed, "t_full": {inserted, updated, `delete {"id":1,"u":2,"v":4}`}, "t_wider": {inserted, updated, `delete {"id":1,"u":2,"v":null}`},
		"t_other": unkeyed, "t_beside": unkeyed,
		"t_late": only, "t_nothing": only, "t_gone": only, "t_keyless": only, "t_keyless_full": only, "t_part": only,
	}
	// From version 18 on, a publication without the generated columns of the identity is refused.
	if want["t_computed"] = want["t_full"]; s.count(t, "SELECT current_setting('server_version_num')::int") >= 180000 {
		want["t_computed"] = only
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	for _, table := range c.Tables() {
		if table.Name == "t_included" && !slices.Equal(table.Key, []string{"id"}) {
			t.Errorf("the key of %s is %v", table.Name, table.Key)
		}
	}
	short := slices.DeleteFunc(c.Shortfalls(), func(f dmssim.Shortfall) bool { return f.Table == "public.t_computed" })
	lacking := []dmssim.Shortfall{
		{Table: "public.t_beside"},
		{Table: "public.t_gone", InsertsOnly: true},
		{Table: "public.t_keyless", InsertsOnly: true},
		{Table: "public.t_keyless_full", InsertsOnly: true},
		{Table: "public.t_late", InsertsOnly: true},
		{Table: "public.t_nothing", InsertsOnly: true},
		{Table: "public.t_other"},
		{Table: "public.t_part", InsertsOnly: true},
	}
	if diff := cmp.Diff(lacking, short, cmpopts.IgnoreFields(dmssim.Shortfall{}, "Why", "Fix")); diff != "" {
		t.Errorf("shortfalls (-want +got):\n%s", diff)
	}
	// The fixes are statements that work, and the capture must begin anew.
	for _, f := range short {
		if f.Why == "" || f.Fix == "" {
			t.Errorf("a shortfall without words: %+v", f)
		}
		if statement, _, ok := strings.Cut(f.Fix, "; then "); strings.HasPrefix(statement, "ALTER ") {
			if s.exec(t, statement); !ok {
				t.Errorf("fix %q", f.Fix)
			}
		}
	}
	again := open(t, s, func(o *dmssim.Options) { o.Slot, o.Publication = "again", "again" })
	for _, f := range again.Shortfalls() {
		if !strings.HasPrefix(f.Table, "public.t_keyless") && f.Table != "public.t_computed" {
			t.Errorf("still short: %+v", f)
		}
	}
	change()
}
