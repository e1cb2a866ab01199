//go:build mariadb

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A live MariaDB whose last changes never reached the lake: planned, written
// as statements, and repaired, a changelog alone and then all. Changes from
// before the repair that come after all lose, those from after it win.
func TestMariaDBRepair(t *testing.T) {
	m := newMariaLoad(t)
	dsn := m.server.DSN("")
	m.run(exitSame, dsn, "load", "shop.item", "shop.log", "shop.text", "--lake", "lake")
	conn, err := m.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := &mariaWriter{conn: conn, random: rand.New(rand.NewPCG(2, 9))}
	change := func(n int) {
		t.Helper()
		for range n {
			if err := w.change(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	deliver := func() {
		t.Helper()
		if err := os.WriteFile(filepath.Join(m.dir, "changes.ndjson"), w.stream.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		m.run(exitSame, "", "sink", "--pipeline", "pipeline.yaml", "--lake", "lake", "changes.ndjson")
	}
	reconcile := func(want int, args ...string) string {
		t.Helper()
		return m.run(want, dsn, append([]string{"reconcile", "--pipeline", "pipeline.yaml", "--lake", "lake", "--settle", "100ms"}, args...)...)
	}
	change(400)
	m.exec(`INSERT INTO shop.text VALUES ('new ''\\', 1, 'é')`)
	m.exec("UPDATE shop.text SET v = NULL WHERE n = 3")
	m.exec("UPDATE shop.text SET code = UPPER(code) WHERE n = 5") // another key, which the collation takes for the same
	m.exec("DELETE FROM shop.text WHERE n = 7")

	planned := reconcile(exitDifferent, "--repair", "plan", "--plan", "plan.ndjson")
	plan, err := os.ReadFile(filepath.Join(m.dir, "plan.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	steps := strings.Count(string(plan), "\n")
	if !strings.Contains(planned, fmt.Sprintf("repair: findings with a key: %d\n", steps)) || steps < 300 || strings.Count(string(plan), `"shop.text"`) != 5 {
		t.Errorf("a plan of %d steps: %s", steps, planned)
	}
	if out := reconcile(exitDifferent, "--repair", "sql", "--sql", "repair.sql"); !strings.Contains(out, "statements are in repair.sql") {
		t.Errorf("statements: %s", out)
	}
	statements, err := os.ReadFile(filepath.Join(m.dir, "repair.sql"))
	if err != nil || strings.Count(string(statements), "MERGE INTO") < 2 || strings.Count(string(statements), "INSERT INTO") < 1 || !strings.Contains(string(statements), `new ''\`) {
		t.Errorf("statements: %v, %.2000s", err, statements)
	}
	if out := reconcile(exitDifferent, "--repair", "changelog", "--keys", "plan.ndjson"); !strings.Contains(out, "a mirror is not repaired by appending") {
		t.Errorf("changelogs alone: %s", out)
	}
	if out := reconcile(exitDifferent); !strings.Contains(out, "shop.log ") || strings.Count(out, "  equal\n") != 1 {
		t.Errorf("after the changelog: %s", out)
	}
	change(50) // some of the plan's keys, and others
	m.exec("UPDATE shop.text SET v = 'again' WHERE n = 3")
	reconcile(exitSame, "--repair", "sink")
	if out := reconcile(exitSame); strings.Count(out, "  equal\n") != 3 {
		t.Errorf("after the repair: %s", out)
	}

	deliver() // late
	reconcile(exitSame)
	change(200)
	reconcile(exitDifferent)
	deliver()
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	m.reconcile()
}
