//go:build system

package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// mounted returns a directory on a file system of its own.
func mounted(t *testing.T, options string, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		t.Fatalf("mount a file system (needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func runDemo(t *testing.T, lake string) (stdout, stderr string, status int) {
	t.Helper()
	icehose, err := exec.LookPath("icehose")
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), icehose, "demo", "--fixture", "../../testdata/events/tpcc", "--lake", lake)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// oneLine demands status 2 and exactly one line that is an error.
func oneLine(t *testing.T, stderr string, status int, want string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "icehose: ") {
			lines = append(lines, line)
		}
	}
	if status != exitTrouble || len(lines) != 1 || !strings.Contains(lines[0], want) || strings.Contains(stderr, "goroutine") {
		t.Errorf("status %d, stderr:\n%s", status, stderr)
	}
}

// A full disk is one clear line; with room, the same lake goes on to the right result.
func TestFullDisk(t *testing.T) {
	dir := mounted(t, "size=1m", 0)
	lake := filepath.Join(dir, "lake")
	_, stderr, status := runDemo(t, lake)
	oneLine(t, stderr, status, "no space left on device")
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=512m"); err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, status := runDemo(t, lake); status != 0 || !strings.Contains(stdout, "equal: ") {
		t.Errorf("with room: status %d\n%s%s", status, stdout, stderr)
	}
}

func TestReadOnlyFileSystem(t *testing.T) {
	dir := mounted(t, "size=1m", syscall.MS_RDONLY)
	_, stderr, status := runDemo(t, filepath.Join(dir, "lake"))
	oneLine(t, stderr, status, "read-only file system")
}

// A lake that was begun and cannot be written any more.
func TestLakeTurnsReadOnly(t *testing.T) {
	dir := mounted(t, "size=1m", 0)
	lake := filepath.Join(dir, "lake")
	if _, stderr, status := runDemo(t, lake); status != exitTrouble {
		t.Fatalf("fill the disk: status %d: %s", status, stderr)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, "size=512m"); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := runDemo(t, lake)
	oneLine(t, stderr, status, "read-only")
}
