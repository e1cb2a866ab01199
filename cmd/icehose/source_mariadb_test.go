//go:build mariadb

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/catalog/mysql"
	"icehose/internal/mariadbtest"
)

// The commands that read a source read a live MariaDB as well.
func TestMariaDBCatalog(t *testing.T) {
	server := mariadbtest.New(t)
	db, err := mysql.Open(server.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"CREATE DATABASE shop", "CREATE TABLE shop.item (id bigint PRIMARY KEY, name varchar(20), born date)", "CREATE TABLE shop.note (at datetime, body text)"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	icehose, err := exec.LookPath("icehose")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), icehose, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "ICEHOSE_DSN="+server.DSN("shop"))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return out.String(), cmd.ProcessState.ExitCode()
	}
	for _, test := range []struct {
		args   string
		status int
		want   string
	}{
		{"catalog discover", 0, "pipeline.yaml written: 2 added"},
		{"catalog diff", 0, "0 differences"},
		{"catalog generate --pipeline pipeline.yaml --out made", 2, "column born loses values of date"},
		{"preflight", 1, "warning  no_primary_key  shop.note"},
		{"preflight --tables shop.nothing", 1, "warning  no_table  shop.nothing: "},
		{"resync start shop.item", 0, "table shop.item, floor 0000000000000000"},
	} {
		if out, status := run(strings.Fields(test.args)...); status != test.status || !strings.Contains(out, test.want) {
			t.Errorf("icehose %s: status %d: %s", test.args, status, out)
		}
	}
	// Its row is in the log before the floor, and a reload would not see it.
	if db, err = mysql.Open(server.DSN("shop")); err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for _, statement := range []string{"XA START 'a'", "INSERT INTO item VALUES (1, 'x', NULL)", "XA END 'a'", "XA PREPARE 'a'"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if out, status := run("resync", "start", "shop.item", "--again"); status != 2 || !strings.Contains(out, "1 XA transactions are prepared") {
		t.Errorf("resync while one is prepared: status %d: %s", status, out)
	}
	p, err := catalog.Load(filepath.Join(dir, "pipeline.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Source.Engine != catalog.MariaDB || len(p.BySource("shop", "item").Loads) != 1 {
		t.Errorf("the pipeline file is of %s, with loads %+v", p.Source.Engine, p.BySource("shop", "item").Loads)
	}
}
