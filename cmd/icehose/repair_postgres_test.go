//go:build postgres

package main

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A table that is repaired in parts, each run as far as its time goes: no run but
// the last is done, each says so, and none tells or repairs what another has.
func TestRepairInParts(t *testing.T) {
	l := newLoadTest(t)
	icehose := func(args ...string) (status int, out string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), l.icehose, args...)
		cmd.Dir, cmd.Env = l.dir, append(os.Environ(), "ICEHOSE_DSN="+l.server.DSN())
		text, err := cmd.CombinedOutput()
		if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(text)
	}
	if status, out := icehose("load", "public.item", "--pipeline", "pipeline.yaml", "--lake", "lake"); status != exitSame {
		t.Fatal(out)
	}
	exec1(t, l.conn, "UPDATE item SET name = 'lost' WHERE id % 20 = 0")
	found := regexp.MustCompile(`repair: findings with a key: (\d+)\n`)
	keys, parts := 0, 0
	for status := exitTrouble; status != exitSame; parts++ {
		var out string
		status, out = icehose("reconcile", "--pipeline", "pipeline.yaml", "--lake", "lake", "--tables", "public.item", "--stream", "--slice-rows", "500",
			"--rows-per-second", "1200", "--statement-timeout", "30s", "--settle", "100ms", "--checkpoint", "run.json", "--timeout", "3s", "--repair", "sink")
		m := found.FindStringSubmatch(out)
		if m == nil || parts == 20 || (status != exitSame) != strings.Contains(out, "public.item: not all of it was decided") {
			t.Fatalf("run %d: status %d: %s", parts+1, status, out)
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		keys += n
		t.Logf("run %d: status %d, %d keys", parts+1, status, n)
	}
	if keys != 200 || parts < 2 {
		t.Errorf("%d keys in %d runs: want 200, in more than one", keys, parts)
	}
	if status, out := icehose("reconcile", "--pipeline", "pipeline.yaml", "--lake", "lake", "--tables", "public.item", "--settle", "100ms"); status != exitSame {
		t.Errorf("at the end: %s", out)
	}
}
