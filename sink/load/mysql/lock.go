package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	source "icehose/catalog/mysql"
)

// pollEvery is how often prepared transactions are looked for.
const pollEvery = 50 * time.Millisecond

// hold keeps writers of the table out until UNLOCK TABLES, at a moment when no
// XA transaction is prepared that may have changed it: its rows are in the log
// before the floor, and in the table after the snapshot. What is prepared after
// the lock was taken has changed other tables.
func (r *reader) hold(ctx context.Context, conn *sql.Conn) error {
	patient, cancel := context.WithTimeout(ctx, r.options.LockTimeout)
	defer cancel()
	for {
		// Those that nobody ends must not hold up writers.
		if err := r.outwait(ctx, patient); err != nil {
			return err
		}
		all, err := r.lock(ctx, conn)
		if err != nil {
			return err
		}
		if !all {
			return r.outwait(ctx, patient)
		}
		// No transaction commits while all tables are locked.
		ids, err := source.PreparedXA(ctx, r.conns[0])
		if err != nil || len(ids) == 0 {
			return err
		}
		if _, err := conn.ExecContext(ctx, "UNLOCK TABLES"); err != nil {
			return fmt.Errorf("unlock all tables: %w", err)
		}
	}
}

// outwait waits until the XA transactions have ended that are prepared now, or
// until patient is over, which ends with ctx.
func (r *reader) outwait(ctx, patient context.Context) error {
	then, err := source.PreparedXA(ctx, r.conns[0])
	if err != nil {
		return err
	}
	for len(then) > 0 {
		select {
		case <-patient.Done():
			if err := ctx.Err(); err != nil {
				return err
			}
			return &source.PreparedXAError{Count: len(then)}
		case <-time.After(pollEvery):
		}
		now, err := source.PreparedXA(ctx, r.conns[0])
		if err != nil {
			return err
		}
		then = slices.DeleteFunc(then, func(id string) bool { return !slices.Contains(now, id) })
	}
	return nil
}

// lock keeps writers of the table out until UNLOCK TABLES, and says whether it
// keeps out those of all tables.
func (r *reader) lock(ctx context.Context, conn *sql.Conn) (all bool, err error) {
	_, err = conn.ExecContext(ctx, "LOCK TABLES "+r.name+" READ")
	if !denied(err) {
		if err != nil {
			return false, fmt.Errorf("lock the table for a moment: %w", err)
		}
		return false, nil
	}
	_, err = conn.ExecContext(ctx, "FLUSH TABLES WITH READ LOCK")
	if denied(err) {
		return false, fmt.Errorf("lock the table for a moment: the account needs LOCK TABLES on it, or RELOAD: %w", err)
	}
	if err != nil {
		return false, fmt.Errorf("lock all tables for a moment: %w", err)
	}
	return true, nil
}
