//go:build postgres

package main

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"icehose/internal/pgtest"
)

// A capture stops no application from writing to tables whose rows the log
// cannot name, not even one that was killed and has left its publications. It
// says which tables it has not all of.
func TestCaptureHarmsNoWriter(t *testing.T) {
	server := pgtest.New(t)
	conn := server.Connect(t)
	exec1(t, conn, `CREATE TABLE good (id int PRIMARY KEY, v int);
		CREATE TABLE late (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v int);
		CREATE TABLE nothing (id int PRIMARY KEY, v int); ALTER TABLE nothing REPLICA IDENTITY NOTHING;
		CREATE TABLE other (id int PRIMARY KEY, u int NOT NULL UNIQUE, v int); ALTER TABLE other REPLICA IDENTITY USING INDEX other_u_key;
		CREATE TABLE keyless (id int, v int)`)
	tables := []string{"good", "late", "nothing", "other", "keyless"}
	write := func() {
		t.Helper()
		for _, table := range tables {
			exec1(t, conn, "INSERT INTO "+table+" VALUES (1, 1); UPDATE "+table+" SET v = 2; DELETE FROM "+table)
		}
	}
	p := start(t, "capture", "--dsn", server.DSN(), "--out", "-")
	waitForSlot(t, conn, nil)
	write()
	for lines := bufio.NewScanner(p.out); ; {
		if !lines.Scan() {
			t.Fatalf("no delete: %v\n%s", lines.Err(), p.stderr.String())
		}
		if strings.Contains(lines.Text(), "delete") {
			break
		}
	}
	p.signal(os.Kill)
	p.endsWith(-1, "")
	var left int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_publication").Scan(&left); err != nil || left != 2 {
		t.Fatalf("%d publications left, %v", left, err)
	}
	write()
	for table, want := range map[string]string{
		"late":    `"updates and deletes are not captured","table":"public.late","why":"the primary key is DEFERRABLE`,
		"nothing": `"updates and deletes are not captured","table":"public.nothing","why":"REPLICA IDENTITY NOTHING`,
		"keyless": `"updates and deletes are not captured","table":"public.keyless","why":"the table has no primary key`,
		"other":   `"deletes are captured without their key","table":"public.other","why":"the log has u of a deleted row`,
	} {
		if !strings.Contains(p.stderr.String(), want) {
			t.Errorf("nothing said of %s: want %s in\n%s", table, want, p.stderr.String())
		}
	}
	if strings.Contains(p.stderr.String(), "public.good") {
		t.Errorf("a warning of a table that is whole: %s", p.stderr.String())
	}
}
