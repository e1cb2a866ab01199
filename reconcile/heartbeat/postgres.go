package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"icehose/reconcile/postgres"
)

// A postgresConn is a connection to a PostgreSQL.
type postgresConn struct {
	conn   *pgx.Conn
	source *Source
	rows   int
	upsert string
}

var _ connection = (*postgresConn)(nil)

// postgresSession is how the writer's session is set up. A role whose policies
// would thin the table out must fail; a beat that a crash of the server loses
// is missed by nobody, so none waits for the disk or for a standby.
func postgresSession(o *Options) []string {
	return []string{
		"SET search_path = pg_catalog", "SET row_security = off", "SET synchronous_commit = off", "SET application_name = 'icehose heartbeat'",
		fmt.Sprintf("SET statement_timeout = %d", o.StatementTimeout.Milliseconds()), fmt.Sprintf("SET lock_timeout = %d", o.LockTimeout.Milliseconds()),
	}
}

func dialPostgres(ctx context.Context, s *Source, o *Options) (connection, error) {
	conn, err := postgres.Connect(ctx, s.dsn, postgresSession(o)...)
	if err != nil {
		return nil, err
	}
	return &postgresConn{conn: conn, source: s, rows: o.Rows}, nil
}

// check implements connection.
func (c *postgresConn) check(ctx context.Context) error {
	s := c.source
	var oid uint32
	var kind string
	var logged, parent, acts, standby bool
	err := c.conn.QueryRow(ctx, `SELECT c.oid, c.relkind::text, c.relpersistence = 'p', EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid),
			c.relhasrules OR EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal), pg_is_in_recovery()
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2`,
		s.Schema, s.Table).Scan(&oid, &kind, &logged, &parent, &acts, &standby)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return s.missing()
	case err != nil:
		return fmt.Errorf("check table %s: %w", s.Name(), postgres.Clean(err))
	case standby: // after a failover this may pass
		return fmt.Errorf("check table %s: the server is a standby: a heartbeat is written to its primary", s.Name())
	case kind != "r" || parent:
		return s.refuse("want a table of its own: no view, no foreign table, no partitions and no tables below it")
	case !logged:
		return s.refuse("the server does not log its changes: nobody could capture them")
	case acts:
		return s.refuse("it has triggers or rules, which may write elsewhere")
	}
	key, at, err := c.columns(ctx, oid)
	if err != nil {
		return err
	}
	var allowed bool
	if err := c.conn.QueryRow(ctx, "SELECT has_table_privilege($1::oid, 'SELECT') AND has_table_privilege($1::oid, 'INSERT') AND has_column_privilege($1::oid, $2::text, 'UPDATE')",
		oid, at).Scan(&allowed); err != nil {
		return fmt.Errorf("check table %s: read rights: %w", s.Name(), postgres.Clean(err))
	}
	if !allowed {
		return s.denied()
	}
	var strange bool
	if err := c.conn.QueryRow(ctx, postgresStrangers(s, key, c.rows)).Scan(&strange); err != nil {
		return fmt.Errorf("check table %s: read keys: %w", s.Name(), postgres.Clean(err))
	}
	if strange {
		return s.strangers(c.rows)
	}
	c.upsert = postgresUpsert(s, key, at, c.rows)
	return nil
}

// columns finds the key and the time.
func (c *postgresConn) columns(ctx context.Context, oid uint32) (key, at string, err error) {
	rows, err := c.conn.Query(ctx, `SELECT a.attname::text, format_type(a.atttypid, a.atttypmod),
			a.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype), a.atttypid = 'timestamptz'::regtype,
			EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary AND i.indimmediate AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum),
			a.attidentity = 'a' OR a.attgenerated <> ''
		FROM pg_attribute a WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, oid)
	if err != nil {
		return "", "", fmt.Errorf("check table %s: list columns: %w", c.source.Name(), postgres.Clean(err))
	}
	columns, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d column, err error) {
		err = row.Scan(&d.name, &d.typ, &d.integer, &d.time, &d.key, &d.made)
		return d, err
	})
	if err != nil {
		return "", "", fmt.Errorf("check table %s: list columns: %w", c.source.Name(), postgres.Clean(err))
	}
	return c.source.shape(columns)
}

// postgresStrangers asks for rows that no beat would reach.
func postgresStrangers(s *Source, key string, rows int) string {
	return fmt.Sprintf("SELECT coalesce(min(%[1]s) < 1 OR max(%[1]s) > %[2]d, false) FROM %[3]s", s.quote(key), rows, s.place())
}

// postgresUpsert is a beat: all rows get one time, that at which the statement
// came to the server, so none is later than its commit. They are locked in the
// order of their keys, so that two writers never wait for each other.
func postgresUpsert(s *Source, key, at string, rows int) string {
	return fmt.Sprintf("INSERT INTO %[1]s (%[2]s, %[3]s) SELECT g, statement_timestamp() FROM generate_series(1, %[4]d) g ON CONFLICT (%[2]s) DO UPDATE SET %[3]s = excluded.%[3]s",
		s.place(), s.quote(key), s.quote(at), rows)
}

// beat implements connection.
func (c *postgresConn) beat(ctx context.Context) error {
	done, err := c.conn.Exec(ctx, c.upsert)
	if err != nil {
		return fmt.Errorf("write table %s: %w", c.source.Name(), postgres.Clean(err))
	}
	if done.RowsAffected() != int64(c.rows) {
		return fmt.Errorf("write table %s: the server wrote %d rows, want %d", c.source.Name(), done.RowsAffected(), c.rows)
	}
	return nil
}

// close implements connection.
func (c *postgresConn) close(ctx context.Context) { postgres.Disconnect(ctx, c.conn) }

// postgresFinal reports whether a server would say the same again: an account or
// a database that is none, a right that is missing.
func postgresFinal(err error) bool {
	fromServer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(fromServer.Code, "28") || fromServer.Code == "3D000" || fromServer.Code == "42501")
}
