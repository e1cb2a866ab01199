package mysql

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"icehose/cdc"
	"icehose/reconcile"
)

const beginReading = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"

// snapshotPlace reads where MariaDB's snapshot of this connection stands.
func snapshotPlace(ctx context.Context, conn *sql.Conn) (at cdc.Body, ok bool) {
	_, rows, err := query(ctx, conn, "SHOW STATUS LIKE 'binlog_snapshot_%'")
	if err != nil {
		return at, false // the place is then unknown, which is said
	}
	found := map[string]string{}
	for _, row := range rows {
		found[strings.ToLower(row[0].String)] = row[1].String
	}
	at, err = body(found["binlog_snapshot_file"], found["binlog_snapshot_position"])
	return at, err == nil
}

// tries is how often a snapshot is taken anew for a better place in the log.
const tries = 5

// begin begins a transaction, and says where its snapshot stands in the log;
// nil when the server does not tell.
func (r *Reader) begin(ctx context.Context, conn *sql.Conn, exact bool) (*reconcile.LogRange, error) {
	for try := 1; ; try++ {
		low, lowErr := r.settled(ctx, conn, exact)
		if _, err := conn.ExecContext(ctx, beginReading); err != nil {
			return nil, clean(err)
		}
		if r.places {
			if at, ok := snapshotPlace(ctx, conn); ok {
				return &reconcile.LogRange{Low: &at, High: at}, nil
			}
		}
		high, err := logEnd(ctx, conn)
		if err = errors.Join(lowErr, err); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, nil // a place that nobody tells keeps no row from being read
		}
		log := &reconcile.LogRange{Low: low, High: high}
		if low == nil || *low == high || !exact || try == tries {
			return log, nil
		}
		if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
			return nil, clean(err)
		}
	}
}

// settled returns a place in the log below which every change is visible; nil
// when that is not known, or not asked for.
//
// A change is in the log before it is visible: the end of the log is where a
// group of transactions was flushed, which the engine commits afterwards. So
// the end is read, and then waited for until all that were being committed then
// have ended.
func (r *Reader) settled(ctx context.Context, conn *sql.Conn, exact bool) (*cdc.Body, error) {
	low, err := logEnd(ctx, conn)
	if err != nil || !exact || r.places {
		return nil, err
	}
	running := runningTransactions
	var mode string
	if conn.QueryRowContext(ctx, "SELECT @@GLOBAL.gtid_mode").Scan(&mode) == nil && strings.EqualFold(mode, "ON") {
		running = ownedTransactions
	}
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	select { // a list that was kept is older than the place
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-poll.C:
	}
	then, err := running(ctx, conn)
	if err != nil {
		return nil, ctx.Err() // the account may not see them
	}
	deadline := time.NewTimer(r.options.Patience)
	defer deadline.Stop()
	for len(then) > 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-deadline.C:
			return nil, nil
		case <-poll.C:
		}
		now, err := running(ctx, conn)
		if err != nil {
			return nil, ctx.Err()
		}
		then = slices.DeleteFunc(then, func(id string) bool { return !slices.Contains(now, id) })
	}
	return &low, nil
}

// pollEvery is above the 0.1 s for which the list of transactions is kept.
const pollEvery = 120 * time.Millisecond

// ownedTransactions lists the GTIDs of transactions that are being committed:
// each has one from before it is in the log until it is visible.
func ownedTransactions(ctx context.Context, conn *sql.Conn) ([]string, error) {
	var owned string
	if err := conn.QueryRowContext(ctx, "SELECT @@GLOBAL.gtid_owned").Scan(&owned); err != nil {
		return nil, err
	}
	return ownedIDs(owned), nil
}

// ownedIDs reads uuid:gno#thread:gno#thread,uuid:...
func ownedIDs(owned string) []string {
	var ids []string
	for server := range strings.SplitSeq(owned, ",") {
		uuid, rest, _ := strings.Cut(strings.TrimSpace(server), ":")
		if rest == "" {
			continue
		}
		for number := range strings.SplitSeq(rest, ":") {
			ids = append(ids, uuid+":"+number)
		}
	}
	return ids
}

// runningTransactions lists the transactions that the engine has, committed
// ones no more.
func runningTransactions(ctx context.Context, conn *sql.Conn) (ids []string, err error) {
	_, rows, err := query(ctx, conn, "SELECT trx_id FROM information_schema.INNODB_TRX WHERE trx_rows_modified > 0")
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		ids = append(ids, row[0].String)
	}
	return ids, nil
}
