package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"icehose/internal/canon/canonsql"
	"icehose/reconcile"
)

// A following says of a server whether it follows another one, and up to when
// it has that one's commits.
type following struct {
	through *time.Time // as reconcile.Pinned
	doubt   string     // as reconcile.Pinned
	told    bool       // the server says that it does
	silent  bool       // it never says how far it has come
	several bool       // it follows more than one
	assumed bool       // through is Options.ReplicaLag ago
}

// unknown is of a server that may follow another and does not tell.
func unknown(doubt string) following {
	return following{through: &time.Time{}, doubt: doubt, silent: true}
}

// follows asks the server, and believes Options more.
func (r *Reader) follows(ctx context.Context, conn *sql.Conn) (following, error) {
	f, err := r.asked(ctx, conn)
	if err != nil {
		return f, err
	}
	switch r.options.Role {
	case reconcile.RolePrimary:
		if f.told {
			return f, errors.New("the server is a replica: it is no source of the role primary")
		}
		return following{}, nil
	case reconcile.RoleStream:
		return following{}, logsForTheStream(ctx, conn, f.through != nil)
	case reconcile.RoleReplica:
		if f.through == nil {
			f = unknown(silentReplica)
		}
	case reconcile.RoleAuto, "":
		// Its lag is that to the server that it follows, which may be a replica that
		// has lost its own source.
		if f.through != nil && !f.through.IsZero() {
			f.through = &time.Time{}
			f.doubt = "a replica may follow another replica, so its lag does not say how far it has come: give --source-role replica if it follows the stream's server itself, or a heartbeat table"
		}
	}
	if f.through != nil && r.options.ReplicaLag > 0 {
		at, err := now(ctx, conn)
		if err != nil {
			return f, err
		}
		at = at.Add(-r.options.ReplicaLag)
		return following{through: &at, assumed: true}, nil
	}
	return f, nil
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
	defer r.close(conn)
	f, err := r.asked(ctx, conn)
	switch {
	case err != nil:
		return fmt.Errorf("check role of the source: %w", clean(err))
	case f.through == nil:
		return errors.New("check role of the source: " + silentReplica)
	case f.silent:
		return errors.New("check role of the source: " + f.doubt)
	}
	return nil
}

const silentReplica = "the source is called a replica and does not tell how far it is behind: give --replica-lag, or a heartbeat table"

// logsForTheStream refuses a server whose log lacks rows that it has.
func logsForTheStream(ctx context.Context, conn *sql.Conn, replica bool) error {
	var bin, updates bool
	if err := conn.QueryRowContext(ctx, "SELECT @@log_bin, @@log_slave_updates").Scan(&bin, &updates); err != nil {
		return err
	}
	if !bin || replica && !updates {
		return errors.New("the server's binary log lacks what it replays (log_bin, log_replica_updates), or the account may not see that it replays nothing: no stream is read from it")
	}
	return nil
}

// asked is what the server says.
func (r *Reader) asked(ctx context.Context, conn *sql.Conn) (following, error) {
	statements, right := []string{"SHOW REPLICA STATUS", "SHOW SLAVE STATUS"}, "REPLICATION CLIENT" // the latter before MySQL 8.0.22
	if r.mariadb {
		statements, right = []string{"SHOW ALL SLAVES STATUS"}, "SLAVE MONITOR"
	}
	var names []string
	var rows [][]sql.NullString
	var err error
	for _, statement := range statements {
		if names, rows, err = query(ctx, conn, statement); err == nil {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		return following{}, ctx.Err()
	case err != nil:
		return unknown("the account may not see whether the server is a replica, which may be behind the lake: grant it " + right + ", or say so (--source-role)"), nil //nolint:nilerr // it cannot tell
	case len(rows) == 0:
		return shared(ctx, conn), nil
	}
	at, err := now(ctx, conn)
	if err != nil {
		return following{}, err
	}
	// A server that hears nothing takes itself for up to date until it gives up.
	var silence int64
	if conn.QueryRowContext(ctx, "SELECT @@GLOBAL.slave_net_timeout").Scan(&silence) != nil {
		if err := conn.QueryRowContext(ctx, "SELECT @@GLOBAL.replica_net_timeout").Scan(&silence); err != nil {
			return following{}, err
		}
	}
	const halted = "the replica has stopped, or does not tell how far it is behind"
	oldest, several := at, len(rows) > 1
	for _, row := range rows {
		i := slices.IndexFunc(names, func(name string) bool { return name == "Seconds_Behind_Master" || name == "Seconds_Behind_Source" })
		if i < 0 || !row[i].Valid {
			return following{through: &time.Time{}, doubt: halted, told: true, several: several}, nil
		}
		seconds, err := strconv.ParseInt(row[i].String, 10, 32)
		if err != nil {
			return following{through: &time.Time{}, doubt: halted, told: true, several: several}, nil //nolint:nilerr // it cannot tell
		}
		if had := at.Add(-time.Duration(seconds+silence+1) * time.Second); had.Before(oldest) { // whole seconds
			oldest = had
		}
	}
	return following{through: &oldest, told: true, several: several}, nil
}

// shared finds out whether a server without a replica's state reads the storage
// of another, as a reader of an Aurora cluster does.
func shared(ctx context.Context, conn *sql.Conn) following {
	var reader bool
	if conn.QueryRowContext(ctx, "SELECT @@GLOBAL.innodb_read_only").Scan(&reader) == nil && reader {
		f := unknown("the server is a reader of a cluster, or stands still, and does not tell how far it is behind: use the writer, give --replica-lag, or a heartbeat table")
		f.told = true
		return f
	}
	return following{}
}

// logs reports whether the server's binary log moves with its rows: that of a
// replica may not have what it replays.
func logs(ctx context.Context, conn *sql.Conn, through *time.Time) bool {
	if through == nil {
		return true
	}
	var updates bool
	return conn.QueryRowContext(ctx, "SELECT @@log_slave_updates").Scan(&updates) == nil && updates
}

// heard moves Through on to the newest time in the heartbeat table, which the
// snapshot has. A table that cannot be read says nothing, nor one that may be
// ahead of other tables.
func (v *view) heard(ctx context.Context, f *following) {
	if v.reader.beat == nil {
		return
	}
	err := v.reader.inOrder(ctx, v.conn, f)
	at := time.Time{}
	if err == nil {
		at, err = v.newestBeat(ctx)
	}
	switch {
	case err != nil:
		v.pinned.Doubt = fmt.Sprintf("the heartbeat table does not tell either: %v", clean(err))
	case at.After(*v.pinned.Through):
		v.pinned.Through, v.pinned.Doubt = &at, ""
	}
}

// inOrder refuses a replica that may show a commit before one that came earlier.
func (r *Reader) inOrder(ctx context.Context, conn *sql.Conn, f *following) error {
	if f.told && f.silent {
		return nil // it reads the storage of the other
	}
	if f.several {
		return errors.New("the replica follows several servers, and it has the times of one")
	}
	if r.mariadb {
		var threads int
		var place string
		if err := conn.QueryRowContext(ctx, "SELECT @@GLOBAL.slave_parallel_threads, @@GLOBAL.gtid_slave_pos").Scan(&threads, &place); err != nil {
			return fmt.Errorf("read how the replica applies: %w", err)
		}
		// Each domain is in order by itself.
		if threads > 0 && strings.Contains(place, ",") {
			return errors.New("the replica applies several domains in parallel (slave_parallel_threads, gtid_slave_pos), so its commits are in no order")
		}
		return nil
	}
	var err error
	for _, word := range []string{"replica", "slave"} { // the latter before MySQL 8.0.26
		var workers int
		var ordered bool
		statement := fmt.Sprintf("SELECT @@GLOBAL.%[1]s_parallel_workers, @@GLOBAL.%[1]s_preserve_commit_order", word)
		if err = conn.QueryRowContext(ctx, statement).Scan(&workers, &ordered); err != nil {
			continue
		}
		if workers > 1 && !ordered {
			return fmt.Errorf("the replica commits in no order: set %s_preserve_commit_order", word)
		}
		return nil
	}
	return fmt.Errorf("read how the replica applies: %w", err)
}

func (v *view) newestBeat(ctx context.Context) (time.Time, error) {
	b := &view{reader: v.reader, table: v.reader.beat, conn: v.conn}
	if err := b.describe(ctx); err != nil {
		return time.Time{}, err
	}
	column := ""
	for i := range b.columns {
		if c := &b.columns[i]; c.Type.Name == "timestamp" {
			if column != "" {
				return time.Time{}, fmt.Errorf("read %s: several columns are TIMESTAMP", b.table.Source)
			}
			column = canonsql.QuoteMySQL(c.Spelled)
		}
	}
	if column == "" {
		return time.Time{}, fmt.Errorf("read %s: no column is TIMESTAMP", b.table.Source)
	}
	var micros sql.NullInt64
	err := v.conn.QueryRowContext(ctx, "SELECT CAST(UNIX_TIMESTAMP(MAX("+column+")) * 1000000 AS SIGNED) FROM "+b.name).Scan(&micros)
	if err != nil || !micros.Valid {
		return time.Time{}, err
	}
	clock, err := now(ctx, v.conn)
	if err != nil {
		return time.Time{}, err
	}
	through, err := reconcile.ThroughBeat(time.UnixMicro(micros.Int64).UTC(), clock)
	if err != nil {
		return time.Time{}, fmt.Errorf("read %s: %w", b.table.Source, err)
	}
	return through, nil
}
