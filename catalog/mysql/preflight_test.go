//go:build mariadb

package mysql_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog/mysql"
)

// A position is a file's number and an offset in it, and rises with commits
// and with files.
func TestPosition(t *testing.T) {
	_, db := start(t)
	before, now, err := mysql.Position(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(now); d > time.Minute || d < -time.Minute {
		t.Errorf("the server's time is %s", now)
	}
	if before.Hi != 0 || before.Lo>>32 == 0 {
		t.Errorf("position is %s", before)
	}
	for _, statement := range []string{"CREATE TABLE t (id int PRIMARY KEY)", "FLUSH BINARY LOGS"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		after, _, err := mysql.Position(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		if after.Compare(before) <= 0 {
			t.Errorf("after %s the position went from %s to %s", statement, before, after)
		}
		if statement == "FLUSH BINARY LOGS" && after.Lo>>32 != before.Lo>>32+1 {
			t.Errorf("the file's number went from %d to %d", before.Lo>>32, after.Lo>>32)
		}
		before = after
	}
}

func TestPreflight(t *testing.T) {
	server, db := start(t, "--binlog-format=MIXED", "--binlog-row-image=MINIMAL", "--expire-logs-days=0.5")
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE good (id int PRIMARY KEY, n decimal(5,2)); CREATE TABLE keyless (id int); CREATE TABLE large (id int PRIMARY KEY, body text);"+
		"CREATE TABLE child (id int PRIMARY KEY, parent int, FOREIGN KEY (parent) REFERENCES good (id) ON DELETE CASCADE); CREATE TABLE old (id int PRIMARY KEY) ENGINE=MyISAM;"+
		"CREATE USER poor@'127.0.0.1'; GRANT SELECT ON shop.* TO poor@'127.0.0.1'"); err != nil {
		t.Fatal(err)
	}
	s, err := mysql.Read(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"binlog_format binlog_format": "error", "binlog_row_image binlog_row_image": "error", "binlog_retention binlog_expire_logs_seconds": "warning",
		"no_primary_key shop.keyless": "warning", "out_of_line shop.large": "note", "cascade shop.child": "error", "no_transactions shop.old": "warning",
	}
	check := func(dsn string) map[string]string {
		db, err := mysql.Open(dsn)
		if err != nil {
			t.Fatal(err)
		}
		found, err := mysql.Preflight(t.Context(), db, s)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		got := make(map[string]string)
		for _, f := range found {
			if f.What == "" || f.Consequence == "" || f.Fix == "" {
				t.Errorf("a finding without words: %+v", f)
			}
			got[f.ID+" "+f.Object] = string(f.Severity)
		}
		return got
	}
	if diff := cmp.Diff(want, check(server.DSN("shop"))); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	want["no_replication_right poor@127.0.0.1"] = "error"
	if diff := cmp.Diff(want, check(strings.Replace(server.DSN("shop"), "root@", "poor@", 1))); diff != "" {
		t.Errorf("findings of an account without rights (-want +got):\n%s", diff)
	}
	for _, fix := range []string{"SET GLOBAL binlog_format = 'ROW'", "SET GLOBAL binlog_row_image = 'FULL'", "GRANT REPLICATION SLAVE ON *.* TO 'poor'@'127.0.0.1'", "GRANT REPLICATION CLIENT ON *.* TO 'poor'@'127.0.0.1'"} {
		if _, err := db.ExecContext(t.Context(), fix); err != nil {
			t.Fatal(err)
		}
	}
	for finding := range check(strings.Replace(server.DSN("shop"), "root@", "poor@", 1)) {
		if strings.HasPrefix(finding, "binlog_format") || strings.HasPrefix(finding, "binlog_row_image") || strings.HasPrefix(finding, "no_replication_right") {
			t.Errorf("%s is still found after its fix", finding)
		}
	}
}
