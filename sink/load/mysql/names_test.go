//go:build mariadb

package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"icehose/catalog"
	source "icehose/catalog/mysql"
	"icehose/internal/mariadbtest"
	"icehose/sink/load"
	"icehose/sink/load/mysql"
)

// Names that the server's own comparisons take for one are two: the key of one
// table is not that of another, and every row of each is read.
func TestNamesThatDifferByCase(t *testing.T) {
	server := mariadbtest.New(t)
	db, err := source.Open(server.DSN("") + "?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE shop; USE shop;"+
		"CREATE TABLE Ord (id INT PRIMARY KEY, code INT NULL, e INT, é INT); CREATE TABLE ord (code INT PRIMARY KEY, e INT); CREATE TABLE órd (k INT PRIMARY KEY);"+
		"INSERT INTO Ord SELECT seq, IF(seq % 2, seq, NULL), 1, 2 FROM seq_1_to_25000; INSERT INTO ord SELECT seq, 1 FROM seq_1_to_3; INSERT INTO órd VALUES (7);"+
		"CREATE DATABASE Shop; CREATE TABLE Shop.ord (id INT PRIMARY KEY); INSERT INTO Shop.ord VALUES (1), (2); ANALYZE TABLE Ord, ord"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		table, key, columns string
		want                int // rows
		parts               bool
	}{
		{"shop.Ord", "id", "{name: id, type: int}, {name: code, type: int}, {name: e, type: int}, {name: e2, source: é, type: int}", 25000, true},
		{"shop.ord", "code", "{name: code, type: int}, {name: e, type: int}", 3, false},
		{"shop.órd", "k", "{name: k, type: int}", 1, false},
		{"Shop.ord", "id", "{name: id, type: int}", 2, false},
	} {
		t.Run(tt.table, func(t *testing.T) {
			s, err := mysql.Open(t.Context(), server.DSN(""), described(t, tt.table, tt.key, tt.columns), mysql.Options{Parallel: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close() //nolint:errcheck // it only read
			if got := count(t, s); got != tt.want || tt.parts != (len(s.Parts) > 1) {
				t.Errorf("%d rows in %d parts, want %d rows", got, len(s.Parts), tt.want)
			}
		})
	}
	_, err = mysql.Open(t.Context(), server.DSN(""), described(t, "shop.ORD", "id", "{name: id, type: int}"), mysql.Options{})
	if err == nil || !strings.HasSuffix(err.Error(), "find table: the source has none of this name, or the account may not see it") {
		t.Errorf("another spelling: %v", err)
	}
}

func described(t *testing.T, table, key, columns string) *catalog.Table {
	t.Helper()
	p, err := catalog.Parse("icehose.yaml", fmt.Appendf(nil, "version: 1\ndatabase: lake\nsource: {engine: mariadb, position: mysql}\n"+
		"tables:\n  - source: %s\n    target: a\n    mode: mirror\n    key: [%s]\n    columns: [%s]\n", table, key, columns))
	if err != nil {
		t.Fatal(err)
	}
	return p.Tables[0]
}

func count(t *testing.T, s *load.Snapshot) (n int) {
	t.Helper()
	for _, part := range s.Parts {
		for _, err := range part(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	return n
}
