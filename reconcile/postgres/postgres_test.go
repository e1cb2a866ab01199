//go:build postgres

package postgres_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"icehose/catalog"
	"icehose/internal/pgtest"
	"icehose/reconcile"
	"icehose/reconcile/postgres"
	"icehose/reconcile/reconciletest"
)

var server *pgtest.Server

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m, &server)) } //nolint:forbidigo // a test's main

func open(t *testing.T, dsn string, o postgres.Options) *postgres.Reader {
	t.Helper()
	r, err := postgres.Open(t.Context(), dsn, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// sqlType is the PostgreSQL type of a lake type.
func sqlType(c *catalog.Column) string {
	switch c.Type.Kind {
	case catalog.Long:
		return "bigint"
	case catalog.Float:
		return "real"
	case catalog.Double:
		return "double precision"
	case catalog.Decimal:
		return fmt.Sprintf("numeric(%d,%d)", c.Type.Precision, c.Type.Scale)
	case catalog.String:
		return "text"
	case catalog.Fixed, catalog.Binary:
		return "bytea"
	case catalog.Boolean, catalog.Int, catalog.Date, catalog.Time, catalog.Timestamp, catalog.TimestampTZ, catalog.UUID:
	}
	return c.Type.Kind.String()
}

// fill makes the tables of a suite's case.
func fill(t *testing.T, conn *pgx.Conn, p *catalog.Pipeline, tables reconciletest.Tables) {
	t.Helper()
	for name, rows := range tables {
		table := reconciletest.Table(t, p, name)
		var columns, places []string
		for i, c := range table.Columns {
			columns = append(columns, c.Name+" "+sqlType(c))
			place := fmt.Sprintf("$%d::text::%s", i+1, sqlType(c))
			if c.Type.Kind == catalog.Binary || c.Type.Kind == catalog.Fixed {
				place = fmt.Sprintf("decode($%d, 'hex')", i+1)
			}
			places = append(places, place)
		}
		pgtest.Execute(t, conn, fmt.Sprintf("CREATE TABLE %s (%s)", name, strings.Join(columns, ", ")))
		batch := &pgx.Batch{}
		for _, row := range rows {
			var args []any
			for _, v := range row {
				if v.Null {
					args = append(args, nil)
				} else {
					args = append(args, v.Text)
				}
			}
			batch.Queue(fmt.Sprintf("INSERT INTO %s VALUES (%s)", name, strings.Join(places, ", ")), args...)
		}
		if err := conn.SendBatch(t.Context(), batch).Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReader(t *testing.T) {
	for name, o := range map[string]postgres.Options{
		"digests of the server": {}, "streamed, throttled, one connection": {Stream: true, RowsPerSecond: 1_000_000, MaxConnections: 1},
	} {
		t.Run(name, func(t *testing.T) {
			reconciletest.TestReader(t, func(t *testing.T, p *catalog.Pipeline, tables reconciletest.Tables) reconcile.Reader {
				dsn, conn := server.NewDatabase(t)
				fill(t, conn, p, tables)
				return open(t, dsn, o)
			})
		})
	}
}

const oneTable = `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - source: public.t
    mode: mirror
    key: [id]
    columns:
      - {name: id, type: long}
      - {name: note, type: string}
`

func pipeline(t *testing.T, text string) *catalog.Pipeline {
	t.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func view(t *testing.T, r *postgres.Reader, table *catalog.Table, exact bool) reconcile.View {
	t.Helper()
	v, err := r.Open(t.Context(), table, exact)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

func rowCount(t *testing.T, v reconcile.View) (n uint64) {
	t.Helper()
	digests, err := v.Digests(t.Context(), reconcile.Part{Buckets: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range digests {
		n += d.Count
	}
	return n
}

// All connections of a view see one snapshot, whose place in the log is exact
// with a slot, bounded without, and no slot is left.
func TestOneSnapshot(t *testing.T) {
	dsn, conn := server.NewDatabase(t)
	pgtest.Execute(t, conn, "CREATE TABLE t (id bigint PRIMARY KEY, note text)")
	pgtest.Execute(t, conn, "INSERT INTO t SELECT g, repeat('x', 400) FROM generate_series(1, 60000) g")
	plain := "plain_" + conn.Config().Database
	pgtest.Execute(t, conn, "CREATE ROLE "+plain+" LOGIN")
	pgtest.Execute(t, conn, "GRANT SELECT ON t TO "+plain)
	table := pipeline(t, oneTable).Tables[0]
	for name, dsn := range map[string]string{"superuser": dsn, "plain": strings.Replace(dsn, "postgres@", plain+"@", 1)} {
		t.Run(name, func(t *testing.T) {
			r := open(t, dsn, postgres.Options{MaxConnections: 3})
			v := view(t, r, table, true)
			pgtest.Execute(t, conn, "DELETE FROM t WHERE id <= 1000")
			pgtest.Execute(t, conn, "INSERT INTO t SELECT g, 'new' FROM generate_series(100001, 100500) g")
			if got := rowCount(t, v); got != 60000 {
				t.Errorf("%d rows in the view, want 60000", got)
			}
			log := v.Pinned().Log
			if log == nil || log.Low == nil || log.Low.Compare(log.High) > 0 {
				t.Fatalf("place in the log: %+v", log)
			}
			if name == "superuser" && *log.Low != log.High {
				t.Errorf("place in the log is not exact: %s", v.Pinned().Moment)
			}
			pgtest.Execute(t, conn, "DELETE FROM t WHERE id > 100000")
			pgtest.Execute(t, conn, "INSERT INTO t SELECT g, repeat('x', 400) FROM generate_series(1, 1000) g")
		})
	}
	var slots int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_replication_slots").Scan(&slots); err != nil || slots != 0 {
		t.Errorf("%d slots left, %v", slots, err)
	}
}

// A transaction that runs for long keeps an exact view from its lower bound,
// not from being opened.
func TestLongTransaction(t *testing.T) {
	dsn, conn := server.NewDatabase(t)
	pgtest.Execute(t, conn, "CREATE TABLE t (id bigint PRIMARY KEY, note text)")
	pgtest.Execute(t, conn, "BEGIN; INSERT INTO t VALUES (1, 'open')")
	r := open(t, dsn, postgres.Options{Patience: 50 * time.Millisecond})
	v := view(t, r, pipeline(t, oneTable).Tables[0], true)
	if log := v.Pinned().Log; log == nil || log.Low != nil {
		t.Errorf("place in the log: %+v, want no lower bound", log)
	}
	if got := rowCount(t, v); got != 0 {
		t.Errorf("%d rows, want none: nothing was committed", got)
	}
}

// What is wrong with a table is said, and no value.
func TestOpenRefuses(t *testing.T) {
	dsn, conn := server.NewDatabase(t)
	pgtest.Execute(t, conn, `CREATE TABLE t (id bigint PRIMARY KEY); CREATE TABLE hidden (id bigint PRIMARY KEY, note text);
		CREATE TABLE guarded (id bigint PRIMARY KEY, note text); ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
		CREATE TABLE "Twin" (id bigint PRIMARY KEY, note text); CREATE TABLE "tWin" (id bigint PRIMARY KEY, note text);`)
	role := "some_" + conn.Config().Database
	pgtest.Execute(t, conn, "CREATE ROLE "+role+" LOGIN; GRANT SELECT ON t, guarded TO "+role)
	r := open(t, strings.Replace(dsn, "postgres@", role+"@", 1), postgres.Options{})
	for _, tt := range []struct {
		reader            *postgres.Reader
		table, kind, want string
	}{
		{r, "none", "string", "find table: the source has none"},
		{r, "t", "string", "find columns: the source has no column note"},
		{r, "hidden", "string", "permission denied for table hidden"},
		{r, "guarded", "string", "row-level security policy"},
		{r, "twin", "string", "several differ only in the case"},
	} {
		table := pipeline(t, strings.NewReplacer("public.t", "public."+tt.table, "note, type: string", "note, type: "+tt.kind).Replace(oneTable)).Tables[0]
		v, err := tt.reader.Open(t.Context(), table, false)
		if err == nil {
			for _, rowErr := range v.Rows(t.Context(), reconcile.Part{Buckets: 1}) {
				err = rowErr
			}
			_ = v.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.table, err, tt.want)
		}
	}
}

// A connection that is lost, a statement that takes too long, a server that is
// not there: errors, and without the password.
func TestLostConnection(t *testing.T) {
	dsn, conn := server.NewDatabase(t)
	pgtest.Execute(t, conn, "CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t SELECT g, 'n' FROM generate_series(1, 200000) g")
	table := pipeline(t, oneTable).Tables[0]
	r := open(t, dsn, postgres.Options{})
	v := view(t, r, table, false)
	pgtest.Execute(t, conn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'icehose reconcile'")
	if _, err := v.Digests(t.Context(), reconcile.Part{Buckets: 1}); err == nil || !strings.Contains(err.Error(), "digest public.t") {
		t.Errorf("a lost connection: %v", err)
	}
	pgtest.Execute(t, conn, "CREATE VIEW slow AS SELECT 1::bigint AS id, pg_sleep(60)::text AS note")
	hurried := open(t, dsn, postgres.Options{StatementTimeout: time.Second})
	slow := pipeline(t, strings.Replace(oneTable, "public.t", "public.slow", 1)).Tables[0]
	if _, err := view(t, hurried, slow, false).Digests(t.Context(), reconcile.Part{Buckets: 1}); err == nil || !strings.Contains(err.Error(), "statement timeout") {
		t.Errorf("a statement that takes too long: %v", err)
	}
	for _, dsn := range []string{"postgres://someone:opensesame@127.0.0.1:1/none", "postgres://someone:opensesame@127.0.0.1:x/none"} {
		_, err := postgres.Open(t.Context(), dsn, postgres.Options{})
		if err == nil || strings.Contains(err.Error(), "opensesame") {
			t.Errorf("a server that is not there: %v", err)
		}
	}
}

// Connections beyond the first make it faster, and are not needed: the server
// may give none. There are never more than was said, a slot's included.
func TestConnections(t *testing.T) {
	dsn, conn := server.NewDatabase(t)
	pgtest.Execute(t, conn, `CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t SELECT g, repeat('x', 400) FROM generate_series(1, 60000) g; ANALYZE t;
		DROP ROLE IF EXISTS lonely; CREATE ROLE lonely LOGIN CONNECTION LIMIT 1; GRANT SELECT ON t TO lonely`)
	table := pipeline(t, oneTable).Tables[0]
	lonely := open(t, asRole(dsn, "lonely"), postgres.Options{MaxConnections: 3})
	if got := rowCount(t, view(t, lonely, table, true)); got != 60000 {
		t.Errorf("%d rows on one connection, want 60000", got)
	}
	one := open(t, dsn, postgres.Options{MaxConnections: 1, Patience: time.Second})
	writer := pgtest.Connect(t, dsn)
	pgtest.Execute(t, writer, "BEGIN; DELETE FROM t WHERE id = 1") // which a slot waits for
	opened := make(chan error, 1)
	go func() {
		v, err := one.Open(t.Context(), table, true)
		if err == nil {
			err = v.Close()
		}
		opened <- err
	}()
	slots := 0
	for done := false; !done; {
		var n int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'walsender'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		slots = max(slots, n)
		select {
		case err := <-opened:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
		}
	}
	if slots > 0 {
		t.Errorf("%d connections beside the one", slots)
	}
}
