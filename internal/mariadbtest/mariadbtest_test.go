//go:build mariadb

package mariadbtest_test

import (
	"testing"

	"icehose/catalog/mysql"
	"icehose/internal/mariadbtest"
)

func TestStartStop(t *testing.T) {
	server, err := mariadbtest.Start(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	db, err := mysql.Open(server.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	var format, image string
	if err := db.QueryRowContext(t.Context(), "SELECT @@binlog_format, @@binlog_row_image").Scan(&format, &image); err != nil {
		t.Fatal(err)
	}
	if format != "ROW" || image != "FULL" {
		t.Errorf("binlog format %s, row image %s; want ROW, FULL", format, image)
	}
	for range 2 {
		if err := server.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	if err := db.PingContext(t.Context()); err == nil {
		t.Error("the server still answers after Stop")
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
