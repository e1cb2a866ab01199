//go:build postgres

package postgres_test

import (
	"strings"
	"testing"
	"time"

	"icehose/internal/pgtest"
	"icehose/reconcile"
	"icehose/reconcile/postgres"
)

// An account that may not see what a standby receives proves nothing while the
// primary is idle, and is told why. A heartbeat table in the source's own
// snapshot tells it what it may not see.
func TestStandbyOfAnIdlePrimary(t *testing.T) {
	dsn, primary := server.NewDatabase(t)
	pgtest.Execute(t, primary, `CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t VALUES (1, 'n'); CREATE TABLE beat (shard bigint PRIMARY KEY, at timestamptz, note text);
		DROP ROLE IF EXISTS blind; CREATE ROLE blind LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO blind`)
	there, standby := standbyOf(t, dsn, "wal_receiver_timeout=1s")
	replayed(t, primary, standby)
	p := pipeline(t, oneTable+`  - source: public.beat
    mode: mirror
    key: [shard]
    columns:
      - {name: shard, type: long}
      - {name: at, type: timestamptz}
`)
	through := func(r *postgres.Reader) (time.Time, string) {
		t.Helper()
		v, err := r.Open(t.Context(), p.Tables[0], false)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close() //nolint:errcheck // it only read; a view that stays open can hold up what is replayed for 30 s
		pinned := v.Pinned()
		if pinned.Through == nil {
			t.Fatal("the standby follows nobody")
		}
		return *pinned.Through, pinned.Doubt
	}
	var now time.Time
	if err := primary.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
		t.Fatal(err)
	}
	heard(t, standby)
	if at, doubt := through(open(t, there, postgres.Options{MaxConnections: 9, Role: reconcile.RoleReplica})); !at.After(now) || doubt != "" {
		t.Errorf("idle since %v, and has everything up to %v, %q", now, at, doubt)
	}
	if at, doubt := through(open(t, there, postgres.Options{MaxConnections: 9})); at.After(now) || !strings.Contains(doubt, "--source-role replica") {
		t.Errorf("idle, of a server that is called nothing, and has everything up to %v, %q", at, doubt)
	}
	blind := open(t, asRole(there, "blind"), postgres.Options{MaxConnections: 9, Role: reconcile.RoleReplica})
	if at, doubt := through(blind); at.After(now) || !strings.Contains(doubt, "grant it pg_read_all_stats") {
		t.Errorf("it may not see, and has everything up to %v, %q", at, doubt)
	}
	blind.Heartbeat(p.Tables[1])
	pgtest.Execute(t, primary, "INSERT INTO beat VALUES (1, '2100-01-01 00:00:00Z'), (2, clock_timestamp()), (3, 'infinity')")
	replayed(t, primary, standby)
	if at, doubt := through(blind); at.After(now.Add(time.Hour)) || !strings.Contains(doubt, "later than the source's clock") {
		t.Errorf("the heartbeat of 2100 came, and it has everything up to %v, %q", at, doubt)
	}
	pgtest.Execute(t, primary, "REVOKE EXECUTE ON FUNCTION pg_last_xact_replay_timestamp() FROM PUBLIC; DELETE FROM beat WHERE shard = 1")
	replayed(t, primary, standby)
	var beat time.Time
	if err := primary.QueryRow(t.Context(), "SELECT at FROM beat WHERE shard = 2").Scan(&beat); err != nil {
		t.Fatal(err)
	}
	if at, doubt := through(blind); !at.Equal(beat.Add(-time.Second)) || doubt != "" {
		t.Errorf("a heartbeat of %v came, and it has everything up to %v, %q", beat, at, doubt)
	}
	if err := blind.CheckRole(t.Context()); err != nil {
		t.Errorf("a silent standby with a heartbeat: %v", err)
	}
	for name, r := range map[string]*postgres.Reader{
		"standby": open(t, asRole(there, "blind"), postgres.Options{Role: reconcile.RoleReplica}), "primary": open(t, dsn, postgres.Options{Role: reconcile.RoleReplica}),
	} {
		if err := r.CheckRole(t.Context()); err == nil || !strings.Contains(err.Error(), "give --replica-lag, or a heartbeat table") {
			t.Errorf("a silent %s is called a replica: %v", name, err)
		}
	}
	pgtest.Execute(t, primary, "REVOKE SELECT ON beat FROM blind")
	replayed(t, primary, standby)
	v := view(t, blind, p.Tables[0], false)
	if pinned := v.Pinned(); !pinned.Through.IsZero() || !strings.Contains(pinned.Doubt, "the heartbeat table does not tell") {
		t.Errorf("a heartbeat that may not be read: %v, %q", pinned.Through, pinned.Doubt)
	}
	if got := rowCount(t, v); got != 1 {
		t.Errorf("%d rows beside it, want 1", got)
	}
}

// A standby whose sender has lost its own primary hears that there is nothing
// more: it has not what the primary has.
func TestStandbyOfAStandby(t *testing.T) {
	dsn, primary := server.NewDatabase(t)
	pgtest.Execute(t, primary, "CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t VALUES (1, 'n')")
	first, err := server.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := first.Stop(); err != nil {
			t.Error(err)
		}
	})
	second, err := first.Standby(t.Context(), "wal_receiver_timeout=1s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Stop(); err != nil {
			t.Error(err)
		}
	})
	there := on(second, dsn)
	conn, between := pgtest.Connect(t, there), pgtest.Connect(t, on(first, dsn))
	replayed(t, primary, conn)
	pgtest.Execute(t, between, "ALTER SYSTEM SET primary_conninfo = ''")
	pgtest.Execute(t, between, "SELECT pg_reload_conf()")
	pgtest.Execute(t, between, `DO $$ BEGIN FOR i IN 1..3000 LOOP EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_wal_receiver); PERFORM pg_sleep(0.02); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$`)
	var lost time.Time
	if err := primary.QueryRow(t.Context(), "UPDATE t SET note = 'new' RETURNING clock_timestamp()").Scan(&lost); err != nil {
		t.Fatal(err)
	}
	heard(t, conn)
	pinned := view(t, open(t, there, postgres.Options{}), pipeline(t, oneTable).Tables[0], false).Pinned()
	if pinned.Through == nil || pinned.Through.After(lost) || !strings.Contains(pinned.Doubt, "--source-role replica") || !strings.Contains(pinned.Doubt, "heartbeat table") {
		t.Errorf("a commit of %v is not there, and it has everything up to %v, %q", lost, pinned.Through, pinned.Doubt)
	}
}

// A view that has read the heartbeat table shares its snapshot.
func TestHeartbeatAndConnections(t *testing.T) {
	dsn, primary := server.NewDatabase(t)
	pgtest.Execute(t, primary, `CREATE TABLE t (id bigint PRIMARY KEY, note text); ALTER TABLE t ALTER note SET STORAGE PLAIN;
		INSERT INTO t SELECT g, repeat('x', 3900) FROM generate_series(1, 5000) g; CREATE TABLE beat (id bigint PRIMARY KEY, at timestamptz, note text); ANALYZE t`)
	p := pipeline(t, oneTable+`  - source: public.beat
    mode: mirror
    key: [id]
    columns:
      - {name: id, type: long}
      - {name: at, type: timestamptz}
`)
	for _, beats := range []string{"there", "lost"} {
		t.Run(beats, func(t *testing.T) {
			r := open(t, dsn, postgres.Options{MaxConnections: 2, Role: reconcile.RoleReplica})
			r.Heartbeat(p.Tables[1])
			if got := rowCount(t, view(t, r, p.Tables[0], false)); got != 5000 {
				t.Errorf("%d rows, want 5000", got)
			}
		})
		pgtest.Execute(t, primary, "DROP TABLE IF EXISTS beat") // the view's transaction, which locks it, is over
	}
}
