//go:build postgres

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"icehose/cdc"
	"icehose/internal/pgtest"
	"icehose/reconcile"
	"icehose/reconcile/postgres"
	"icehose/reconcile/reconciletest"
)

// standbyOf starts a standby of the server, and returns where the database of
// dsn is on it.
func standbyOf(t *testing.T, dsn string, settings ...string) (string, *pgx.Conn) {
	t.Helper()
	standby, err := server.Standby(t.Context(), settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Stop(); err != nil {
			t.Error(err)
		}
	})
	there := on(standby, dsn)
	return there, pgtest.Connect(t, there)
}

// on is the database of a connection string on another server.
func on(s *pgtest.Server, dsn string) string {
	_, database, _ := strings.Cut(strings.TrimPrefix(dsn, "postgres://"), "/")
	address, _, _ := strings.Cut(s.DSN(), "/postgres?")
	return address + "/" + database
}

// replayed waits until a standby has everything that the primary has.
func replayed(t *testing.T, primary, standby *pgx.Conn) {
	t.Helper()
	var end string
	if err := primary.QueryRow(t.Context(), "SELECT pg_current_wal_insert_lsn()::text").Scan(&end); err != nil {
		t.Fatal(err)
	}
	pgtest.Execute(t, primary, "SELECT pg_logical_emit_message(true, 'icehose', '')") // its commit brings everything before it out
	pgtest.Execute(t, standby, fmt.Sprintf(`DO $$ BEGIN FOR i IN 1..3000 LOOP EXIT WHEN pg_last_wal_replay_lsn() >= '%s'; PERFORM pg_sleep(0.02); END LOOP; END $$`, end))
}

func notes(n int) []reconciletest.Row {
	rows := make([]reconciletest.Row, n)
	for i := range rows {
		rows[i] = reconciletest.MakeRow(fmt.Sprint(i+1), "n")
	}
	return rows
}

// A standby is a source: what was replayed bounds its place in the log of the
// primary, and says how far it has come.
func TestStandby(t *testing.T) {
	dsn, primary := server.NewDatabase(t)
	pgtest.Execute(t, primary, "CREATE TABLE t (id bigint PRIMARY KEY, note text)")
	there, standby := standbyOf(t, dsn)
	r := open(t, there, postgres.Options{MaxConnections: 3})
	p := pipeline(t, oneTable)
	lsn := func() cdc.Body {
		var text string
		if err := primary.QueryRow(t.Context(), "SELECT pg_current_wal_insert_lsn()::text").Scan(&text); err != nil {
			t.Fatal(err)
		}
		n, _ := cdc.ParseLSN(text)
		return cdc.Body{Hi: n}
	}
	before, err := r.State(t.Context(), p.Tables)
	if err != nil {
		t.Fatal(err)
	}
	var began time.Time
	if err := primary.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&began); err != nil {
		t.Fatal(err)
	}
	from := lsn()
	pgtest.Execute(t, primary, "INSERT INTO t SELECT g, repeat('x', 400) FROM generate_series(1, 60000) g")
	replayed(t, primary, standby)
	v := view(t, r, p.Tables[0], true)
	pgtest.Execute(t, primary, "DELETE FROM t WHERE id <= 1000")
	replayed(t, primary, standby)
	if got := rowCount(t, v); got != 60000 {
		t.Errorf("%d rows in the view, want 60000", got)
	}
	pinned := v.Pinned()
	if log := pinned.Log; log == nil || log.Low == nil || log.Low.Compare(from) <= 0 || log.Low.Compare(log.High) > 0 || log.High.Compare(lsn()) > 0 {
		t.Errorf("place in the log: %+v", log)
	}
	if pinned.Through == nil || pinned.Through.Before(began) || pinned.Through.After(pinned.Time) {
		t.Errorf("it has everything up to %v, want a time from %v on", pinned.Through, began)
	}
	if after, err := r.State(t.Context(), p.Tables); err != nil || after.Mark == before.Mark {
		t.Errorf("marks %q and %q, %v", before.Mark, after.Mark, err)
	}
	if through := view(t, open(t, dsn, postgres.Options{}), p.Tables[0], false).Pinned().Through; through != nil {
		t.Errorf("the primary follows somebody, up to %v", through)
	}
}

// While a standby lags behind the lake, rows that only the lake has are not
// called different; when it has come, what differs still is.
func TestStandbyThatLags(t *testing.T) {
	dsn, primary := server.NewDatabase(t)
	pgtest.Execute(t, primary, "CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t SELECT g, 'n' FROM generate_series(1, 1000) g")
	there, standby := standbyOf(t, dsn, "wal_receiver_timeout=1s")
	replayed(t, primary, standby)
	pgtest.Execute(t, standby, "SELECT pg_wal_replay_pause()")
	pgtest.Execute(t, primary, "DELETE FROM t WHERE id = 7; UPDATE t SET note = 'new' WHERE id = 9")
	rows := append(notes(6), notes(1000)[7:]...)
	rows[7][1].Text = "new"
	reconciletest.TestFollower(t, pipeline(t, oneTable), open(t, there, postgres.Options{Role: reconcile.RoleReplica}), rows, 2, func() {
		pgtest.Execute(t, standby, "SELECT pg_wal_replay_resume()")
		replayed(t, primary, standby)
		heard(t, standby)
	})
}

// heard waits until an idle primary has said so to its standby.
func heard(t *testing.T, standby *pgx.Conn) {
	t.Helper()
	pgtest.Execute(t, standby, `DO $$ DECLARE began timestamptz := clock_timestamp(); BEGIN FOR i IN 1..3000 LOOP
		EXIT WHEN (SELECT last_msg_send_time FROM pg_stat_wal_receiver) > began + interval '1.2 s'; PERFORM pg_sleep(0.02); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$`)
}

// asRole is a connection string with another account.
func asRole(dsn, role string) string {
	_, address, _ := strings.Cut(dsn, "@")
	return "postgres://" + role + "@" + address
}

// What the operator says of a source replaces what it says of itself.
func TestRoles(t *testing.T) {
	dsn, primary := server.NewDatabase(t)
	pgtest.Execute(t, primary, "CREATE TABLE t (id bigint PRIMARY KEY, note text)")
	there, standby := standbyOf(t, dsn)
	replayed(t, primary, standby)
	table := pipeline(t, oneTable).Tables[0]
	for _, tt := range []struct {
		name    string
		dsn     string
		options postgres.Options
		follows bool
		log     bool
		behind  time.Duration // at least; 0: unknown or nothing
		moment  string
		refused string
	}{
		{name: "primary", dsn: dsn, options: postgres.Options{Role: reconcile.RoleAuto}, log: true, moment: "log "},
		{name: "primary that is called so", dsn: dsn, options: postgres.Options{Role: reconcile.RolePrimary}, log: true, moment: "log "},
		{name: "primary with a lag", dsn: dsn, options: postgres.Options{ReplicaLag: time.Hour}, log: true, moment: "log "},
		{name: "primary that is called a replica", dsn: dsn, options: postgres.Options{Role: reconcile.RoleReplica}, follows: true, moment: "snapshot"},
		{name: "the same, with a lag", dsn: dsn, options: postgres.Options{Role: reconcile.RoleReplica, ReplicaLag: time.Hour}, follows: true, behind: time.Hour, moment: "snapshot, assumed to have everything up to 2"},
		{name: "standby with a lag", dsn: there, options: postgres.Options{ReplicaLag: time.Hour}, follows: true, log: true, behind: time.Hour, moment: "assumed"},
		{name: "standby that the stream is read from", dsn: there, options: postgres.Options{Role: reconcile.RoleStream}, log: true, moment: "log "},
		{name: "standby that is called a primary", dsn: there, options: postgres.Options{Role: reconcile.RolePrimary}, refused: "the server is a standby"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := open(t, tt.dsn, tt.options).Open(t.Context(), table, true)
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("got %v, want %s", err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close() //nolint:errcheck // it only read
			p := v.Pinned()
			if (p.Through != nil) != tt.follows || (p.Log != nil) != tt.log || !strings.Contains(p.Moment, tt.moment) {
				t.Errorf("pinned %+v", p)
			}
			if tt.behind > 0 && p.Time.Sub(*p.Through).Truncate(time.Hour) != tt.behind {
				t.Errorf("%v behind, want %v", p.Time.Sub(*p.Through), tt.behind)
			}
		})
	}
}

// A snapshot that is in the way of what a standby replays is ended by it: the
// table is read again, at a new one.
func TestStandbyConflict(t *testing.T) {
	dsn, primary := server.NewDatabase(t)
	pgtest.Execute(t, primary, `CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t SELECT g, 'n' FROM generate_series(1, 200) g;
		CREATE VIEW slow AS SELECT id, note || pg_sleep(0.03)::text AS note FROM t; CREATE TABLE junk AS SELECT g FROM generate_series(1, 5000) g`)
	there, standby := standbyOf(t, dsn, "max_standby_streaming_delay=10ms")
	replayed(t, primary, standby)
	p := pipeline(t, strings.Replace(oneTable, "public.t", "public.slow", 1))
	lake := &reconciletest.Memory{Tables: reconciletest.Tables{"public.slow": notes(200)}}
	for _, always := range []bool{false, true} {
		source := &reconciletest.Disturbed{Reader: open(t, there, postgres.Options{}), Table: "public.slow", Always: always}
		source.Do = func() error {
			err := reading(t.Context(), standby, `"slow"`)
			for _, sql := range []string{"DELETE FROM junk WHERE g % 2 = 0; INSERT INTO junk SELECT * FROM generate_series(1, 5000)", "VACUUM junk"} {
				if err == nil {
					_, err = primary.Exec(t.Context(), sql)
				}
			}
			return err
		}
		report, err := reconcile.Run(t.Context(), p, source, lake, reconcile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := report.Tables[0]
		if opened := source.Opened.Load(); !always && (got.Verdict != reconcile.Equal || opened != 2) {
			t.Errorf("disturbed once: %s after %d snapshots, %s", got.Verdict, opened, got.Why)
		} else if always && (got.Verdict != reconcile.Inconclusive || !strings.Contains(got.Why, "conflict with recovery") || !strings.Contains(got.Why, "hot_standby_feedback")) {
			t.Errorf("disturbed always: %s after %d snapshots, %s", got.Verdict, opened, got.Why)
		}
	}
}

// reading waits until a statement runs that has the text.
func reading(ctx context.Context, conn *pgx.Conn, text string) error {
	for range 3000 {
		var runs bool
		err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%' || $1 || '%' AND pid <> pg_backend_pid())", text).Scan(&runs)
		if err != nil || runs {
			return err
		}
		if _, err := conn.Exec(ctx, "SELECT pg_sleep(0.01)"); err != nil {
			return err
		}
	}
	return errors.New("no statement runs that has " + text)
}
