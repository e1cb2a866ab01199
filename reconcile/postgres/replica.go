package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon/canonsql"
	"icehose/reconcile"
)

// follow finds out whether the server follows another, and up to when it has
// that one's commits.
func (v *view) follow(ctx context.Context) (standby bool, err error) {
	if err := v.conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
		return false, clean(err)
	}
	o := &v.reader.options
	switch {
	case o.Role == reconcile.RolePrimary && standby:
		return standby, errors.New("the server is a standby: it is no source of the role primary")
	case o.Role == reconcile.RoleStream, o.Role != reconcile.RoleReplica && !standby:
		return standby, nil
	case o.ReplicaLag > 0:
		at, err := v.clock(ctx)
		if err != nil {
			return standby, err
		}
		at = at.Add(-o.ReplicaLag)
		v.pinned.Through, v.assumed = &at, true
	case standby:
		v.pinned.Through, v.pinned.Doubt, err = v.replayed(ctx, o.Role == reconcile.RoleReplica)
	default:
		v.pinned.Through, v.pinned.Doubt = &time.Time{}, silentReplica
	}
	return standby, err
}

// CheckRole refuses a server that is called a replica of which nothing says how
// far it has come: what differs from the lake could never be proven.
func (r *Reader) CheckRole(ctx context.Context) error {
	if r.options.Role != reconcile.RoleReplica || r.options.ReplicaLag > 0 || r.beat != nil {
		return nil
	}
	conn, err := r.connect(ctx)
	if err != nil {
		return fmt.Errorf("check role of the source: %w", err)
	}
	defer r.close(ctx, conn)
	var standby bool
	if err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
		return fmt.Errorf("check role of the source: %w", clean(err))
	}
	var at *time.Time
	err = conn.QueryRow(ctx, "SELECT pg_last_xact_replay_timestamp()").Scan(&at)
	switch {
	case !standby, err != nil && isRefused(err):
		return errors.New("check role of the source: " + silentReplica)
	case err != nil:
		return fmt.Errorf("check role of the source: %w", clean(err))
	}
	return nil
}

const silentReplica = "the source is called a replica and does not tell how far it is behind: give --replica-lag, or a heartbeat table"

// replayedLog is the log of a standby before its snapshot, nil if the server does
// not tell. What was replayed is visible: the place is a lower bound.
func (v *view) replayedLog(ctx context.Context) (*reconcile.LogRange, error) {
	low, err := v.logEnd(ctx, replayedEnd)
	switch {
	case err == nil:
		return &reconcile.LogRange{Low: &low}, nil
	case isRefused(err):
		v.pinned.Doubt = "the server does not tell what it has replayed: give --replica-lag, or a heartbeat table"
		return nil, nil //nolint:nilnil // that it does not tell is an answer
	}
	return nil, err
}

// replayed reads up to when a standby has everything, the zero time when it
// cannot tell, and what to do if it cannot tell for sure.
//
// The commit time of the last transaction that it has replayed stands still
// while the primary is idle. So does what the primary has to send: a standby
// that has replayed all of the log that its primary had when it sent its last
// message has everything up to that time. But the server that sends may be a
// standby itself, which has lost its own primary and tells nobody: direct says
// that it is the primary.
func (v *view) replayed(ctx context.Context, direct bool) (*time.Time, string, error) {
	// The receiver is read first: what was replayed is then not too little.
	var status, had *string
	var sent *time.Time
	doubt := ""
	var err error
	if direct {
		err = v.conn.QueryRow(ctx, "SELECT status, latest_end_lsn::text, last_msg_send_time FROM pg_stat_wal_receiver").Scan(&status, &had, &sent)
	}
	switch {
	case !direct:
		doubt = "a standby may follow another standby, so while nothing is replayed nobody knows how far it has come: give --source-role replica if it follows the stream's server itself, or a heartbeat table"
	case errors.Is(err, pgx.ErrNoRows):
		doubt = "the standby receives nothing from its primary"
	case err != nil && isRefused(err), err == nil && status == nil:
		doubt = "the account may not see whether a standby that has replayed nothing lately is behind, or its primary idle: grant it pg_read_all_stats"
	case err != nil:
		return nil, "", fmt.Errorf("read what was received: %w", clean(err))
	}
	through := time.Time{}
	var at *time.Time
	var replayed *string
	err = v.conn.QueryRow(ctx, "SELECT pg_last_xact_replay_timestamp(), pg_last_wal_replay_lsn()::text").Scan(&at, &replayed)
	if err != nil && !isRefused(err) {
		return nil, "", fmt.Errorf("read what was replayed: %w", clean(err))
	}
	if at != nil {
		through = at.UTC()
	}
	if status != nil && *status == "streaming" && had != nil && sent != nil && replayed != nil {
		end, ok := cdc.ParseLSN(*had)
		place, placeOK := cdc.ParseLSN(*replayed)
		// A commit has its time before it is in the log.
		if idle := sent.Add(-time.Second).UTC(); ok && placeOK && place >= end && idle.After(through) {
			through = idle
		}
	}
	return &through, doubt, nil
}

// heard moves Through on to the newest time in the heartbeat table, which the
// snapshot has. A table that cannot be read says nothing.
func (v *view) heard(ctx context.Context) error {
	beat := v.reader.beat
	if beat == nil {
		return nil
	}
	if _, err := v.conn.Exec(ctx, "SAVEPOINT heartbeat"); err != nil {
		return clean(err)
	}
	at, beatErr := v.newestBeat(ctx, beat)
	end := "RELEASE SAVEPOINT heartbeat" // a snapshot is not shared from within it
	if beatErr != nil {
		end = "ROLLBACK TO SAVEPOINT heartbeat; " + end
	}
	if _, err := v.conn.Exec(ctx, end); err != nil {
		return clean(err)
	}
	switch {
	case beatErr != nil:
		v.pinned.Doubt = fmt.Sprintf("the heartbeat table does not tell either: %v", beatErr)
	case at.After(*v.pinned.Through):
		v.pinned.Through, v.pinned.Doubt = &at, ""
	}
	return nil
}

func (v *view) newestBeat(ctx context.Context, beat *catalog.Table) (time.Time, error) {
	b := &view{reader: v.reader, table: beat, conn: v.conn}
	if err := b.describe(ctx); err != nil {
		return time.Time{}, err
	}
	column := ""
	for i := range b.columns {
		if c := &b.columns[i]; c.Type.Name == "timestamp with time zone" && !c.Type.Array {
			if column != "" {
				return time.Time{}, fmt.Errorf("read %s: several columns have a time", beat.Source)
			}
			column = canonsql.QuotePostgres(c.Spelled)
		}
	}
	if column == "" {
		return time.Time{}, fmt.Errorf("read %s: no column of timestamp with time zone", beat.Source)
	}
	var at *time.Time
	var clock time.Time
	if err := v.conn.QueryRow(ctx, "SELECT max("+column+"), clock_timestamp() FROM "+b.from+" WHERE isfinite("+column+")").Scan(&at, &clock); err != nil {
		return time.Time{}, fmt.Errorf("read %s: %w", beat.Source, clean(err))
	}
	if at == nil {
		return time.Time{}, nil
	}
	through, err := reconcile.ThroughBeat(at.UTC(), clock)
	if err != nil {
		return time.Time{}, fmt.Errorf("read %s: %w", beat.Source, err)
	}
	return through, nil
}
