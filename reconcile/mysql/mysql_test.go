//go:build mariadb

package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"icehose/catalog"
	catalogmysql "icehose/catalog/mysql"
	"icehose/internal/mariadbtest"
	"icehose/reconcile"
	"icehose/reconcile/mysql"
	"icehose/reconcile/reconciletest"
)

var server *mariadbtest.Server

func TestMain(m *testing.M) { os.Exit(run(m)) } //nolint:forbidigo // a test's main

func run(m *testing.M) int {
	var err error
	if server, err = mariadbtest.Start(context.Background(), ""); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer func() { _ = server.Stop() }() // nothing is left to be told
	return m.Run()
}

func database(t *testing.T) *sql.DB {
	t.Helper()
	db, err := catalogmysql.Open(server.DSN("") + "?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func execute(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func open(t *testing.T, dsn string, o mysql.Options) *mysql.Reader {
	t.Helper()
	r, err := mysql.Open(t.Context(), dsn, o)
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

// fits reports whether MariaDB has a value: no float that is no
// number, and not the greatest one, which it rounds up before it stores it.
func fits(c *catalog.Column, v reconciletest.Value) bool {
	if v.Null {
		return true
	}
	switch c.Type.Kind {
	case catalog.Float, catalog.Double:
		return !strings.ContainsAny(v.Text, "NI") && !strings.HasSuffix(v.Text, "e+38")
	case catalog.Boolean, catalog.Int, catalog.Long, catalog.Decimal, catalog.Date, catalog.Time, catalog.Timestamp, catalog.TimestampTZ,
		catalog.String, catalog.UUID, catalog.Fixed, catalog.Binary:
	}
	return true
}

func sqlType(c *catalog.Column, key bool) string {
	switch c.Type.Kind {
	case catalog.Boolean:
		return "tinyint(1)"
	case catalog.Long:
		return "bigint"
	case catalog.Decimal:
		return fmt.Sprintf("decimal(%d,%d)", c.Type.Precision, c.Type.Scale)
	case catalog.Time:
		return "time(6)"
	case catalog.Timestamp, catalog.TimestampTZ: // a TIMESTAMP has few years
		return "datetime(6)"
	case catalog.String:
		if key {
			return "varchar(100) COLLATE utf8mb4_general_ci"
		}
		return "text"
	case catalog.Fixed, catalog.Binary:
		return "varbinary(100)"
	case catalog.Int, catalog.Float, catalog.Double, catalog.Date, catalog.UUID:
	}
	return c.Type.Kind.String()
}

// fill makes the tables of a suite's case, in a schema called public.
func fill(t *testing.T, db *sql.DB, p *catalog.Pipeline, tables reconciletest.Tables) {
	t.Helper()
	execute(t, db, "DROP DATABASE IF EXISTS public; CREATE DATABASE public CHARACTER SET utf8mb4; SET sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES'")
	for name, rows := range tables {
		table := reconciletest.Table(t, p, name)
		var columns []string
		for _, c := range table.Columns {
			columns = append(columns, "`"+c.Name+"` "+sqlType(c, table.IsKey(c.Name)))
		}
		execute(t, db, fmt.Sprintf("CREATE TABLE %s (%s) ENGINE=InnoDB", name, strings.Join(columns, ", ")))
		for _, row := range rows {
			insert(t, db, table, row)
		}
	}
}

func insert(t *testing.T, db *sql.DB, table *catalog.Table, row reconciletest.Row) {
	t.Helper()
	var values []string
	var args []any
	for i, v := range row {
		c := table.Columns[i]
		switch {
		case v.Null:
			values = append(values, "NULL")
			continue
		case c.Type.Kind == catalog.Binary || c.Type.Kind == catalog.Fixed:
			values = append(values, "UNHEX(?)")
		case c.Type.Kind == catalog.Boolean:
			values = append(values, "? = 'true'")
		default:
			values = append(values, "?")
		}
		args = append(args, strings.TrimSuffix(v.Text, "Z"))
		if c.Type.Kind == catalog.String {
			args[len(args)-1] = v.Text
		}
	}
	execute(t, db, fmt.Sprintf("INSERT INTO %s VALUES (%s)", table.Source, strings.Join(values, ", ")), args...)
}

func TestReader(t *testing.T) {
	for name, o := range map[string]mysql.Options{"digests of the server": {}, "streamed, throttled, one connection": {Stream: true, RowsPerSecond: 1_000_000, MaxConnections: 1}} {
		t.Run(name, func(t *testing.T) {
			reconciletest.TestReaderOf(t, fits, func(t *testing.T, p *catalog.Pipeline, tables reconciletest.Tables) reconcile.Reader {
				fill(t, database(t), p, tables)
				return open(t, server.DSN(""), o)
			})
		})
	}
}

const oneTable = `version: 1
database: lake
source: {engine: mariadb, position: mysql}
tables:
  - source: shop.t
    mode: mirror
    key: [id]
    columns:
      - {name: id, type: long}
      - {name: note, type: string}
`

func table(t *testing.T, text string) *catalog.Table {
	t.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p.Tables[0]
}

func shop(t *testing.T, statements string) *sql.DB {
	t.Helper()
	db := database(t)
	execute(t, db, "DROP DATABASE IF EXISTS shop; CREATE DATABASE shop CHARACTER SET utf8mb4; USE shop; "+statements)
	return db
}

// All connections of a view see one snapshot, whose place in the log is exact.
func TestOneSnapshot(t *testing.T) {
	db := shop(t, "CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t SELECT seq, 'n' FROM seq_1_to_150000; ANALYZE TABLE t")
	r := open(t, server.DSN(""), mysql.Options{MaxConnections: 3})
	v, err := r.Open(t.Context(), table(t, oneTable), true)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close() //nolint:errcheck // it only read
	log := v.Pinned().Log
	if log == nil || log.Low == nil || *log.Low != log.High {
		t.Fatalf("place in the log: %+v", log)
	}
	count := func() (n uint64) {
		digests, err := v.Digests(t.Context(), reconcile.Part{Buckets: 8})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range digests {
			n += d.Count
		}
		return n
	}
	if got := count(); got != 150000 {
		t.Errorf("%d rows, want 150000", got)
	}
	before, err := r.State(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, db, "DELETE FROM t WHERE id % 3 = 0")
	if got := count(); got != 150000 {
		t.Errorf("%d rows after a delete, want 150000 still", got)
	}
	if after, err := r.State(t.Context(), nil); err != nil || after.Mark == before.Mark || before.Mark == "" {
		t.Errorf("marks %q and %q, %v", before.Mark, after.Mark, err)
	}
}

// A collation takes keys for equal that are not: only the one asked for comes.
func TestKeysOfACollation(t *testing.T) {
	shop(t, "CREATE TABLE t (id varchar(10) COLLATE utf8mb4_bin, note text, other varchar(10) COLLATE utf8mb4_general_ci); INSERT INTO t VALUES ('a', 'x', 'ab'), ('A', 'y', 'AB'), ('a ', 'z', 'ab ')")
	text := strings.Replace(oneTable, "id, type: long", "other, type: string", 1)
	tab := table(t, strings.Replace(text, "key: [id]", "key: [other]", 1))
	v, err := open(t, server.DSN(""), mysql.Options{}).Open(t.Context(), tab, false)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close() //nolint:errcheck // it only read
	keys, err := reconcile.NewKeys(tab, [][]string{{"ab"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for row, err := range v.Rows(t.Context(), reconcile.Part{Buckets: 1, Keys: keys}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(row.Key))
	}
	if len(got) != 1 || got[0] != "2:ab" {
		t.Errorf("keys %q, want ab alone", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	shop(t, "CREATE TABLE t (id bigint PRIMARY KEY); CREATE TABLE old (id bigint, note text) ENGINE=MyISAM; CREATE TABLE zero (id bigint, note date); "+
		"SET sql_mode = ''; INSERT INTO zero VALUES (1, '0000-00-00'); CREATE USER IF NOT EXISTS nobody; CREATE TABLE slow (id bigint, note text); INSERT INTO slow SELECT seq, 'n' FROM seq_1_to_100000")
	r := open(t, server.DSN(""), mysql.Options{})
	stranger := open(t, strings.Replace(server.DSN(""), "root@", "nobody@", 1), mysql.Options{})
	hurried := open(t, server.DSN(""), mysql.Options{StatementTimeout: time.Millisecond, Stream: true})
	for _, tt := range []struct {
		reader            *mysql.Reader
		table, kind, want string
	}{
		{r, "none", "string", "find table: the source has none"},
		{r, "t", "string", "find columns: the source has no column note"},
		{r, "old", "string", "storage engine MyISAM has no snapshots"},
		{stranger, "zero", "string", "the account may not see it"},
		{hurried, "slow", "string", "max_statement_time"},
	} {
		tab := table(t, strings.NewReplacer("shop.t", "shop."+tt.table, "note, type: string", "note, type: "+tt.kind).Replace(oneTable))
		v, err := tt.reader.Open(t.Context(), tab, false)
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
	_, err := mysql.Open(t.Context(), "mysql://someone:opensesame@127.0.0.1:1/none", mysql.Options{})
	if err == nil || strings.Contains(err.Error(), "opensesame") {
		t.Errorf("a server that is not there: %v", err)
	}
}
