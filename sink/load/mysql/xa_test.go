//go:build mariadb

package mysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"icehose/sink/load"
	"icehose/sink/load/mysql"
)

// prepare leaves a prepared XA transaction behind that changes rows of shop.t.
func prepare(t *testing.T, db *sql.DB, name, change string) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"XA START '" + name + "'", change, "XA END '" + name + "'", "XA PREPARE '" + name + "'"} {
		execute(t, conn, statement)
	}
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // ends the connection
	if err := conn.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) {
		t.Fatal(err)
	}
}

// A prepared XA transaction is in the log before the floor, and in no row: a
// load waits for its end, and refuses in time.
func TestPreparedXA(t *testing.T) {
	server, db := shop(t)
	execute(t, db, "CREATE TABLE shop.t (id int PRIMARY KEY, n int); INSERT INTO shop.t VALUES (1, 1); CREATE USER modest@'127.0.0.1'; GRANT SELECT ON shop.* TO modest@'127.0.0.1'; "+
		"GRANT RELOAD, BINLOG MONITOR ON *.* TO modest@'127.0.0.1'")
	table := described(t, "shop.t", "id", "{name: id, type: int}, {name: n, type: int}")
	want := []string{"1"}
	for _, account := range []string{"root@", "modest@"} { // the latter locks all tables
		dsn := strings.Replace(server.DSN(""), "root@", account, 1)
		t.Run(account, func(t *testing.T) {
			added := fmt.Sprint(len(want) + 1)
			prepare(t, db, "a", "INSERT INTO shop.t VALUES ("+added+", 2)")
			_, err := mysql.Open(t.Context(), dsn, table, mysql.Options{LockTimeout: time.Second})
			if err == nil || !strings.Contains(err.Error(), "1 XA transactions are prepared") {
				t.Errorf("one is prepared: %v", err)
			}
			ended := make(chan error, 1)
			go func() {
				<-time.After(400 * time.Millisecond)
				_, err := db.ExecContext(t.Context(), "XA COMMIT 'a'")
				ended <- err
			}()
			s, err := mysql.Open(t.Context(), dsn, table, mysql.Options{LockTimeout: 20 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close() //nolint:errcheck // it only read
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			want = append(want, added)
			if got := ids(t, s); !slices.Equal(got, want) {
				t.Errorf("rows %v, want %v: the floor is after them", got, want)
			}
		})
	}
}

// While others prepare and commit all the time, a load finds its moment, and the
// rows are those of the floor.
func TestXAWhileOthersWrite(t *testing.T) {
	server, db := shop(t)
	execute(t, db, "CREATE TABLE shop.t (id int PRIMARY KEY, n int); CREATE TABLE shop.u (id int PRIMARY KEY, n int); CREATE USER modest@'127.0.0.1'; "+
		"GRANT SELECT ON shop.* TO modest@'127.0.0.1'; GRANT RELOAD, BINLOG MONITOR ON *.* TO modest@'127.0.0.1'")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for writer := range 2 {
		go func() { ended <- write(ctx, db, writer) }()
	}
	for _, account := range []string{"root@", "modest@"} {
		for range 3 {
			s, err := mysql.Open(t.Context(), strings.Replace(server.DSN(""), "root@", account, 1), described(t, "shop.t", "id", "{name: id, type: int}"), mysql.Options{LockTimeout: 20 * time.Second})
			if err != nil {
				t.Errorf("%s: %v", account, err)
				continue
			}
			if got, want := len(ids(t, s)), inserts(t, db, s); got != want {
				t.Errorf("%s: %d rows, and the log has %d before the floor", account, got, want)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// write runs XA transactions on two tables until the context ends.
func write(ctx context.Context, db *sql.DB, writer int) error {
	conn, err := db.Conn(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is lost
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("'w%d-%d'", writer, n)
		table := []string{"shop.t", "shop.u"}[n%2]
		for _, statement := range []string{"XA START " + name, fmt.Sprintf("INSERT INTO %s VALUES (%d, 1)", table, 2*n+writer), "XA END " + name, "XA PREPARE " + name, "XA COMMIT " + name} {
			if _, err := conn.ExecContext(context.WithoutCancel(ctx), statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
	}
	return nil
}

// inserts counts the statements before the floor that changed shop.t, by the log.
func inserts(t *testing.T, db *sql.DB, s *load.Snapshot) (n int) {
	t.Helper()
	file, _, _ := strings.Cut(s.Start, ":")
	rows, err := db.QueryContext(t.Context(), "SHOW BINLOG EVENTS IN '"+file+"'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close() //nolint:errcheck // Err has what matters
	for rows.Next() {
		var name, kind, server, info string
		var at, end uint64
		if err := rows.Scan(&name, &at, &kind, &server, &end, &info); err != nil {
			t.Fatal(err)
		}
		if kind == "Table_map" && strings.HasSuffix(info, "(shop.t)") && at < s.Floor.Lo&0xffffffff {
			n++
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}
