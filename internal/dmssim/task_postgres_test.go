//go:build postgres

package dmssim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"icehose/cdc/kinesis"
	"icehose/internal/dmssim"
	"icehose/internal/pgtest"
)

// A source is a private server, with a connection to it.
type source struct {
	*pgx.Conn
	dsn string
}

func newSource(t *testing.T, schema string) *source {
	t.Helper()
	server, err := pgtest.Start(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	s := &source{Conn: conn, dsn: server.DSN()}
	s.exec(t, schema)
	return s
}

func (s *source) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := s.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func (s *source) count(t *testing.T, sql string) (n int) {
	t.Helper()
	if err := s.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// now is what the server has flushed.
func (s *source) now(t *testing.T) pglogrepl.LSN {
	t.Helper()
	var text string
	if err := s.QueryRow(t.Context(), "SELECT pg_current_wal_flush_lsn()::text").Scan(&text); err != nil {
		t.Fatal(err)
	}
	lsn, err := pglogrepl.ParseLSN(text)
	if err != nil {
		t.Fatal(err)
	}
	return lsn
}

// A record is what these tests look at.
type record struct {
	Data     map[string]any `json:"data"`
	Before   map[string]any `json:"before-image"`
	Control  map[string]any `json:"control"`
	Metadata map[string]any `json:"metadata"`
	Shard    string         `json:"-"`
}

// story is the record in a word: "update public.t {...}".
func (r record) story() string {
	text := fmt.Sprint(r.Metadata["operation"], " ", r.Metadata["table-name"])
	if r.Data != nil {
		data, err := json.Marshal(r.Data)
		if err != nil {
			return err.Error()
		}
		text += " " + string(data)
	}
	return text
}

type capture struct {
	*dmssim.Task
	records []record
}

func (c *capture) stories() []string {
	var out []string
	for _, r := range c.records {
		out = append(out, r.story())
	}
	return out
}

// open starts a task on every table of the source. Its clock ticks by itself.
func open(t *testing.T, s *source, change func(*dmssim.Options)) *capture {
	t.Helper()
	c := &capture{}
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	options := dmssim.Options{
		DSN: s.dsn, Tables: []string{"public.%"}, Slot: "test", Publication: "test", Shards: 3, Seed: 1, Settings: unformatted(everything),
		Clock: func() time.Time { clock = clock.Add(time.Millisecond); return clock },
		Emit: func(r kinesis.Record) error {
			parsed := record{Shard: r.ShardID}
			if err := json.Unmarshal(r.Data, &parsed); err != nil {
				return err
			}
			c.records = append(c.records, parsed)
			return nil
		},
	}
	if change != nil {
		change(&options)
	}
	task, err := dmssim.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	c.Task = task
	t.Cleanup(func() {
		if err := task.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	c.records = nil // the announcement has a test of its own
	return c
}

func (c *capture) load(t *testing.T) {
	t.Helper()
	for done := false; !done; {
		var err error
		if done, err = c.LoadStep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *capture) catchUp(t *testing.T, s *source) {
	t.Helper()
	if err := c.CatchUp(t.Context(), s.now(t)); err != nil {
		t.Fatal(err)
	}
}

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

func TestOwnTables(t *testing.T) {
	s := newSource(t, twoTables)
	var records []record
	c := open(t, s, func(o *dmssim.Options) {
		o.Settings.StatusTableEnabled, o.Settings.HistoryTableEnabled, o.Settings.FullLoadExceptionTableEnabled = true, true, true
		emit := o.Emit
		o.Emit = func(r kinesis.Record) error {
			var parsed record
			if err := json.Unmarshal(r.Data, &parsed); err != nil {
				return err
			}
			if parsed.Metadata["schema-name"] == "" {
				records = append(records, parsed)
			}
			return emit(r)
		}
	})
	c.load(t)
	var got []string
	for _, r := range records {
		got = append(got, fmt.Sprint(r.Metadata["operation"], " ", r.Metadata["table-name"], " ", r.Metadata["transaction-id"], " ", r.Metadata["prev-transaction-id"], " ", r.Metadata["stream-position"]))
	}
	want := []string{
		"create-table awsdms_apply_exceptions <nil> <nil> <nil>", "update awsdms_status 1 <nil> <nil>", "insert awsdms_history 2 1 <nil>",
		"create-table awsdms_full_load_exceptions <nil> <nil> <nil>", "create-table awsdms_full_load_exceptions <nil> <nil> <nil>", "update awsdms_status 3 2 <nil>",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestRunUntilLimit(t *testing.T) {
	s := newSource(t, twoTables)
	for name, limit := range map[string]func() dmssim.Limit{
		"LSN":      func() dmssim.Limit { return dmssim.Limit{LSN: s.now(t)} },
		"idle":     func() dmssim.Limit { return dmssim.Limit{Idle: time.Second} },
		"duration": func() dmssim.Limit { return dmssim.Limit{Duration: 5 * time.Second} },
	} {
		t.Run(name, func(t *testing.T) {
			for _, overlap := range []bool{false, true} {
				c := open(t, s, func(o *dmssim.Options) { o.Settings.LoadOverlapsChanges = overlap })
				s.exec(t, `UPDATE t SET v = v || 'x' WHERE id = 1`)
				steps := 0
				if err := c.Run(t.Context(), limit(), func() { steps++ }); err != nil {
					t.Fatal(err)
				}
				counts := c.Counts()["public.t"]
				if !c.Loaded() || counts[dmssim.Load] != 3 || counts[dmssim.Update] != 1 || steps == 0 {
					t.Errorf("overlap %v: loaded %v after %d steps, records %v", overlap, c.Loaded(), steps, counts)
				}
				if err := c.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestRunStopsWithItsContext(t *testing.T) {
	s := newSource(t, twoTables)
	c := open(t, s, nil)
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Run(ctx, dmssim.Limit{}, func() {
		if c.Loaded() {
			cancel()
		}
	})
	if ctx.Err() == nil || err == nil {
		t.Errorf("Run returned %v", err)
	}
}

func TestCloseCleansUp(t *testing.T) {
	s := newSource(t, twoTables)
	leftovers := func() int {
		return s.count(t, `SELECT (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_publication)`)
	}
	c := open(t, s, nil)
	if got := leftovers(); got != 3 { // a slot, a publication for each kind of table
		t.Errorf("%d slots and publications while the task runs, want 3", got)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := leftovers(); got != 0 {
		t.Errorf("%d slots and publications after Close", got)
	}
	kept := open(t, s, func(o *dmssim.Options) { o.KeepSlot = true })
	if err := kept.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := leftovers(); got != 3 {
		t.Errorf("%d slots and publications after Close with KeepSlot, want 3", got)
	}
	_, err := dmssim.Open(t.Context(), dmssim.Options{
		DSN: s.dsn, Tables: []string{"public.%"}, Slot: "test", Publication: "other", Shards: 1, Settings: dmssim.Defaults(),
		Clock: func() time.Time { return time.Unix(0, 0) }, Emit: func(kinesis.Record) error { return nil },
	})
	if err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("a slot of the same name: %v", err)
	}
	if got := leftovers(); got != 3 {
		t.Errorf("%d slots and publications after a failed Open, want 3: only its own are gone", got)
	}
	replaced := open(t, s, func(o *dmssim.Options) { o.Replace = true })
	replaced.load(t)
	if got := replaced.Counts()["public.t"][dmssim.Load]; got != 3 {
		t.Errorf("%d rows loaded, want 3", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	s := newSource(t, twoTables)
	tests := []struct {
		name  string
		apply func(*dmssim.Options)
		want  string
	}{
		{"no such table", func(o *dmssim.Options) { o.Tables = []string{"public.nothing%"} }, "no table matches"},
		{"restart of a table that is not selected", func(o *dmssim.Options) { o.Settings.RestartLoadOf = []string{"public.x"} }, "public.x"},
		{"password in a broken connection string", func(o *dmssim.Options) { o.DSN = "postgres://u:s3cret@:port/x" }, "parse connection string"},
		{"no server", func(o *dmssim.Options) { o.DSN = "postgres://u:s3cret@127.0.0.1:1/x" }, "connect to database x"},
		{"bad setting", func(o *dmssim.Options) { o.Settings.LSNReading = "" }, "LSNReading"},
		{"no shard", func(o *dmssim.Options) { o.Shards = 0 }, "0 shards"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := dmssim.Options{
				DSN: s.dsn, Tables: []string{"public.%"}, Slot: "test", Publication: "test", Shards: 1, Settings: dmssim.Defaults(),
				Clock: func() time.Time { return time.Unix(0, 0) }, Emit: func(kinesis.Record) error { return nil },
			}
			tt.apply(&o)
			_, err := dmssim.Open(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, tt.want)
			}
			if n := s.count(t, `SELECT (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_publication)`); n != 0 {
				t.Errorf("%d slots and publications are left", n)
			}
		})
	}
}
