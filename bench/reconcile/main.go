// Command reconcile measures icehose reconcile between a private PostgreSQL
// and a local Iceberg table with the same rows, beside what else reads every
// row once: count(*), PostgreSQL hashing each row, and reladiff between two
// tables of that PostgreSQL.
//
// In come flags; out comes a table of seconds and of peak memory. Everything
// runs one after the other on this machine, so ratios within one run count,
// seconds do not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/internal/pgtest"
	"icehose/sink"
	"icehose/sink/iceberg"
)

const pipelineText = `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - source: public.t
    mode: mirror
    key: [id]
    columns:
      - {name: id, type: long}
      - {name: customer, type: long}
      - {name: status, type: string}
      - {name: price, type: "decimal(12,2)"}
      - {name: tax, type: "decimal(12,4)"}
      - {name: created, type: timestamptz}
      - {name: updated, type: timestamp}
      - {name: note, type: string}
      - {name: paid, type: boolean}
      - {name: due, type: date}
`

const tableText = `CREATE TABLE t AS SELECT g::bigint AS id, (g %% 977)::bigint AS customer, 'open'::text AS status,
	((g %% 100000) + 0.5)::numeric(12,2) AS price, 0.1900::numeric(12,4) AS tax, '2026-10-05 01:02:03Z'::timestamptz + g * interval '1 ms' AS created,
	'2026-10-05 01:02:03.5'::timestamp + g * interval '1 s' AS updated, 'some text of ' || g AS note, g %% 2 = 0 AS paid, '2026-11-01'::date + (g %% 1000)::integer AS due
	FROM generate_series(1, %d) g`

// hashRows is PostgreSQL hashing every row once, with the hash that icehose uses.
const hashRows = "SELECT count(*), sum(('x' || left(encode(sha256(convert_to(t::text, 'UTF8')), 'hex'), 16))::bit(64)::bigint) FROM t"

func main() {
	rows := flag.Int("rows", 1_000_000, "rows of the table")
	dir := flag.String("dir", "", "folder for the server and the lake; default that for temporary files")
	reladiff := flag.String("reladiff", "", "the program reladiff; none: not measured")
	fill := flag.String("fill", "", "only fill the lake in -dir from the server with this connection string: what the benchmark runs")
	flag.Parse()
	b := &bench{rows: *rows, reladiff: *reladiff, out: os.Stdout, dir: *dir, dsn: *fill}
	run := b.run
	if *fill != "" {
		run = b.fill
	}
	if err := run(context.Background()); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bench reconcile:", err)
		os.Exit(1) //nolint:forbidigo // a program of its own
	}
}

type bench struct {
	rows     int
	reladiff string
	out      io.Writer
	dir      string
	dsn      string
	conn     *pgx.Conn
	base     float64 // seconds of hashRows
}

func (b *bench) run(ctx context.Context) (err error) {
	server, err := pgtest.Start(ctx, b.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if b.dir, err = os.MkdirTemp(b.dir, "bench-reconcile-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	b.dsn = server.DSN()
	if b.conn, err = pgx.Connect(ctx, b.dsn); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.conn.Close(ctx)) }()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(b.out, "%d rows of ten columns, 2 connections\n\n%-52s %9s %9s %9s\n", b.rows, "", "seconds", "x hashing", "peak MB")
	if err := b.query(ctx, "PostgreSQL: count(*)", "SELECT count(*) FROM t"); err != nil {
		return err
	}
	if err := b.query(ctx, "PostgreSQL: hash every row once", hashRows); err != nil {
		return err
	}
	if err := b.measure(ctx, "equal", 0); err != nil {
		return err
	}
	changed, err := b.conn.Exec(ctx, fmt.Sprintf("UPDATE t SET note = note || '!' WHERE id %% %d = 0", max(1, b.rows/differing)))
	if err == nil {
		_, err = b.conn.Exec(ctx, "VACUUM ANALYZE t")
	}
	if err != nil {
		return err
	}
	return b.measure(ctx, fmt.Sprintf("%d rows differ", changed.RowsAffected()), changed.RowsAffected())
}

// differing is about how many rows differ, scattered, in the second measurement.
const differing = 1000

// measure times the programs, each of which must find so many rows that differ.
func (b *bench) measure(ctx context.Context, what string, differ int64) error {
	for _, flags := range [][]string{{}, {"--stream"}} {
		args := append([]string{
			"--json", "reconcile", "--pipeline", filepath.Join(b.dir, "pipeline.yaml"), "--lake", filepath.Join(b.dir, "lake"), "--source", b.dsn,
			"--settle", "0s", "--max-findings", "2000",
		}, flags...)
		name := strings.TrimSpace("reconcile "+strings.Join(flags, " ")) + ", " + what
		status := 0
		if differ > 0 {
			status = 1
		}
		if err := b.command(ctx, name, status, fmt.Sprintf("\"differs\": %d,", differ), filepath.Join(b.dir, "icehose"), args...); err != nil {
			return err
		}
	}
	if b.reladiff == "" {
		return nil
	}
	url := "postgresql://" + strings.TrimSuffix(strings.TrimPrefix(b.dsn, "postgres://"), "?sslmode=disable")
	// By digests, as between two servers: of one it would join the tables.
	args := []string{url, "t2", url, "t", "-k", "id", "--stats", "--algorithm", "hashdiff", "--threads", "2"}
	for _, column := range []string{"customer", "status", "price", "tax", "created", "updated", "note", "paid", "due"} {
		args = append(args, "-c", column)
	}
	return b.command(ctx, "reladiff, two tables of PostgreSQL, "+what, 0, fmt.Sprintf("\n%d rows updated\n", differ), b.reladiff, args...)
}

// prepare makes the table, a copy of it for reladiff, the program and the lake.
func (b *bench) prepare(ctx context.Context) error {
	statements := []string{
		"SET timezone = 'UTC'", "SET max_parallel_workers_per_gather = 0", "SET jit = off",
		fmt.Sprintf(tableText, b.rows), "ALTER TABLE t ADD PRIMARY KEY (id)", "VACUUM ANALYZE t",
	}
	if b.reladiff != "" {
		statements = append(statements, "CREATE TABLE t2 AS SELECT * FROM t", "ALTER TABLE t2 ADD PRIMARY KEY (id)", "VACUUM ANALYZE t2")
	}
	for _, s := range statements {
		if _, err := b.conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("make table: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(b.dir, "pipeline.yaml"), []byte(pipelineText), 0o600); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// The lake is filled in a process of its own: a child's peak memory begins
	// with that of the process that forked it.
	for _, args := range [][]string{
		{"go", "build", "-o", filepath.Join(b.dir, "icehose"), "./cmd/icehose"}, {self, "-fill", b.dsn, "-dir", b.dir},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("run %s: %w", args[0], err)
		}
	}
	return nil
}

// commitRows is how many rows a commit of fill has.
const commitRows = 250_000

// fill copies the table into the lake.
func (b *bench) fill(ctx context.Context) (err error) {
	conn, err := pgx.Connect(ctx, b.dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err := conn.Exec(ctx, "SET timezone = 'UTC'"); err != nil {
		return err
	}
	p, err := catalog.Parse("pipeline.yaml", []byte(pipelineText))
	if err != nil {
		return err
	}
	store, err := iceberg.Open(ctx, filepath.Join(b.dir, "lake"), iceberg.Options{Sync: func(*os.File) error { return nil }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	table, err := store.OpenTable(ctx, p.Tables[0])
	if err != nil {
		return err
	}
	parent := ""
	var rows [][][]byte
	commit := func() error {
		id := parent + "+"
		batch := &sink.Batch{Parent: parent, ID: id, Properties: map[string]string{sink.PropertyCommit: id}, Inserts: sink.NewRows(rows...)}
		parent, rows = id, rows[:0]
		return table.Commit(ctx, batch)
	}
	result := conn.PgConn().ExecParams(ctx, "SELECT * FROM t", nil, nil, nil, nil)
	for result.NextRow() {
		row, err := canonical(p.Tables[0], result.Values())
		if err != nil {
			return err
		}
		if rows = append(rows, row); len(rows) == commitRows {
			if err := commit(); err != nil {
				return err
			}
		}
	}
	if _, err := result.Close(); err != nil {
		return err
	}
	return commit()
}

// canonical makes a row of the lake.
func canonical(t *catalog.Table, values [][]byte) ([][]byte, error) {
	var row [][]byte
	for i, text := range values {
		value, err := canon.Append(nil, t.Columns[i], canon.Postgres, text)
		if err != nil {
			return nil, err
		}
		row = append(row, value)
	}
	return append(row, []byte("0000.00000000000000010000000000000001.1.0000000000000001"), []byte("2026-01-01T00:00:00.000000Z")), nil
}

// report prints one line; megabytes may be unknown.
func (b *bench) report(name string, took time.Duration, megabytes int64) {
	ratio, memory := "-", "-"
	if b.base > 0 {
		ratio = fmt.Sprintf("%.2f", took.Seconds()/b.base)
	}
	if megabytes > 0 {
		memory = fmt.Sprint(megabytes)
	}
	_, _ = fmt.Fprintf(b.out, "%-52s %9.2f %9s %9s\n", name, took.Seconds(), ratio, memory)
}

// query times a statement the second time it runs.
func (b *bench) query(ctx context.Context, name, sql string) error {
	var took time.Duration
	for range 2 {
		began := time.Now() //nolint:forbidigo // a benchmark
		if _, err := b.conn.Exec(ctx, sql); err != nil {
			return err
		}
		took = time.Since(began)
	}
	if sql == hashRows {
		b.base = took.Seconds()
	}
	b.report(name, took, 0)
	return nil
}

// command times a program, and checks its exit status and that it says what is
// wanted.
func (b *bench) command(ctx context.Context, name string, status int, want, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now() //nolint:forbidigo // a benchmark
	err := cmd.Run()
	took := time.Since(began)
	if exited := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exited) {
		return err
	}
	if got := cmd.ProcessState.ExitCode(); got != status || !strings.Contains(out.String(), want) {
		return fmt.Errorf("%s: exit status %d, want %d and %q: %s", name, got, status, want, out.String())
	}
	megabytes := int64(0)
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		megabytes = usage.Maxrss / 1024
	}
	b.report(name, took, megabytes)
	return nil
}
