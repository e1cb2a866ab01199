//go:build postgres

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"icehose/cdc"
	"icehose/cdc/dms"
	"icehose/cdc/kinesis"
	"icehose/internal/pgtest"
)

// A capture of a live server has every row and every change, in records that
// the decoder takes, and leaves no slot behind.
func TestCapture(t *testing.T) {
	server := pgtest.New(t)
	conn := server.Connect(t)
	exec1(t, conn, `CREATE TABLE item (id bigint PRIMARY KEY, name text, price numeric(10,2))`)
	exec1(t, conn, `INSERT INTO item SELECT g, 'item ' || g, g / 4.0 FROM generate_series(1, 100) g`)

	icehose, err := exec.LookPath("icehose")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "changes.ndjson.zst")
	cmd := exec.CommandContext(t.Context(), icehose, "--json", "capture", "--out", out, "--until-idle", "3s")
	cmd.Env = append(cmd.Environ(), "ICEHOSE_DSN="+server.DSN())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	waitForSlot(t, conn, ended)
	exec1(t, conn, `UPDATE item SET price = 9.99 WHERE id <= 10`)
	exec1(t, conn, `DELETE FROM item WHERE id > 95`)
	exec1(t, conn, `INSERT INTO item VALUES (1000, 'late', NULL)`)
	if err := <-ended; err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	var summary struct {
		Records map[string]map[string]int `json:"records"`
	}
	if err := json.Unmarshal(stdout.Bytes(), &summary); err != nil {
		t.Fatalf("%v in %s", err, stdout.Bytes())
	}
	counts := decodeAll(t, out)
	for op, want := range map[cdc.Operation]int{cdc.Load: 100, cdc.Update: 10, cdc.Delete: 5, cdc.Insert: 1} {
		if counts[op] != want || summary.Records["public.item"][op.String()] != want {
			t.Errorf("%s: %d records, summary %v, want %d", op, counts[op], summary.Records, want)
		}
	}
	var slots int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_replication_slots`).Scan(&slots); err != nil || slots != 0 {
		t.Errorf("%d slots left, %v", slots, err)
	}
}

// However a capture is ended, it leaves neither slot nor publication: by a
// terminal that is closed, or by a reader that has had enough, as head has.
func TestCaptureLeavesNothing(t *testing.T) {
	server := pgtest.New(t)
	conn := server.Connect(t)
	exec1(t, conn, `CREATE TABLE item (id bigint PRIMARY KEY, name text)`)
	exec1(t, conn, `INSERT INTO item VALUES (1, 'first')`)
	exec1(t, conn, `CREATE TABLE log (name text)`)
	left := func() (left int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_publication)`).Scan(&left); err != nil {
			t.Fatal(err)
		}
		return left
	}
	for name, c := range map[string]struct {
		end    func(p *process)
		status int
	}{
		"hang-up": {func(p *process) { p.signal(syscall.SIGHUP) }, exitSame},
		"closed output": {func(p *process) {
			if err := p.out.Close(); err != nil {
				t.Error(err)
			}
			exec1(t, conn, `UPDATE item SET name = 'second'`)
		}, exitTrouble},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, "capture", "--dsn", server.DSN(), "--out", "-")
			for lines := bufio.NewScanner(p.out); ; {
				if !lines.Scan() {
					t.Fatalf("no row: %v\n%s", lines.Err(), p.stderr.String())
				}
				if strings.Contains(lines.Text(), "first") || strings.Contains(lines.Text(), "second") {
					break
				}
			}
			waitForSlot(t, conn, nil)
			if left() == 0 {
				t.Fatal("no slot and no publication while it runs")
			}
			c.end(p)
			p.endsWith(c.status, "")
			if n := left(); n != 0 {
				t.Errorf("%d slots and publications left", n)
			}
			if text := p.stderr.String(); strings.Contains(text, "icehose: ") {
				t.Errorf("stderr: %s", text)
			}
		})
	}
}

// A password is in no message.
func TestCaptureKeepsTheSecret(t *testing.T) {
	icehose, err := exec.LookPath("icehose")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), icehose, "capture", "--out", filepath.Join(t.TempDir(), "x.ndjson"))
	cmd.Env = append(cmd.Environ(), "ICEHOSE_DSN=postgres://someone:opensesame@127.0.0.1:1/none")
	output, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != exitTrouble || !strings.HasPrefix(string(output), "icehose: capture: ") {
		t.Errorf("%v: %s", err, output)
	}
	if strings.Contains(string(output), "opensesame") {
		t.Errorf("password in %s", output)
	}
}

func exec1(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// waitForSlot waits until the capture's slot is being read; ended, unless nil, tells that it never will be.
func waitForSlot(t *testing.T, conn *pgx.Conn, ended chan error) {
	t.Helper()
	for active := false; !active; {
		select {
		case err := <-ended:
			t.Fatalf("capture ended before it read its slot: %v", err)
		default:
		}
		if err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_replication_slots WHERE active), pg_sleep(0.05)::text IS NULL`).
			Scan(&active, new(bool)); err != nil {
			t.Fatal(err)
		}
	}
}

// decodeAll counts the data records of table item by operation.
func decodeAll(t *testing.T, path string) map[cdc.Operation]int {
	t.Helper()
	file, err := kinesis.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	decoder, counts := dms.New(dms.Settings{}), make(map[cdc.Operation]int)
	for record, err := range kinesis.Read(file) {
		if err != nil {
			t.Fatal(err)
		}
		var c cdc.Change
		if err := decoder.Decode(record.Data, &c); err != nil {
			t.Fatal(err)
		}
		if c.Table == "item" && c.Operation != cdc.Control {
			counts[c.Operation]++
		}
	}
	return counts
}
