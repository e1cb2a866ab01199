//go:build postgres

package postgres_test

import (
	"testing"

	"icehose/catalog/postgres"
)

// A partition that is attached between the lock and the snapshot is named.
func TestUnlocked(t *testing.T) {
	server, conn := start(t)
	other := server.Connect(t)
	if _, err := conn.Exec(t.Context(), `CREATE TABLE parts (id int) PARTITION BY RANGE (id); CREATE TABLE parts_some PARTITION OF parts FOR VALUES FROM (0) TO (9) PARTITION BY RANGE (id);
		CREATE TABLE below PARTITION OF parts_some FOR VALUES FROM (0) TO (9); CREATE TABLE later (id int); CREATE TABLE plain (); CREATE TABLE child () INHERITS (plain)`); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, table, lock, meanwhile, want string }{
		{"no lock", "plain", "LOCK TABLE parts IN ACCESS SHARE MODE", "SELECT 1", "public.plain"},
		{"a table that others inherit from", "plain", "LOCK TABLE ONLY plain IN ACCESS SHARE MODE", "SELECT 1", ""},
		{"partitions", "parts", "LOCK TABLE parts IN ACCESS SHARE MODE", "SELECT 1", ""},
		{"a new partition", "parts", "LOCK TABLE parts IN ACCESS SHARE MODE", "ALTER TABLE parts ATTACH PARTITION later FOR VALUES FROM (9) TO (99)", "public.later"},
	} {
		if _, err := conn.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; "+tt.lock); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Exec(t.Context(), tt.meanwhile); err != nil {
			t.Fatal(err)
		}
		var table uint32
		if err := conn.QueryRow(t.Context(), "SELECT $1::text::regclass::oid", tt.table).Scan(&table); err != nil {
			t.Fatal(err)
		}
		if got, err := postgres.Unlocked(t.Context(), conn, table); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
		if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}
}
