//go:build mariadb

package mysql_test

import (
	"database/sql"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/catalog/catalogtest"
	"icehose/catalog/ddl"
	"icehose/catalog/mysql"
	"icehose/internal/mariadbtest"
)

func start(t *testing.T, options ...string) (*mariadbtest.Server, *sql.DB) {
	t.Helper()
	server := mariadbtest.New(t, options...)
	admin, err := mysql.Open(server.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE shop"); err != nil {
		t.Fatal(err)
	}
	if err := admin.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := mysql.Open(server.DSN("shop") + "?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return server, db
}

// engineOf returns what the server found in PATH is: MariaDB, or MySQL by the
// same names.
func engineOf(t *testing.T, db *sql.DB) catalog.Engine {
	t.Helper()
	var version string
	if err := db.QueryRowContext(t.Context(), "SELECT version()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(version, "MariaDB") {
		return catalog.MariaDB
	}
	return catalog.MySQL
}

// conform returns the suite as the server shows it: MySQL 8.0.19 and later show
// no widths of integers, and live no bytes of a default from the first zero on.
func conform(engine catalog.Engine, live bool) (sql string, s *catalog.SourceSchema) {
	sql, s = catalogtest.MySQL(engine)
	if engine == catalog.MariaDB {
		return sql, s
	}
	for _, table := range s.Tables {
		for _, c := range table.Columns {
			if integer := strings.HasSuffix(c.Type.Name, "int") || c.Type.Name == "year"; integer && c.Declared != "tinyint(1)" && !strings.Contains(c.Declared, "zerofill") {
				c.Type.Params, c.Declared = nil, c.Type.Name+strings.TrimLeft(c.Declared, "abcdefghijklmnopqrstuvwxyz(0123456789)")
			}
			if live && c.Type.Name == "varbinary" {
				c.Default = &catalog.SourceDefault{Text: "0x", Expression: true}
			}
		}
	}
	return sql, s
}

// The live reader and the reader of the same server's dump agree with the
// suite, and so with each other.
func TestConformance(t *testing.T) {
	server, db := start(t, "--sql-mode=STRICT_TRANS_TABLES")
	engine := engineOf(t, db)
	text, want := conform(engine, true)
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	t.Run("live", func(t *testing.T) {
		got, err := mysql.Read(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		catalogtest.Check(t, want, got)
		if strings.Contains(got.Version, "MariaDB") != (engine == catalog.MariaDB) {
			t.Errorf("version is %q", got.Version)
		}
	})
	t.Run("all databases", func(t *testing.T) {
		all, err := mysql.Open(server.DSN(""))
		if err != nil {
			t.Fatal(err)
		}
		got, err := mysql.Read(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		catalogtest.Check(t, want, got)
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("dump", func(t *testing.T) {
		dump, err := exec.CommandContext(t.Context(), "mariadb-dump", "--no-defaults", "--no-data", "--host=127.0.0.1",
			"--port="+strconv.Itoa(server.Port()), "--user=root", "shop").Output()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ddl.Read("dump.sql", dump, "")
		if err != nil {
			t.Fatal(err)
		}
		_, want := conform(engine, false)
		catalogtest.Check(t, want, got)
	})
}

// A server that refuses zero dates has none.
func TestZeroDates(t *testing.T) {
	_, db := start(t, "--sql-mode=STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE")
	table := "CREATE TABLE t (id int PRIMARY KEY, d date)"
	if engineOf(t, db) == catalog.MariaDB {
		table = "CREATE TABLE t (id int PRIMARY KEY, d date, u uuid, i inet6)"
	}
	if _, err := db.ExecContext(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	s, err := mysql.Read(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Tables[0].Columns {
		m, err := catalog.MapType(s.Words, c)
		if err != nil {
			t.Error(err)
		}
		if c.ZeroDates || len(m.Losses) > 0 {
			t.Errorf("column %s: zero dates %v, losses %v", c.Name, c.ZeroDates, m.Losses)
		}
	}
}
