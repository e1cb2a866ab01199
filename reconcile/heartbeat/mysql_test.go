//go:build mariadb

package heartbeat_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	catalogmysql "icehose/catalog/mysql"
	"icehose/internal/mariadbtest"
	"icehose/reconcile"
	"icehose/reconcile/heartbeat"
	"icehose/reconcile/mysql"
)

// One server is enough: each part makes its database anew.
func TestMySQL(t *testing.T) {
	server := mariadbtest.New(t)
	t.Run("rows", func(t *testing.T) { testMySQLRows(t, server) })
	t.Run("refuses", func(t *testing.T) { testMySQLRefuses(t, server) })
	t.Run("goes on", func(t *testing.T) { testMySQLGoesOn(t, server) })
}

// shop makes a database anew, in which everything is, and opens it with all rights.
func shop(t *testing.T, server *mariadbtest.Server) *sql.DB {
	t.Helper()
	db, err := catalogmysql.Open(server.DSN("") + "?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	execMySQL(t, db, "DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; USE shop; SET time_zone = '+00:00'")
	return db
}

func execMySQL(t *testing.T, db *sql.DB, statements string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

// everyMySQL returns the number of rows, and their oldest and newest time.
func everyMySQL(t *testing.T, db *sql.DB) (n int, oldest, newest time.Time) {
	t.Helper()
	var past bool
	var first, last string
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*), MIN(at), MAX(at), MAX(at) <= SYSDATE(6) FROM shop.heartbeat").Scan(&n, &first, &last, &past); err != nil {
		t.Fatal(err)
	}
	for text, at := range map[*string]*time.Time{&first: &oldest, &last: &newest} {
		var err error
		if *at, err = time.Parse(time.DateTime, *text); err != nil {
			t.Fatal(err)
		}
	}
	if !past {
		t.Errorf("a time of %v is later than the server's clock", newest)
	}
	return n, oldest, newest
}

// The definition's statements are all that an account needs. Every beat moves the
// times of all rows, to one time, and rows that were deleted come back.
func testMySQLRows(t *testing.T, server *mariadbtest.Server) {
	t.Helper()
	db := shop(t, server)
	execMySQL(t, db, "CREATE OR REPLACE USER keeper; CREATE TABLE Heartbeat (id bigint PRIMARY KEY); CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t VALUES (1, 'n')")
	s := find(t, asAccount(server.DSN("shop"), "keeper"), "heartbeat")
	execMySQL(t, db, s.Define().String())
	before := time.Time{}
	for _, harm := range []string{"", "", "DELETE FROM heartbeat WHERE id % 7 = 3", "TRUNCATE heartbeat"} {
		if harm != "" {
			execMySQL(t, db, harm)
		}
		if err := beatOnce(t, s, 53); err != nil {
			t.Fatalf("after %q: %v", harm, err)
		}
		n, oldest, newest := everyMySQL(t, db)
		if n != 53 || !oldest.Equal(newest) || !oldest.After(before) {
			t.Errorf("after %q: %d rows from %v to %v, before %v", harm, n, oldest, newest, before)
		}
		before = newest
	}
	if err := beatOnce(t, s, 60); err != nil {
		t.Errorf("more rows: %v", err)
	}
	if n, oldest, newest := everyMySQL(t, db); n != 60 || !oldest.Equal(newest) {
		t.Errorf("%d rows from %v to %v, want 60 of one time", n, oldest, newest)
	}
	if err := beatOnce(t, s, 53); err == nil || !strings.Contains(err.Error(), "other keys than 1 to 53") {
		t.Errorf("less rows than there are: %v", err)
	}
	readByMySQL(t, db, server.DSN(""), s)
	execMySQL(t, db, "REVOKE UPDATE ON shop.heartbeat FROM keeper")
	if err := beatOnce(t, s, 60); err == nil || !strings.Contains(err.Error(), "GRANT SELECT, INSERT, UPDATE ON `shop`.`heartbeat` TO `keeper`@'%'") {
		t.Errorf("without the right: %v", err)
	}
}

// readByMySQL reads the table as a comparison does that has nothing else to go by.
func readByMySQL(t *testing.T, db *sql.DB, dsn string, s *heartbeat.Source) {
	t.Helper()
	p := pipeline(t, s, "mysql", "shop.t")
	r, err := mysql.Open(t.Context(), dsn, mysql.Options{Role: reconcile.RoleReplica})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // it only read
	r.Heartbeat(p.Tables[0])
	if err := r.CheckRole(t.Context()); err != nil {
		t.Error(err)
	}
	v, err := r.Open(t.Context(), p.Tables[1], false)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close() //nolint:errcheck // it only read
	_, _, newest := everyMySQL(t, db)
	if pinned := v.Pinned(); pinned.Through == nil || !pinned.Through.Equal(newest.Add(-time.Second)) || pinned.Doubt != "" {
		t.Errorf("the newest beat is of %v, and the reader has everything up to %v, %q", newest, pinned.Through, pinned.Doubt)
	}
}

func testMySQLRefuses(t *testing.T, server *mariadbtest.Server) {
	t.Helper()
	for name, c := range map[string]struct{ sql, want string }{
		"missing":           {"SELECT 1", "has none of this name"},
		"view":              {"CREATE VIEW heartbeat AS SELECT 1 AS id, NOW() AS at", "no view"},
		"with a history":    {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamp(6)) WITH SYSTEM VERSIONING", "no history"},
		"without snapshots": {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamp(6)) ENGINE=MyISAM", "its storage engine MyISAM"},
		"trigger":           {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamp(6)); CREATE TRIGGER x BEFORE UPDATE ON heartbeat FOR EACH ROW SET @x = 1", "triggers"},
		"another column":    {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamp(6), total decimal(9,2))", "its column total (decimal(9,2)) belongs to no heartbeat"},
		"two times":         {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamp(6), seen timestamp(6))", "its column seen"},
		"no key":            {"CREATE TABLE heartbeat (id int, at timestamp(6))", "its column id (int(11))"},
		"a key of two":      {"CREATE TABLE heartbeat (id int, at timestamp(6), PRIMARY KEY (id, at))", "its column id (int(11))"},
		"a key of text":     {"CREATE TABLE heartbeat (id varchar(9) PRIMARY KEY, at timestamp(6))", "its column id (varchar(9))"},
		"a time made":       {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamp(6) AS (FROM_UNIXTIME(id)) VIRTUAL)", "the server makes the values of its column at"},
		"a time of no zone": {"CREATE TABLE heartbeat (id int PRIMARY KEY, at datetime(6))", "its column at (datetime(6))"},
		"no time":           {"CREATE TABLE heartbeat (id int PRIMARY KEY)", "want one integer column"},
		"other rows":        {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamp(6)); INSERT INTO heartbeat VALUES (5, NOW(6)), (54, NOW(6))", "other keys than 1 to 53"},
		"row 0":             {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamp(6)); INSERT INTO heartbeat VALUES (0, NOW(6))", "other keys than 1 to 53"},
	} {
		t.Run(name, func(t *testing.T) {
			db := shop(t, server)
			execMySQL(t, db, c.sql)
			var before, after string
			const rows = "SELECT COALESCE(GROUP_CONCAT(id ORDER BY id), '') FROM shop.heartbeat"
			if name != "missing" {
				if err := db.QueryRowContext(t.Context(), rows).Scan(&before); err != nil {
					t.Fatal(err)
				}
			}
			err := beatOnce(t, find(t, server.DSN("shop"), "heartbeat"), 53)
			if err == nil || !strings.Contains(err.Error(), "check table shop.heartbeat: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("refused with %v, want %q", err, c.want)
			}
			if name != "missing" {
				if err := db.QueryRowContext(t.Context(), rows).Scan(&after); err != nil || after != before {
					t.Errorf("rows before %s, after %s, %v", before, after, err)
				}
			}
		})
	}
	for dsn, want := range map[string]string{
		server.DSN("nowhere"): "1049", asAccount(server.DSN("shop"), "nobody:secret"): "1045", "mysql://u:secret@127.0.0.1:1/x": "refused",
	} {
		if err := beatOnce(t, find(t, dsn, "heartbeat"), 53); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("connected with %v, want %s", err, want)
		}
	}
}

// A lost connection and a lock that is held for long are survived; a table that
// goes is not. Whoever stops it gets the result.
func testMySQLGoesOn(t *testing.T, server *mariadbtest.Server) {
	t.Helper()
	db := shop(t, server)
	execMySQL(t, db, "CREATE OR REPLACE USER keeper")
	s := find(t, asAccount(server.DSN("shop"), "keeper"), "heartbeat")
	execMySQL(t, db, s.Define().String())
	w := start(t, s, time.Second)
	w.next(t)
	execMySQL(t, db, "KILL USER keeper")
	w.next(t)
	w.next(t)
	_, _, before := everyMySQL(t, db)
	execMySQL(t, db, "BEGIN; SELECT * FROM shop.heartbeat FOR UPDATE; SELECT SLEEP(2.5); COMMIT")
	w.next(t)
	if n, oldest, _ := everyMySQL(t, db); n != 9 || !oldest.After(before) {
		t.Errorf("%d rows since %v, before %v", n, oldest, before)
	}
	e := w.end()
	if e.err != nil || e.result.Beats < 9 || e.result.Failed < 2 || e.result.Reconnects < 2 {
		t.Errorf("stopped with %+v", e)
	}
	for _, want := range []string{"heartbeat failed, will try again", "Error 1205"} {
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, &w.log)
		}
	}
	w = start(t, s, time.Second)
	w.next(t)
	execMySQL(t, db, "DROP TABLE heartbeat")
	if e := <-w.ended; e.err == nil || !strings.Contains(e.err.Error(), "has none of this name") || e.result.Beats < 3 {
		t.Errorf("without its table: %+v", e)
	}
}
