package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	source "icehose/catalog/postgres"
	"icehose/sink/load"
)

// pin reads the floor and takes the snapshot, in this order, on all connections.
// While others alter the table, it tries again.
func (r *reader) pin(ctx context.Context, s *load.Snapshot) (err error) {
	r.free = make(chan *pgx.Conn, r.options.Parallel)
	for range r.options.Parallel {
		conn, err := r.connect(ctx)
		if err != nil {
			return err
		}
		r.conns = append(r.conns, conn)
		r.free <- conn
	}
	if len(r.table.Key) > 0 {
		if s.Floor, s.Since, err = source.Position(ctx, r.leader); err != nil {
			return err
		}
		if err := r.outwait(ctx); err != nil {
			return err
		}
	}
	patient, cancel := context.WithTimeout(ctx, r.options.LockTimeout)
	defer cancel()
	for {
		if len(r.table.Key) > 0 {
			err = r.share(ctx, "")
		} else {
			err = r.pinExactly(ctx, s)
		}
		if err == nil || !inTheWay(err) || patient.Err() != nil {
			return err
		}
		if err := r.release(ctx); err != nil {
			return err
		}
	}
}

// errAttached says that a partition is in the snapshot and was not locked.
var errAttached = errors.New("partitions are attached to the table again and again: load when that has ended")

// inTheWay reports whether somebody else has a lock or waits for one, or had.
func inTheWay(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (refused.Code == "55P03" || refused.Code == "40P01") || errors.Is(err, errAttached)
}

// pinExactly reads the floor and takes the snapshot while nobody writes the table.
func (r *reader) pinExactly(ctx context.Context, s *load.Snapshot) error {
	unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	if s.Floor, s.Since, err = source.Position(ctx, r.leader); err == nil {
		err = r.share(ctx, " NOWAIT")
	}
	return errors.Join(err, unlock())
}

// share locks the table on every connection against what no snapshot outlives, and
// then opens one snapshot on all of them. A rewritten table would have no rows in
// it, and the log does not have them either.
//
// Each connection has its own lock, although one would keep the table as it is:
// one that came to need it later would wait behind whoever waits to alter the
// table, who waits for the others. So none waits while another has its lock,
// either; wait is that of the first.
func (r *reader) share(ctx context.Context, wait string) error {
	for _, conn := range r.conns {
		_, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; LOCK TABLE "+r.name()+" IN ACCESS SHARE MODE"+wait)
		const outOfMemory = "53200"
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == outOfMemory {
			return fmt.Errorf("lock the table: %w: raise max_locks_per_transaction of the server, or load with fewer connections", err)
		}
		if err != nil {
			return fmt.Errorf("lock the table as it is, until it is loaded: %w", err)
		}
		wait = " NOWAIT"
	}
	var id string
	if err := r.conns[0].QueryRow(ctx, "SELECT pg_export_snapshot()").Scan(&id); err != nil {
		return fmt.Errorf("take snapshot: %w", err)
	}
	for i, conn := range r.conns {
		if i > 0 {
			if _, err := conn.Exec(ctx, "SET TRANSACTION SNAPSHOT '"+id+"'"); err != nil {
				return fmt.Errorf("share snapshot: %w", err)
			}
		}
		unlocked, err := source.Unlocked(ctx, conn, r.oid)
		if err != nil {
			return err
		}
		if unlocked != "" {
			return errAttached
		}
	}
	return nil
}

// release ends the transactions of all connections, and with them their locks.
func (r *reader) release(ctx context.Context) error {
	for _, conn := range r.conns {
		const outside = 'I'
		if conn.PgConn().TxStatus() == outside {
			continue
		}
		if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
			return fmt.Errorf("release locks: %w", err)
		}
	}
	return nil
}

// name is the table as LOCK TABLE wants it: with all of its partitions, but
// without tables that inherit from it, which are not read.
func (r *reader) name() string {
	schema, name, _ := strings.Cut(r.table.Source, ".")
	quoted := pgx.Identifier{schema, name}.Sanitize()
	if r.kind == "r" {
		return "ONLY " + quoted
	}
	return quoted
}

// lock keeps writers of the table out until the returned function is called.
func (r *reader) lock(ctx context.Context) (unlock func() error, err error) {
	conn, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "BEGIN; LOCK TABLE "+r.name()+" IN SHARE MODE"); err != nil {
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
