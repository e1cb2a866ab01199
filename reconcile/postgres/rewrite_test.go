//go:build postgres

package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/internal/pgtest"
	"icehose/reconcile/postgres"
)

// What would make rows invisible to a view waits until it is closed, and does not
// hold it up.
func TestViewOutlivesRewrite(t *testing.T) {
	const (
		rows  = 30_000 // worth more than one connection
		fill  = "INSERT INTO t SELECT g, repeat('x', 800) FROM generate_series(1, 30000) g; "
		parts = `CREATE TABLE t (id bigint PRIMARY KEY, note text) PARTITION BY RANGE (id); CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (9);
			CREATE TABLE high PARTITION OF t FOR VALUES FROM (9) TO (900000) PARTITION BY RANGE (id); CREATE TABLE higher PARTITION OF high FOR VALUES FROM (9) TO (900000); `
	)
	for _, tt := range []struct{ name, create, source, rewrite string }{
		{"ALTER TABLE", "CREATE TABLE t (id int PRIMARY KEY, note text); " + fill, "t", "ALTER TABLE t ALTER id TYPE bigint"},
		{"TRUNCATE", "CREATE TABLE t (id int PRIMARY KEY, note text); " + fill, "t", "TRUNCATE t"},
		{"a column of the same name", "CREATE TABLE t (id int PRIMARY KEY, note text); " + fill, "t", "ALTER TABLE t DROP note, ADD note text"},
		{"a partition", parts + fill, "t", "TRUNCATE higher"},
		{"behind a view", "CREATE TABLE t (id int PRIMARY KEY, note text); CREATE VIEW v AS SELECT * FROM t; " + fill, "v", "TRUNCATE t"},
	} {
		for _, exact := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, exact %v", tt.name, exact), func(t *testing.T) {
				dsn, conn := server.NewDatabase(t)
				pgtest.Execute(t, conn, tt.create)
				r := open(t, dsn, postgres.Options{MaxConnections: 3})
				v := view(t, r, source(t, tt.source), exact)
				if log := v.Pinned().Log; exact && (log == nil || log.Low == nil || *log.Low != log.High) {
					t.Errorf("place in the log: %+v, want that of a slot", log)
				}
				ended, rewriter := make(chan error, 1), pgtest.Connect(t, dsn)
				go func() {
					_, err := rewriter.Exec(t.Context(), tt.rewrite)
					ended <- err
				}()
				pgtest.Waiting(t, conn, 1)
				if got := rowCount(t, v); got != rows {
					t.Errorf("%d rows, want %d", got, rows)
				}
				if err := v.Close(); err != nil {
					t.Error(err)
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func source(t *testing.T, name string) *catalog.Table {
	t.Helper()
	return pipeline(t, strings.Replace(oneTable, "public.t", "public."+name, 1)).Tables[0]
}

// Rewrites again and again, at any moment of a view's beginning.
func TestViewAmongRewrites(t *testing.T) {
	dsn, conn := server.NewDatabase(t)
	pgtest.Execute(t, conn, "CREATE TABLE t (id int PRIMARY KEY, note text); INSERT INTO t SELECT g, 'n' FROM generate_series(1, 500) g")
	stop := pgtest.Repeat(t, pgtest.Connect(t, dsn), "ALTER TABLE t ALTER id TYPE bigint", "ALTER TABLE t ALTER id TYPE int")
	r := open(t, dsn, postgres.Options{MaxConnections: 2, Patience: 300 * time.Millisecond})
	for i := range 20 {
		v := view(t, r, source(t, "t"), i%2 == 0)
		if got := rowCount(t, v); got != 500 {
			t.Errorf("exact %v: %d rows, want 500", i%2 == 0, got)
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// On a standby a rewrite waits to be replayed for as long as the standby lets it.
func TestStandbyOutlivesRewrite(t *testing.T) {
	dsn, primary := server.NewDatabase(t)
	pgtest.Execute(t, primary, "CREATE TABLE t (id int PRIMARY KEY, note text); INSERT INTO t SELECT g, 'n' FROM generate_series(1, 500) g")
	there, standby := standbyOf(t, dsn)
	replayed(t, primary, standby)
	v := view(t, open(t, there, postgres.Options{}), source(t, "t"), true)
	pgtest.Execute(t, primary, "ALTER TABLE t ALTER id TYPE bigint")
	for range 100 { // the standby has it, and waits for the view
		var received bool
		if err := standby.QueryRow(t.Context(), "SELECT pg_last_wal_receive_lsn() > pg_last_wal_replay_lsn()").Scan(&received); err != nil {
			t.Fatal(err)
		}
		if received {
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	if got := rowCount(t, v); got != 500 {
		t.Errorf("%d rows, want 500", got)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	replayed(t, primary, standby)
}

// An account that may read single columns only may not lock the table.
func TestLockIsRefused(t *testing.T) {
	dsn, conn := server.NewDatabase(t)
	role := "narrow_" + conn.Config().Database
	pgtest.Execute(t, conn, "CREATE TABLE t (id bigint PRIMARY KEY, note text, secret text); CREATE ROLE "+role+" LOGIN; GRANT SELECT (id, note) ON t TO "+role)
	_, err := open(t, strings.Replace(dsn, "postgres@", role+"@", 1), postgres.Options{}).Open(t.Context(), source(t, "t"), false)
	if err == nil || !strings.Contains(err.Error(), "grant the account SELECT on the whole table") {
		t.Error(err)
	}
}
