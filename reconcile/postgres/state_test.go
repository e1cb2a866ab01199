//go:build postgres

package postgres_test

import (
	"strings"
	"testing"

	"icehose/internal/pgtest"
	"icehose/reconcile"
	"icehose/reconcile/postgres"
)

// The mark moves when rows of the tables do, and only then.
func TestState(t *testing.T) {
	dsn, conn := server.NewDatabase(t)
	pgtest.Execute(t, conn, "CREATE TABLE t (id bigint PRIMARY KEY, note text); CREATE TABLE other (id bigint)")
	p := pipeline(t, oneTable)
	r := open(t, dsn, postgres.Options{})
	state := func() reconcile.State {
		pgtest.Execute(t, conn, "SELECT pg_stat_force_next_flush()")
		pgtest.Execute(t, conn, "SELECT 1")
		s, err := r.State(t.Context(), p.Tables)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := state()
	pgtest.Execute(t, conn, "INSERT INTO other VALUES (1)")
	if got := state(); got.Mark != first.Mark || got.Time.Before(first.Time) {
		t.Errorf("another table changed: %+v after %+v", got, first)
	}
	pgtest.Execute(t, conn, "INSERT INTO t VALUES (1, 'n')")
	if got := state(); got.Mark == first.Mark {
		t.Error("the table changed and the mark did not")
	}
}

// Rows of partitions are rows of the table, those of tables that inherit are
// not; a truncation is a change. Of rows that nobody counts there is no mark.
func TestStateOfOtherKinds(t *testing.T) {
	dsn, conn := server.NewDatabase(t)
	pgtest.Execute(t, conn, `CREATE TABLE parted (id bigint, note text) PARTITION BY RANGE (id); CREATE TABLE half PARTITION OF parted FOR VALUES FROM (0) TO (9) PARTITION BY RANGE (id);
		CREATE TABLE quarter PARTITION OF half FOR VALUES FROM (0) TO (5); CREATE TABLE parent (id bigint, note text); CREATE TABLE child () INHERITS (parent);
		CREATE TABLE plain (id bigint, note text); INSERT INTO plain VALUES (1, 'n'); CREATE MATERIALIZED VIEW kept AS SELECT * FROM plain; CREATE VIEW seen AS SELECT * FROM plain;
		CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w; CREATE FOREIGN TABLE far (id bigint, note text) SERVER s;
		CREATE TABLE mixed (id bigint, note text) PARTITION BY RANGE (id); CREATE FOREIGN TABLE beyond PARTITION OF mixed FOR VALUES FROM (0) TO (9) SERVER s`)
	r := open(t, dsn, postgres.Options{})
	mark := func(name string) string {
		t.Helper()
		pgtest.Execute(t, conn, "SELECT pg_stat_force_next_flush()")
		pgtest.Execute(t, conn, "SELECT 1")
		s, err := r.State(t.Context(), pipeline(t, strings.Replace(oneTable, "public.t", "public."+name, 1)).Tables)
		if err != nil {
			t.Fatal(err)
		}
		return s.Mark
	}
	for name, change := range map[string]string{
		"parted": "INSERT INTO parted VALUES (1, 'n')", "parent": "INSERT INTO parent VALUES (1, 'n')", "plain": "TRUNCATE plain", "kept": "REFRESH MATERIALIZED VIEW kept",
	} {
		first := mark(name)
		if again := mark(name); first == "" || again != first {
			t.Errorf("%s: marks %q and %q of rows that did not change", name, first, again)
		}
		pgtest.Execute(t, conn, change)
		if again := mark(name); again == first {
			t.Errorf("%s: %s does not move the mark", name, change)
		}
	}
	parent := mark("parent")
	pgtest.Execute(t, conn, "INSERT INTO child VALUES (1, 'n')")
	if again := mark("parent"); again != parent {
		t.Errorf("a row of a child moves the mark from %q to %q", parent, again)
	}
	for _, name := range []string{"seen", "far", "mixed"} {
		if got := mark(name); got != "" {
			t.Errorf("%s: mark %q of rows that nobody counts", name, got)
		}
	}
	pgtest.Execute(t, conn, "ALTER DATABASE "+conn.Config().Database+" SET track_counts = off")
	if got := mark("plain"); got != "" {
		t.Errorf("mark %q of a server that does not count", got)
	}
}

// A row that changes and changes back has another stamp.
func TestStamp(t *testing.T) {
	dsn, conn := server.NewDatabase(t)
	pgtest.Execute(t, conn, "CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t VALUES (1, 'a')")
	r := open(t, dsn, postgres.Options{MaxConnections: 4})
	table := pipeline(t, oneTable).Tables[0]
	stamp := func() string {
		var got string
		for row, err := range view(t, r, table, false).Rows(t.Context(), reconcile.Part{Buckets: 1}) {
			if err != nil {
				t.Fatal(err)
			}
			got = string(row.Stamp)
		}
		return got
	}
	first := stamp()
	if again := stamp(); first == "" || again != first {
		t.Errorf("stamps %q and %q of a row that did not change", first, again)
	}
	pgtest.Execute(t, conn, "UPDATE t SET note = 'b'")
	pgtest.Execute(t, conn, "UPDATE t SET note = 'a'")
	if again := stamp(); again == first {
		t.Error("the row changed twice and the stamp did not")
	}
}
