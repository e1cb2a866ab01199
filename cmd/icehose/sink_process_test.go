package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"icehose/cdc/kinesis"
)

const tpccFixture = "../../testdata/events/tpcc"

// A sinkProcess is a running icehose sink.
type sinkProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer
	log    []string
	lines  chan string // of its log; closed at its end
}

// startSink starts icehose --json --verbose sink on the TPC-C pipeline.
func startSink(t *testing.T, lake string, args ...string) *sinkProcess {
	t.Helper()
	icehose, err := exec.LookPath("icehose")
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--json", "--verbose", "sink", "--pipeline", filepath.Join(tpccFixture, "pipeline.yaml"), "--lake", lake}, args...)
	p := &sinkProcess{t: t, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), icehose, args...), lines: make(chan string, 1<<16)}
	p.cmd.Stdout = &p.stdout
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for in := bufio.NewScanner(stderr); in.Scan(); {
			p.lines <- in.Text()
		}
	}()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it has ended, unless the test failed
	return p
}

// waitFor waits until a line of the log has the text.
func (p *sinkProcess) waitFor(text string) {
	p.t.Helper()
	for line := range p.lines {
		p.log = append(p.log, line)
		if strings.Contains(line, text) {
			return
		}
	}
	p.t.Fatalf("ended without %q:\n%s\n%s", text, strings.Join(p.log, "\n"), p.stdout.Bytes())
}

// end waits for the end and returns the exit status.
func (p *sinkProcess) end() int {
	p.t.Helper()
	for line := range p.lines {
		p.log = append(p.log, line)
	}
	if err := p.cmd.Wait(); err != nil && p.cmd.ProcessState == nil {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *sinkProcess) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// result reads the summary.
func (p *sinkProcess) result() (r sinkResult) {
	p.t.Helper()
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		p.t.Fatalf("%v in %s\n%s", err, p.stdout.Bytes(), strings.Join(p.log, "\n"))
	}
	return r
}

// equalsSource reconciles a lake with the fixture's final rows.
func equalsSource(t *testing.T, lake string) {
	t.Helper()
	icehose, err := exec.LookPath("icehose")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), icehose, "reconcile", "--pipeline", filepath.Join(tpccFixture, "pipeline.yaml"),
		"--lake", lake, "--dump", filepath.Join(tpccFixture, "final"), "--final").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// fixtureLines are the lines of the fixture's stream.
func fixtureLines(t *testing.T) [][]byte {
	t.Helper()
	in, err := kinesis.Open(filepath.Join(tpccFixture, "events.ndjson.zst"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
}

func appendTo(t *testing.T, path string, parts ...[]byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes.Join(parts, nil)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// A sink that is killed at any point goes on when it is started again, and
// the lake ends right.
func TestKilledSinkGoesOn(t *testing.T) {
	t.Parallel()
	lake := filepath.Join(t.TempDir(), "lake")
	random := rand.New(rand.NewPCG(3, 4))
	killed := 0
	for range 6 {
		p := startSink(t, lake, "--flush-rows", "300", filepath.Join(tpccFixture, "events.ndjson.zst"))
		for range 1 + random.IntN(12) {
			p.waitFor("table committed")
		}
		// Anywhere in what comes next, not right behind a commit only.
		<-time.After(time.Duration(random.IntN(20_000)) * time.Microsecond)
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if p.end() == -1 {
			killed++
		}
	}
	if killed < 4 {
		t.Errorf("only %d runs were killed before they had ended", killed)
	}
	p := startSink(t, lake, filepath.Join(tpccFixture, "events.ndjson.zst"))
	if status := p.end(); status != exitSame {
		t.Fatalf("status %d\n%s", status, strings.Join(p.log, "\n"))
	}
	skipped := int64(0)
	for _, table := range p.result().Tables {
		skipped += table.Skipped
	}
	if skipped == 0 {
		t.Error("the last run skipped nothing: the killed ones had committed nothing")
	}
	equalsSource(t, lake)
}

// A sink that follows a file and a folder takes what they grow by. When it is
// told to stop it commits and ends well, and another run goes on.
func TestSinkFollows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lake, stream := filepath.Join(dir, "lake"), filepath.Join(dir, "stream")
	if err := os.Mkdir(stream, 0o700); err != nil {
		t.Fatal(err)
	}
	lines := fixtureLines(t)
	first, second := filepath.Join(stream, "1.ndjson"), filepath.Join(stream, "2.ndjson")
	half := len(lines[2000]) / 2
	appendTo(t, first, append(lines[:2000:2000], lines[2000][:half])...)

	follow := func() *sinkProcess {
		return startSink(t, lake, "--follow", "--poll", "10ms", "--flush-every", "50ms", stream)
	}
	p := follow()
	p.waitFor(`"msg":"sink status","records":2000,`)
	appendTo(t, first, append([][]byte{lines[2000][half:]}, lines[2001:5000]...)...)
	p.waitFor(`"msg":"sink status","records":5000,`)
	rival := startSink(t, lake, stream)
	if status := rival.end(); status != exitTrouble || !strings.Contains(rival.stdout.String(), "lake is in use by another process") {
		t.Errorf("a second sink: status %d\n%s", status, rival.stdout.Bytes())
	}
	appendTo(t, second, lines[5000:6000]...)
	p.waitFor(`"msg":"sink status","records":6000,`)
	p.signal(syscall.SIGTERM)
	if status := p.end(); status != exitSame {
		t.Fatalf("status %d\n%s", status, strings.Join(p.log, "\n"))
	}
	if r := p.result(); !r.Interrupted || r.Records != 6000 || r.Failed != 0 {
		t.Errorf("result %+v", r)
	}
	if log := strings.Join(p.log, "\n"); !regexp.MustCompile(`"records":6000,"applied":[1-9][0-9]*,"superseded":[1-9][0-9]*,"commits":[1-9][0-9]*,"failed":0,"lag":"[0-9]+h`).MatchString(log) {
		t.Errorf("no status of everything in\n%s", log)
	}

	appendTo(t, second, lines[6000:]...)
	p = follow()
	p.waitFor("table committed")
	p.signal(os.Interrupt)
	if status := p.end(); status != exitSame {
		t.Fatalf("status %d\n%s", status, strings.Join(p.log, "\n"))
	}
	if r := p.result(); r.Before != 6000 {
		t.Errorf("%d records were handled before, want 6000", r.Before)
	}
	p = startSink(t, lake, stream)
	if status := p.end(); status != exitSame {
		t.Fatalf("status %d\n%s", status, strings.Join(p.log, "\n"))
	}
	if r := p.result(); r.Before+uint64(r.Records) != uint64(len(lines)) || r.Interrupted { //nolint:gosec // a record count fits
		t.Errorf("%d records handled before, %d now, want %d", r.Before, r.Records, len(lines))
	}
	equalsSource(t, lake)
}

// A sink that runs for long notes in every table how far it is, so that the
// next one need not read everything again even if it was killed and some table
// never got a row.
func TestSinkNotesIdleTables(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lake, stream := filepath.Join(dir, "lake"), filepath.Join(dir, "stream.ndjson")
	appendTo(t, stream, fixtureLines(t)[:300]...)
	p := startSink(t, lake, "--follow", "--flush-every", "50ms", stream)
	p.waitFor(`"msg":"sink status","records":300,`)
	p.waitFor(`"changes":0,`) // a table that got no row notes where it is
	p.waitFor("sink status")  // and the others have
	p.signal(os.Kill)
	p.end()
	p = startSink(t, lake, stream)
	if status := p.end(); status != exitSame {
		t.Fatalf("status %d\n%s", status, strings.Join(p.log, "\n"))
	}
	if r := p.result(); r.Before != 300 || r.Records != 0 {
		t.Errorf("%d handled before, %d now", r.Before, r.Records)
	}
}

// A sink that waits for standard input ends when it is told to: with what it
// got, which may be not all.
func TestSinkStopsWhileItWaits(t *testing.T) {
	t.Parallel()
	lake := filepath.Join(t.TempDir(), "lake")
	icehose, err := exec.LookPath("icehose")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), icehose, "--verbose", "sink", "--pipeline", filepath.Join(tpccFixture, "pipeline.yaml"), "--lake", lake,
		"--flush-every", "20ms", "-")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdin.Write(bytes.Join(fixtureLines(t)[:300], nil)); err != nil {
		t.Fatal(err)
	}
	log := bufio.NewScanner(stderr)
	for log.Scan() && !strings.Contains(log.Text(), `"records":300,`) {
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	last := ""
	for log.Scan() {
		last = log.Text()
	}
	err = cmd.Wait()
	if cmd.ProcessState.ExitCode() != exitTrouble || last != "icehose: interrupted: what was committed stays, run it again to go on" ||
		!strings.Contains(stdout.String(), "interrupted, everything delivered is committed: 300 records, 0 failed") {
		t.Errorf("%v, %q\n%s", err, last, stdout.Bytes())
	}
}
