//go:build postgres

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/internal/pgtest"
)

// runLive runs the program against a live source in a folder of its own and
// returns what it printed and its exit status.
func runLive(t *testing.T, dir, dsn string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	icehose, err := exec.LookPath("icehose")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), icehose, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "ICEHOSE_DSN="+dsn)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// A live source and its dump give the same pipeline file; preflight, diff and
// resync see the same source.
func TestLiveCatalog(t *testing.T) {
	server := pgtest.New(t)
	conn := server.Connect(t)
	exec1(t, conn, `CREATE TABLE item (id bigint PRIMARY KEY, name character varying(20), price numeric(10,2) NOT NULL)`)
	exec1(t, conn, `CREATE TABLE note (id integer PRIMARY KEY, body text)`)
	dump, err := exec.CommandContext(t.Context(), server.Program("pg_dump"), "--schema-only", "--dbname", server.DSN()).Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dump.sql"), dump, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--pipeline", "live.yaml"}, {"--pipeline", "dump.yaml", "--dump", "dump.sql"}} {
		if _, stderr, status := runLive(t, dir, server.DSN(), append([]string{"catalog", "discover"}, args...)...); status != 0 {
			t.Fatalf("status %d: %s", status, stderr)
		}
	}
	live, err := os.ReadFile(filepath.Join(dir, "live.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dumped, err := os.ReadFile(filepath.Join(dir, "dump.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(live, dumped) {
		t.Errorf("from the server:\n%s\nfrom its dump:\n%s", live, dumped)
	}
	if out, stderr, status := runLive(t, dir, server.DSN(), "catalog", "diff", "--pipeline", "live.yaml"); status != 0 {
		t.Errorf("diff of what was just discovered: status %d: %s%s", status, out, stderr)
	}
	exec1(t, conn, `ALTER TABLE item ADD COLUMN state character varying(5) DEFAULT 'new' NOT NULL`)
	out, _, status := runLive(t, dir, server.DSN(), "catalog", "diff", "--pipeline", "live.yaml")
	if status != 1 || !strings.Contains(out, "public.item.state: not in the file: string") || !strings.Contains(out, `default: "new"`) {
		t.Errorf("diff of a new column: status %d: %s", status, out)
	}
	out, _, status = runLive(t, dir, server.DSN(), "preflight")
	if status != 0 || !strings.Contains(out, "note  out_of_line  public.note") {
		t.Errorf("preflight: status %d: %s", status, out)
	}
	// What is no table for a task is told, and the server is looked at all the same.
	exec1(t, conn, `CREATE UNLOGGED TABLE scratch (id integer PRIMARY KEY)`)
	exec1(t, conn, `ALTER ROLE CURRENT_USER SET statement_timeout = '10min'`)
	for tables, want := range map[string]string{"public.scratch": "warning  unlogged_table  public.scratch", "public.nothing": "warning  no_table  public.nothing: "} {
		out, stderr, status := runLive(t, dir, server.DSN(), "preflight", "--tables", tables)
		if status != 1 || !strings.Contains(out, want) || !strings.Contains(out, "warning  timeout  statement_timeout") || !strings.Contains(out, ": 0 tables, ") {
			t.Errorf("preflight of %s: status %d: %s%s", tables, status, out, stderr)
		}
	}
	exec1(t, conn, `ALTER ROLE CURRENT_USER RESET statement_timeout`)
	out, stderr, status := runLive(t, dir, server.DSN(), "resync", "start", "public.item", "--pipeline", "live.yaml")
	if status != 0 {
		t.Fatalf("resync: status %d: %s%s", status, out, stderr)
	}
	p, err := catalog.Load(filepath.Join(dir, "live.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if loads := p.BySource("public", "item").Loads; len(loads) != 1 || loads[0].Floor.Hi == 0 {
		t.Errorf("loads are %+v", loads)
	}
	// A source that is not there, and a secret that is in no message.
	_, stderr, status = runLive(t, dir, "postgres://u:opensesame@127.0.0.1:1/d", "preflight")
	if status != 2 || strings.Contains(stderr, "opensesame") {
		t.Errorf("status %d: %s", status, stderr)
	}
}
