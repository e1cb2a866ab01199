//go:build postgres

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"icehose/internal/pgtest"
)

// The recipe of the README, on a live server: capture, sink, dump, reconcile.
func TestRecipe(t *testing.T) {
	server := pgtest.New(t)
	conn := server.Connect(t)
	exec1(t, conn, `CREATE TABLE item (id bigint PRIMARY KEY, name text, price numeric(10,2), sold boolean, seen_at timestamptz, day date, weight double precision)`)
	exec1(t, conn, `CREATE TABLE visit (item_id bigint, note text)`)
	exec1(t, conn, `INSERT INTO item SELECT g, CASE g % 5 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN E'two\nlines, "quoted"' ELSE ' name ' || g END,
		g / 4.0, g % 2 = 0, '2026-01-01 00:00:00.000001+02'::timestamptz + g * interval '1 hour', '2024-02-29'::date + g::int, g / 7.0 FROM generate_series(1, 200) g`)
	exec1(t, conn, `INSERT INTO visit SELECT g, repeat('x', g % 3) FROM generate_series(1, 50) g`)

	r := newRecipe(t, server)
	first := r.start(r.lines...)
	waitForSlot(t, conn, nil)
	exec1(t, conn, `UPDATE item SET price = 9.99, name = NULL WHERE id <= 10`)
	exec1(t, conn, `DELETE FROM item WHERE id > 190`)
	exec1(t, conn, `INSERT INTO item VALUES (1000, 'late', NULL, true, now(), NULL, 1e-7)`)
	exec1(t, conn, `INSERT INTO visit VALUES (7, NULL), (7, NULL)`)
	if status := first.end(t); status != exitSame || strings.Count(first.out.String(), "  equal\n") != 2 {
		t.Fatalf("status %d\n%s", status, first.out.Bytes())
	}

	// A change that the lake does not have is found.
	exec1(t, conn, `UPDATE item SET price = price + 0.01 WHERE id = 42`)
	again := r.start(r.lines[r.dumpAt:]...)
	status := again.end(t)
	out := again.out.String()
	if status != exitDifferent || !strings.Contains(out, "  differs    id=42\n") || strings.Count(out, "id=") != 1 || strings.Count(out, "  equal\n") != 1 {
		t.Errorf("after a change of the source alone: status %d\n%s", status, out)
	}
}

// A recipe is the commands of the README's section, run in a folder of its own.
type recipe struct {
	t      *testing.T
	dir    string
	env    []string
	lines  []string
	dumpAt int // the first of lines that makes the dump
}

func newRecipe(t *testing.T, server *pgtest.Server) *recipe {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Your own database, without AWS\n")
	_, block, fenced := strings.Cut(section, "\n```\n")
	block, _, _ = strings.Cut(block, "\n```\n")
	r := &recipe{t: t, dir: t.TempDir(), lines: strings.Split(block, "\n")}
	if !ok || !fenced || !strings.HasPrefix(r.lines[0], "export ICEHOSE_DSN=") {
		t.Fatalf("the README's recipe is not where it was: %q", r.lines)
	}
	r.lines = r.lines[1:]
	if r.dumpAt = slices.Index(r.lines, "mkdir -p dump"); r.dumpAt < 0 {
		t.Fatalf("no dump in the README's recipe: %q", r.lines)
	}
	icehose, err := exec.LookPath("icehose")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(r.dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(icehose, filepath.Join(r.dir, "bin", "icehose")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Dir(server.Program("psql")) + string(os.PathListSeparator) + os.Getenv("PATH")
	r.env = append(os.Environ(), "ICEHOSE_DSN="+server.DSN(), "PATH="+path)
	return r
}

type running struct {
	cmd   *exec.Cmd
	out   bytes.Buffer
	ended chan error
}

// start runs lines in a shell that stops at the first that fails.
func (r *recipe) start(lines ...string) *running {
	r.t.Helper()
	p := &running{ended: make(chan error, 1), cmd: exec.CommandContext(r.t.Context(), "bash", "-euc", strings.Join(lines, "\n"))}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = r.dir, r.env, &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	return p
}

// end waits for the end and returns the exit status.
func (p *running) end(t *testing.T) int {
	t.Helper()
	if err := <-p.ended; err != nil && p.cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}
