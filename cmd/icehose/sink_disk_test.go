//go:build system

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A full disk stops a sink with one clear line, and so does one that has become
// read-only; with room, the same command goes on to the right result.
func TestSinkFullDisk(t *testing.T) {
	dir := mounted(t, "size=1500k", 0)
	lake := filepath.Join(dir, "lake")
	run := func() (string, int) {
		p := startSink(t, lake, "--flush-rows", "2000", filepath.Join(tpccFixture, "events.ndjson.zst"))
		status := p.end()
		return strings.Join(p.log, "\n") + p.stdout.String(), status
	}
	text, status := run()
	// Files say the one, the catalog's database the other.
	full := strings.Contains(text, "no space left on device") || strings.Contains(text, "disk is full")
	if status != exitTrouble || !full || strings.Contains(text, "goroutine") {
		t.Errorf("full: status %d\n%s", status, text)
	}
	remount := func(flags uintptr) {
		t.Helper()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, "size=512m"); err != nil {
			t.Fatal(err)
		}
	}
	remount(syscall.MS_RDONLY)
	if text, status := run(); status != exitTrouble || !strings.Contains(text, "read-only") || !strings.Contains(text, lake) || strings.Contains(text, "goroutine") {
		t.Errorf("read-only: status %d\n%s", status, text)
	}
	remount(0)
	if text, status := run(); status != exitSame {
		t.Errorf("with room: status %d\n%s", status, text)
	}
	equalsSource(t, lake)
}

func TestSinkReadOnlyFileSystem(t *testing.T) {
	dir := mounted(t, "size=1m", syscall.MS_RDONLY)
	p := startSink(t, filepath.Join(dir, "lake"), filepath.Join(tpccFixture, "events.ndjson.zst"))
	if status := p.end(); status != exitTrouble || !strings.Contains(p.stdout.String(), "read-only file system") {
		t.Errorf("status %d\n%s", status, p.stdout.Bytes())
	}
}
