package main

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stopsWithin is what the help of sink promises of an interrupt.
const stopsWithin = 10 * time.Second

// What is begun when an interrupt comes, and one more wait for a catalog that is
// locked, leave room in the time that is promised.
func TestStopWithin(t *testing.T) {
	t.Parallel()
	if stopWithin+catalogWait >= stopsWithin {
		t.Errorf("%s to commit and %s for a lock, of %s", stopWithin, catalogWait, stopsWithin)
	}
	if help := (*sinkCmd)(nil).Help(); !strings.Contains(help, "ends within 10 seconds") || !strings.Contains(help, fmt.Sprintf("as far as %d seconds allow", int(stopWithin.Seconds()))) {
		t.Error("the help promises another time")
	}
}

// lockCatalog locks the catalog of a lake for everybody else, until unlock.
func lockCatalog(t *testing.T, lake string) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(lake, "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), "PRAGMA busy_timeout = 60000; BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := db.Close(); err != nil { // which rolls back
			t.Error(err)
		}
	}
}

// A sink whose catalog somebody else has locked ends as soon as it is told to as
// any other: while it opens the lake, and while it commits. Nothing is lost.
func TestLockedSinkStops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lake, stream := filepath.Join(dir, "lake"), filepath.Join(dir, "stream.ndjson")
	lines := fixtureLines(t)[:600]
	appendTo(t, stream, lines[:300]...)
	stop := func(p *sinkProcess, want int) {
		t.Helper()
		p.waitFor("failed, is tried again")
		told := time.Now()
		p.signal(syscall.SIGTERM)
		if status := p.end(); status != want {
			t.Errorf("status %d, want %d\n%s\n%s", status, want, strings.Join(p.log, "\n"), p.stdout.Bytes())
		}
		if took := time.Since(told); took >= stopsWithin {
			t.Errorf("ended %s after it was told to\n%s", took, strings.Join(p.log, "\n"))
		}
	}

	p := startSink(t, lake, "--follow", "--poll", "10ms", "--flush-every", "50ms", "--retry-for", "30m", stream)
	p.waitFor(`"msg":"sink status","records":300,`)
	unlock := lockCatalog(t, lake)
	appendTo(t, stream, lines[300:]...)
	stop(p, exitTrouble)
	if text := p.stdout.String(); !strings.Contains(text, "database is locked") {
		t.Errorf("it does not say why:\n%s", text)
	}

	stop(startSink(t, lake, "--retry-for", "30m", stream), exitTrouble)

	p = startSink(t, lake, "--retry-for", "30m", stream)
	p.waitFor(`"msg":"failed, is tried again","what":"open lake","attempt":2,`)
	unlock()
	if status := p.end(); status != exitSame {
		t.Fatalf("status %d\n%s", status, strings.Join(p.log, "\n"))
	}
	if r := p.result(); r.Before+uint64(r.Records) != uint64(len(lines)) || r.Failed > 0 { //nolint:gosec // a record count fits
		t.Errorf("%d handled before, %d now, want %d", r.Before, r.Records, len(lines))
	}
}

// A catalog that stays locked ends the command, once the time is over.
func TestSinkGivesUpOpening(t *testing.T) {
	t.Parallel()
	lake, stream := filepath.Join(t.TempDir(), "lake"), filepath.Join(tpccFixture, "events.ndjson.zst")
	if status := startSink(t, lake, "--redrive", filepath.Join(tpccFixture, "manifest.json")).end(); status == -1 {
		t.Fatal("no lake")
	}
	defer lockCatalog(t, lake)()
	for retryFor, again := range map[string]bool{"0s": false, "3s": true} {
		p := startSink(t, lake, "--retry-for", retryFor, stream)
		if status := p.end(); status != exitTrouble || !strings.Contains(p.stdout.String(), "another process has catalog.db locked: wait until it has ended, or stop it") {
			t.Errorf("%s: status %d\n%s", retryFor, status, p.stdout.Bytes())
		}
		if log := strings.Join(p.log, "\n"); strings.Contains(log, "is tried again") != again {
			t.Errorf("%s: it logs\n%s", retryFor, log)
		}
	}
}
