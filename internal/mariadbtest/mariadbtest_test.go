//go:build mariadb

package mariadbtest_test

import (
	"testing"

	"golang.org/x/sync/errgroup"

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

// Servers that start at the same time leave each other's temporary tables alone.
func TestStartTogether(t *testing.T) {
	var group errgroup.Group
	for range 4 {
		group.Go(func() error {
			server, err := mariadbtest.Start(t.Context(), "")
			if err != nil {
				return err
			}
			return server.Stop()
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
