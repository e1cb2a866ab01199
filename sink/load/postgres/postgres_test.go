//go:build postgres

package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"icehose/catalog"
	"icehose/internal/pgtest"
	"icehose/sink/load"
	"icehose/sink/load/postgres"
)

var server *pgtest.Server

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m, &server)) } //nolint:forbidigo // a test's main

// later executes a statement while the test goes on. The channel has its error.
func later(t *testing.T, conn *pgx.Conn, sql string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), sql)
		done <- err
	}()
	return done
}

// outwaits waits until a load waits for transactions to end. It has asked twice:
// who begins now is not one of them.
func outwaits(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	asked := make(map[time.Time]bool)
	for range 6000 {
		var at time.Time
		err := conn.QueryRow(t.Context(), `SELECT query_start FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'icehose load'
			AND query LIKE '%pg_locks%' AND state = 'idle'`).Scan(&at)
		if err == nil {
			asked[at] = true
		} else if !errors.Is(err, pgx.ErrNoRows) {
			t.Fatal(err)
		}
		if len(asked) == 4 { // to prepare the statement is one
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatal("the load waits for no transaction")
}

// table is that of a pipeline file.
func table(t *testing.T, name string, key bool) *catalog.Table {
	t.Helper()
	text := "version: 1\ndatabase: lake\nsource: {engine: postgresql, position: postgres}\ntables:\n- source: public." + name +
		"\n  mode: changelog\n  columns: [{name: id, type: long}, {name: note, type: string}]\n"
	if key {
		text = strings.Replace(text, "mode: changelog", "mode: mirror\n  key: [id]", 1)
	}
	p, err := catalog.Parse("pipeline.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p.Tables[0]
}

type opened struct {
	*load.Snapshot
	err error
}

// open opens a table while the test goes on.
func open(t *testing.T, dsn string, table *catalog.Table, o postgres.Options) <-chan opened {
	t.Helper()
	done := make(chan opened, 1)
	go func() {
		s, err := postgres.Open(t.Context(), dsn, table, o)
		done <- opened{s, err}
	}()
	return done
}

// rows reads all parts at once, counts their rows, and closes the snapshot.
func rows(t *testing.T, s opened) (n int64) {
	t.Helper()
	if s.err != nil {
		t.Fatal(s.err)
	}
	var count atomic.Int64
	errs := make(chan error, len(s.Parts))
	for _, part := range s.Parts {
		go func() {
			for _, err := range part(t.Context()) {
				if err != nil {
					errs <- err
					return
				}
				count.Add(1)
			}
			errs <- nil
		}()
	}
	for range s.Parts {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return count.Load()
}

const manyRows = 20_000 // more than one part

// What would make rows invisible to the snapshot waits until the load has ended,
// and holds up none of its connections.
func TestSnapshotOutlivesRewrite(t *testing.T) {
	fill := fmt.Sprintf("INSERT INTO t SELECT g, repeat('n', 400) FROM generate_series(1, %d) g; ", manyRows)
	for _, tt := range []struct {
		name, create string
		key          bool
		rewrite      string
	}{
		{"ALTER TABLE", "CREATE TABLE t (id int PRIMARY KEY, note text); " + fill, true, "ALTER TABLE t ALTER id TYPE bigint"},
		{"ALTER TABLE without a key", "CREATE TABLE t (id int, note text); " + fill, false, "ALTER TABLE t ALTER id TYPE bigint"},
		{"TRUNCATE", "CREATE TABLE t (id int PRIMARY KEY, note text); " + fill, true, "TRUNCATE t"},
		{"a column of the same name", "CREATE TABLE t (id int PRIMARY KEY, note text); " + fill, true, "ALTER TABLE t DROP note, ADD note text"},
		{
			"a partition", `CREATE TABLE t (id int PRIMARY KEY, note text) PARTITION BY RANGE (id); CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (9);
				CREATE TABLE high PARTITION OF t FOR VALUES FROM (9) TO (900000) PARTITION BY RANGE (id); CREATE TABLE higher PARTITION OF high FOR VALUES FROM (9) TO (900000); ` + fill,
			true, "TRUNCATE higher",
		},
		{"a parent", "CREATE TABLE t (id int PRIMARY KEY, note text); CREATE TABLE child () INHERITS (t); " + fill, true, "ALTER TABLE t ALTER id TYPE bigint"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dsn, conn := server.NewDatabase(t)
			pgtest.Execute(t, conn, tt.create)
			s := <-open(t, dsn, table(t, "t", tt.key), postgres.Options{Parallel: 4, LockTimeout: 3 * time.Second})
			rewritten := later(t, pgtest.Connect(t, dsn), tt.rewrite)
			if s.err == nil {
				pgtest.Waiting(t, conn, 1)
			}
			if got := rows(t, s); got != manyRows {
				t.Errorf("%d rows, want %d", got, manyRows)
			}
			if err := <-rewritten; err != nil {
				t.Error(err)
			}
		})
	}
}

// A rewrite that is under way when a load begins, or has asked for its lock, comes
// before its snapshot.
func TestSnapshotAwaitsRewrite(t *testing.T) {
	const alter = "ALTER TABLE t ALTER id TYPE bigint"
	for _, tt := range []struct {
		name   string
		key    bool
		begun  string
		queued string // what another session waits with, behind the load
	}{
		{"begun", true, alter, ""},
		{"begun, without a key", false, alter, ""},
		{"asked for, without a key", false, "DELETE FROM t WHERE id < 0", alter},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dsn, conn := server.NewDatabase(t)
			pgtest.Execute(t, conn, fmt.Sprintf("CREATE TABLE t (id int, note text); INSERT INTO t SELECT g, 'n' FROM generate_series(1, %d) g", manyRows))
			blocker := pgtest.Connect(t, dsn)
			pgtest.Execute(t, blocker, "BEGIN; "+tt.begun)
			s := open(t, dsn, table(t, "t", tt.key), postgres.Options{Parallel: 4})
			if tt.key {
				outwaits(t, conn)
			} else {
				pgtest.Waiting(t, conn, 1)
			}
			if tt.queued != "" {
				later(t, pgtest.Connect(t, dsn), tt.queued)
				pgtest.Waiting(t, conn, 2)
			}
			pgtest.Execute(t, blocker, "COMMIT")
			if got := rows(t, <-s); got != manyRows {
				t.Errorf("%d rows, want %d", got, manyRows)
			}
		})
	}
}

// One that begins while transactions are waited for comes before the snapshot, too.
func TestSnapshotAwaitsLaterRewrite(t *testing.T) {
	dsn, conn := server.NewDatabase(t)
	pgtest.Execute(t, conn, fmt.Sprintf("CREATE TABLE other (); CREATE TABLE t (id int, note text); INSERT INTO t SELECT g, 'n' FROM generate_series(1, %d) g", manyRows))
	writer, rewriter := pgtest.Connect(t, dsn), pgtest.Connect(t, dsn)
	pgtest.Execute(t, writer, "BEGIN; INSERT INTO other DEFAULT VALUES")
	s := open(t, dsn, table(t, "t", true), postgres.Options{Parallel: 4})
	outwaits(t, conn)
	pgtest.Execute(t, rewriter, "BEGIN; ALTER TABLE t ALTER id TYPE bigint")
	pgtest.Execute(t, writer, "COMMIT")
	pgtest.Waiting(t, conn, 1)
	pgtest.Execute(t, rewriter, "COMMIT")
	if got := rows(t, <-s); got != manyRows {
		t.Errorf("%d rows, want %d", got, manyRows)
	}
}

// Rewrites again and again, at any moment of a load's beginning.
func TestSnapshotAmongRewrites(t *testing.T) {
	for _, key := range []bool{true, false} {
		dsn, conn := server.NewDatabase(t)
		pgtest.Execute(t, conn, "CREATE TABLE t (id int, note text); INSERT INTO t SELECT g, 'n' FROM generate_series(1, 500) g")
		stop := pgtest.Repeat(t, pgtest.Connect(t, dsn), "ALTER TABLE t ALTER id TYPE bigint", "ALTER TABLE t ALTER id TYPE int")
		for range 8 {
			if got := rows(t, <-open(t, dsn, table(t, "t", key), postgres.Options{Parallel: 3, LockTimeout: 5 * time.Minute})); got != 500 {
				t.Errorf("key %v: %d rows, want 500", key, got)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

// A lock that cannot be had in time is an error that says so.
func TestLockTimeout(t *testing.T) {
	for _, key := range []bool{true, false} {
		dsn, conn := server.NewDatabase(t)
		pgtest.Execute(t, conn, "CREATE TABLE other (); CREATE TABLE t (id int, note text)")
		writer := pgtest.Connect(t, dsn)
		pgtest.Execute(t, writer, "BEGIN; INSERT INTO other DEFAULT VALUES")
		if !key { // its writers are kept out before any transaction is waited for
			pgtest.Execute(t, conn, "BEGIN; LOCK TABLE t")
		}
		opening := open(t, dsn, table(t, "t", key), postgres.Options{Parallel: 2, LockTimeout: 200 * time.Millisecond})
		if key {
			outwaits(t, conn)
			pgtest.Execute(t, conn, "BEGIN; LOCK TABLE t")
		}
		pgtest.Execute(t, writer, "COMMIT")
		s := <-opening
		refused, ok := errors.AsType[*pgconn.PgError](s.err)
		if !ok || refused.Code != "55P03" || !strings.Contains(s.err.Error(), "lock the table") {
			t.Errorf("key %v: %v", key, s.err)
		}
	}
}

// What cannot be read whole is refused by its name.
func TestOpenRefuses(t *testing.T) {
	dsn, conn := server.NewDatabase(t)
	role := "some_" + conn.Config().Database
	pgtest.Execute(t, conn, `CREATE TABLE plain (id int PRIMARY KEY, note text); CREATE VIEW seen AS SELECT * FROM plain; CREATE MATERIALIZED VIEW stored AS SELECT * FROM plain;
		CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER elsewhere FOREIGN DATA WRAPPER nothing; CREATE FOREIGN TABLE far (id int, note text) SERVER elsewhere; CREATE SEQUENCE counter;
		CREATE TABLE parts (id int, note text) PARTITION BY RANGE (id); CREATE TABLE parts_near PARTITION OF parts FOR VALUES FROM (0) TO (9);
		CREATE TABLE parts_more PARTITION OF parts FOR VALUES FROM (9) TO (99) PARTITION BY RANGE (id);
		CREATE FOREIGN TABLE parts_far PARTITION OF parts_more FOR VALUES FROM (9) TO (99) SERVER elsewhere;
		CREATE TABLE guarded (id int PRIMARY KEY, note text); ALTER TABLE guarded ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON guarded USING (id < 9);
		CREATE TABLE forced (id int PRIMARY KEY, note text); ALTER TABLE forced ENABLE ROW LEVEL SECURITY; ALTER TABLE forced FORCE ROW LEVEL SECURITY;
		CREATE TABLE split (id int PRIMARY KEY, note text) PARTITION BY RANGE (id); CREATE TABLE split_guarded PARTITION OF split FOR VALUES FROM (0) TO (9);
		ALTER TABLE split_guarded ENABLE ROW LEVEL SECURITY;
		CREATE ROLE `+role+` LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO `+role+`; ALTER TABLE forced OWNER TO `+role)
	plain := strings.Replace(dsn, "postgres@", role+"@", 1)
	for _, tt := range []struct{ dsn, table, want string }{
		{dsn, "none", "the source has no table of this name"},
		{dsn, "seen", "is a view"},
		{dsn, "stored", "is a materialized view"},
		{dsn, "far", "is a foreign table"},
		{dsn, "counter", "is a sequence"},
		{dsn, "plain_pkey", "is an index"},
		{dsn, "parts", "partition public.parts_far is a foreign table"},
		{plain, "guarded", "row-level security"},
		{plain, "forced", "row-level security"},
		{plain, "split", "public.split_guarded"},
		{dsn, "guarded", ""},
		{dsn, "split", ""},
		{plain, "plain", ""},
	} {
		s := <-open(t, tt.dsn, table(t, tt.table, true), postgres.Options{})
		if s.err == nil {
			_ = s.Close()
		}
		if tt.want == "" && s.err != nil || tt.want != "" && (s.err == nil || !strings.Contains(s.err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.table, s.err, tt.want)
		}
	}
}

// Only a slot that a stream of this database can begin with silences the warning.
func TestWarnsOfMissingSlot(t *testing.T) {
	dsn, conn := server.NewDatabase(t)
	pgtest.Execute(t, conn, "CREATE TABLE t (id int PRIMARY KEY, note text)")
	warned := func(want bool, of string) {
		t.Helper()
		s := <-open(t, dsn, table(t, "t", true), postgres.Options{})
		if rows(t, s); (len(s.Warnings) == 1) != want {
			t.Errorf("%s: warnings %q", of, s.Warnings)
		}
	}
	warned(true, "none")
	_, other := server.NewDatabase(t)
	pgtest.Execute(t, other, "SELECT pg_create_logical_replication_slot('other', 'test_decoding')")
	warned(true, "of another database")
	pgtest.Execute(t, conn, "SELECT pg_create_logical_replication_slot('passing', 'test_decoding', true)")
	warned(true, "that ends with its session")
	pgtest.Execute(t, conn, "SELECT pg_drop_replication_slot('passing'); SELECT pg_create_logical_replication_slot('kept', 'test_decoding')")
	warned(false, "of this database")
	pgtest.Execute(t, conn, "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
	pgtest.Execute(t, conn, "ALTER SYSTEM SET max_wal_size = '32MB'")
	pgtest.Execute(t, conn, "SELECT pg_reload_conf()")
	for range 8 {
		pgtest.Execute(t, conn, "CREATE TABLE waste AS SELECT repeat(md5(g::text), 20) FROM generate_series(1, 20000) g; DROP TABLE waste; SELECT pg_switch_wal()")
		pgtest.Execute(t, conn, "CHECKPOINT")
	}
	var status string
	if err := conn.QueryRow(t.Context(), "SELECT wal_status FROM pg_replication_slots WHERE slot_name = 'kept'").Scan(&status); err != nil || status != "lost" {
		t.Fatalf("the slot is %s, %v", status, err)
	}
	warned(true, "that is lost")
}
