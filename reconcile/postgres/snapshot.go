package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"icehose/catalog"
	source "icehose/catalog/postgres"
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
	standby, err := v.follow(ctx)
	if err != nil {
		return err
	}
	if err := v.find(ctx); err != nil {
		return err
	}
	locked := v.oid
	log := &reconcile.LogRange{}
	begun := false
	switch {
	case standby:
		if log, err = v.replayedLog(ctx); err != nil {
			return err
		}
	case exact:
		at, ok, err := v.slotSnapshot(ctx)
		if err != nil {
			return err
		}
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
		if err := v.begin(ctx); err != nil {
			return err
		}
	}
	if err := v.look(ctx, locked); err != nil {
		return err
	}
	// Read in the transaction, so after its snapshot.
	end := "pg_current_wal_insert_lsn()"
	if standby {
		end = replayedEnd
	}
	if !begun && log != nil {
		if log.High, err = v.logEnd(ctx, end); err != nil {
			return err
		}
	}
	if v.pinned.Time, err = v.clock(ctx); err != nil {
		return err
	}
	if !standby && v.pinned.Through != nil {
		log = nil // it is not the stream's
	}
	v.pinned.Log = log
	v.nameMoment()
	return nil
}

// look describes the table in the snapshot, and checks that it is the one that
// was locked before it and that the source has heard of what it follows.
func (v *view) look(ctx context.Context, locked uint32) error {
	if err := v.describe(ctx); err != nil {
		return err
	}
	if err := v.checkLocks(ctx, locked); err != nil {
		return err
	}
	if v.pinned.Through != nil && !v.assumed {
		return v.heard(ctx)
	}
	return nil
}

// nameMoment says in words what is pinned.
func (v *view) nameMoment() {
	log := v.pinned.Log
	switch {
	case log == nil:
		v.pinned.Moment = "snapshot"
	case log.Low == nil || *log.Low != log.High:
		v.pinned.Moment = "log up to " + pglogrepl.LSN(log.High.Hi).String()
	default:
		v.pinned.Moment = "log " + pglogrepl.LSN(log.High.Hi).String()
	}
	if v.assumed {
		v.pinned.Moment += ", assumed to have everything up to " + v.pinned.Through.Format(time.RFC3339)
	}
}

func (v *view) clock(ctx context.Context) (at time.Time, err error) {
	if err := v.conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&at); err != nil {
		return at, clean(err)
	}
	return at.UTC(), nil
}

const replayedEnd = "pg_last_wal_replay_lsn()"

const beginReading = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

// begin begins a transaction that has the table locked before it has a snapshot:
// one from before an ALTER TABLE that rewrites the table, or a TRUNCATE, would find
// no rows in it.
func (v *view) begin(ctx context.Context) error {
	_, err := v.conn.Exec(ctx, beginReading+v.lock())
	const denied = "42501"
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == denied {
		return fmt.Errorf("lock table: %w: grant the account SELECT on the whole table", clean(err))
	}
	if err != nil {
		return fmt.Errorf("lock table: %w", clean(err))
	}
	return nil
}

// lock is the SQL that keeps the table as it is until the transaction has ended.
// Of a table with partitions, and of a view, it locks what they read. A
// materialized view or a foreign table has no such lock: nothing streams those.
func (d *description) lock() string {
	switch d.kind {
	case "r", "p", "v":
		return "; LOCK TABLE " + d.from + " IN ACCESS SHARE MODE"
	}
	return ""
}

// checkLocks refuses a table that is not the one that was locked, or has got a
// partition since.
func (v *view) checkLocks(ctx context.Context, locked uint32) error {
	if v.oid != locked {
		return errors.New("find table: another has taken its name while it was opened: compare again")
	}
	if v.kind != "r" && v.kind != "p" {
		return nil
	}
	name, err := source.Unlocked(ctx, v.conn, v.oid)
	if err != nil {
		return clean(err)
	}
	if name != "" {
		return fmt.Errorf("lock table: the partition %s was attached while it was opened: compare again", name)
	}
	return nil
}

// logEnd reads a place in the log.
func (v *view) logEnd(ctx context.Context, function string) (cdc.Body, error) {
	var text string
	if err := v.conn.QueryRow(ctx, "SELECT coalesce("+function+"::text, '')").Scan(&text); err != nil {
		return cdc.Body{}, fmt.Errorf("read place in the log: %w", clean(err))
	}
	n, ok := cdc.ParseLSN(text)
	if !ok {
		return cdc.Body{}, fmt.Errorf("read place in the log: the server calls it %q", text)
	}
	return cdc.Body{Hi: n}, nil
}

// slotSnapshot begins a transaction at the snapshot that a temporary logical
// slot exports, whose place in the log is exact. ok is false when the account
// may not have a slot, no connection is free for it, the server has none left or
// a transaction runs for too long, which may be one that waits for the table's
// lock: then nothing is begun.
func (v *view) slotSnapshot(ctx context.Context) (at cdc.Body, ok bool, err error) {
	r := v.reader
	if !r.server.logical {
		return at, false, nil
	}
	select {
	case <-r.free:
		defer func() { r.free <- struct{}{} }()
	default:
		return at, false, nil
	}
	patient, cancel := context.WithTimeout(ctx, r.options.Patience)
	defer cancel()
	config := r.config.Config.Copy()
	config.RuntimeParams["replication"] = "database"
	replication, err := pgconn.ConnectConfig(patient, config)
	if err != nil {
		return at, false, nil // it can do without
	}
	// The slot goes with its connection, the transaction keeps the snapshot.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = replication.Close(ctx)
	}()
	if err := v.begin(ctx); err != nil {
		return at, false, err
	}
	at, snapshot, ok := newSlot(patient, replication)
	if ok {
		if _, err := v.conn.Exec(ctx, setSnapshot(snapshot)); err == nil {
			return at, true, nil
		}
	}
	if _, err := v.conn.Exec(ctx, "ROLLBACK"); err != nil {
		return at, false, clean(err)
	}
	return at, false, nil
}

// newSlot makes a temporary slot, and returns its place in the log and its snapshot.
func newSlot(ctx context.Context, replication *pgconn.PgConn) (at cdc.Body, snapshot string, ok bool) {
	var suffix [8]byte
	if _, err := rand.Read(suffix[:]); err != nil {
		return at, "", false
	}
	slot, err := pglogrepl.CreateReplicationSlot(ctx, replication, "icehose_reconcile_"+hex.EncodeToString(suffix[:]), "pgoutput",
		pglogrepl.CreateReplicationSlotOptions{Temporary: true, SnapshotAction: "EXPORT_SNAPSHOT", Mode: pglogrepl.LogicalReplication})
	if err != nil {
		return at, "", false
	}
	lsn, err := pglogrepl.ParseLSN(slot.ConsistentPoint)
	if err != nil {
		return at, "", false
	}
	return cdc.Body{Hi: uint64(lsn)}, slot.SnapshotName, true
}

// setSnapshot gives a transaction an exported snapshot. The name is the server's,
// of hexadecimal digits and dashes.
func setSnapshot(snapshot string) string { return "SET TRANSACTION SNAPSHOT '" + snapshot + "'" }

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
