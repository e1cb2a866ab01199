package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	source "icehose/catalog/mysql"
	"icehose/reconcile/mysql"
)

// A mysqlConn is a connection to a MySQL or MariaDB.
type mysqlConn struct {
	conn   *mysql.Session
	source *Source
	rows   int
	upsert string
}

var _ connection = (*mysqlConn)(nil)

// mysqlSession is how the writer's session is set up. The server counts lock
// waits in seconds; only MariaDB has a time for statements that write, on MySQL
// the writer hangs up.
func mysqlSession(o *Options, mariadb bool) []string {
	lock := max(1, int64(o.LockTimeout.Round(time.Second)/time.Second))
	timeout := fmt.Sprintf("SET SESSION max_execution_time = %d", o.StatementTimeout.Milliseconds())
	if mariadb {
		timeout = fmt.Sprintf("SET SESSION max_statement_time = %f", o.StatementTimeout.Seconds())
	}
	return []string{
		"SET NAMES utf8mb4", "SET SESSION time_zone = '+00:00'", "SET SESSION sql_mode = 'STRICT_ALL_TABLES'", "SET SESSION autocommit = 1",
		fmt.Sprintf("SET SESSION lock_wait_timeout = %d", lock), fmt.Sprintf("SET SESSION innodb_lock_wait_timeout = %d", lock), timeout,
	}
}

func dialMySQL(ctx context.Context, s *Source, o *Options) (connection, error) {
	conn, err := mysql.Connect(ctx, s.dsn, func(mariadb bool) []string { return mysqlSession(o, mariadb) })
	if err != nil {
		return nil, err
	}
	return &mysqlConn{conn: conn, source: s, rows: o.Rows}, nil
}

// check implements connection.
func (c *mysqlConn) check(ctx context.Context) error {
	s := c.source
	t, err := source.FindTable(ctx, c.conn, s.Schema, s.Table)
	switch {
	case errors.Is(err, source.ErrNoTable):
		return s.missing()
	case err != nil:
		return fmt.Errorf("check table %s: %w", s.Name(), mysql.Clean(err))
	case t.Kind != "BASE TABLE":
		return s.refuse("want a table of its own: no view, and no history of its rows")
	case !mysql.Transactional(t.Engine):
		return s.refuse("its storage engine %s has no snapshots: want InnoDB", t.Engine)
	}
	triggers, err := t.Triggers(ctx, c.conn)
	if err != nil {
		return fmt.Errorf("check table %s: %w", s.Name(), mysql.Clean(err))
	}
	if len(triggers) > 0 {
		return s.refuse("it has triggers, which may write elsewhere")
	}
	key, at, err := s.shape(mysqlColumns(t))
	if err != nil {
		return err
	}
	var strange bool
	if err := c.conn.QueryRowContext(ctx, mysqlStrangers(s, key, c.rows)).Scan(&strange); err != nil {
		if mysqlLacksRight(err) {
			return s.denied()
		}
		return fmt.Errorf("check table %s: read keys: %w", s.Name(), mysql.Clean(err))
	}
	if strange {
		return s.strangers(c.rows)
	}
	c.upsert = mysqlUpsert(s, key, at, c.rows)
	return nil
}

func mysqlColumns(t *source.Table) (columns []column) {
	for _, c := range t.Columns {
		columns = append(columns, column{
			name: c.Name, typ: c.Declared,
			key:     slices.Equal(t.Key, []string{c.Name}),
			made:    strings.Contains(c.Extra, "STORED") || strings.Contains(c.Extra, "VIRTUAL"),
			integer: slices.Contains([]string{"smallint", "mediumint", "int", "bigint"}, c.DataType),
			time:    c.DataType == "timestamp",
		})
	}
	return columns
}

// mysqlStrangers asks for rows that no beat would reach.
func mysqlStrangers(s *Source, key string, rows int) string {
	return fmt.Sprintf("SELECT COALESCE(MIN(%[1]s) < 1 OR MAX(%[1]s) > %[2]d, 0) FROM %[3]s", s.quote(key), rows, s.place())
}

// mysqlUpsert is a beat: all rows get one time, that at which the statement
// began, so none is later than its commit. They are locked in the order of their
// keys, so that two writers never wait for each other.
func mysqlUpsert(s *Source, key, at string, rows int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "INSERT INTO %s (%s, %s) VALUES ", s.place(), s.quote(key), s.quote(at))
	for id := 1; id <= rows; id++ {
		if id > 1 {
			b.WriteString(", ")
		}
		b.WriteString("(" + strconv.Itoa(id) + ", NOW(6))")
	}
	fmt.Fprintf(&b, " ON DUPLICATE KEY UPDATE %s = NOW(6)", s.quote(at))
	return b.String()
}

// beat implements connection.
func (c *mysqlConn) beat(ctx context.Context) error {
	_, err := c.conn.ExecContext(ctx, c.upsert)
	switch {
	case err == nil:
		return nil
	case mysqlLacksRight(err):
		return c.source.denied()
	}
	return fmt.Errorf("write table %s: %w", c.source.Name(), mysql.Clean(err))
}

// close implements connection.
func (c *mysqlConn) close(context.Context) { _ = c.conn.Close() } // it has nothing left to lose

// mysqlFinal reports whether a server would say the same again: an account or a
// database that is none, a right that is missing.
func mysqlFinal(err error) bool {
	fromServer, ok := errors.AsType[*driver.MySQLError](err)
	return mysqlLacksRight(err) || ok && slices.Contains([]uint16{1044, 1045, 1049}, fromServer.Number)
}

// mysqlLacksRight reports whether the account may not do it to the table.
func mysqlLacksRight(err error) bool {
	fromServer, ok := errors.AsType[*driver.MySQLError](err)
	return ok && (fromServer.Number == 1142 || fromServer.Number == 1143)
}
