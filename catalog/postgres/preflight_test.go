//go:build postgres

package postgres_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"icehose/catalog/postgres"
)

// A position rises with commits, and is the server's.
func TestPosition(t *testing.T) {
	_, conn := start(t)
	before, now, err := postgres.Position(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(now); d > time.Minute || d < -time.Minute {
		t.Errorf("the server's time is %s", now)
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE t (id int PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	after, _, err := postgres.Position(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	if before.Hi == 0 || after.Compare(before) <= 0 || after.Lo != 0 {
		t.Errorf("position went from %s to %s", before, after)
	}
}

func TestPreflight(t *testing.T) {
	server, conn := start(t)
	if _, err := conn.Exec(t.Context(), `CREATE TABLE good (id int PRIMARY KEY, n numeric(5,2));
CREATE TABLE keyless (id int); CREATE TABLE large (id int PRIMARY KEY, body text); CREATE TABLE "GOOD" (id int PRIMARY KEY);
CREATE TABLE nothing (id int PRIMARY KEY); ALTER TABLE nothing REPLICA IDENTITY NOTHING; CREATE TABLE halves (id double precision PRIMARY KEY);
CREATE UNLOGGED TABLE scratch (id int PRIMARY KEY); CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY HASH (id); CREATE TABLE part PARTITION OF parted FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE guarded (id int PRIMARY KEY); ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
CREATE ROLE reader LOGIN; GRANT SELECT ON good, guarded TO reader; ALTER ROLE reader SET statement_timeout = 1000;`); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_create_logical_replication_slot('left', 'test_decoding')"); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Read(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	check := func(conn *pgx.Conn, patterns ...string) map[string]string {
		found, err := postgres.Preflight(t.Context(), conn, s, patterns)
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for _, f := range found {
			if f.What == "" || f.Consequence == "" || f.Fix == "" {
				t.Errorf("a finding without words: %+v", f)
			}
			got[f.ID+" "+f.Object] = string(f.Severity)
		}
		return got
	}
	common := map[string]string{
		"slot_idle left": "warning", "slot_wal_unlimited max_slot_wal_keep_size": "note", "no_primary_key public.keyless": "warning",
		"out_of_line public.large": "note", "names_collide public.good": "warning", "replica_identity_nothing public.nothing": "error",
		"float_key public.halves.id": "warning", "unlogged_table public.scratch": "warning", "partitioned_table public.parted": "note",
	}
	if diff := cmp.Diff(common, check(conn)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	some := maps.Clone(common)
	delete(some, "unlogged_table public.scratch")
	if diff := cmp.Diff(some, check(conn, "public.part%")); diff != "" {
		t.Errorf("findings of a selection (-want +got):\n%s", diff)
	}
	// An account without rights, in whose name a task would fail.
	poor, err := pgx.Connect(t.Context(), strings.Replace(server.DSN(), "postgres@", "reader@", 1))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"no_replication_right reader": "error", "timeout statement_timeout": "warning", "row_security public.guarded": "error"}
	for _, name := range []string{"keyless", "large", "GOOD", "nothing", "halves", "part"} {
		want["no_select_right public."+name] = "error"
	}
	maps.Copy(want, common)
	if diff := cmp.Diff(want, check(poor)); diff != "" {
		t.Errorf("findings of an account without rights (-want +got):\n%s", diff)
	}
	if err := poor.Close(t.Context()); err != nil {
		t.Error(err)
	}
	// The fixes are statements that work.
	found, err := postgres.Preflight(t.Context(), conn, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		switch f.ID {
		case "slot_idle":
			_, drop, ok := strings.Cut(f.Fix, "or ")
			if _, err := conn.Exec(t.Context(), drop); !ok || err != nil {
				t.Errorf("%s: %v", f.Fix, err)
			}
		case "replica_identity_nothing", "unlogged_table":
			if _, err := conn.Exec(t.Context(), f.Fix); err != nil {
				t.Errorf("%s: %v", f.Fix, err)
			}
		}
	}
	if s, err = postgres.Read(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	for finding := range check(conn) {
		if strings.HasPrefix(finding, "slot_idle") || strings.HasPrefix(finding, "replica_identity") || strings.HasPrefix(finding, "unlogged") {
			t.Errorf("%s is still found", finding)
		}
	}
	if s.Table("public", "scratch") == nil {
		t.Error("the table that is logged now is not read")
	}
}
