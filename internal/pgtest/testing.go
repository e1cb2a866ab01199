package pgtest

import (
	"context"
	"testing"

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

// Connect opens a connection that ends with the test.
func (s *Server) Connect(tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), s.DSN())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) }) // the server ends, too
	return conn
}
