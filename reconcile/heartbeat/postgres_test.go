//go:build postgres

package heartbeat_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"icehose/internal/pgtest"
	"icehose/reconcile"
	"icehose/reconcile/heartbeat"
	"icehose/reconcile/postgres"
)

// One server is enough: each part makes its tables anew.
func TestPostgres(t *testing.T) {
	server := pgtest.New(t)
	t.Run("rows", func(t *testing.T) { testPostgresRows(t, server) })
	t.Run("refuses", func(t *testing.T) { testPostgresRefuses(t, server) })
	t.Run("goes on", func(t *testing.T) { testPostgresGoesOn(t, server) })
	t.Run("standby", func(t *testing.T) { testPostgresStandby(t, server) })
}

// anew is a connection to a database without tables.
func anew(t *testing.T, server *pgtest.Server) *pgx.Conn {
	t.Helper()
	conn := server.Connect(t)
	execPostgres(t, conn, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
	return conn
}

func execPostgres(t *testing.T, conn *pgx.Conn, statements string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

// everyPostgres returns the number of rows, their oldest and newest time, and whether the
// newest is no later than the server's clock.
func everyPostgres(t *testing.T, conn *pgx.Conn) (n int, oldest, newest time.Time) {
	t.Helper()
	var past bool
	if err := conn.QueryRow(t.Context(), "SELECT count(*), min(at), max(at), max(at) <= clock_timestamp() FROM heartbeat").Scan(&n, &oldest, &newest, &past); err != nil {
		t.Fatal(err)
	}
	if !past {
		t.Errorf("a time of %v is later than the server's clock", newest)
	}
	return n, oldest, newest
}

// The definition's statements are all that an account needs. Every beat moves the
// times of all rows, to one time, and rows that were deleted come back.
func testPostgresRows(t *testing.T, server *pgtest.Server) {
	t.Helper()
	conn := anew(t, server)
	execPostgres(t, conn, "CREATE ROLE keeper LOGIN; CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t VALUES (1, 'n')")
	s := find(t, asAccount(server.DSN(), "keeper"), "heartbeat")
	execPostgres(t, conn, s.Define().String())
	before := time.Time{}
	for _, harm := range []string{"", "", "DELETE FROM heartbeat WHERE id % 7 = 3", "TRUNCATE heartbeat"} {
		if harm != "" {
			execPostgres(t, conn, harm)
		}
		if err := beatOnce(t, s, 53); err != nil {
			t.Fatalf("after %q: %v", harm, err)
		}
		n, oldest, newest := everyPostgres(t, conn)
		if n != 53 || !oldest.Equal(newest) || !oldest.After(before) {
			t.Errorf("after %q: %d rows from %v to %v, before %v", harm, n, oldest, newest, before)
		}
		before = newest
	}
	if err := beatOnce(t, s, 60); err != nil {
		t.Errorf("more rows: %v", err)
	}
	if n, oldest, newest := everyPostgres(t, conn); n != 60 || !oldest.Equal(newest) {
		t.Errorf("%d rows from %v to %v, want 60 of one time", n, oldest, newest)
	}
	if err := beatOnce(t, s, 53); err == nil || !strings.Contains(err.Error(), "other keys than 1 to 53") {
		t.Errorf("less rows than there are: %v", err)
	}
	readByPostgres(t, server.DSN(), s)
	execPostgres(t, conn, "REVOKE UPDATE (at) ON heartbeat FROM keeper")
	if err := beatOnce(t, s, 60); err == nil || !strings.Contains(err.Error(), `GRANT SELECT, INSERT, UPDATE ("at") ON "public"."heartbeat" TO "keeper"`) {
		t.Errorf("without the right: %v", err)
	}
}

// readByPostgres reads the table as a comparison does that has nothing else to go by.
func readByPostgres(t *testing.T, dsn string, s *heartbeat.Source) {
	t.Helper()
	p := pipeline(t, s, "postgres", "public.t")
	r, err := postgres.Open(t.Context(), dsn, postgres.Options{Role: reconcile.RoleReplica})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // it only read
	r.Heartbeat(p.Tables[0])
	if err := r.CheckRole(t.Context()); err != nil {
		t.Error(err)
	}
	v, err := r.Open(t.Context(), p.Tables[1], false)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close() //nolint:errcheck // it only read
	_, _, newest := everyPostgres(t, pgtest.Connect(t, dsn))
	if pinned := v.Pinned(); pinned.Through == nil || !pinned.Through.Equal(newest.Add(-time.Second)) || pinned.Doubt != "" {
		t.Errorf("the newest beat is of %v, and the reader has everything up to %v, %q", newest, pinned.Through, pinned.Doubt)
	}
}

func testPostgresRefuses(t *testing.T, server *pgtest.Server) {
	t.Helper()
	conn := server.Connect(t)
	for name, c := range map[string]struct{ sql, want string }{
		"missing":           {"SELECT", "has none of this name"},
		"view":              {"CREATE VIEW heartbeat AS SELECT 1 AS id, now() AS at", "no view"},
		"partitioned":       {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamptz) PARTITION BY HASH (id)", "no partitions"},
		"parent":            {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamptz); CREATE TABLE below () INHERITS (heartbeat)", "no tables below it"},
		"unlogged":          {"CREATE UNLOGGED TABLE heartbeat (id int PRIMARY KEY, at timestamptz)", "does not log its changes"},
		"trigger":           {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamptz); CREATE TRIGGER x BEFORE UPDATE ON heartbeat FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()", "triggers or rules"},
		"rule":              {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamptz); CREATE RULE x AS ON INSERT TO heartbeat DO ALSO NOTHING", "triggers or rules"},
		"another column":    {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamptz, total numeric(9,2))", "its column total (numeric(9,2)) belongs to no heartbeat"},
		"two times":         {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamptz, seen timestamptz)", "its column seen"},
		"no key":            {"CREATE TABLE heartbeat (id int, at timestamptz)", "its column id (integer)"},
		"a key of two":      {"CREATE TABLE heartbeat (id int, at timestamptz, PRIMARY KEY (id, at))", "its column id (integer)"},
		"a deferred key":    {"CREATE TABLE heartbeat (id int PRIMARY KEY DEFERRABLE, at timestamptz)", "its column id (integer)"},
		"a key of text":     {"CREATE TABLE heartbeat (id text PRIMARY KEY, at timestamptz)", "its column id (text)"},
		"a key made":        {"CREATE TABLE heartbeat (id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, at timestamptz)", "the server makes the values of its column id"},
		"a time of no zone": {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamp)", "its column at (timestamp without time zone)"},
		"no time":           {"CREATE TABLE heartbeat (id int PRIMARY KEY)", "want one integer column"},
		"other rows":        {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamptz); INSERT INTO heartbeat VALUES (5, now()), (54, now())", "other keys than 1 to 53"},
		"row 0":             {"CREATE TABLE heartbeat (id int PRIMARY KEY, at timestamptz); INSERT INTO heartbeat VALUES (0, now())", "other keys than 1 to 53"},
	} {
		t.Run(name, func(t *testing.T) {
			execPostgres(t, conn, "DROP SCHEMA public CASCADE; CREATE SCHEMA public; "+c.sql)
			var before, after string
			const changes = "SELECT coalesce(string_agg(tableoid::regclass || h::text, ';' ORDER BY h::text), '') FROM heartbeat h"
			there := name != "missing" && name != "view"
			if there {
				if err := conn.QueryRow(t.Context(), changes).Scan(&before); err != nil {
					t.Fatal(err)
				}
			}
			err := beatOnce(t, find(t, server.DSN(), "heartbeat"), 53)
			if err == nil || !strings.Contains(err.Error(), "check table public.heartbeat: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("refused with %v, want %q", err, c.want)
			}
			if there {
				if err := conn.QueryRow(t.Context(), changes).Scan(&after); err != nil || after != before {
					t.Errorf("rows before %s, after %s, %v", before, after, err)
				}
			}
		})
	}
	for dsn, want := range map[string]string{
		strings.Replace(server.DSN(), "/postgres?", "/nowhere?", 1): "SQLSTATE 3D000", asAccount(server.DSN(), "nobody:secret"): "SQLSTATE 28000", "postgres://u:secret@127.0.0.1:1/x": "refused",
	} {
		if err := beatOnce(t, find(t, dsn, "heartbeat"), 53); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("connected with %v, want %s", err, want)
		}
	}
}

// A standby is told apart from a table that is wrong.
func testPostgresStandby(t *testing.T, server *pgtest.Server) {
	t.Helper()
	s := find(t, server.DSN(), "heartbeat")
	execPostgres(t, anew(t, server), s.Define().Create)
	standby, err := server.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := beatOnce(t, find(t, standby.DSN(), "heartbeat"), 9); err == nil || !strings.Contains(err.Error(), "the server is a standby") {
		t.Errorf("a standby is written: %v", err)
	}
}

// A lost connection and a lock that is held for long are survived; a table that
// goes is not. Whoever stops it gets the result.
func testPostgresGoesOn(t *testing.T, server *pgtest.Server) {
	t.Helper()
	conn := anew(t, server)
	s := find(t, server.DSN(), "heartbeat")
	execPostgres(t, conn, s.Define().Create)
	w := start(t, s, 100*time.Millisecond)
	w.next(t)
	execPostgres(t, conn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'icehose heartbeat'")
	w.next(t)
	w.next(t)
	_, _, before := everyPostgres(t, conn)
	execPostgres(t, conn, "BEGIN; LOCK TABLE heartbeat; SELECT pg_sleep(3); COMMIT")
	w.next(t)
	if n, oldest, _ := everyPostgres(t, conn); n != 9 || !oldest.After(before) {
		t.Errorf("%d rows since %v, before %v", n, oldest, before)
	}
	e := w.end()
	if e.err != nil || e.result.Beats < 9 || e.result.Failed < 2 || e.result.Reconnects < 2 {
		t.Errorf("stopped with %+v", e)
	}
	for _, want := range []string{"heartbeat failed, will try again", "SQLSTATE 57P01", "SQLSTATE 55P03"} {
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, &w.log)
		}
	}
	var left int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'icehose heartbeat' AND state = 'active'").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d connections are at work, %v", left, err)
	}
	w = start(t, s, time.Second)
	w.next(t)
	execPostgres(t, conn, "DROP TABLE heartbeat")
	if e := <-w.ended; e.err == nil || !strings.Contains(e.err.Error(), "has none of this name") || e.result.Beats < 3 {
		t.Errorf("without its table: %+v", e)
	}
}
