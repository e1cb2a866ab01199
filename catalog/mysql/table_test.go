//go:build mariadb

package mysql_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog/mysql"
)

// To the information schema's own comparisons Orders is orders, and café is
// cafe. A server for which they are two has the columns and the key of each.
func TestNamesThatDifferByCase(t *testing.T) {
	server, db := start(t)
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE Orders (id int PRIMARY KEY, code int, e int, é int); CREATE TABLE orders (code int, id int, PRIMARY KEY (code, id));"+
		"CREATE TABLE cafe (a int PRIMARY KEY); CREATE TABLE café (b int PRIMARY KEY); CREATE TRIGGER x BEFORE INSERT ON orders FOR EACH ROW SET NEW.id = 1;"+
		"CREATE DATABASE Shop; CREATE TABLE Shop.orders (a int); CREATE DATABASE Sys; CREATE TABLE Sys.t (a int PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	shop := []string{"shop.Orders id,code,e,é key id", "shop.cafe a key a", "shop.café b key b", "shop.orders code,id key code,id"}
	want := map[string][]string{"shop": shop, "Shop": {"Shop.orders a key "}, "": append([]string{"Shop.orders a key ", "Sys.t a key a"}, shop...)}
	for database, tables := range want {
		if diff := cmp.Diff(tables, readAll(t, server.DSN(database))); diff != "" {
			t.Errorf("database %q (-want +got):\n%s", database, diff)
		}
	}
	for _, line := range want[""] {
		name, _, _ := strings.Cut(line, " ")
		got, triggers, err := findOne(t, server.DSN(""), name)
		if err != nil || got != line || (triggers > 0) != (name == "shop.orders") {
			t.Errorf("found %q with %d triggers, %v, want %q", got, triggers, err, line)
		}
	}
	for _, name := range []string{"shop.ORDERS", "SHOP.orders", "shop.Café", "sys.t"} {
		if _, _, err := findOne(t, server.DSN(""), name); !errors.Is(err, mysql.ErrNoTable) {
			t.Errorf("%s: %v, want no table", name, err)
		}
	}
}

// A server that takes them for one finds a table by any spelling.
func TestNamesOfAnyCase(t *testing.T) {
	server, db := start(t, "--lower-case-table-names=1")
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE Orders (Id int PRIMARY KEY, Code int); CREATE TABLE cafe (a int PRIMARY KEY); CREATE TABLE café (b int PRIMARY KEY);"+
		"CREATE TRIGGER x BEFORE INSERT ON Orders FOR EACH ROW SET NEW.Id = 1"); err != nil {
		t.Fatal(err)
	}
	want := []string{"shop.cafe a key a", "shop.café b key b", "shop.orders Id,Code key Id"}
	for _, database := range []string{"shop", "SHOP", ""} {
		if diff := cmp.Diff(want, readAll(t, server.DSN(database))); diff != "" {
			t.Errorf("database %q (-want +got):\n%s", database, diff)
		}
	}
	for name, line := range map[string]string{"shop.orders": want[2], "Shop.ORDERS": want[2], "shop.Cafe": want[0], "shop.CAFÉ": want[1]} {
		got, triggers, err := findOne(t, server.DSN(""), name)
		if err != nil || got != line || (triggers > 0) != (line == want[2]) {
			t.Errorf("%s: found %q with %d triggers, %v, want %q", name, got, triggers, err, line)
		}
	}
}

// readAll returns a line of each table of a schema.
func readAll(t *testing.T, dsn string) (lines []string) {
	t.Helper()
	db, err := mysql.Open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // it only read
	s, err := mysql.Read(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range s.Tables {
		var columns []string
		for _, c := range table.Columns {
			columns = append(columns, c.Name)
		}
		lines = append(lines, line(table.FullName(), columns, table.Key))
	}
	return lines
}

func findOne(t *testing.T, dsn, name string) (found string, triggers int, err error) {
	t.Helper()
	db, err := mysql.Open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // it only read
	schema, name, _ := strings.Cut(name, ".")
	table, err := mysql.FindTable(t.Context(), db, schema, name)
	if err != nil {
		return "", 0, err
	}
	names, err := table.Triggers(t.Context(), db)
	var columns []string
	for _, c := range table.Columns {
		columns = append(columns, c.Name)
	}
	return line(table.Schema+"."+table.Name, columns, table.Key), len(names), err
}

func line(name string, columns, key []string) string {
	return name + " " + strings.Join(columns, ",") + " key " + strings.Join(key, ",")
}
