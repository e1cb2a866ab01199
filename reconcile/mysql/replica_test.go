//go:build mariadb

package mysql_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"icehose/catalog"
	catalogmysql "icehose/catalog/mysql"
	"icehose/internal/mariadbtest"
	"icehose/reconcile"
	"icehose/reconcile/mysql"
	"icehose/reconcile/reconciletest"
)

// A replica is a source whose log says nothing of the stream's. While it
// stands still, rows that only the lake has are not called different.
func TestReplica(t *testing.T) {
	primary := shop(t, "CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t VALUES (1, 'n')")
	copied := mariadbtest.New(t, "--server-id=2", "--slave-net-timeout=3")
	replica, err := catalogmysql.Open(copied.DSN("") + "?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Close() })
	u, err := url.Parse(server.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	execute(t, primary, "CREATE USER IF NOT EXISTS copier IDENTIFIED BY 'c'; GRANT REPLICATION SLAVE ON *.* TO copier")
	execute(t, replica, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %s, MASTER_USER = 'copier', MASTER_PASSWORD = 'c', MASTER_LOG_FILE = 'binlog.000001', MASTER_LOG_POS = 4; START SLAVE", u.Port()))
	come := func() {
		t.Helper()
		var file string
		var at uint64
		if err := primary.QueryRowContext(t.Context(), "SHOW MASTER STATUS").Scan(&file, &at, new(any), new(any)); err != nil {
			t.Fatal(err)
		}
		var events *int
		if err := replica.QueryRowContext(t.Context(), fmt.Sprintf("SELECT MASTER_POS_WAIT('%s', %d, 60)", file, at)).Scan(&events); err != nil || events == nil || *events < 0 {
			t.Fatalf("the replica does not come: %v, %v", events, err)
		}
	}
	come()
	tab := table(t, oneTable)
	r := open(t, copied.DSN(""), mysql.Options{Role: reconcile.RoleReplica})
	pinned := func() reconcile.Pinned {
		t.Helper()
		v, err := r.Open(t.Context(), tab, true)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close() //nolint:errcheck // it only read
		return v.Pinned()
	}
	if p := pinned(); p.Log != nil || p.Through == nil || p.Through.After(p.Time) || p.Time.Sub(*p.Through) > time.Minute {
		t.Errorf("pinned %+v through %v", p, p.Through)
	}
	// Its own log does not have what it replays, unless it is told to.
	if s, err := r.State(t.Context(), nil); err != nil || s.Mark != "" {
		t.Errorf("mark %q, %v", s.Mark, err)
	}
	// One that hears nothing for a while takes itself for up to date.
	if p := pinned(); p.Time.Sub(*p.Through) < 4*time.Second {
		t.Errorf("it has everything up to %v before", p.Time.Sub(*p.Through))
	}
	execute(t, primary, "CREATE TABLE beat (shard bigint PRIMARY KEY, at timestamp(6), note text); SET time_zone = '+00:00'; INSERT INTO beat (shard, at) VALUES (1, '2036-01-01 00:00:00.5'), (2, '2026-01-01 00:00:00.5')")
	come()
	beating := open(t, copied.DSN(""), mysql.Options{MaxConnections: 9})
	through := func(r *mysql.Reader) (reconcile.Pinned, error) {
		v, err := r.Open(t.Context(), tab, true)
		if err != nil {
			return reconcile.Pinned{}, err
		}
		defer v.Close() //nolint:errcheck // it only read
		return v.Pinned(), nil
	}
	beating.Heartbeat(table(t, strings.NewReplacer("shop.t", "shop.beat", "key: [id]", "key: [shard]", "id, type: long", "shard, type: long", "note, type: string", "at, type: timestamptz").Replace(oneTable)))
	if p, err := through(open(t, copied.DSN(""), mysql.Options{})); err != nil || !p.Through.IsZero() || !strings.Contains(p.Doubt, "--source-role replica") {
		t.Errorf("of what it follows nobody says anything, and it has everything up to %v, %q, %v", p.Through, p.Doubt, err)
	}
	if p, err := through(beating); err != nil || !p.Through.IsZero() || !strings.Contains(p.Doubt, "later than the source's clock") {
		t.Errorf("a heartbeat of 2036 came, and it has everything up to %v, %q, %v", p.Through, p.Doubt, err)
	}
	execute(t, primary, "DELETE FROM beat WHERE shard = 1")
	come()
	if p, err := through(beating); err != nil || !p.Through.Equal(time.Date(2025, 12, 31, 23, 59, 59, 500_000_000, time.UTC)) || p.Doubt != "" {
		t.Errorf("a heartbeat came, and it has everything up to %v, %q, %v", p.Through, p.Doubt, err)
	}
	execute(t, replica, "STOP SLAVE; SET GLOBAL slave_parallel_threads = 2; START SLAVE")
	execute(t, primary, "SET gtid_domain_id = 7; INSERT INTO beat (shard, at) VALUES (3, '2026-01-01 00:00:00.5'); SET gtid_domain_id = 0; DELETE FROM beat WHERE shard = 3")
	come()
	if p, err := through(beating); err != nil || !p.Through.IsZero() || !strings.Contains(p.Doubt, "no order") {
		t.Errorf("commits are in no order, and it has everything up to %v, %q, %v", p.Through, p.Doubt, err)
	}
	execute(t, replica, "STOP SLAVE; SET GLOBAL slave_parallel_threads = 0; START SLAVE")
	beating.Heartbeat(tab)
	if p, err := through(beating); err != nil || p.Through.After(p.Time) || !strings.Contains(p.Doubt, "no column is TIMESTAMP") {
		t.Errorf("a heartbeat without a time: %v, %q, %v", p.Through, p.Doubt, err)
	}
	if p, err := through(open(t, copied.DSN(""), mysql.Options{ReplicaLag: time.Hour})); err != nil || p.Time.Sub(*p.Through).Truncate(time.Hour) != time.Hour || !strings.Contains(p.Moment, "assumed") {
		t.Errorf("an hour behind, as is said: %+v, %v", p, err)
	}
	for role, want := range map[reconcile.Role]string{reconcile.RolePrimary: "the server is a replica", reconcile.RoleStream: "log lacks what it replays"} {
		if _, err := through(open(t, copied.DSN(""), mysql.Options{Role: role})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a replica that is called %s: %v", role, err)
		}
	}
	if err := open(t, server.DSN(""), mysql.Options{Role: reconcile.RoleReplica}).CheckRole(t.Context()); err == nil || !strings.Contains(err.Error(), "give --replica-lag, or a heartbeat table") {
		t.Errorf("a primary that is called a replica: %v", err)
	}
	if err := r.CheckRole(t.Context()); err != nil {
		t.Errorf("a replica that is called so: %v", err)
	}
	for role, follows := range map[reconcile.Role]bool{reconcile.RoleStream: false, reconcile.RolePrimary: false, reconcile.RoleReplica: true} {
		if p, err := through(open(t, server.DSN(""), mysql.Options{Role: role})); err != nil || (p.Through != nil) != follows || (p.Log == nil) != follows {
			t.Errorf("a primary that is called %s: %+v, %v", role, p, err)
		}
	}
	execute(t, replica, "STOP SLAVE SQL_THREAD")
	if p := pinned(); p.Through == nil || !p.Through.IsZero() {
		t.Errorf("it stands still, and has everything up to %v", p.Through)
	}
	execute(t, primary, "UPDATE t SET note = 'new'; INSERT INTO t VALUES (2, 'n')")
	p, err := catalog.Parse("pipeline.yaml", []byte(oneTable))
	if err != nil {
		t.Fatal(err)
	}
	reconciletest.TestFollower(t, p, r, []reconciletest.Row{reconciletest.MakeRow("1", "new"), reconciletest.MakeRow("2", "n")}, 2, func() {
		execute(t, replica, "START SLAVE SQL_THREAD")
		come()
		execute(t, replica, "DO SLEEP(4.2)") // it tells whole seconds, and may not have heard the last three
	})
}

// An account that may not see whether its server is a replica proves nothing
// against rows that differ, and is told which right it lacks.
func TestUnseenReplica(t *testing.T) {
	shop(t, "CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t VALUES (1, 'n'); CREATE USER IF NOT EXISTS blind; GRANT SELECT ON shop.* TO blind; GRANT BINLOG MONITOR ON *.* TO blind")
	p, err := catalog.Parse("pipeline.yaml", []byte(oneTable))
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, strings.Replace(server.DSN(""), "root@", "blind@", 1), mysql.Options{})
	compare := func(lake ...reconciletest.Row) reconcile.TableReport {
		t.Helper()
		report, err := reconcile.Run(t.Context(), p, r, &reconciletest.Memory{Tables: reconciletest.Tables{"shop.t": lake}}, reconcile.Options{
			Settle: time.Nanosecond, Retries: 4, Now: func() time.Time { return time.Time{} }, Wait: func(context.Context, time.Duration) error { return nil },
			Watermark: func(context.Context) (reconcile.Watermark, error) {
				return reconcile.Watermark{Time: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return report.Tables[0]
	}
	if got := compare(); got.Verdict != reconcile.Inconclusive || got.Undecided != 1 || got.Source.Log != nil || !strings.Contains(got.Why, "grant it SLAVE MONITOR") {
		t.Errorf("a row that differs: %s %+v, log %+v, %s", got.Verdict, got.Counts, got.Source.Log, got.Why)
	}
	primary := open(t, strings.Replace(server.DSN(""), "root@", "blind@", 1), mysql.Options{Role: reconcile.RolePrimary})
	v, err := primary.Open(t.Context(), p.Tables[0], true)
	if err != nil {
		t.Fatal(err)
	}
	if pinned := v.Pinned(); pinned.Through != nil || pinned.Log == nil || pinned.Doubt != "" {
		t.Errorf("called a primary: %+v", pinned)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if got := compare(reconciletest.MakeRow("1", "n")); got.Verdict != reconcile.Equal || got.Source.Doubt == "" {
		t.Errorf("nothing differs: %s, %s", got.Verdict, got.Why)
	}
}
