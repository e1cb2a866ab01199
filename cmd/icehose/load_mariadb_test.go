//go:build mariadb

package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"icehose/catalog/mysql"
	"icehose/internal/mariadbtest"
)

const mariaLoadPipeline = `
version: 1
database: lake
source: {engine: mariadb, position: mysql}
tables:
- source: shop.item
  mode: mirror
  key: [id]
  columns: &columns
  - {name: id, type: long}
  - {name: name, type: string}
  - {name: price, type: "decimal(12,2)"}
  - {name: ratio, type: float}
  - {name: weight, type: double}
  - {name: at, type: timestamp}
  - {name: seen, type: timestamptz}
  - {name: flag, type: boolean, source_type: bit(1)}
  - {name: raw, type: binary}
- source: shop.log
  mode: changelog
  key: [id]
  columns: *columns
- source: shop.text
  mode: mirror
  key: [code, n]
  columns:
  - {name: code, type: string}
  - {name: n, type: int}
  - {name: v, type: string}
`

// A mariaLoad is a live MariaDB and a folder for the lake.
type mariaLoad struct {
	t      *testing.T
	server *mariadbtest.Server
	db     *sql.DB
	dir    string
}

func newMariaLoad(t *testing.T) *mariaLoad {
	t.Helper()
	server := mariadbtest.New(t)
	m := &mariaLoad{t: t, server: server, dir: t.TempDir()}
	var err error
	if m.db, err = mysql.Open(server.DSN("")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.db.Close() })
	const columns = `(id bigint PRIMARY KEY, name varchar(100), price decimal(12,2), ratio float, weight double, at datetime(6), seen timestamp(6) NULL, flag bit(1), raw varbinary(20))`
	m.exec("CREATE DATABASE shop")
	for _, table := range []string{"item", "log"} {
		m.exec("CREATE TABLE shop." + table + columns)
		m.exec("INSERT INTO shop." + table + ` SELECT seq * 3, ELT(1 + seq % 4, NULL, '', 'it''s \\ "two"\nlines', CONCAT('name ', seq)), (CAST(seq AS SIGNED) - 500) / 4,
			seq / 3e0, seq / 7e0, '2026-01-01 00:00:00.000001' + INTERVAL seq HOUR, '2026-01-01 00:00:00.5' + INTERVAL seq MINUTE, seq % 2, UNHEX(MD5(seq)) FROM shop.seq_1_to_40000`)
	}
	m.exec("CREATE TABLE shop.text (code varchar(20) COLLATE utf8mb4_general_ci, n int, v text, PRIMARY KEY (code, n))")
	m.exec("INSERT INTO shop.text SELECT CONCAT(CHAR(97 + seq % 26), '''', seq DIV 3), seq, REPEAT('é', seq % 5) FROM shop.seq_1_to_60000")
	m.exec("ANALYZE TABLE shop.item, shop.log, shop.text")
	if err := os.WriteFile(filepath.Join(m.dir, "pipeline.yaml"), []byte(mariaLoadPipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *mariaLoad) exec(statement string) {
	m.t.Helper()
	if _, err := m.db.ExecContext(m.t.Context(), statement); err != nil {
		m.t.Fatalf("%v in %s", err, statement)
	}
}

func (m *mariaLoad) run(want int, dsn string, args ...string) string {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), "icehose", args...)
	cmd.Dir, cmd.Env = m.dir, append(os.Environ(), "ICEHOSE_DSN="+dsn)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		m.t.Fatal(err)
	}
	if status := cmd.ProcessState.ExitCode(); status != want {
		m.t.Fatalf("icehose %s: status %d, want %d\n%s", strings.Join(args, " "), status, want, out.String())
	}
	return out.String()
}

// A mariaWriter changes the tables and writes what DMS would write of it. It is
// the only writer, so where the binary log ends before a change is where the
// change's transaction begins.
type mariaWriter struct {
	conn   *sql.Conn
	random *rand.Rand
	n      int
	stream bytes.Buffer
}

func (w *mariaWriter) churn(ctx context.Context, stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		default:
			if err := w.change(ctx); err != nil {
				return err
			}
		}
	}
}

func (w *mariaWriter) change(ctx context.Context) error {
	w.n++
	table, id := []string{"item", "log"}[w.random.IntN(2)], 1+w.random.IntN(120_000)
	var file string
	var offset uint64
	if err := w.conn.QueryRowContext(ctx, "SHOW MASTER STATUS").Scan(&file, &offset, new(sql.NullString), new(sql.NullString)); err != nil {
		return err
	}
	number, err := strconv.ParseUint(file[strings.LastIndexByte(file, '.')+1:], 10, 32)
	if err != nil {
		return err
	}
	operation, data := "update", fmt.Sprintf(`"id":%d,"name":"changed %d","price":%d.25,"ratio":0.5,"weight":1.25,"at":"2026-02-03T04:05:06.000007Z","seen":null,"flag":1,"raw":"00ff"`, id, w.n, w.n)
	statement := fmt.Sprintf("REPLACE INTO shop.%s VALUES (%d, 'changed %d', %d.25, 0.5, 1.25, '2026-02-03 04:05:06.000007', NULL, 1, x'00ff')", table, id, w.n, w.n)
	if w.random.IntN(3) == 0 {
		operation, data = "delete", fmt.Sprintf(`"id":%d`, id)
		statement = fmt.Sprintf("DELETE FROM shop.%s WHERE id = %d", table, id)
	}
	done, err := w.conn.ExecContext(ctx, statement)
	if err != nil {
		return err
	}
	if changed, err := done.RowsAffected(); err != nil || changed == 0 {
		return err
	}
	record := fmt.Sprintf(`{"data":{%s},"metadata":{"timestamp":"2026-02-03T04:05:07.000000Z","record-type":"data","operation":"%s","partition-key-type":"primary-key",`+
		`"schema-name":"shop","table-name":"%s","transaction-id":%d,"transaction-record-id":1,"commit-timestamp":"2026-02-03T04:05:06.000000Z"}}`,
		data, operation, table, number<<32|offset)
	line, err := json.Marshal(map[string]any{
		"shardId": "shardId-000000000000", "sequenceNumber": strconv.Itoa(w.n), "partitionKey": "x", "approximateArrivalTimestamp": 1, "data": record,
	})
	w.stream.Write(append(line, '\n'))
	return err
}

// dump writes the tables as reconcile reads them, in a way of its own.
func (m *mariaLoad) dump() {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Join(m.dir, "dump"), 0o700); err != nil {
		m.t.Fatal(err)
	}
	const items = "JSON_OBJECT('id', CAST(id AS CHAR), 'name', name, 'price', CAST(price AS CHAR), 'ratio', CAST(ratio + 0e0 AS CHAR), 'weight', CAST(weight AS CHAR), " +
		"'at', CAST(at AS CHAR), 'seen', CAST(seen AS CHAR), 'flag', CAST(flag + 0 AS CHAR), 'raw', HEX(raw))"
	for table, object := range map[string]string{"item": items, "log": items, "text": "JSON_OBJECT('code', code, 'n', CAST(n AS CHAR), 'v', v)"} {
		text, err := m.rows("SELECT " + object + " FROM shop." + table)
		if err != nil {
			m.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(m.dir, "dump", "shop."+table+".ndjson"), text, 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
}

// rows returns the lines of a query for one column.
func (m *mariaLoad) rows(query string) (text []byte, err error) {
	conn, err := m.db.Conn(m.t.Context())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(m.t.Context(), "SET time_zone = '+00:00'"); err != nil {
		return nil, err
	}
	rows, err := conn.QueryContext(m.t.Context(), query)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err has said what went wrong
	for rows.Next() {
		var line sql.RawBytes
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		text = append(append(text, line...), '\n')
	}
	return text, rows.Err()
}

func (m *mariaLoad) reconcile() {
	m.t.Helper()
	m.dump()
	out := m.run(exitSame, "", "reconcile", "--pipeline", "pipeline.yaml", "--lake", "lake", "--dump", "dump", "--final", "--show-keys")
	if strings.Count(out, "  equal\n") != 3 {
		m.t.Fatalf("reconcile:\n%s", out)
	}
}

// A load while another writes, then every change of that time through the sink.
func TestMariaDBLoad(t *testing.T) {
	m := newMariaLoad(t)
	conn, err := m.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := &mariaWriter{conn: conn, random: rand.New(rand.NewPCG(1, 9))}
	for range 300 { // before the load
		if err := w.change(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- w.churn(t.Context(), stop) }()
	out := m.run(exitSame, m.server.DSN(""), "--json", "load", "shop.item", "shop.log", "shop.text", "--lake", "lake", "--parallel", "3", "--rate", "60000")
	close(stop)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for range 300 { // after the load
		if err := w.change(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	var result loadResult
	if err := json.Unmarshal([]byte(out[strings.IndexByte(out, '{'):]), &result); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if n := len(result.Tables); n != 3 || result.Tables[2].Rows != 60_000 || !strings.HasPrefix(result.Tables[0].Start, "binlog.000") {
		t.Errorf("result %s", out)
	}
	if w.n < 700 {
		t.Errorf("only %d changes: none came beside the load", w.n)
	}
	if err := os.WriteFile(filepath.Join(m.dir, "changes.ndjson"), w.stream.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	m.run(exitSame, "", "sink", "--pipeline", "pipeline.yaml", "--lake", "lake", "changes.ndjson")
	m.reconcile()
}

// An account without the right to lock tables says which right it lacks; with
// RELOAD it locks in another way. Engines without snapshots are refused.
func TestMariaDBLoadRights(t *testing.T) {
	m := newMariaLoad(t)
	m.exec("CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'secret'")
	m.exec("GRANT SELECT ON shop.* TO reader@'127.0.0.1'")
	m.exec("GRANT REPLICATION CLIENT, BINLOG MONITOR ON *.* TO reader@'127.0.0.1'")
	dsn := strings.Replace(m.server.DSN(""), "root@", "reader:secret@", 1)
	out := m.run(exitTrouble, dsn, "load", "shop.item", "--lake", "lake")
	if !strings.Contains(out, "the account needs LOCK TABLES on it, or RELOAD") || strings.Contains(out, "secret") {
		t.Errorf("without the right: %s", out)
	}
	m.exec("GRANT RELOAD ON *.* TO reader@'127.0.0.1'")
	m.run(exitSame, dsn, "load", "shop.item", "--lake", "lake")

	m.exec("ALTER TABLE shop.log ENGINE = MyISAM")
	out = m.run(exitTrouble, m.server.DSN(""), "load", "shop.log", "--lake", "lake")
	if !strings.Contains(out, "engine MyISAM has no snapshots") {
		t.Errorf("another engine: %s", out)
	}
	m.exec("ALTER TABLE shop.log ENGINE = InnoDB")
	m.run(exitSame, m.server.DSN(""), "load", "shop.log", "shop.text", "--lake", "lake", "--parallel", "1")
	m.reconcile()
}
