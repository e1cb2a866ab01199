package pgtest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// New starts a server that ends with the test.
func New(tb testing.TB) *Server {
	tb.Helper()
	s, err := Start(tb.Context(), "")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Run runs the tests of a package on a server of their own, which s is while they
// run, and returns the status for os.Exit.
func Run(m *testing.M, s **Server) int {
	var err error
	if *s, err = Start(context.Background(), ""); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer func() { _ = (*s).Stop() }() // nothing is left to be told
	return m.Run()
}

// Connect opens a connection that ends with the test.
func (s *Server) Connect(tb testing.TB) *pgx.Conn {
	tb.Helper()
	return Connect(tb, s.DSN())
}

// NewDatabase makes a database of a name that no other has, and returns its
// connection string and a connection to it, which ends with the test.
func (s *Server) NewDatabase(tb testing.TB) (string, *pgx.Conn) {
	tb.Helper()
	name := fmt.Sprintf("test_%d", s.databases.Add(1))
	Execute(tb, s.Connect(tb), "CREATE DATABASE "+name)
	dsn := strings.Replace(s.DSN(), "/postgres?", "/"+name+"?", 1)
	return dsn, Connect(tb, dsn)
}

// Connect opens a connection that ends with the test.
func Connect(tb testing.TB, dsn string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) }) // the server ends, too
	return conn
}

// Execute executes statements.
func Execute(tb testing.TB, conn *pgx.Conn, sql string) {
	tb.Helper()
	if _, err := conn.Exec(tb.Context(), sql); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// Waiting waits until as many sessions of the database wait for a lock.
func Waiting(tb testing.TB, conn *pgx.Conn, sessions int) {
	tb.Helper()
	for range 6000 {
		var n int
		if err := conn.QueryRow(tb.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n); err != nil {
			tb.Fatal(err)
		}
		if n == sessions {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	tb.Fatalf("not %d sessions wait for a lock", sessions)
}

// Repeat executes statements one after the other, again and again, beside the
// test. stop waits for the one that runs, and returns the error of the first that
// failed, behind which there were no more.
func Repeat(tb testing.TB, conn *pgx.Conn, statements ...string) (stop func() error) {
	tb.Helper()
	ended, enough := make(chan error, 1), make(chan struct{})
	go func() {
		for i := 0; ; i++ {
			select {
			case <-enough:
				ended <- nil
				return
			default:
			}
			if _, err := conn.Exec(tb.Context(), statements[i%len(statements)]); err != nil {
				ended <- err
				return
			}
		}
	}()
	return func() error {
		close(enough)
		return <-ended
	}
}
