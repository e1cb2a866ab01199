package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Beside a sink that runs, what only reads reads; what would write is refused,
// and says what to do.
func TestBesideSink(t *testing.T) {
	t.Parallel()
	icehose, err := exec.LookPath("icehose")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	lake, stream, pipeline := filepath.Join(dir, "lake"), filepath.Join(dir, "stream.ndjson"), filepath.Join(tpccFixture, "pipeline.yaml")
	appendTo(t, stream, fixtureLines(t)[:300]...)
	p := startSink(t, lake, "--follow", "--flush-every", "50ms", stream)
	p.waitFor(`"msg":"sink status","records":300,`)
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"status"}, exitDifferent, "  ok   8 are well"},
		{[]string{"catalog", "plan"}, exitSame, "9 tables as they should be"},
		{[]string{"merge"}, exitTrouble, "lake is in use by another process: wait until it has ended, or stop it\n"},
		{[]string{"maintain"}, exitTrouble, "(a sink that runs all the time maintains its tables itself, with --maintain): wait until it has ended, or stop it\n"},
	} {
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), icehose, append(c.args, "--pipeline", pipeline, "--lake", lake)...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run() // its state tells
		if got := cmd.ProcessState.ExitCode(); got != c.status || !strings.Contains(stdout.String()+stderr.String(), c.want) {
			t.Errorf("%v: status %d, want %d and %q\n%s%s", c.args, got, c.status, c.want, &stdout, &stderr)
		}
	}
	p.signal(syscall.SIGTERM)
	if status := p.end(); status != exitSame {
		t.Errorf("sink: status %d\n%s", status, strings.Join(p.log, "\n"))
	}
}
