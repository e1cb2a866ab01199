package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/reconcile"
)

// Open implements reconcile.Reader.
func (r *Reader) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	conn, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	v := &view{reader: r, table: t, conn: conn}
	if err := v.open(ctx, exact); err != nil {
		r.close(ctx, conn)
		return nil, fmt.Errorf("open table %s: %w", t.Source, err)
	}
	return v, nil
}

func (v *view) open(ctx context.Context, exact bool) error {
	var standby bool
	if err := v.conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
		return clean(err)
	}
	log := reconcile.LogRange{}
	begun := false
	switch {
	case standby:
		// What was replayed is visible: the place before the snapshot is a lower bound.
		low, err := v.logEnd(ctx, "pg_last_wal_replay_lsn()")
		if err != nil {
			return err
		}
		log.Low = &low
		if v.pinned.Through, err = v.replayed(ctx); err != nil {
			return err
		}
	case exact:
		at, ok := v.reader.slotSnapshot(ctx, v.conn)
		if ok {
			log.Low, log.High, begun = &at, at, true
			break
		}
		low, ok, err := v.waitOut(ctx)
		if err != nil {
			return err
		}
		if ok {
			log.Low = &low
		}
	}
	if !begun {
		if _, err := v.conn.Exec(ctx, beginReading); err != nil {
			return clean(err)
		}
	}
	if err := v.describe(ctx); err != nil {
		return err
	}
	// Read in the transaction, so after its snapshot.
	end := "pg_current_wal_insert_lsn()"
	if standby {
		end = "pg_last_wal_replay_lsn()"
	}
	if !begun {
		high, err := v.logEnd(ctx, end)
		if err != nil {
			return err
		}
		log.High = high
	}
	if err := v.conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&v.pinned.Time); err != nil {
		return clean(err)
	}
	v.pinned.Time = v.pinned.Time.UTC()
	v.pinned.Log = &log
	v.pinned.Moment = "log " + pglogrepl.LSN(log.High.Hi).String()
	if log.Low == nil || *log.Low != log.High {
		v.pinned.Moment = "log up to " + pglogrepl.LSN(log.High.Hi).String()
	}
	return nil
}

const beginReading = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

// logEnd reads a place in the log.
func (v *view) logEnd(ctx context.Context, function string) (cdc.Body, error) {
	var text string
	if err := v.conn.QueryRow(ctx, "SELECT "+function+"::text").Scan(&text); err != nil {
		return cdc.Body{}, fmt.Errorf("read place in the log: %w", clean(err))
	}
	n, ok := cdc.ParseLSN(text)
	if !ok {
		return cdc.Body{}, fmt.Errorf("read place in the log: the server calls it %q", text)
	}
	return cdc.Body{Hi: n}, nil
}

// replayed reads the commit time of the last transaction that a standby has
// replayed; the zero time when it has replayed none since it started.
func (v *view) replayed(ctx context.Context) (*time.Time, error) {
	var at *time.Time
	if err := v.conn.QueryRow(ctx, "SELECT pg_last_xact_replay_timestamp()").Scan(&at); err != nil {
		return nil, fmt.Errorf("read what was replayed: %w", clean(err))
	}
	if at == nil {
		return &time.Time{}, nil
	}
	utc := at.UTC()
	return &utc, nil
}

// slotSnapshot begins a transaction at the snapshot that a temporary logical
// slot exports, whose place in the log is exact. ok is false when the account
// may not have a slot, the server has none left or a transaction runs for too
// long: then nothing was begun.
func (r *Reader) slotSnapshot(ctx context.Context, conn *pgx.Conn) (at cdc.Body, ok bool) {
	if !r.server.logical {
		return at, false
	}
	ctx, cancel := context.WithTimeout(ctx, r.options.Patience)
	defer cancel()
	config := r.config.Config.Copy()
	config.RuntimeParams["replication"] = "database"
	replication, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return at, false
	}
	// The slot goes with its connection, the transaction keeps the snapshot.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = replication.Close(ctx)
	}()
	var suffix [8]byte
	if _, err := rand.Read(suffix[:]); err != nil {
		return at, false
	}
	slot, err := pglogrepl.CreateReplicationSlot(ctx, replication, "icehose_reconcile_"+hex.EncodeToString(suffix[:]), "pgoutput",
		pglogrepl.CreateReplicationSlotOptions{Temporary: true, SnapshotAction: "EXPORT_SNAPSHOT", Mode: pglogrepl.LogicalReplication})
	if err != nil {
		return at, false
	}
	lsn, err := pglogrepl.ParseLSN(slot.ConsistentPoint)
	if err != nil {
		return at, false
	}
	if _, err := conn.Exec(ctx, beginAt(slot.SnapshotName)); err != nil {
		return at, false
	}
	return cdc.Body{Hi: uint64(lsn)}, true
}

// beginAt begins a transaction at an exported snapshot. The name is the
// server's, of hexadecimal digits and dashes.
func beginAt(snapshot string) string {
	return beginReading + "; SET TRANSACTION SNAPSHOT '" + snapshot + "'"
}

// waitOut reads a place in the log and waits until every transaction that ran
// then has ended: a snapshot from now on has all that was committed below it.
// ok is false when one did not end in time.
func (v *view) waitOut(ctx context.Context) (low cdc.Body, ok bool, err error) {
	if low, err = v.logEnd(ctx, "pg_current_wal_insert_lsn()"); err != nil {
		return low, false, err
	}
	// A transaction holds the lock on its number until its changes are visible.
	const running = "FROM pg_locks WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted"
	var then []string
	if err := v.conn.QueryRow(ctx, "SELECT coalesce(array_agg(transactionid::text), '{}') "+running).Scan(&then); err != nil {
		return low, false, clean(err)
	}
	deadline := time.NewTimer(v.reader.options.Patience)
	defer deadline.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		var over bool
		if err := v.conn.QueryRow(ctx, "SELECT NOT EXISTS (SELECT "+running+" AND transactionid::text = ANY ($1))", then).Scan(&over); err != nil {
			return low, false, clean(err)
		}
		if over {
			return low, true, nil
		}
		select {
		case <-ctx.Done():
			return low, false, ctx.Err()
		case <-deadline.C:
			return low, false, nil
		case <-poll.C:
		}
	}
}
