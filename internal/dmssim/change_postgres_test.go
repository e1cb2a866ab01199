//go:build postgres

package dmssim_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/internal/dmssim"
)

const twoTables = `CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE keyless (v int);
	INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 3) i; INSERT INTO keyless VALUES (1);`

func TestLoadThenChanges(t *testing.T) {
	s := newSource(t, twoTables)
	c := open(t, s, nil)
	s.exec(t, `INSERT INTO t VALUES (4, NULL)`) // after the snapshot: a change, not a load
	c.load(t)
	s.exec(t, `BEGIN; UPDATE t SET v = '' WHERE id = 1; UPDATE t SET id = 9 WHERE id = 2; DELETE FROM t WHERE id = 3; COMMIT`)
	s.exec(t, `BEGIN; DELETE FROM t; ROLLBACK`)
	s.exec(t, `INSERT INTO keyless VALUES (2); UPDATE keyless SET v = 3; DELETE FROM keyless; TRUNCATE keyless`)
	c.catchUp(t, s)
	loads := c.stories()[:8]
	slices.Sort(loads)
	want := []string{
		"create-table keyless", "create-table t", "drop-table keyless", "drop-table t",
		`load keyless {"v":1}`, `load t {"id":1,"v":"v1"}`, `load t {"id":2,"v":"v2"}`, `load t {"id":3,"v":"v3"}`,
	}
	if diff := cmp.Diff(want, loads); diff != "" {
		t.Errorf("load (-want +got):\n%s", diff)
	}
	want = []string{
		`insert t {"id":4,"v":null}`, `update t {"id":1,"v":""}`, `update t {"id":9,"v":"v2"}`, `delete t {"id":3,"v":null}`, `insert keyless {"v":2}`,
	}
	if diff := cmp.Diff(want, c.stories()[8:]); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	changes := c.records[8:]
	if diff := cmp.Diff([]map[string]any{nil, {}, {"id": 2.0}, nil, nil}, []map[string]any{
		changes[0].Before, changes[1].Before, changes[2].Before, changes[3].Before, changes[4].Before,
	}); diff != "" {
		t.Errorf("before-images (-want +got):\n%s", diff)
	}
	if _, ok := changes[0].Metadata["prev-transaction-id"]; ok {
		t.Error("the first change has a predecessor")
	}
	for i, m := range changes[1:] {
		before := changes[i].Metadata
		if m.Metadata["prev-transaction-id"] != before["transaction-id"] || m.Metadata["prev-transaction-record-id"] != before["transaction-record-id"] {
			t.Errorf("change %d does not follow the one before it: %v", i+1, m.Metadata)
		}
	}
	if got := []any{changes[1].Metadata["transaction-record-id"], changes[2].Metadata["transaction-record-id"], changes[3].Metadata["transaction-record-id"]}; !slices.Equal(got, []any{1.0, 2.0, 3.0}) {
		t.Errorf("record numbers of one transaction are %v", got)
	}
}

func TestStreamPosition(t *testing.T) {
	form := regexp.MustCompile(`^([0-9A-F]{8}/[0-9A-F]{8})\.[23]\.([0-9A-F]{8}/[0-9A-F]{8})$`)
	for reading, commitPart := range map[dmssim.LSNReading]int{dmssim.CommitSecond: 2, dmssim.CommitFirst: 1} {
		t.Run(string(reading), func(t *testing.T) {
			s := newSource(t, twoTables)
			c := open(t, s, func(o *dmssim.Options) { o.Settings.LSNReading = reading })
			c.load(t)
			c.records = nil
			s.exec(t, `BEGIN; UPDATE t SET v = 'a' WHERE id = 1; UPDATE t SET v = 'b' WHERE id = 1; COMMIT`)
			c.catchUp(t, s)
			if len(c.records) != 2 {
				t.Fatalf("%d records, want two", len(c.records))
			}
			first := form.FindStringSubmatch(fmt.Sprint(c.records[0].Metadata["stream-position"]))
			second := form.FindStringSubmatch(fmt.Sprint(c.records[1].Metadata["stream-position"]))
			if first == nil || second == nil {
				t.Fatalf("positions %v and %v", c.records[0].Metadata["stream-position"], c.records[1].Metadata["stream-position"])
			}
			if first[commitPart] != second[commitPart] {
				t.Errorf("one transaction has two commits: %s, %s", first[commitPart], second[commitPart])
			}
			if first[3-commitPart] >= second[3-commitPart] || first[3-commitPart] >= first[commitPart] {
				t.Errorf("record numbers do not rise below the commit: %v, %v", first, second)
			}
		})
	}
}

func TestLoadOverlapsChanges(t *testing.T) {
	s := newSource(t, twoTables)
	c := open(t, s, func(o *dmssim.Options) { o.Settings.LoadOverlapsChanges = true })
	s.exec(t, `UPDATE t SET v = 'new' WHERE id = 1; DELETE FROM t WHERE id = 2; INSERT INTO keyless VALUES (2)`)
	c.catchUp(t, s)
	c.load(t)
	got := c.stories()
	for _, want := range []string{`update t {"id":1,"v":"new"}`, `load t {"id":1,"v":"new"}`, `delete t {"id":2,"v":null}`, `load keyless {"v":1}`, `insert keyless {"v":2}`} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in:\n%s", want, strings.Join(got, "\n"))
		}
	}
	for _, not := range []string{`load t {"id":2,"v":"v2"}`, `load keyless {"v":2}`} {
		if slices.Contains(got, not) {
			t.Errorf("%s in:\n%s", not, strings.Join(got, "\n"))
		}
	}
}

func TestRestartLoad(t *testing.T) {
	s := newSource(t, `CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 250)`)
	c := open(t, s, func(o *dmssim.Options) {
		o.Settings.RestartLoadOf, o.Settings.RestartAfterRows = []string{"public.t"}, 150
	})
	c.load(t)
	want := map[dmssim.Operation]int{dmssim.DropTable: 2, dmssim.CreateTable: 2, dmssim.Load: 200 + 250}
	if diff := cmp.Diff(want, c.Counts()["public.t"]); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	second := slices.IndexFunc(c.records[2:], func(r record) bool { return r.Metadata["operation"] == "drop-table" }) + 2
	if second != 202 {
		t.Errorf("the load starts again at record %d, want 202", second)
	}
	ids := map[any]bool{}
	for _, r := range c.records[second+2:] {
		ids[r.Data["id"]] = true
	}
	if len(ids) != 250 {
		t.Errorf("the second load has %d rows, want 250", len(ids))
	}
}

func TestUnchangedTOAST(t *testing.T) {
	for form, want := range map[dmssim.UnchangedTOAST]string{
		dmssim.TOASTAbsent: `update t {"id":1,"n":2}`,
		dmssim.TOASTNull:   `update t {"id":1,"long":null,"n":2}`,
	} {
		t.Run(string(form), func(t *testing.T) {
			s := newSource(t, `CREATE TABLE t (id int PRIMARY KEY, n int, long text); ALTER TABLE t ALTER long SET STORAGE EXTERNAL;
				INSERT INTO t VALUES (1, 1, repeat('x', 5000))`)
			c := open(t, s, func(o *dmssim.Options) { o.Settings.UnchangedTOAST = form })
			c.load(t)
			if got := len(fmt.Sprint(c.records[2].Data["long"])); got != 5000 {
				t.Errorf("the loaded value has %d characters", got)
			}
			c.records = nil
			s.exec(t, `UPDATE t SET n = 2`)
			c.catchUp(t, s)
			if diff := cmp.Diff([]string{want}, c.stories()); diff != "" {
				t.Errorf("update (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplicaIdentityFull(t *testing.T) {
	s := newSource(t, `CREATE TABLE t (id int PRIMARY KEY, v text); ALTER TABLE t REPLICA IDENTITY FULL; INSERT INTO t VALUES (1, 'old')`)
	c := open(t, s, func(o *dmssim.Options) { o.Settings.BeforeImageColumnFilter = "all" })
	c.load(t)
	c.records = nil
	s.exec(t, `UPDATE t SET v = 'new'; DELETE FROM t`)
	c.catchUp(t, s)
	if diff := cmp.Diff([]string{`update t {"id":1,"v":"new"}`, `delete t {"id":1,"v":"new"}`}, c.stories()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"id": 1.0, "v": "old"}, c.records[0].Before); diff != "" {
		t.Errorf("before-image (-want +got):\n%s", diff)
	}
}

// TestTypes loads a row and inserts an equal one: both ways give one form.
func TestTypes(t *testing.T) {
	s := newSource(t, `CREATE DOMAIN price AS numeric(9,2); CREATE TYPE mood AS ENUM ('sad', 'happy');
		CREATE TABLE t (id bigint PRIMARY KEY, small smallint, big bigint, price price, free numeric, wide numeric(40,1), cash money, r real, d double precision,
			yes boolean, c char(4), v varchar(9), txt text, js json, jb jsonb, arr int[], bin bytea, day date, clock time, ts timestamp, tz timestamptz,
			span interval, bits bit(3), mood mood, uid uuid, twice int GENERATED ALWAYS AS (small * 2) STORED, gone int);
		ALTER TABLE t DROP COLUMN gone`)
	insert := `INSERT INTO t VALUES ($1, -7, 1234567890123456789, 12.5, 0.1234567, 1.5, '-1234.5', 2.2, 0.1, true, 'ab', 'a ', 'é"\', '{"a": 1}', '{"b":2}', '{1,NULL}',
		'\xbeef', '2018-01-02', '04:05:06', '2010-11-01 00:02:00.1', '2010-11-01 02:00:00+02', '1 day 04:00:00', '101', 'happy', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11')`
	s.exec(t, strings.Replace(insert, "$1", "1", 1))
	c := open(t, s, nil)
	c.load(t)
	s.exec(t, strings.Replace(insert, "$1", "2", 1))
	c.catchUp(t, s)
	want := map[string]any{
		"small": -7.0, "big": 1.2345678901234568e+18, "price": 12.5, "free": 0.123456, "wide": "1.5", "cash": -1234.5, "r": 2.20000005, "d": 0.1,
		"yes": "true", "c": "ab", "v": "a ", "txt": `é"\`, "js": `{"a": 1}`, "jb": `{"b": 2}`, "arr": "{1,NULL}", "bin": "0xbeef",
		"day": "2018-01-02", "clock": "04:05:06", "ts": "2010-11-01T00:02:00.100000Z", "tz": "2010-11-01T00:00:00Z",
		"span": "1 day 04:00:00", "bits": "101", "mood": "happy", "uid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
	}
	for i, id := range []float64{1, 2} {
		want["id"] = id
		if diff := cmp.Diff(want, c.records[2+i].Data); diff != "" {
			t.Errorf("row %v (-want +got):\n%s", id, diff)
		}
	}
	definition, err := json.Marshal(c.records[1].Control)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"price":{"nullable":true,"precision":9,"scale":2,"type":"NUMERIC"}`, `"id":{"nullable":false,"type":"INT64"}`, `"c":{"length":4,"nullable":true,"type":"STRING"}`,
		`"yes":{"length":5,"nullable":true,"type":"STRING"}`, `"primary-key":["id"]`,
	} {
		if !strings.Contains(string(definition), part) {
			t.Errorf("no %s in %s", part, definition)
		}
	}
}

func TestAlteredTable(t *testing.T) {
	s := newSource(t, twoTables)
	c := open(t, s, func(o *dmssim.Options) { o.Settings.IncludeTableAlterOperations = true })
	c.load(t)
	c.records = nil
	for i, ddl := range []string{"ADD COLUMN n int", "RENAME COLUMN n TO m", "ALTER COLUMN m TYPE bigint", "DROP COLUMN m"} {
		s.exec(t, fmt.Sprintf("ALTER TABLE t %s; INSERT INTO t (id) VALUES (%d)", ddl, 10+i))
	}
	c.catchUp(t, s)
	want := []string{
		"add-column t", `insert t {"id":10,"n":null,"v":null}`, "rename-column t", `insert t {"id":11,"m":null,"v":null}`,
		"column-type-change t", `insert t {"id":12,"m":null,"v":null}`, "drop-column t", `insert t {"id":13,"v":null}`,
	}
	if diff := cmp.Diff(want, c.stories()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}
