// Package postgres reads a table of a live PostgreSQL for a load.
//
// In comes a connection string; out comes a load.Snapshot: one exported
// snapshot that several connections read, each a range of the table's blocks.
// Nothing is written and, for a table with a key, no writer is held up: the floor
// is the end of the log, and the snapshot is taken when every transaction that
// ran at that moment has ended. So whatever is not in the snapshot has all of
// its log, its commit included, above the floor, however DMS makes a position
// of it. A table without a key is locked against writes for the moment between
// the two (LOCK TABLE ... IN SHARE MODE), because a change that is in both the
// rows and the stream could not be told from a second row.
//
// What rewrites the table (ALTER TABLE, TRUNCATE, VACUUM FULL) waits until the
// load has ended: each connection locks the table as a reader does, but before the
// snapshot is taken (LOCK TABLE ... IN ACCESS SHARE MODE).
//
// Rows are what SELECT FROM ONLY finds, or, of a partitioned table, in all of
// its partitions; texts are the server's own. What a policy hides from the
// account, or is in a foreign table, is an error.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/sink/load"
)

// Options say how a table is read.
type Options struct {
	Parallel         int           // connections that read; default 1
	StatementTimeout time.Duration // of each statement; 0 for none
	LockTimeout      time.Duration // how long a lock is waited for, and all of them together; default 10 s
	// Wait is how long transactions that run when the load begins are waited
	// for; default 5 minutes.
	Wait time.Duration
}

func (o *Options) defaults() {
	o.Parallel = max(o.Parallel, 1)
	if o.LockTimeout <= 0 {
		o.LockTimeout = 10 * time.Second
	}
	if o.Wait <= 0 {
		o.Wait = 5 * time.Minute
	}
}

// Open takes a snapshot of the source table of t. Errors do not show the
// connection string.
func Open(ctx context.Context, dsn string, t *catalog.Table, o Options) (*load.Snapshot, error) {
	o.defaults()
	r := &reader{dsn: dsn, table: t, options: o}
	s, err := r.open(ctx)
	if err != nil {
		//nolint:contextcheck // what is open is closed whatever ended the load
		return nil, errors.Join(fmt.Errorf("read table %s of postgresql: %w", t.Source, err), r.close())
	}
	return s, nil
}

// A reader is the open snapshot of a table.
type reader struct {
	dsn     string
	table   *catalog.Table
	options Options

	relation
	columns string    // the select list
	leader  *pgx.Conn // until the snapshot is open; outside of a transaction
	conns   []*pgx.Conn
	free    chan *pgx.Conn // those of conns that nobody uses
}

func (r *reader) open(ctx context.Context) (*load.Snapshot, error) {
	var err error
	if r.leader, err = r.connect(ctx); err != nil {
		return nil, err
	}
	// What cannot be loaded is told before anything is waited for.
	if err := r.find(ctx, r.leader); err != nil {
		return nil, err
	}
	s := &load.Snapshot{Form: canon.Postgres, Close: r.close}
	if err := r.pin(ctx, s); err != nil {
		return nil, err
	}
	// Until it was locked it may have been altered.
	locked := r.oid
	if err := r.find(ctx, r.conns[0]); err != nil {
		return nil, err
	}
	if r.oid != locked {
		return nil, errors.New("another table has taken its name since the load began: load again")
	}
	s.Start = fmt.Sprintf("%X/%X", s.Floor.Hi>>32, s.Floor.Hi&0xffffffff)
	if err := r.checkSlots(ctx, s); err != nil {
		return nil, err
	}
	leader := r.leader
	r.leader = nil
	return s, errors.Join(leader.Close(ctx), r.split(ctx, s))
}

// checkSlots warns when nothing keeps the log from the floor on: no slot that is
// of this database, stays, and has not lost what it kept (of which PostgreSQL 12
// knows nothing).
func (r *reader) checkSlots(ctx context.Context, s *load.Snapshot) error {
	var kept bool
	err := r.leader.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_replication_slots s WHERE slot_type = 'logical' AND database = current_database()
		AND NOT temporary AND coalesce(to_jsonb(s) ->> 'wal_status', '') <> 'lost' AND confirmed_flush_lsn <= $1::text::pg_lsn)`, s.Start).Scan(&kept)
	if err != nil {
		return fmt.Errorf("look for replication slots: %w", err)
	}
	if !kept {
		s.Warnings = append(s.Warnings, "no logical replication slot reaches back to "+s.Start+
			": changes from there until a slot is made are lost. Make the slot first, then load")
	}
	return nil
}

// close ends every connection; what they hold ends with them.
func (r *reader) close() error {
	var errs []error
	for _, c := range append(r.conns, r.leader) {
		if c != nil {
			errs = append(errs, c.Close(context.Background()))
		}
	}
	r.conns, r.leader = nil, nil
	return errors.Join(errs...)
}

// connect opens a connection whose texts do not depend on the server's settings,
// and which a policy that hides rows makes fail.
func (r *reader) connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(r.dsn)
	if err != nil {
		return nil, errors.New("connect: the connection string is not one of PostgreSQL") // the error could show the password
	}
	maps.Copy(config.RuntimeParams, map[string]string{
		"timezone": "UTC", "datestyle": "ISO, YMD", "intervalstyle": "postgres", "bytea_output": "hex", "extra_float_digits": "1",
		"client_encoding": "UTF8", "application_name": "icehose load", "idle_in_transaction_session_timeout": "0",
		"row_security":      "off",
		"statement_timeout": strconv.FormatInt(r.options.StatementTimeout.Milliseconds(), 10),
		"lock_timeout":      strconv.FormatInt(r.options.LockTimeout.Milliseconds(), 10),
	})
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}
