//go:build mariadb

package mysql_test

import (
	"fmt"
	"net/url"
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
	copied := mariadbtest.New(t, "--server-id=2")
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
	r := open(t, copied.DSN(""), mysql.Options{})
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
		execute(t, replica, "DO SLEEP(1.2)") // it tells whole seconds
	})
}
