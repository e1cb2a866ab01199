//go:build mariadb

package mysql_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/mysql"
	"icehose/reconcile/reconciletest"
)

// rows reads the keys of a part.
func rows(t *testing.T, r *mysql.Reader, tab *catalog.Table, part reconcile.Part) (keys []string) {
	t.Helper()
	v, err := r.Open(t.Context(), tab, false)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close() //nolint:errcheck // it only read
	for row, err := range v.Rows(t.Context(), part) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(row.Key))
	}
	return keys
}

// A key of the lake is never a part of a statement, whatever it says, and its
// form is that of both types.
func TestKeysAreNoStatements(t *testing.T) {
	for _, tt := range []struct{ source, lake, value, key string }{
		{"datetime", "string", "'2026-01-01'", "2026-01-01 00:00:00"},
		{"timestamp", "string", "'2026-01-01'", "2026-01-01 00:00:00"},
		{"date", "string", "'2026-01-01'", "2026-01-01"},
		{"varbinary(20)", "binary", "X'00ff27'", "00ff27"},
		{"int", "string", "7", "7"},
		{"decimal(9,2)", "string", "1.50", "1.50"},
		{"uuid", "string", "'123e4567-e89b-12d3-a456-426614174000'", "123e4567-e89b-12d3-a456-426614174000"},
		{"varchar(40)", "uuid", "'123E4567-E89B-12D3-A456-426614174000'", "123e4567-e89b-12d3-a456-426614174000"},
		{"varchar(40)", "long", "'007'", "7"},
		{"varchar(40)", "string", "'it''s'", "it's"},
		{"datetime", "timestamp", "'2026-01-01'", "2026-01-01T00:00:00.000000"},
		{"tinyint(1)", "boolean", "1", "true"},
	} {
		t.Run(tt.source+" as "+tt.lake, func(t *testing.T) {
			shop(t, fmt.Sprintf("SET sql_mode = 'STRICT_ALL_TABLES'; CREATE TABLE t (id %s, note text); INSERT INTO t VALUES (%s, 'n')", tt.source, tt.value))
			tab := table(t, strings.Replace(oneTable, "id, type: long", "id, type: "+tt.lake, 1))
			texts := [][]string{{tt.key}}
			if tt.lake == "string" {
				texts = append(texts, []string{"' OR 1=1 -- "}, []string{"x'); DROP TABLE t; -- "}, []string{`\' OR 1=1 -- `}, []string{""}, []string{"2026-13-45"}, []string{"garbage"})
			}
			keys, err := reconcile.NewKeys(tab, texts)
			if err != nil {
				t.Fatal(err)
			}
			r := open(t, server.DSN(""), mysql.Options{})
			if got := rows(t, r, tab, reconcile.Part{Buckets: 1, Keys: keys}); len(got) != 1 {
				t.Errorf("keys %q, want that of %s", got, tt.key)
			}
			if tt.lake != "string" {
				return
			}
			if keys, err = reconcile.NewKeys(tab, texts[1:]); err != nil {
				t.Fatal(err)
			}
			if got := rows(t, r, tab, reconcile.Part{Buckets: 1, Keys: keys}); len(got) != 0 {
				t.Errorf("keys %q of texts that are none", got)
			}
		})
	}
}

// Keys may be equal to the column's collation, of which a statement cannot ask for
// all: each row is given for the key that it has, once.
func TestKeysThatAreEqualToTheColumn(t *testing.T) {
	for _, tt := range []struct {
		name, key string
		beside    bool // keys that are equal stand in one statement
	}{
		{"one column", "id", false},
		{"several columns", "id, note", false},
		{"one column, in a statement", "id", true},
		{"several columns, in a statement", "id, note", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shop(t, fmt.Sprintf("CREATE TABLE t (id varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, note varchar(40), PRIMARY KEY (%s)); "+
				"INSERT INTO t SELECT CONCAT('user', seq), 'n' FROM seq_1_to_1500", tt.key))
			p, err := catalog.Parse("pipeline.yaml", []byte(strings.NewReplacer("id, type: long", "id, type: string", "key: [id]", "key: ["+tt.key+"]").Replace(oneTable)))
			if err != nil {
				t.Fatal(err)
			}
			var texts [][]string
			var lake []reconciletest.Row
			for _, prefix := range []string{"User", "user", "USER"} {
				for n := range 1500 {
					texts = append(texts, []string{fmt.Sprint(prefix, n+1), "n"}[:len(p.Tables[0].Key)])
				}
			}
			for n := range 1500 {
				lake = append(lake, reconciletest.MakeRow(fmt.Sprint("User", n+1), "n"))
			}
			if tt.beside {
				slices.SortStableFunc(texts, func(a, b []string) int { return strings.Compare(strings.ToLower(a[0]), strings.ToLower(b[0])) })
			}
			keys, err := reconcile.NewKeys(p.Tables[0], texts)
			if err != nil {
				t.Fatal(err)
			}
			o := reconcile.Options{Keys: map[string]*reconcile.Keys{"shop.t": keys}, MaxFindings: 5000}
			report, err := reconcile.Run(t.Context(), p, open(t, server.DSN(""), mysql.Options{}), &reconciletest.Memory{Tables: reconciletest.Tables{"shop.t": lake}}, o)
			if err != nil {
				t.Fatal(err)
			}
			got := report.Tables[0]
			if got.Counts != (reconcile.Counts{Missing: 1500, Extra: 1500}) || got.Source.Rows == nil || *got.Source.Rows != 1500 {
				t.Errorf("%s %+v, want each row of the source once: %s", got.Verdict, got.Counts, got.Why)
			}
		})
	}
}

// A day begins when it begins.
func TestSince(t *testing.T) {
	shop(t, "CREATE TABLE t (id bigint PRIMARY KEY, note date); INSERT INTO t VALUES (1, '2026-01-01'), (2, '2026-01-02'), (3, '2026-01-03'), (4, NULL)")
	tab := table(t, strings.Replace(oneTable, "note, type: string", "note, type: date", 1))
	part := reconcile.Part{Buckets: 1, Since: &reconcile.Since{Column: "note", From: time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)}}
	if got := strings.Join(rows(t, open(t, server.DSN(""), mysql.Options{}), tab, part), " "); got != "1:2 1:3" {
		t.Errorf("keys %s, want 2 and 3", got)
	}
}

// The last hours are those of any clock, where the source's times have no zone; and
// a column that the pipeline file does not have is named.
func TestSinceOfAnyClock(t *testing.T) {
	for typ, rows := range map[string]string{
		"datetime": "(1, '2026-01-01 09:00:00'), (2, '2026-01-01 11:00:00'), (3, '2026-01-01 19:00:00'), (4, '2026-01-02 03:00:00')",
		"date":     "(1, '2025-12-31'), (2, '2026-01-01'), (3, '2026-01-01'), (4, '2026-01-02')",
	} {
		t.Run(typ, func(t *testing.T) {
			shop(t, fmt.Sprintf("CREATE TABLE t (id bigint PRIMARY KEY, note %s, `New` int); INSERT INTO t (id, note) VALUES %s", typ, rows))
			p, err := catalog.Parse("pipeline.yaml", []byte(strings.Replace(oneTable, "note, type: string", "note, type: "+strings.Replace(typ, "datetime", "timestamp", 1), 1)))
			if err != nil {
				t.Fatal(err)
			}
			o := reconcile.Options{Since: &reconcile.Since{Column: "note", From: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Text: "4h"}}
			report, err := reconcile.Run(t.Context(), p, open(t, server.DSN(""), mysql.Options{}), &reconciletest.Memory{Tables: reconciletest.Tables{"shop.t": nil}}, o)
			if err != nil {
				t.Fatal(err)
			}
			if got := report.Tables[0]; got.Counts != (reconcile.Counts{Missing: 3}) || strings.Join(got.Unknown, " ") != "New" {
				t.Errorf("%s %+v, unknown %q: %s", got.Verdict, got.Counts, got.Unknown, got.Why)
			}
		})
	}
}

// Rows without a key are in one of the parts that are read at a time, each
// once; no lake can have them, which is said.
func TestKeysThatAreNull(t *testing.T) {
	shop(t, "CREATE TABLE t (id bigint NULL UNIQUE, note text); INSERT INTO t SELECT seq, 'n' FROM seq_1_to_400000; INSERT INTO t VALUES (NULL, 'a'), (NULL, 'b'), (NULL, 'c'); ANALYZE TABLE t")
	p, err := catalog.Parse("pipeline.yaml", []byte(oneTable))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2, 3, 7} {
		r := open(t, server.DSN(""), mysql.Options{MaxConnections: n})
		v, err := r.Open(t.Context(), p.Tables[0], false)
		if err != nil {
			t.Fatal(err)
		}
		digests, err := v.Digests(t.Context(), reconcile.Part{Buckets: 1})
		if err != nil || digests[0].Count != 400003 {
			t.Errorf("%d connections: %+v rows, %v; want 400003", n, digests, err)
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
	r := open(t, server.DSN(""), mysql.Options{})
	report, err := reconcile.Run(t.Context(), p, r, &reconciletest.Memory{Tables: reconciletest.Tables{"shop.t": {reconciletest.MakeRow("1", "n")}}}, reconcile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Tables[0]; got.Verdict == reconcile.Equal || got.Verdict == reconcile.Inconclusive && !strings.Contains(got.Why, "key column id is null") {
		t.Errorf("%s, %s", got.Verdict, got.Why)
	}
}

// The end of the log is a lower bound of a snapshot once what was being
// committed then is visible. While a transaction runs it is not known.
func TestPlaceInTheLog(t *testing.T) {
	db := shop(t, "CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t VALUES (1, 'n')")
	tab := table(t, oneTable)
	low := func(r *mysql.Reader, exact bool) bool {
		t.Helper()
		v, err := r.Open(t.Context(), tab, exact)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close() //nolint:errcheck // it only read
		if v.Pinned().Log == nil {
			t.Fatal("no place in the log")
		}
		return v.Pinned().Log.Low != nil
	}
	r := open(t, server.DSN(""), mysql.Options{Patience: 300 * time.Millisecond})
	r.Unplaced()
	execute(t, db, "CREATE USER IF NOT EXISTS modest; GRANT SELECT, BINLOG MONITOR, SLAVE MONITOR ON *.* TO modest")
	modest := open(t, strings.Replace(server.DSN(""), "root@", "modest@", 1), mysql.Options{})
	modest.Unplaced()
	if !low(r, true) {
		t.Error("nothing runs, and the lower bound is not known")
	}
	execute(t, db, "BEGIN")
	execute(t, db, "UPDATE t SET note = 'new'")
	if low(r, true) {
		t.Error("a transaction runs, and the lower bound is known")
	}
	execute(t, db, "COMMIT")
	if !low(r, true) {
		t.Error("it has ended, and the lower bound is not known")
	}
	if low(r, false) {
		t.Error("a lower bound that was not asked for")
	}
	// It sees its own transactions alone, so it cannot know.
	execute(t, db, "BEGIN")
	execute(t, db, "UPDATE t SET note = 'newer'")
	if low(modest, true) {
		t.Error("an account that may not see transactions knows the lower bound")
	}
	execute(t, db, "COMMIT")
}

// A connection more makes it faster, and is not needed.
func TestOneConnection(t *testing.T) {
	shop(t, "CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t SELECT seq, 'n' FROM seq_1_to_150000; ANALYZE TABLE t; CREATE USER IF NOT EXISTS lonely WITH MAX_USER_CONNECTIONS 1; GRANT SELECT, BINLOG MONITOR, SLAVE MONITOR ON *.* TO lonely")
	r := open(t, strings.Replace(server.DSN(""), "root@", "lonely@", 1), mysql.Options{MaxConnections: 3})
	v, err := r.Open(t.Context(), table(t, oneTable), true)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close() //nolint:errcheck // it only read
	if digests, err := v.Digests(t.Context(), reconcile.Part{Buckets: 1}); err != nil || digests[0].Count != 150000 {
		t.Errorf("%+v rows, %v", digests, err)
	}
}
