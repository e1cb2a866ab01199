// Package postgres reads a table of a live PostgreSQL for a load.
//
// In comes a connection string; out comes a load.Snapshot: one exported
// snapshot that several connections read, each a range of the table's blocks.
// Nothing is written and, for a table with a key, nothing is locked: the floor
// is the end of the log, and the snapshot is taken when every transaction that
// ran at that moment has ended. So whatever is not in the snapshot has all of
// its log, its commit included, above the floor, however DMS makes a position
// of it. A table without a key is locked against writes for the moment between
// the two (LOCK TABLE ... IN SHARE MODE), because a change that is in both the
// rows and the stream could not be told from a second row.
//
// Rows are what SELECT FROM ONLY finds, or, of a partitioned table, in all of
// its partitions; texts are the server's own.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"icehose/catalog"
	source "icehose/catalog/postgres"
	"icehose/internal/canon"
	"icehose/sink/load"
)

// Options say how a table is read.
type Options struct {
	Parallel         int           // connections that read; default 1
	StatementTimeout time.Duration // of each statement; 0 for none
	LockTimeout      time.Duration // how long a lock is waited for; default 10 s
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

	oid     uint32
	columns string // the select list
	leader  *pgx.Conn
	conns   []*pgx.Conn
	free    chan *pgx.Conn // those of conns that nobody uses
}

func (r *reader) open(ctx context.Context) (*load.Snapshot, error) {
	var err error
	if r.leader, err = r.connect(ctx); err != nil {
		return nil, err
	}
	if err := r.find(ctx); err != nil {
		return nil, err
	}
	s := &load.Snapshot{Form: canon.Postgres, Close: r.close}
	if err := r.pin(ctx, s); err != nil {
		return nil, err
	}
	s.Start = fmt.Sprintf("%X/%X", s.Floor.Hi>>32, s.Floor.Hi&0xffffffff)
	if err := r.checkSlots(ctx, s); err != nil {
		return nil, err
	}
	return s, r.split(ctx, s)
}

// checkSlots warns when nothing keeps the log from the floor on.
func (r *reader) checkSlots(ctx context.Context, s *load.Snapshot) error {
	var kept bool
	err := r.leader.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_type = 'logical' AND confirmed_flush_lsn <= $1::text::pg_lsn)`, s.Start).Scan(&kept)
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

// connect opens a connection whose texts do not depend on the server's settings.
func (r *reader) connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(r.dsn)
	if err != nil {
		return nil, errors.New("connect: the connection string is not one of PostgreSQL") // the error could show the password
	}
	maps.Copy(config.RuntimeParams, map[string]string{
		"timezone": "UTC", "datestyle": "ISO, YMD", "intervalstyle": "postgres", "bytea_output": "hex", "extra_float_digits": "1",
		"client_encoding": "UTF8", "application_name": "icehose load", "idle_in_transaction_session_timeout": "0",
		"statement_timeout": strconv.FormatInt(r.options.StatementTimeout.Milliseconds(), 10),
		"lock_timeout":      strconv.FormatInt(r.options.LockTimeout.Milliseconds(), 10),
	})
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

// find finds the table and its columns.
func (r *reader) find(ctx context.Context) error {
	schema, name, _ := strings.Cut(r.table.Source, ".")
	err := r.leader.QueryRow(ctx, `SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p')`, schema, name).Scan(&r.oid)
	if errors.Is(err, pgx.ErrNoRows) {
		return errors.New("the source has no table of this name")
	}
	if err != nil {
		return fmt.Errorf("find table: %w", err)
	}
	// The text of money has a currency and depends on a language: it is read as a number.
	rows, err := r.leader.Query(ctx, `SELECT attname, CASE WHEN 'money'::regtype IN (t.oid, t.typbasetype) THEN '::numeric' ELSE '' END
		FROM pg_attribute JOIN pg_type t ON t.oid = atttypid WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, r.oid)
	if err != nil {
		return fmt.Errorf("find columns: %w", err)
	}
	var names, casts []string
	var column, cast string
	_, err = pgx.ForEachRow(rows, []any{&column, &cast}, func() error {
		names, casts = append(names, column), append(casts, cast)
		return nil
	})
	if err != nil {
		return fmt.Errorf("find columns: %w", err)
	}
	places, err := r.table.PlaceColumns(names)
	if err != nil {
		return err
	}
	list := make([]string, len(places))
	for i, at := range places {
		list[i] = pgx.Identifier{names[at]}.Sanitize() + casts[at]
	}
	r.columns = strings.Join(list, ", ")
	return nil
}

// pin reads the floor and takes the snapshot, in this order.
func (r *reader) pin(ctx context.Context, s *load.Snapshot) error {
	if len(r.table.Key) == 0 {
		unlock, err := r.lock(ctx)
		if err != nil {
			return err
		}
		return errors.Join(r.floorAndSnapshot(ctx, s, func() error { return nil }), unlock())
	}
	return r.floorAndSnapshot(ctx, s, func() error { return r.outwait(ctx) })
}

func (r *reader) floorAndSnapshot(ctx context.Context, s *load.Snapshot, between func() error) (err error) {
	if s.Floor, s.Since, err = source.Position(ctx, r.leader); err != nil {
		return err
	}
	if err := between(); err != nil {
		return err
	}
	if _, err := r.leader.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		return fmt.Errorf("take snapshot: %w", err)
	}
	var id string
	if err := r.leader.QueryRow(ctx, "SELECT pg_export_snapshot()").Scan(&id); err != nil {
		return fmt.Errorf("take snapshot: %w", err)
	}
	r.free = make(chan *pgx.Conn, r.options.Parallel)
	for range r.options.Parallel {
		conn, err := r.connect(ctx)
		if err != nil {
			return err
		}
		r.conns = append(r.conns, conn)
		_, err = conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '"+id+"'")
		if err != nil {
			return fmt.Errorf("share snapshot: %w", err)
		}
		r.free <- conn
	}
	return nil
}

// lock keeps writers of the table out until the returned function is called.
func (r *reader) lock(ctx context.Context) (unlock func() error, err error) {
	conn, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	schema, name, _ := strings.Cut(r.table.Source, ".")
	if _, err := conn.Exec(ctx, "BEGIN; LOCK TABLE "+pgx.Identifier{schema, name}.Sanitize()+" IN SHARE MODE"); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the table for a moment, as one without a key must be: %w", err), conn.Close(context.WithoutCancel(ctx)))
	}
	return func() error { return conn.Close(context.WithoutCancel(ctx)) }, nil
}

// holders names who holds the locks that transactions have on themselves from
// their first write until others see them ended. It needs no privilege.
const holders = `SELECT transactionid::text, COALESCE('process ' || pid, 'a prepared transaction') FROM pg_locks
	WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted AND ($1::text[] IS NULL OR transactionid::text = ANY ($1))`

// outwait waits until every transaction that has written and runs now has ended.
func (r *reader) outwait(ctx context.Context) error {
	running, err := r.running(ctx, nil)
	deadline := time.NewTimer(r.options.Wait)
	defer deadline.Stop()
	for err == nil && len(running) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			who := slices.Compact(slices.Sorted(maps.Values(running)))
			return fmt.Errorf("transactions that ran when the load began have not ended within %s (%s): end them, or wait longer",
				r.options.Wait, strings.Join(who[:min(len(who), 5)], ", "))
		case <-time.After(50 * time.Millisecond):
		}
		running, err = r.running(ctx, slices.Collect(maps.Keys(running)))
	}
	if err != nil {
		return fmt.Errorf("look for running transactions: %w", err)
	}
	return nil
}

// running returns the transactions that run, and whose they are: those of the
// list, or all if it is nil.
func (r *reader) running(ctx context.Context, of []string) (map[string]string, error) {
	rows, err := r.leader.Query(ctx, holders, of)
	if err != nil {
		return nil, err
	}
	running := make(map[string]string)
	var id, who string
	_, err = pgx.ForEachRow(rows, []any{&id, &who}, func() error {
		running[id] = who
		return nil
	})
	return running, err
}
