//go:build postgres

package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"icehose/internal/pgtest"
)

func TestStartStop(t *testing.T) {
	server, err := pgtest.Start(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	var level string
	if err := conn.QueryRow(t.Context(), "SHOW wal_level").Scan(&level); err != nil {
		t.Fatal(err)
	}
	if level != "logical" {
		t.Errorf("wal_level is %q, want logical", level)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := server.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	if _, err := pgx.Connect(t.Context(), server.DSN()); err == nil {
		t.Error("the server still answers after Stop")
	}
}
