//go:build mariadb

package mysql_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/mysql"
	"icehose/reconcile/reconciletest"
)

// A table that the account may not read, one that lacks a column, one without
// snapshots, and one whose connection is lost while it is read: each is
// inconclusive and says why, and the others are decided.
func TestTroubles(t *testing.T) {
	db := shop(t, "CREATE TABLE early (id bigint PRIMARY KEY, note text); INSERT INTO early SELECT seq, 'n' FROM seq_1_to_200; CREATE TABLE late AS SELECT * FROM early; "+
		"CREATE TABLE hidden AS SELECT * FROM early; CREATE TABLE narrow AS SELECT id FROM early; CREATE TABLE old ENGINE=MyISAM AS SELECT * FROM early; "+
		"CREATE TABLE cut AS SELECT seq AS id, REPEAT('n', 200) AS note FROM seq_1_to_300000; CREATE USER IF NOT EXISTS troubled; "+
		"GRANT SELECT ON shop.early TO troubled; GRANT SELECT ON shop.late TO troubled; GRANT SELECT ON shop.narrow TO troubled; GRANT SELECT ON shop.old TO troubled; GRANT SELECT ON shop.cut TO troubled")
	head, one, _ := strings.Cut(oneTable, "  - source: shop.t\n")
	for _, name := range []string{"early", "hidden", "narrow", "old", "cut", "late"} {
		head += "  - source: shop." + name + "\n" + one
	}
	p, err := catalog.Parse("pipeline.yaml", []byte(head))
	if err != nil {
		t.Fatal(err)
	}
	lake := &reconciletest.Memory{Tables: reconciletest.Tables{}}
	for _, table := range p.Tables {
		for i := range 200 {
			lake.Tables[table.Source] = append(lake.Tables[table.Source], reconciletest.MakeRow(fmt.Sprint(i+1), "n"))
		}
	}
	kill := func() error {
		for range 3000 {
			var id int64
			if db.QueryRowContext(t.Context(), "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%FROM `shop`.`cut`%' AND ID <> CONNECTION_ID()").Scan(&id) == nil {
				_, err := db.ExecContext(t.Context(), fmt.Sprintf("KILL %d", id))
				return err
			}
			if _, err := db.ExecContext(t.Context(), "DO SLEEP(0.002)"); err != nil {
				return err
			}
		}
		return errors.New("nothing reads the table")
	}
	for _, o := range []mysql.Options{{}, {Stream: true, RowsPerSecond: 100000}} {
		source := &reconciletest.Disturbed{Reader: open(t, strings.Replace(server.DSN(""), "root@", "troubled@", 1), o), Table: "shop.cut", Do: kill}
		report, err := reconcile.Run(t.Context(), p, source, lake, reconcile.Options{Concurrency: 2})
		if err != nil {
			t.Fatal(err)
		}
		reconciletest.CheckInconclusive(t, report, map[string]string{
			"shop.hidden": "find table: the source has none of this name, or the account may not see it", "shop.narrow": "find columns: the source has no column note",
			"shop.old": "storage engine MyISAM has no snapshots", "shop.cut": "read source: digest shop.cut: ",
		})
	}
}
