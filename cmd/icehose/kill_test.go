package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A demo that is killed at any point can be run again on the same lake, and
// ends right.
func TestKilledDemoGoesOn(t *testing.T) {
	icehose, err := exec.LookPath("icehose")
	if err != nil {
		t.Fatal(err)
	}
	lake := filepath.Join(t.TempDir(), "lake")
	random := rand.New(rand.NewPCG(1, 2))
	killed := 0
	for round := range 6 {
		cmd := exec.CommandContext(t.Context(), icehose, "demo", "--fixture", "../../testdata/events/tpcc", "--lake", lake, "--flush", "500",
			"--seed", string('1'+rune(round)))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		waitForCatalog(t, lake, ended)
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("round %d ended by itself: %v\n%s", round, err, out.Bytes())
			}
		case <-time.After(time.Duration(random.IntN(1200)) * time.Millisecond):
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil { // else it ended just before
				killed++
			}
		}
	}
	if killed == 0 {
		t.Error("no run was killed: nothing was tested")
	}
	final, err := exec.CommandContext(t.Context(), icehose, "demo", "--fixture", "../../testdata/events/tpcc", "--lake", lake).CombinedOutput()
	if err != nil || !strings.Contains(string(final), "equal: ") {
		t.Errorf("after %d kills: %v\n%s", killed, err, final)
	}
}

// waitForCatalog waits until the run has begun to write, or has ended.
func waitForCatalog(t *testing.T, lake string, ended chan error) {
	t.Helper()
	for {
		if _, err := os.Stat(filepath.Join(lake, "catalog.db")); err == nil {
			return
		}
		select {
		case err := <-ended:
			t.Fatalf("ended before it wrote: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
