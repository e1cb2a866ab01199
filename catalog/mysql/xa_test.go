//go:build mariadb

package mysql_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"icehose/catalog"
	"icehose/catalog/mysql"
)

// Prepared XA transactions are listed until they end, and warned of.
func TestPreparedXA(t *testing.T) {
	_, db := start(t)
	db.SetMaxOpenConns(1)
	exec := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	check := func(want int) {
		t.Helper()
		ids, err := mysql.PreparedXA(t.Context(), db)
		if err != nil || len(ids) != want {
			t.Errorf("prepared %q, %v; want %d", ids, err, want)
		}
		s, err := mysql.Read(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		found, err := mysql.Preflight(t.Context(), db, s)
		if err != nil {
			t.Fatal(err)
		}
		warned := false
		for _, f := range found {
			if f.ID == "prepared_xa" {
				warned = f.Severity == catalog.SeverityWarning && strings.HasPrefix(f.What, fmt.Sprint(want, " XA")) && f.Consequence != "" && f.Fix != ""
			}
		}
		if warned != (want > 0) {
			t.Errorf("findings %+v, want a warning of %d", found, want)
		}
	}
	exec("CREATE TABLE t (id int PRIMARY KEY)")
	if err := mysql.HiddenXA(t.Context(), db); err != nil {
		t.Errorf("none was ever prepared: %v", err)
	}
	check(0)
	exec("XA START 'a'", "INSERT INTO t VALUES (1)", "XA END 'a'")
	ids, err := mysql.PreparedXA(t.Context(), db)
	if err != nil || len(ids) != 0 {
		t.Errorf("one is open, and %q are prepared: %v", ids, err)
	}
	exec("XA PREPARE 'a'")
	if ids, err := mysql.PreparedXA(t.Context(), db); err != nil || len(ids) != 1 {
		t.Errorf("prepared %q, %v; want one", ids, err)
	}
	db.SetMaxIdleConns(-1) // leaves it behind
	db.SetMaxOpenConns(2)
	check(1)
	exec("XA COMMIT 'a'")
	check(0)
	if err := mysql.HiddenXA(t.Context(), db); !errors.Is(err, mysql.ErrHiddenXA) {
		t.Errorf("one was prepared: %v", err)
	}
	for number, want := range map[uint16]bool{1401: true, 1227: true, 1064: false} {
		if got := mysql.DeniedXA(fmt.Errorf("query: %w", &driver.MySQLError{Number: number})); got != want {
			t.Errorf("error %d: denied %v", number, got)
		}
	}
}

// In the hour that a clock has twice, a position's time is still one.
func TestPositionInAnHourThatComesTwice(t *testing.T) {
	t.Setenv("TZ", "Europe/Berlin") // the server's too
	_, db := start(t)
	db.SetMaxOpenConns(1)
	for _, want := range []time.Time{time.Date(2025, 10, 26, 0, 30, 0, 500_000_000, time.UTC), time.Date(2025, 10, 26, 1, 30, 0, 500_000_000, time.UTC)} {
		if _, err := db.ExecContext(t.Context(), fmt.Sprintf("SET timestamp = %d.5", want.Unix())); err != nil {
			t.Fatal(err)
		}
		if _, at, err := mysql.Position(t.Context(), db); err != nil || !at.Equal(want) {
			t.Errorf("the time is %s, %v; want %s", at, err, want)
		}
	}
	var local string
	if err := db.QueryRowContext(t.Context(), "SELECT NOW()").Scan(&local); err != nil || local != "2025-10-26 02:30:00" {
		t.Errorf("the server's clock shows %s, %v", local, err)
	}
}
