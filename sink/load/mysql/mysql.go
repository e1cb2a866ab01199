// Package mysql reads a table of a live MySQL or MariaDB for a load.
//
// In comes a connection string; out comes a load.Snapshot: consistent snapshots
// of several connections, opened while the table is locked against writes
// (LOCK TABLES ... READ, or FLUSH TABLES WITH READ LOCK where the account may
// not do the first), each reading ranges of the primary key. The lock is held
// until all of them are open, which takes milliseconds, and the floor is the
// end of the binary log at that time: exactly the changes below it are in the
// rows. It is taken when no XA transaction is prepared that was before the lock:
// what such a one changed is in the log, and not in the rows.
//
// The table must be InnoDB's: other engines have no snapshots. Texts are the
// server's own, in UTC; FLOAT is read as a double, since the server rounds its
// text, and bytes are read as hexadecimal digits.
package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"icehose/catalog"
	source "icehose/catalog/mysql"
	"icehose/internal/canon"
	"icehose/sink/load"
)

// Options say how a table is read.
type Options struct {
	Parallel         int           // connections that read; default 1
	StatementTimeout time.Duration // of each read, where the server has such a limit; 0 for none
	LockTimeout      time.Duration // how long the lock is waited for; default 10 s
}

// Open takes a snapshot of the source table of t.
func Open(ctx context.Context, dsn string, t *catalog.Table, o Options) (*load.Snapshot, error) {
	o.Parallel = max(o.Parallel, 1)
	if o.LockTimeout <= 0 {
		o.LockTimeout = 10 * time.Second
	}
	db, err := source.Open(dsn)
	if err != nil {
		return nil, err
	}
	r := &reader{db: db, table: t, options: o}
	s, err := r.open(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read table %s of mysql: %w", t.Source, err), r.close())
	}
	return s, nil
}

// A reader is the open snapshot of a table.
type reader struct {
	db      *sql.DB
	table   *catalog.Table
	options Options

	mariaDB bool
	name    string // quoted
	columns string // the select list
	key     *keyColumn
	conns   []*sql.Conn
	free    chan *sql.Conn // those of conns that nobody uses
}

func (r *reader) open(ctx context.Context) (*load.Snapshot, error) {
	schema, name, _ := strings.Cut(r.table.Source, ".")
	s := &load.Snapshot{Form: canon.MySQL, Close: r.close}
	if err := r.find(ctx, schema, name, s); err != nil {
		return nil, err
	}
	if err := r.pin(ctx, s); err != nil {
		return nil, err
	}
	var base string
	if err := r.db.QueryRowContext(ctx, "SELECT COALESCE(@@log_bin_basename, '')").Scan(&base); err != nil {
		return nil, fmt.Errorf("read position: %w", err)
	}
	s.Start = fmt.Sprintf("%s.%06d:%d", base[strings.LastIndexAny(base, `/\`)+1:], s.Floor.Lo>>32, s.Floor.Lo&0xffffffff)
	return s, r.split(ctx, s)
}

// close ends every connection, and with them the lock and the snapshots.
func (r *reader) close() error {
	var errs []error
	for _, c := range r.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, r.db.Close())...)
}

// find finds the table, its columns and its key.
func (r *reader) find(ctx context.Context, schema, name string, s *load.Snapshot) error {
	t, err := source.FindTable(ctx, r.db, schema, name)
	if err != nil {
		return err
	}
	switch {
	case t.Kind != "BASE TABLE" && t.Kind != "SYSTEM VERSIONED":
		return fmt.Errorf("find table: it is a %s, and a load reads tables", t.Kind)
	case !strings.EqualFold(t.Engine, "InnoDB"):
		return fmt.Errorf("engine %s has no snapshots: load from a dump that was made while nobody wrote", t.Engine)
	}
	var version string
	if err := r.db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return fmt.Errorf("read version: %w", err)
	}
	r.mariaDB = strings.Contains(version, "MariaDB")
	r.name = quote(t.Schema) + "." + quote(t.Name)
	if s.Estimate = -1; t.Rows.Valid {
		s.Estimate = t.Rows.Int64
	}
	return r.findColumns(t)
}

func (r *reader) findColumns(t *source.Table) error {
	var names []string
	for _, c := range t.Columns {
		names = append(names, c.Name)
		// Parts are ranges, in none of which a null is; an index of beginnings has no
		// order of whole values.
		if len(t.Key) > 0 && c.Name == t.Key[0] && !c.Nullable && !t.KeyBegins {
			r.key = newKeyColumn(quote(c.Name), c.DataType)
		}
	}
	columns := load.Columns(r.table)
	places, err := r.table.PlaceColumns(names)
	if err != nil {
		return err
	}
	list := make([]string, len(places))
	for i, at := range places {
		list[i] = expression(columns[i], quote(names[at]), t.Columns[at].DataType)
	}
	r.columns = strings.Join(list, ", ")
	return nil
}

// expression is what is selected of a column.
func expression(c *catalog.Column, name, kind string) string {
	switch {
	case kind == "float":
		return "(" + name + " + 0e0)" // its own text has six digits
	case kind == "bit" && c.Type.Kind != catalog.Binary && c.Type.Kind != catalog.Fixed:
		return "(" + name + " + 0)"
	case kind == "bit":
		return "LPAD(HEX(" + name + "), 2 * LENGTH(" + name + "), '0')"
	case c.Type.Kind == catalog.Binary || c.Type.Kind == catalog.Fixed:
		return "HEX(" + name + ")"
	}
	return name
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// pin opens the snapshots and reads the floor while nobody writes the table.
func (r *reader) pin(ctx context.Context, s *load.Snapshot) error {
	r.free = make(chan *sql.Conn, r.options.Parallel)
	for range r.options.Parallel {
		conn, err := r.connect(ctx)
		if err != nil {
			return err
		}
		r.conns = append(r.conns, conn)
		r.free <- conn
	}
	locker, err := r.connect(ctx)
	if err != nil {
		return err
	}
	r.conns = append(r.conns, locker)
	if err := r.hold(ctx, locker); err != nil {
		return err
	}
	for _, conn := range r.conns[:r.options.Parallel] {
		if _, err := conn.ExecContext(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"); err != nil {
			return fmt.Errorf("take snapshot: %w", err)
		}
	}
	if s.Floor, s.Since, err = source.Position(ctx, r.db); err != nil {
		return err
	}
	if _, err := locker.ExecContext(ctx, "UNLOCK TABLES"); err != nil {
		return fmt.Errorf("unlock table: %w", err)
	}
	return nil
}

// connect opens a connection whose texts do not depend on the server's settings.
func (r *reader) connect(ctx context.Context) (*sql.Conn, error) {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	limit := ""
	if d := r.options.StatementTimeout; d > 0 {
		if limit = fmt.Sprintf(", max_execution_time = %d", d.Milliseconds()); r.mariaDB {
			limit = fmt.Sprintf(", max_statement_time = %f", d.Seconds())
		}
	}
	// A reader that is held up must not lose its connection.
	const settings = "SET SESSION time_zone = '+00:00', sql_mode = '', %s = 'REPEATABLE-READ', " +
		"lock_wait_timeout = %d, net_write_timeout = 86400, wait_timeout = 86400%s"
	wait := max(1, int(r.options.LockTimeout.Seconds()))
	_, err = conn.ExecContext(ctx, fmt.Sprintf(settings, "transaction_isolation", wait, limit))
	if serverError(err) == 1193 { // MariaDB before 11.1 has another name for it
		_, err = conn.ExecContext(ctx, fmt.Sprintf(settings, "tx_isolation", wait, limit))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect: %w", err), conn.Close())
	}
	return conn, nil
}

func serverError(err error) uint16 {
	if e, ok := errors.AsType[*driver.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

// denied says that the account may not do what it asked for.
func denied(err error) bool {
	switch serverError(err) {
	case 1044, 1045, 1142, 1227: // database, account, table, privilege
		return true
	}
	return false
}
