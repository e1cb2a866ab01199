package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process is a running icehose whose pipes the test holds.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	stderr bytes.Buffer
	ended  chan struct{}
}

// start starts icehose.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	icehose, err := exec.LookPath("icehose")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), icehose, args...), ended: make(chan struct{})}
	p.cmd.Stderr = &p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out, p.cmd.Stdout = read, write
	if err := errors.Join(p.cmd.Start(), write.Close()); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // its state tells
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		_ = p.out.Close()
	})
	return p
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// endsWith waits for the end and wants a status and what is on stderr.
func (p *process) endsWith(status int, stderr string) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(2 * time.Minute):
		p.t.Fatal("does not end")
	}
	if got := p.cmd.ProcessState.ExitCode(); got != status || !strings.Contains(p.stderr.String(), stderr) {
		p.t.Errorf("%s, want status %d and %q:\n%s", p.cmd.ProcessState, status, stderr, p.stderr.String())
	}
}

// A command that waits for its standard input ends with the first signal.
func TestInterruptedInput(t *testing.T) {
	t.Parallel()
	pipeline := filepath.Join(tpccFixture, "pipeline.yaml")
	for _, args := range [][]string{
		{"transform", "--pipeline", pipeline}, {"transform", "--pipeline", pipeline, "--explain", "-"}, {"inspect", "-"}, {"lint", "-"},
	} {
		for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
			t.Run(fmt.Sprint(args[0], " ", s), func(t *testing.T) {
				t.Parallel()
				p := start(t, args...)
				// More than a pipe holds: once it is written, the process reads.
				if _, err := p.in.Write(bytes.Repeat([]byte{'\n'}, 1<<18)); err != nil {
					t.Fatal(err)
				}
				p.signal(s)
				p.endsWith(exitTrouble, "icehose: interrupted")
			})
		}
	}
}

// blocked starts a command and waits until it cannot write for a reader that does not read.
func blocked(t *testing.T) *process {
	t.Helper()
	p := start(t, "transform", "--pipeline", filepath.Join(tpccFixture, "pipeline.yaml"), filepath.Join(tpccFixture, "events.ndjson.zst"))
	if _, err := io.ReadFull(p.out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return p
}

// What does not end with the first signal is killed by the second.
func TestSecondSignalKills(t *testing.T) {
	t.Parallel()
	p := blocked(t)
	for range 100 {
		p.signal(os.Interrupt)
		select {
		case <-p.ended:
		case <-time.After(100 * time.Millisecond):
			continue
		}
		break
	}
	p.endsWith(-1, "")
}

// A terminal that is closed hangs up more than once: the process ends in order.
func TestHangUpsDoNotKill(t *testing.T) {
	t.Parallel()
	p := blocked(t)
	for range 3 {
		p.signal(syscall.SIGHUP)
		time.Sleep(100 * time.Millisecond)
	}
	if _, err := io.Copy(io.Discard, p.out); err != nil {
		t.Error(err)
	}
	p.endsWith(exitTrouble, "icehose: interrupted")
}

// A reader that has had enough, as head has, ends a command without a word.
func TestClosedOutput(t *testing.T) {
	t.Parallel()
	p := blocked(t)
	if _, err := bufio.NewReader(p.out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := p.out.Close(); err != nil {
		t.Fatal(err)
	}
	p.endsWith(exitTrouble, "")
	if p.stderr.Len() > 0 {
		t.Errorf("stderr: %s", p.stderr.String())
	}
}

// Only a closed output alone is not told.
func TestOnlyClosed(t *testing.T) {
	t.Parallel()
	closed, other := fmt.Errorf("write: %w", errOutputClosed), errors.New("drop slot: refused")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{closed, true}, {errors.Join(closed, errOutputClosed), true}, {fmt.Errorf("capture: %w", errors.Join(closed, other)), false}, {other, false},
	} {
		if got := onlyClosed(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// A command that did not look at what became of its output has failed all the
// same; an error of its own stays.
func TestOutputNotWritten(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(write.Close(), read.Close()); err != nil {
		t.Fatal(err)
	}
	out, own := &output{to: write}, errors.New("own")
	if err := errors.Join(out.end(nil), out.end(own)); err.Error() != "own" {
		t.Errorf("before anything was written: %v", err)
	}
	if _, err := out.Write([]byte("x")); err == nil {
		t.Fatal("a closed file was written")
	}
	for _, err := range []error{out.end(nil), out.end(exitError(exitDifferent))} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	if err := out.end(own); !errors.Is(err, own) {
		t.Errorf("got %v", err)
	}
}

// The examples of stack parameters do what they say, with the environments that are delivered.
func TestStackParametersExamples(t *testing.T) {
	t.Parallel()
	icehose, err := exec.LookPath("icehose")
	if err != nil {
		t.Fatal(err)
	}
	pipeline, err := filepath.Abs(filepath.Join(tpccFixture, "pipeline.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := errors.Join(os.CopyFS(filepath.Join(dir, "env"), os.DirFS("../../cloudformation/env")),
		os.WriteFile(filepath.Join(dir, "keys.yaml"), []byte("TransformKey: x.zip\nPipelineKey: x.yaml\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	commands := [][]string{{"stack", "generate", "--pipeline", pipeline, "--out", "stacks"}}
	for line := range strings.Lines(strings.ReplaceAll((*stackParametersCmd)(nil).Help(), "\\\n", " ")) {
		if command, ours := strings.CutPrefix(line, "  icehose "); ours {
			commands = append(commands, words(command))
		}
	}
	if len(commands) < 4 {
		t.Fatalf("examples: %v", commands)
	}
	for _, command := range commands {
		cmd := exec.CommandContext(t.Context(), icehose, command...)
		cmd.Dir = dir
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", command, err, text)
		}
	}
}
