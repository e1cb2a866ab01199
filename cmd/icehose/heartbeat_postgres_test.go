//go:build postgres

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"icehose/internal/pgtest"
	"icehose/reconcile"
)

// The whole way: what --ddl prints makes a table whose beats go through capture
// and sink, and reconcile goes by them. SIGTERM ends the writer well.
func TestHeartbeatLive(t *testing.T) {
	icehose, err := exec.LookPath("icehose")
	if err != nil {
		t.Fatal(err)
	}
	server := pgtest.New(t)
	conn := server.Connect(t)
	dir := t.TempDir()
	command := func(out *bytes.Buffer, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), icehose, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "ICEHOSE_DSN="+server.DSN())
		cmd.Stdout, cmd.Stderr = out, os.Stderr
		return cmd
	}
	do := func(want int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		err := command(&out, args...).Run()
		status := 0
		if ended, ok := errors.AsType[*exec.ExitError](err); ok {
			status = ended.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if status != want {
			t.Fatalf("icehose %s: status %d, want %d\n%s", strings.Join(args, " "), status, want, &out)
		}
		return out.String()
	}

	exec1(t, conn, do(exitSame, "heartbeat", "--ddl")+"; CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t VALUES (1, 'n')")
	var definition struct{ Pipeline string }
	if err := json.Unmarshal([]byte(do(exitSame, "heartbeat", "--ddl", "--json")), &definition); err != nil {
		t.Fatal(err)
	}
	file := "version: 1\ndatabase: lake\nsource: {engine: postgresql, position: postgres, nulls: included}\ntables:\n" + definition.Pipeline +
		"- source: public.t\n  mode: mirror\n  key: [id]\n  columns:\n    - {name: id, type: long}\n    - {name: note, type: string}\n"
	if err := os.WriteFile(filepath.Join(dir, "pipeline.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := do(exitSame, "heartbeat", "--once"); !strings.Contains(out, "public.heartbeat: 53 rows, 1 beats, 0 failed, 0 new connections\n") {
		t.Errorf("once: %s", out)
	}

	var beats, captured bytes.Buffer
	writer, capture := command(&beats, "heartbeat", "--every", "1s", "--json"), command(&captured, "capture", "--out", "changes.ndjson", "--until-idle", "4s")
	ended := make(chan error, 1)
	if err := errors.Join(writer.Start(), capture.Start()); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- capture.Wait() }()
	waitForSlot(t, conn, ended)
	exec1(t, conn, "INSERT INTO t VALUES (2, 'while it is captured')")
	for range 3 {
		exec1(t, conn, `DO $$ DECLARE had timestamptz := (SELECT max(at) FROM heartbeat); BEGIN
			FOR i IN 1..3000 LOOP EXIT WHEN (SELECT max(at) FROM heartbeat) > had; PERFORM pg_sleep(0.02); END LOOP; END $$`)
	}
	if err := writer.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var result struct{ Rows, Beats, Failed int }
	if err := writer.Wait(); err != nil || json.Unmarshal(beats.Bytes(), &result) != nil || result.Rows != 53 || result.Beats < 3 || result.Failed != 0 {
		t.Errorf("the writer ended with %v: %s", err, &beats)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("capture: %v\n%s", err, &captured)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("capture does not end: the source is not idle")
	}
	do(exitSame, "sink", "--pipeline", "pipeline.yaml", "--lake", "lake", "changes.ndjson")
	compare := []string{"reconcile", "--pipeline", "pipeline.yaml", "--lake", "lake", "--heartbeat", "public.heartbeat", "--settle", "1s", "--retries", "3", "--json"}
	checkVerdict(t, do(exitSame, compare...), reconcile.Equal)
	// The beats stand still since before this row: it may be on its way.
	exec1(t, conn, "INSERT INTO t VALUES (3, 'after the last beat')")
	checkVerdict(t, do(exitTrouble, append(compare, "--tables", "public.t")...), reconcile.Inconclusive)
}

func checkVerdict(t *testing.T, report string, want reconcile.Verdict) {
	t.Helper()
	var got struct {
		Tables []struct {
			Table   string
			Verdict reconcile.Verdict
			Why     string
		}
	}
	if err := json.Unmarshal([]byte(report), &got); err != nil || len(got.Tables) == 0 {
		t.Fatalf("%v: %s", err, report)
	}
	for _, table := range got.Tables {
		if table.Verdict != want {
			t.Errorf("%s: %s, %s; want %s", table.Table, table.Verdict, table.Why, want)
		}
	}
}
