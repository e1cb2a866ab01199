//go:build postgres

package postgres_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/discover"
	"icehose/catalog/postgres"
)

// What the rows of then have in a column that was added is read from where the
// server keeps it, whatever became of the default.
func TestEarlier(t *testing.T) {
	_, conn := start(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1); CREATE TABLE rewritten (id int PRIMARY KEY); CREATE TABLE random (id int PRIMARY KEY)`)
	before, err := postgres.Read(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	file, err := discover.Update("pipeline.yaml", nil, before, discover.Options{})
	if err != nil {
		t.Fatal(err)
	}
	exec(`SET datestyle TO SQL, DMY; SET timezone TO 'Asia/Tokyo'; SET bytea_output TO escape;
		ALTER TABLE t ADD same int NOT NULL DEFAULT 7, ADD changed int NOT NULL DEFAULT 7, ADD dropped int NOT NULL DEFAULT 7, ADD computed int NOT NULL DEFAULT 3 + 4,
			ADD words text NOT NULL DEFAULT '{"a", null}', ADD list int[] NOT NULL DEFAULT '{1,2}', ADD day date NOT NULL DEFAULT '03/02/2020',
			ADD at timestamptz NOT NULL DEFAULT '2020-01-01 00:00:00+00', ADD bytes bytea NOT NULL DEFAULT '\x00ff', ADD yes boolean NOT NULL DEFAULT true,
			ADD corners box NOT NULL DEFAULT '(1,1),(0,0)', ADD maybe int DEFAULT 7, ADD none int;
		ALTER TABLE t ALTER changed SET DEFAULT 8, ALTER dropped DROP DEFAULT;
		ALTER TABLE rewritten ADD z int NOT NULL DEFAULT 7; ALTER TABLE rewritten ALTER z SET DEFAULT 8;
		ALTER TABLE random ADD z int NOT NULL DEFAULT 7; ALTER TABLE random ADD each uuid DEFAULT gen_random_uuid()`)
	exec("VACUUM FULL rewritten")
	s, err := postgres.Read(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, table := range s.Tables {
		for _, c := range table.Columns {
			if c.Earlier != nil {
				got[table.Name+"."+c.Name] = *c.Earlier
			}
		}
	}
	want := map[string]string{
		"t.same": "7", "t.changed": "7", "t.dropped": "7", "t.computed": "7", "t.words": `{"a", null}`, "t.list": "{1,2}", "t.day": "2020-02-03",
		"t.at": "2020-01-01 00:00:00+00", "t.bytes": `\x00ff`, "t.yes": "t", "t.maybe": "7",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r, err := discover.Update("pipeline.yaml", file.Text, s, discover.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{name: changed, type: int, source_type: integer, not_null: true, default: "7"}`, `{name: dropped, type: int, source_type: integer, not_null: true, default: "7"}`,
		`{name: computed, type: int, source_type: integer, not_null: true, default: "7"}`, `{name: maybe, type: int, source_type: integer}`,
		`{name: z, type: int, source_type: integer, not_null: true}`, `default: "2020-02-03"}`, `default: "00ff"}`, `default: "2020-01-01T00:00:00.000000Z"}`, `default: "true"}`,
		`default: "{1,2}"}`,
	} {
		if !strings.Contains(string(r.Text), want) {
			t.Errorf("no %s in\n%s", want, r.Text)
		}
	}
	said := make(map[string]string)
	for _, n := range r.Notes {
		if n.Kind == discover.Attention {
			said[n.Table+"."+n.Column] = n.Text
		}
	}
	for column, want := range map[string]string{
		"public.t.maybe": "no default: can say so", "public.t.corners": "nothing tells what rows from before it was added have in it",
		"public.random.z": "nothing tells what rows from before it was added have in it", "public.random.each": "may each have got a value of its own",
		"public.rewritten.z": "nothing tells what rows from before it was added have in it",
	} {
		if !strings.Contains(said[column], want) {
			t.Errorf("of %s: %q, want %q", column, said[column], want)
		}
		delete(said, column)
	}
	if len(said) > 0 {
		t.Errorf("more was said: %v", said)
	}
}

// What is no table to read from is listed, with what it is.
func TestLeftOut(t *testing.T) {
	_, conn := start(t)
	if _, err := conn.Exec(t.Context(), `CREATE TABLE good (id int PRIMARY KEY); CREATE UNLOGGED TABLE scratch (id int PRIMARY KEY);
		CREATE TABLE parted (id int) PARTITION BY HASH (id); CREATE TABLE part PARTITION OF parted FOR VALUES WITH (MODULUS 1, REMAINDER 0);
		CREATE VIEW v AS SELECT 1; CREATE MATERIALIZED VIEW m AS SELECT 1; CREATE TEMPORARY TABLE gone (id int); CREATE TABLE empty ();
		CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w; CREATE FOREIGN TABLE f (id int) SERVER s;`); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Read(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]catalog.LeftOutWhy)
	for _, l := range s.LeftOut {
		got[l.FullName()] = l.Why
	}
	want := map[string]catalog.LeftOutWhy{
		"public.scratch": catalog.LeftOutUnlogged, "public.parted": catalog.LeftOutParent, "public.v": catalog.LeftOutView,
		"public.m": catalog.LeftOutView, "public.f": catalog.LeftOutForeign,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
