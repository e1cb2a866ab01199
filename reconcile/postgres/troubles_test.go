//go:build postgres

package postgres_test

import (
	"strings"
	"testing"

	"icehose/internal/pgtest"
	"icehose/reconcile"
	"icehose/reconcile/postgres"
	"icehose/reconcile/reconciletest"
)

// severalTables is oneTable with a table for each name.
func severalTables(names ...string) string {
	head, table, _ := strings.Cut(oneTable, "  - source: public.t\n")
	for _, name := range names {
		head += "  - source: public." + name + "\n" + table
	}
	return head
}

// A table that the account may not read, one that lacks a column, one that is
// not there, and one whose connection is lost while it is read: each is
// inconclusive and says why, and the others are decided.
func TestTroubles(t *testing.T) {
	dsn, conn := server.NewDatabase(t)
	pgtest.Execute(t, conn, `CREATE TABLE early (id bigint PRIMARY KEY, note text); INSERT INTO early SELECT g, 'n' FROM generate_series(1, 200) g;
		CREATE TABLE late AS SELECT * FROM early; CREATE TABLE hidden AS SELECT * FROM early; CREATE TABLE narrow AS SELECT id FROM early;
		CREATE VIEW cut AS SELECT id, note || pg_sleep(0.02)::text AS note FROM early;
		CREATE ROLE troubled LOGIN; GRANT SELECT ON early, late, narrow, cut TO troubled`)
	p := pipeline(t, severalTables("early", "hidden", "narrow", "none", "cut", "late"))
	lake := &reconciletest.Memory{Tables: reconciletest.Tables{}}
	for _, table := range p.Tables {
		lake.Tables[table.Source] = notes(200)
	}
	for _, o := range []postgres.Options{{}, {Stream: true}} {
		source := &reconciletest.Disturbed{Reader: open(t, strings.Replace(dsn, "postgres@", "troubled@", 1), o), Table: "public.cut", Do: func() error {
			err := reading(t.Context(), conn, `"cut"`)
			if err == nil {
				_, err = conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%"cut"%' AND pid <> pg_backend_pid()`)
			}
			return err
		}}
		report, err := reconcile.Run(t.Context(), p, source, lake, reconcile.Options{Concurrency: 2})
		if err != nil {
			t.Fatal(err)
		}
		reconciletest.CheckInconclusive(t, report, map[string]string{
			"public.hidden": "permission denied for table hidden", "public.narrow": "find columns: the source has no column note",
			"public.none": "find table: the source has none of this name", "public.cut": "digest public.cut: terminating connection due to administrator command",
		})
	}
}
