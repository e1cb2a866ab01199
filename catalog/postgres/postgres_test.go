//go:build postgres

package postgres_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"icehose/catalog"
	"icehose/catalog/catalogtest"
	"icehose/catalog/ddl"
	"icehose/catalog/postgres"
	"icehose/internal/pgtest"
)

func start(t *testing.T) (*pgtest.Server, *pgx.Conn) {
	t.Helper()
	server := pgtest.New(t)
	return server, server.Connect(t)
}

// The live reader and the reader of the same server's pg_dump agree with the
// suite, and so with each other.
func TestConformance(t *testing.T) {
	server, conn := start(t)
	sql, want := catalogtest.PostgreSQL()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	t.Run("live", func(t *testing.T) {
		got, err := postgres.Read(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		catalogtest.Check(t, want, got)
		if !strings.Contains(got.Version, ".") {
			t.Errorf("version is %q", got.Version)
		}
	})
	t.Run("pg_dump", func(t *testing.T) {
		text, err := exec.CommandContext(t.Context(), server.Program("pg_dump"), "--schema-only", "--dbname", server.DSN()).Output()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ddl.Read("dump.sql", text, "")
		if err != nil {
			t.Fatal(err)
		}
		catalogtest.Check(t, want, got)
	})
	var state string
	if err := conn.QueryRow(t.Context(), "SHOW search_path").Scan(&state); err != nil || state != `"$user", public` {
		t.Errorf("the connection's search path is %q after reading (%v)", state, err)
	}
}

// Every type that the server has has a mapping, and the size of it is the one
// that the server uses to decide about out-of-line storage.
func TestEveryTypeOfTheServer(t *testing.T) {
	_, conn := start(t)
	rows, err := conn.Query(t.Context(), `SELECT format_type(oid, NULL) FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace
		AND typtype IN ('b', 'r', 'm') AND typcategory <> 'A' ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 70 {
		t.Fatalf("the server has only %d types", len(names))
	}
	known := make(map[string]bool)
	for _, c := range catalog.Types(catalog.PostgreSQL) {
		known[c.Type.Name] = true
	}
	for _, name := range names {
		typ, err := catalog.ParseSourceType(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := catalog.MapType(catalog.PostgreSQL, &catalog.SourceColumn{Declared: name, Type: typ}); err != nil {
			t.Error(err)
		}
		if !known[typ.Name] {
			t.Errorf("type %s is not in the table of types", name)
		}
	}
}

// Whether a table has a place for values out of line is what the server says,
// for tables of one column of every type and around the limit.
func TestOutOfLineAsTheServer(t *testing.T) {
	_, conn := start(t)
	var sql strings.Builder
	for i, c := range catalog.Types(catalog.PostgreSQL) {
		if !catalog.IsPostgresType(c.Type.Name) || strings.HasPrefix(c.Type.Name, "pg_") && c.Type.Name != "pg_lsn" && c.Type.Name != "pg_snapshot" || c.Type.Name == "gtsvector" {
			continue // no column can have it
		}
		sql.WriteString(createTable("t"+string(rune('a'+i/26))+string(rune('a'+i%26)), c.Declared))
	}
	for _, n := range []string{"499", "500", "501", "502", "503"} {
		sql.WriteString(createTable("v"+n, "character varying("+n+")"))
		sql.WriteString(createTable("w"+n, "integer, b character("+n+"), c bigint"))
	}
	if _, err := conn.Exec(t.Context(), sql.String()); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Read(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	got, want := make(map[string]bool), make(map[string]bool)
	for _, table := range s.Tables {
		got[table.Name+" "+table.Columns[0].Declared] = table.NeedsToast(nil)
		var has bool
		if err := conn.QueryRow(t.Context(), "SELECT reltoastrelid <> 0 FROM pg_class WHERE oid = $1::text::regclass", table.FullName()).Scan(&has); err != nil {
			t.Fatal(err)
		}
		want[table.Name+" "+table.Columns[0].Declared] = has
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tables with a place for values out of line (-server +computed):\n%s", diff)
	}
	if len(want) < 70 {
		t.Errorf("only %d tables compared", len(want))
	}
}

func createTable(name, columns string) string {
	return "CREATE TABLE " + name + " (a " + columns + ");\n"
}
