// Package postgres reads the source side of a reconcile run from a live
// PostgreSQL, or from a standby of one.
//
// In comes a connection string; out come row digests and row hashes (a
// reconcile.Reader). Each view of a table is one read-only, repeatable-read
// transaction, on as many connections as Options.MaxConnections leaves free,
// which share its snapshot. Rows are digested by SQL where the server renders
// all of a table's types exactly (package canonsql), else they pass through
// this process, one at a time.
//
// Rows are what SELECT FROM ONLY finds, as for a load, or, of a partitioned table,
// in all of its partitions.
//
// Nothing is written to the source. With an exact view, where the account may
// have one, a temporary logical slot exists for a moment: it gives a snapshot
// and its place in the log. Servers before PostgreSQL 12 are not promised
// anything.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"icehose/catalog"
	"icehose/reconcile"
)

// Options say what the source may be asked for.
type Options struct {
	// MaxConnections bounds the connections that are open at a time; default 2.
	// Only a view that has a second one for a moment can have a slot.
	MaxConnections int
	// StatementTimeout ends every statement that takes longer; 0: none.
	StatementTimeout time.Duration
	// RowsPerSecond bounds the rows that are read, over all connections; 0: no
	// bound. Rows then pass through this process.
	RowsPerSecond int
	// Stream makes rows pass through this process although the server could
	// digest them: it costs the server less work and the network all rows.
	Stream bool
	// Patience is how long an exact view waits for transactions that are
	// running; default 5 s. When it ends, the lower bound of the view's place
	// in the log stays unknown.
	Patience time.Duration
	// Role is what the server is to the stream.
	Role reconcile.Role
	// ReplicaLag is how far behind a server that follows another may be, where it
	// is known from elsewhere: what the server says of it is not asked for.
	ReplicaLag time.Duration
}

const (
	defaultConnections = 2
	defaultPatience    = 5 * time.Second
)

// A Reader reads the tables of one database.
type Reader struct {
	config   *pgx.ConnConfig
	options  Options
	free     chan struct{} // a connection may be opened for each value in it
	throttle *reconcile.Throttle
	server   server
	beat     *catalog.Table
}

var _ reconcile.Reader = (*Reader)(nil)

// server is what does not change while a Reader is used.
type server struct {
	utf8    bool
	logical bool // wal_level
}

// errDSN replaces every complaint about a connection string, which may quote
// a password.
var errDSN = errors.New("open source: the connection string is neither a PostgreSQL URL nor key=value pairs")

// Open connects once, to see that it can, and returns a Reader.
func Open(ctx context.Context, dsn string, o Options) (*Reader, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errDSN
	}
	if o.MaxConnections < 1 {
		o.MaxConnections = defaultConnections
	}
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	r := &Reader{config: config, options: o, free: make(chan struct{}, o.MaxConnections), throttle: reconcile.NewThrottle(o.RowsPerSecond)}
	for range o.MaxConnections {
		r.free <- struct{}{}
	}
	conn, err := r.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	defer r.close(ctx, conn)
	var encoding, level string
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_encoding'), current_setting('wal_level')").Scan(&encoding, &level); err != nil {
		return nil, fmt.Errorf("open source: %w", clean(err))
	}
	r.server = server{utf8: encoding == "UTF8", logical: level == "logical"}
	return r, nil
}

// Close ends what a Reader keeps. Its views must have been closed.
func (r *Reader) Close() error {
	r.throttle.Stop()
	return nil
}

// Heartbeat names a table that somebody keeps updating on the server that the
// source follows: its newest time in a snapshot is one up to which the snapshot
// has everything. It must have one column of timestamptz.
func (r *Reader) Heartbeat(t *catalog.Table) { r.beat = t }

// session is how every session is set up: how values look as text, and what a
// statement may take. A view that a role's policies would thin out must fail.
func (o *Options) session() string {
	settings := []string{
		"SET default_transaction_read_only = on", "SET search_path = pg_catalog", "SET timezone = 'UTC'", "SET datestyle = 'ISO, YMD'",
		"SET intervalstyle = 'postgres'", "SET bytea_output = 'hex'", "SET extra_float_digits = 1", "SET client_encoding = 'UTF8'",
		"SET row_security = off", "SET lock_timeout = '10s'", "SET max_parallel_workers_per_gather = 0", "SET jit = off",
		"SET work_mem = '64MB'", "SET application_name = 'icehose reconcile'",
		fmt.Sprintf("SET statement_timeout = %d", o.StatementTimeout.Milliseconds()),
	}
	return strings.Join(settings, "; ")
}

// connect waits until a connection is free, and opens it.
func (r *Reader) connect(ctx context.Context) (*pgx.Conn, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.free:
	}
	conn, err := reconcile.Patiently(ctx, tooMany, func() (*pgx.Conn, error) { return r.dial(ctx) })
	if err != nil {
		r.free <- struct{}{}
	}
	return conn, err
}

// tooMany reports whether a server had no connection left to give.
func tooMany(err error) bool {
	fromServer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && fromServer.Code == "53300"
}

// connectMore opens another connection if one is free now; nil if not.
func (r *Reader) connectMore(ctx context.Context) (*pgx.Conn, error) {
	select {
	case <-r.free:
	default:
		return nil, nil
	}
	conn, err := r.dial(ctx)
	if err != nil {
		r.free <- struct{}{}
	}
	return conn, err
}

func (r *Reader) dial(ctx context.Context) (*pgx.Conn, error) {
	return connect(ctx, r.config, r.options.session())
}

// close ends a connection; what was only read cannot be lost by it.
func (r *Reader) close(ctx context.Context, conn *pgx.Conn) {
	Disconnect(ctx, conn)
	r.free <- struct{}{}
}

// clean takes values out of an error of the server, and all but one line out
// of one of the network.
func clean(err error) error {
	if fromServer, ok := errors.AsType[*pgconn.PgError](err); ok {
		if isData(err) { // the message quotes the value
			return &serverError{err: err, text: "the server refuses a value (SQLSTATE " + fromServer.Code + ")"}
		}
		text := fmt.Sprintf("%s (SQLSTATE %s)", fromServer.Message, fromServer.Code)
		if fromServer.Code == conflict {
			text += ": set hot_standby_feedback, or a longer max_standby_streaming_delay, on the standby"
		}
		return &serverError{err: err, text: text}
	}
	if network, ok := errors.AsType[*net.OpError](err); ok {
		return network
	}
	return err
}

// A serverError says of an error of the server what may be said.
type serverError struct {
	err  error
	text string
}

// Error implements error.
func (e *serverError) Error() string { return e.text }

// Unwrap gives the server's own error.
func (e *serverError) Unwrap() error { return e.err }

// Is tells that the snapshot is gone: of what only reads, a standby ends what
// is in the way of the changes that it replays.
func (e *serverError) Is(target error) bool {
	fromServer, ok := errors.AsType[*pgconn.PgError](e.err)
	return ok && target == reconcile.ErrMomentGone && fromServer.Code == conflict
}

// conflict is what a standby ends a reader with. Nothing else fails so: there
// is no serializable transaction.
const conflict = "40001"

// isData reports whether a value is to blame.
func isData(err error) bool {
	fromServer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(fromServer.Code, "22")
}

// State implements reconcile.Reader. On a primary the mark counts the changed
// rows of the tables, or of their partitions, which the server adds up with a
// delay of up to ten seconds; there is none when one of them is a view or a
// foreign table, whose rows nobody counts. On a standby it is what was replayed.
func (r *Reader) State(ctx context.Context, tables []*catalog.Table) (reconcile.State, error) {
	conn, err := r.connect(ctx)
	if err != nil {
		return reconcile.State{}, err
	}
	defer r.close(ctx, conn)
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = strings.ToLower(t.Source)
	}
	var s reconcile.State
	var standby bool
	if err = conn.QueryRow(ctx, "SELECT clock_timestamp(), pg_is_in_recovery()").Scan(&s.Time, &standby); err != nil {
		return reconcile.State{}, fmt.Errorf("read state: %w", clean(err))
	}
	if standby {
		err = conn.QueryRow(ctx, "SELECT coalesce(pg_last_wal_replay_lsn()::text, '')").Scan(&s.Mark)
	} else {
		err = conn.QueryRow(ctx, countedChanges, names).Scan(&s.Mark)
	}
	if err != nil && !isRefused(err) {
		return reconcile.State{}, fmt.Errorf("read state: %w", clean(err))
	}
	return s, nil
}

// countedChanges counts the changed rows of tables and of their partitions; rows
// of a table that inherits are not read either. A table that is truncated or
// rewritten has a new file.
const countedChanges = `WITH RECURSIVE tree (oid) AS (
	SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'm', 'v', 'f') AND lower(n.nspname || '.' || c.relname) = ANY ($1)
	UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree ON i.inhparent = tree.oid JOIN pg_class p ON p.oid = tree.oid AND p.relkind = 'p')
	SELECT CASE WHEN current_setting('track_counts')::boolean AND coalesce(bool_and(c.relkind IN ('r', 'p', 'm')), true) THEN
			coalesce(sum(pg_stat_get_tuples_inserted(c.oid) + pg_stat_get_tuples_updated(c.oid) + pg_stat_get_tuples_deleted(c.oid)), 0)
			|| ' in ' || coalesce(sum(c.relfilenode::bigint), 0)
		ELSE '' END
	FROM tree JOIN pg_class c ON c.oid = tree.oid`

// isRefused reports whether a server has no such function, or will not run it:
// some clusters that call themselves PostgreSQL do not tell what was replayed.
func isRefused(err error) bool {
	fromServer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(fromServer.Code, "0A") || fromServer.Code == "42883" || fromServer.Code == "42501" || fromServer.Code == "55000")
}
