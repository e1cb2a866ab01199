//go:build postgres

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"icehose/catalog"
	"icehose/internal/pgtest"
)

const loadPipeline = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
exclude: ["public.part_%"] # a stream has the partitions, a load the whole
tables:
- source: public.item
  mode: mirror
  key: [id]
  columns: &columns
  - {name: id, type: long}
  - {name: name, type: string}
  - {name: price, type: "decimal(12,2)"}
  - {name: sold, type: boolean}
  - {name: seen_at, type: timestamptz}
  - {name: local_at, type: timestamp}
  - {name: day, type: date}
  - {name: weight, type: double}
  - {name: ratio, type: float}
  - {name: code, type: string, source_type: character(6)}
  - {name: ref, type: uuid}
  - {name: raw, type: binary}
  - {name: secret, type: string, mask: sha256}
- source: public.log
  mode: changelog
  key: [id]
  columns: *columns
- source: public.visit
  mode: changelog
  columns:
  - {name: item_id, type: long}
  - {name: note, type: string}
- source: public.part
  mode: mirror
  key: [id, region]
  columns:
  - {name: id, type: int}
  - {name: region, type: string}
  - {name: v, type: string}
`

// A loadTest is a live database, a capture of it, and a folder for the lake.
type loadTest struct {
	t       *testing.T
	server  *pgtest.Server
	conn    *pgx.Conn
	dir     string
	icehose string
}

func newLoadTest(t *testing.T) *loadTest {
	t.Helper()
	server := pgtest.New(t)
	l := &loadTest{t: t, server: server, conn: server.Connect(t), dir: t.TempDir()}
	var err error
	if l.icehose, err = exec.LookPath("icehose"); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"item", "log"} {
		exec1(t, l.conn, `CREATE TABLE `+table+` (id bigint PRIMARY KEY, name text, price numeric(12,2), sold boolean, seen_at timestamptz,
			local_at timestamp, day date, weight double precision, ratio real, code char(6), ref uuid, raw bytea, secret text)`)
		exec1(t, l.conn, `INSERT INTO `+table+` SELECT * FROM `+manyItems(1, 4000))
	}
	exec1(t, l.conn, `CREATE TABLE visit (item_id bigint, note text)`)
	exec1(t, l.conn, `INSERT INTO visit SELECT g % 7, repeat('x', g % 3) FROM generate_series(1, 500) g`)
	exec1(t, l.conn, `CREATE TABLE part (id int, region text, v text, PRIMARY KEY (id, region)) PARTITION BY LIST (region)`)
	exec1(t, l.conn, `CREATE TABLE part_a PARTITION OF part FOR VALUES IN ('a'); CREATE TABLE part_b PARTITION OF part FOR VALUES IN ('b')`)
	exec1(t, l.conn, `INSERT INTO part SELECT g, CASE g % 2 WHEN 0 THEN 'a' ELSE 'b' END, 'v' || g FROM generate_series(1, 300) g`)
	l.write("pipeline.yaml", loadPipeline)
	return l
}

// manyItems selects items of every kind of value, with the ids given.
func manyItems(from, to int) string {
	return fmt.Sprintf(`(SELECT g, CASE g %% 5 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN E'two\nlines\t\\and "more", \u20ac' ELSE ' name ' || g END,
		(g - 2000) / 4.0, g %% 2 = 0, '2026-01-01 00:00:00.000001+02'::timestamptz + g * interval '1 hour', '1999-12-31 23:59:59.5'::timestamp - g * interval '1 day',
		'2024-02-29'::date + g::int, g / 7.0, (g / 3.0)::real, left('c' || g, 6), md5(g::text)::uuid, decode(md5(g::text), 'hex'), 'secret ' || g
		FROM generate_series(%d, %d) g) many`, from, to)
}

func (l *loadTest) write(name, text string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// start starts icehose; end waits for it.
func (l *loadTest) start(args ...string) *running {
	l.t.Helper()
	p := &running{ended: make(chan error, 1), cmd: exec.CommandContext(l.t.Context(), l.icehose, args...)}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = l.dir, append(os.Environ(), "ICEHOSE_DSN="+l.server.DSN()), &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	return p
}

// run runs icehose and wants the exit status.
func (l *loadTest) run(want int, args ...string) string {
	l.t.Helper()
	p := l.start(args...)
	if status := p.end(l.t); status != want {
		l.t.Fatalf("icehose %s: status %d, want %d\n%s", strings.Join(args, " "), status, want, p.out.String())
	}
	return p.out.String()
}

// churn changes every table again and again, in short transactions and long
// ones, until it is told to stop.
func (l *loadTest) churn(stop <-chan struct{}, seed uint64) error {
	ctx := l.t.Context()
	conn, err := pgx.Connect(ctx, l.server.DSN())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	r := rand.New(rand.NewPCG(seed, 3))
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		table := []string{"item", "log"}[r.IntN(2)]
		id := 1 + r.IntN(4200)
		statements := []string{
			fmt.Sprintf("UPDATE %s SET price = price + 0.01, name = 'changed %d' WHERE id = %d", table, n, id),
			fmt.Sprintf("DELETE FROM %s WHERE id = %d", table, id),
			fmt.Sprintf("INSERT INTO %s SELECT * FROM %s ON CONFLICT (id) DO UPDATE SET sold = NOT excluded.sold", table, manyItems(id, id)),
			fmt.Sprintf("INSERT INTO visit VALUES (%d, 'late %d')", id, n),
		}
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		for range 1 + r.IntN(3) {
			if _, err := tx.Exec(ctx, statements[r.IntN(len(statements))]); err != nil {
				return errors.Join(err, tx.Rollback(ctx))
			}
		}
		if r.IntN(20) == 0 {
			if _, err := tx.Exec(ctx, "SELECT pg_sleep(0.2)"); err != nil {
				return errors.Join(err, tx.Rollback(ctx))
			}
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
	}
}

// reconcile proves that the lake equals the source as it is now.
func (l *loadTest) reconcile(tables ...string) {
	l.t.Helper()
	folder := filepath.Join(l.dir, "dump")
	if err := errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o700)); err != nil {
		l.t.Fatal(err)
	}
	for _, table := range tables {
		file, err := os.Create(filepath.Join(folder, "public."+table+".csv"))
		if err != nil {
			l.t.Fatal(err)
		}
		_, err = l.conn.PgConn().CopyTo(l.t.Context(), file, "COPY (SELECT * FROM "+table+") TO STDOUT WITH (FORMAT csv, HEADER)")
		if err := errors.Join(err, file.Close()); err != nil {
			l.t.Fatal(err)
		}
	}
	out := l.run(exitSame, "reconcile", "--pipeline", "pipeline.yaml", "--lake", "lake", "--dump", "dump", "--final", "--show-keys")
	if strings.Count(out, "  equal\n") != len(tables) {
		l.t.Fatalf("reconcile:\n%s", out)
	}
}

// A table that was loaded is told, with its floor, although the next cannot be.
func TestLoadPostgresEndsEarly(t *testing.T) {
	l := newLoadTest(t)
	exec1(t, l.conn, `DROP TABLE part`)
	out := l.run(exitTrouble, "load", "public.visit", "public.part", "public.item", "--lake", "lake")
	for _, want := range []string{"table public.visit: 500 rows", "\n1. start the changes at 0/", "icehose: read table public.part"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "table public.item:") {
		t.Errorf("went on:\n%s", out)
	}
	out = l.run(exitTrouble, "--json", "load", "public.log", "public.part", "--lake", "lake")
	if !strings.Contains(out, `"table":"public.log"`) || !strings.Contains(out, `,"error":"`) {
		t.Errorf("no result and error in\n%s", out)
	}
}

// A load while others write, then every change through the sink: those from
// before the load lose, those after it win, in a mirror and in a changelog,
// with a key and without.
func TestLoadPostgres(t *testing.T) {
	l := newLoadTest(t)
	capture := l.start("capture", "--tables", "public.%", "--out", "changes.ndjson.zst", "--until-idle", "4s")
	waitForSlot(t, l.conn, capture.ended)
	stop, ended := make(chan struct{}), make(chan error, 2)
	for seed := range uint64(2) {
		go func() { ended <- l.churn(stop, seed) }()
	}
	l.pause("1.5")
	out := l.run(exitSame, "--json", "load", "public.item", "public.log", "public.visit", "public.part", "--lake", "lake", "--parallel", "3")
	var result loadResult
	if err := json.Unmarshal([]byte(out[strings.IndexByte(out, '{'):]), &result); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if n := len(result.Tables); n != 4 || result.Tables[0].Rows < 1000 || !result.Tables[0].Finished || !result.Tables[0].Edited || len(result.Tables[0].Warnings) != 0 {
		t.Errorf("result %s", out)
	}
	l.pause("1.5")
	close(stop)
	for range 2 {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	if status := capture.end(t); status != exitSame {
		t.Fatalf("capture: %s", capture.out.String())
	}
	p, err := catalog.Load(filepath.Join(l.dir, "pipeline.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range p.Tables {
		if len(table.Loads) != 1 || !table.Loads[0].Finished {
			t.Errorf("table %s has loads %+v", table.Source, table.Loads)
		}
	}
	out = l.run(exitSame, "--json", "sink", "--pipeline", "pipeline.yaml", "--lake", "lake", "--maintain", "changes.ndjson.zst")
	var sunk sinkResult
	if err := json.Unmarshal([]byte(out), &sunk); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	// The load records of the capture itself are older than all that was loaded.
	if item := sunk.Tables[0]; item.Superseded < 4000 || item.Applied < 10 {
		t.Errorf("item: %+v", item)
	}
	l.reconcile("item", "log", "visit", "part")

	// A mirror that has rows is not loaded, unless it is to be replaced.
	before := l.run(exitTrouble, "load", "public.item", "--lake", "lake")
	if !strings.Contains(before, "the table has rows already: --replace") {
		t.Errorf("second load: %s", before)
	}
	exec1(t, l.conn, "DELETE FROM item WHERE id % 3 = 0")
	exec1(t, l.conn, "UPDATE item SET name = 'unseen' WHERE id % 3 = 1")
	out = l.run(exitSame, "load", "public.item", "--lake", "lake", "--replace", "--parallel", "1")
	if !strings.Contains(out, "no logical replication slot reaches back") {
		t.Errorf("no warning in %s", out)
	}
	l.reconcile("item", "log", "visit", "part")
	l.run(exitSame, "sink", "--pipeline", "pipeline.yaml", "--lake", "lake", "changes.ndjson.zst")
	l.reconcile("item", "log", "visit", "part")
}

func (l *loadTest) pause(seconds string) {
	l.t.Helper()
	exec1(l.t, l.conn, "SELECT pg_sleep("+seconds+")")
}

// What a load cannot do it says, and leaves nothing behind.
func TestLoadPostgresFails(t *testing.T) {
	l := newLoadTest(t)
	exec1(t, l.conn, "UPDATE item SET day = 'infinity' WHERE id = 77")
	out := l.run(exitTrouble, "load", "public.item", "--lake", "lake", "--no-edit")
	if !strings.Contains(out, "load table public.item: coerce day to date: out_of_range: ") || strings.Contains(out, "infinity") {
		t.Errorf("a value that does not fit: %s", out)
	}
	exec1(t, l.conn, "UPDATE item SET day = NULL WHERE id = 77")
	if left := dataFiles(t, l.dir); left != 0 {
		t.Errorf("%d data files are left of a load that failed", left)
	}

	// A transaction that does not end keeps the floor from being one.
	blocker, err := pgx.Connect(t.Context(), l.server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	exec1(t, blocker, "BEGIN; UPDATE visit SET note = 'open' WHERE item_id = 1")
	out = l.run(exitTrouble, "load", "public.item", "--lake", "lake", "--wait", "300ms")
	if !strings.Contains(out, fmt.Sprintf("have not ended within 300ms (process %d): end them, or wait longer", blocker.PgConn().PID())) {
		t.Errorf("an open transaction: %s", out)
	}
	out = l.run(exitTrouble, "load", "public.visit", "--lake", "lake", "--lock-timeout", "300ms")
	if !strings.Contains(out, "lock the table for a moment") {
		t.Errorf("a locked table: %s", out)
	}
	if err := blocker.Close(t.Context()); err != nil {
		t.Error(err)
	}
	out = l.run(exitTrouble, "load", "public.item", "--lake", "lake", "--statement-timeout", "1ms", "--rate", "2000")
	if !strings.Contains(out, "canceling statement due to ") { // at one millisecond the server may give either of two reasons
		t.Errorf("a statement that takes too long: %s", out)
	}
	if text, err := os.ReadFile(filepath.Join(l.dir, "pipeline.yaml")); err != nil || !bytes.Equal(text, []byte(loadPipeline)) {
		t.Errorf("loads that failed changed the pipeline file: %v", err)
	}
	l.run(exitSame, "load", "public.item", "public.log", "public.visit", "public.part", "--lake", "lake")
	l.reconcile("item", "log", "visit", "part")
}

// dataFiles counts the Parquet files of a lake.
func dataFiles(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "lake", "warehouse", "*", "*", "data", "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
