// Package mysql reads the source side of a reconcile run from a live MySQL or
// MariaDB, or from a replica of one.
//
// In comes a connection string; out come row digests and row hashes (a
// reconcile.Reader). Each view of a table is one read-only transaction with a
// consistent snapshot. MariaDB tells the place of a snapshot in the binary log,
// so several connections can be brought to the same one; on MySQL a view has
// one connection, and the end of the log is a lower bound only once all that was
// then being committed is visible: an exact view waits for that, by the
// transactions' GTIDs (gtid_mode ON) or by the list of transactions (PROCESS). Rows are digested by SQL where the server renders all of
// a table's types exactly (package canonsql), else they pass through this
// process, one at a time: tables with FLOAT or DOUBLE always do.
//
// A replica has a binary log of its own, which says nothing of a stream that is
// read from another server: its views have no place in the log. To an account
// that may not see the state of replication (MariaDB: SLAVE MONITOR; MySQL:
// REPLICATION CLIENT) every server may be a replica that is behind the lake: what
// differs is then never proven (reconcile.Pinned.Through), and Pinned.Doubt says
// which right is missing. Options.Role says what the account may not see,
// Options.ReplicaLag and a heartbeat table how far behind a replica is.
//
// Nothing is written to the source. Tables must be transactional; a MyISAM
// table has no snapshot and is refused.
package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"icehose/catalog"
	source "icehose/catalog/mysql"
	"icehose/cdc"
	"icehose/reconcile"
)

// Options say what the source may be asked for.
type Options struct {
	// MaxConnections bounds the connections that are open at a time; default 2.
	MaxConnections int
	// StatementTimeout ends every statement that takes longer; 0: none.
	StatementTimeout time.Duration
	// RowsPerSecond bounds the rows that are read, over all connections; 0: no
	// bound. Rows then pass through this process.
	RowsPerSecond int
	// Stream makes rows pass through this process although the server could
	// digest them: it costs the server less work and the network all rows.
	Stream bool
	// Patience is how long an exact view of a MySQL waits for transactions that
	// are being committed; default 5 s. When it ends, the lower bound of the view's
	// place in the log stays unknown.
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

// A Reader reads the tables of one server.
type Reader struct {
	db       *sql.DB
	options  Options
	free     chan struct{} // a connection may be opened for each value in it
	throttle *reconcile.Throttle
	mariadb  bool
	places   bool // a snapshot tells its place in the log
	beat     *catalog.Table
}

var _ reconcile.Reader = (*Reader)(nil)

// Open connects once, to see that it can, and returns a Reader.
func Open(ctx context.Context, dsn string, o Options) (*Reader, error) {
	db, err := open(dsn)
	if err != nil {
		return nil, err
	}
	if o.MaxConnections < 1 {
		o.MaxConnections = defaultConnections
	}
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	r := &Reader{db: db, options: o, free: make(chan struct{}, o.MaxConnections), throttle: reconcile.NewThrottle(o.RowsPerSecond)}
	for range o.MaxConnections {
		r.free <- struct{}{}
	}
	if r.mariadb, err = reconcile.Patiently(ctx, tooMany, func() (bool, error) { return isMariaDB(ctx, db) }); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	r.places = r.mariadb
	return r, nil
}

// Heartbeat names a table that somebody keeps updating on the server that the
// source follows: its newest time in a snapshot is one up to which the snapshot
// has everything. It must have one column of TIMESTAMP.
func (r *Reader) Heartbeat(t *catalog.Table) { r.beat = t }

// Close closes the connections. The Reader's views must have been closed.
func (r *Reader) Close() error {
	r.throttle.Stop()
	if err := r.db.Close(); err != nil {
		return fmt.Errorf("close source: %w", err)
	}
	return nil
}

// session is how every session is set up.
func (r *Reader) session() []string {
	timeout := fmt.Sprintf("SET SESSION max_execution_time = %d", r.options.StatementTimeout.Milliseconds())
	if r.mariadb {
		timeout = fmt.Sprintf("SET SESSION max_statement_time = %f", r.options.StatementTimeout.Seconds())
	}
	readOnly := "SET SESSION transaction_read_only = 1"
	if r.mariadb {
		readOnly = "SET SESSION tx_read_only = 1"
	}
	return []string{
		"SET NAMES utf8mb4", "SET SESSION time_zone = '+00:00'", "SET SESSION sql_mode = ''", "SET SESSION lock_wait_timeout = 10", timeout,
		readOnly, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
	}
}

// connect waits until a connection is free, and opens it.
func (r *Reader) connect(ctx context.Context) (*sql.Conn, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.free:
	}
	conn, err := reconcile.Patiently(ctx, tooMany, func() (*sql.Conn, error) { return r.dial(ctx) })
	if err != nil {
		r.free <- struct{}{}
	}
	return conn, err
}

// tooMany reports whether a server had no connection left to give, at all or to
// this account.
func tooMany(err error) bool {
	fromServer, ok := errors.AsType[*driver.MySQLError](err)
	return ok && (fromServer.Number == 1040 || fromServer.Number == 1203 || fromServer.Number == 1226)
}

// connectMore opens another connection if one is free now; nil if not.
func (r *Reader) connectMore(ctx context.Context) (*sql.Conn, error) {
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

func (r *Reader) dial(ctx context.Context) (*sql.Conn, error) {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", clean(err))
	}
	if err := setUp(ctx, conn, r.session()); err != nil {
		_ = conn.Close() // the first error matters
		return nil, err
	}
	return conn, nil
}

// close ends a connection; what was only read cannot be lost by it.
func (r *Reader) close(conn *sql.Conn) {
	_ = conn.Close()
	r.free <- struct{}{}
}

// clean takes values out of an error of the server.
func clean(err error) error {
	return source.WithoutValues(err)
}

// State implements reconcile.Reader. The mark is the end of the binary log; a
// server whose log does not move with its rows has none.
func (r *Reader) State(ctx context.Context, _ []*catalog.Table) (reconcile.State, error) {
	conn, err := r.connect(ctx)
	if err != nil {
		return reconcile.State{}, err
	}
	defer r.close(conn)
	var s reconcile.State
	if s.Time, err = now(ctx, conn); err != nil {
		return s, fmt.Errorf("read state: %w", clean(err))
	}
	f, err := r.follows(ctx, conn)
	if err != nil {
		return s, fmt.Errorf("read state: %w", clean(err))
	}
	if at, err := logEnd(ctx, conn); err == nil && logs(ctx, conn, f.through) {
		s.Mark = at.String()
	}
	return s, nil
}

func now(ctx context.Context, conn *sql.Conn) (time.Time, error) {
	var micros int64
	err := conn.QueryRowContext(ctx, "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)").Scan(&micros)
	return time.UnixMicro(micros).UTC(), err
}

var errNoLog = errors.New("the server writes no binary log, or the account may not see it")

// logEnd reads where the binary log ends.
func logEnd(ctx context.Context, conn *sql.Conn) (cdc.Body, error) {
	_, rows, err := query(ctx, conn, "SHOW MASTER STATUS")
	if err != nil { // MySQL 8.4 has another name for it
		if _, rows, err = query(ctx, conn, "SHOW BINARY LOG STATUS"); err != nil {
			return cdc.Body{}, err
		}
	}
	if len(rows) == 0 || len(rows[0]) < 2 {
		return cdc.Body{}, errNoLog
	}
	return body(rows[0][0].String, rows[0][1].String)
}

// body makes a position's body of a file's name and an offset in it.
func body(file, offset string) (cdc.Body, error) {
	n, err := strconv.ParseUint(file[strings.LastIndexByte(file, '.')+1:], 10, 32)
	at, atErr := strconv.ParseUint(offset, 10, 32)
	if err != nil || atErr != nil {
		return cdc.Body{}, errNoLog
	}
	return cdc.Body{Lo: n<<32 | at}, nil
}

// query reads the rows of a statement whose columns depend on the version.
func query(ctx context.Context, conn *sql.Conn, statement string) (names []string, all [][]sql.NullString, err error) {
	rows, err := conn.QueryContext(ctx, statement)
	if err != nil {
		return nil, nil, clean(err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if names, err = rows.Columns(); err != nil {
		return nil, nil, err
	}
	for rows.Next() {
		values := make([]sql.NullString, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, nil, err
		}
		all = append(all, values)
	}
	return names, all, rows.Err()
}

// Open implements reconcile.Reader.
func (r *Reader) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	conn, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	v := &view{reader: r, table: t, conn: conn}
	if err := v.open(ctx, exact); err != nil {
		r.close(conn)
		return nil, fmt.Errorf("open table %s: %w", t.Source, err)
	}
	return v, nil
}

func (v *view) open(ctx context.Context, exact bool) error {
	if err := v.describe(ctx); err != nil {
		return err
	}
	f, err := v.reader.follows(ctx, v.conn)
	if err != nil {
		return fmt.Errorf("read what was replayed: %w", clean(err))
	}
	v.pinned.Through, v.pinned.Doubt = f.through, f.doubt
	if v.log, err = v.reader.begin(ctx, v.conn, exact); err != nil {
		return err
	}
	if v.pinned.Through == nil { // else the log is that of the server alone
		v.pinned.Log = v.log
	} else if !f.assumed {
		v.heard(ctx, &f)
	}
	if v.pinned.Time, err = now(ctx, v.conn); err != nil {
		return clean(err)
	}
	v.pinned.Moment = "snapshot"
	if log := v.pinned.Log; log != nil {
		v.pinned.Moment = fmt.Sprintf("log %d:%d", log.High.Lo>>32, log.High.Lo&(1<<32-1))
		if log.Low == nil || *log.Low != log.High {
			v.pinned.Moment = "log up to" + strings.TrimPrefix(v.pinned.Moment, "log")
		}
	}
	if f.assumed {
		v.pinned.Moment += ", assumed to have everything up to " + f.through.Format(time.RFC3339)
	}
	return nil
}
