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
	server, err := mariadbtest.Start(t.Context(), "", options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
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

// The live reader and the reader of the same server's dump agree with the
// suite, and so with each other.
func TestConformance(t *testing.T) {
	server, db := start(t)
	text, want := catalogtest.MySQL(catalog.MariaDB)
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	t.Run("live", func(t *testing.T) {
		got, err := mysql.Read(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		catalogtest.Check(t, want, got)
		if !strings.Contains(got.Version, "MariaDB") {
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
		catalogtest.Check(t, want, got)
	})
}

// A server that refuses zero dates has none.
func TestZeroDates(t *testing.T) {
	_, db := start(t, "--sql-mode=STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE")
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE t (id int PRIMARY KEY, d date, u uuid, i inet6)"); err != nil {
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
