// Package rietest runs a Lambda function's program under AWS's Runtime Interface
// Emulator, for tests. make aws-test installs the emulator and says in LAMBDA_RIE
// where it is.
package rietest

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Build builds a main package for this machine as a Lambda's bootstrap and
// returns its path.
func Build(tb testing.TB, pkg string) string {
	tb.Helper()
	out := filepath.Join(tb.TempDir(), "bootstrap")
	cmd := exec.CommandContext(tb.Context(), "go", "build", "-tags", "lambda.norpc", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("build %s: %v\n%s", pkg, err, text)
	}
	return out
}

// FreePort returns a port of 127.0.0.1 that nobody listens on.
func FreePort(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing was sent
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	return port
}

// A buffer collects output while it is still being written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A Process is a server that a test has started.
type Process struct {
	stdout, stderr buffer // apart, so that no line is cut by another
}

// Output is what the process has printed so far, on its two streams.
func (p *Process) Output() string { return p.stdout.String() + p.stderr.String() }

// Await returns what the process has printed once ready holds of it. What a
// function prints passes through a pipe of the emulator, so it may come after
// the answer.
func (p *Process) Await(tb testing.TB, ready func(output string) bool) string {
	tb.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 6000 {
		if output := p.Output(); ready(output) {
			return output
		}
		<-tick.C
	}
	tb.Fatalf("the awaited output did not come:\n%s", p.Output())
	return ""
}

// Start starts a server with the given environment alone and waits until it
// listens on the port. It is stopped, with all that it has started, when the
// test ends.
func Start(tb testing.TB, port string, environ []string, name string, args ...string) *Process {
	tb.Helper()
	return start(tb, port, "", environ, name, args...)
}

// start is Start in a folder; empty for this process's own.
func start(tb testing.TB, port, dir string, environ []string, name string, args ...string) *Process {
	tb.Helper()
	p := new(Process)
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, environ, &p.stdout, &p.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			tb.Errorf("stop %s: %v", name, err)
		}
		_ = cmd.Wait() // killed: that it says so is no news
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 9000 {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			_ = conn.Close() // only to see whether somebody listens
			return p
		}
		<-tick.C
	}
	tb.Fatalf("%s does not listen:\n%s", name, p.Output())
	return nil
}

// A Function is a Lambda function that runs.
type Function struct {
	*Process
	url string
}

// StartFunction starts a bootstrap, in its folder, under the emulator, a
// program; both are absolute paths. Of this process's own environment it gets
// what is not for AWS or for the function.
func StartFunction(tb testing.TB, emulator, bootstrap string, environ ...string) *Function {
	tb.Helper()
	if emulator == "" {
		tb.Fatal("LAMBDA_RIE does not say where the emulator is: run make aws-test")
	}
	port, runtime := FreePort(tb), FreePort(tb)
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "ICEHOSE_") && !strings.HasPrefix(pair, "AWS_") {
			env = append(env, pair)
		}
	}
	p := start(tb, port, filepath.Dir(bootstrap), append(env, environ...), emulator, "--runtime-interface-emulator-address", "127.0.0.1:"+port,
		"--runtime-api-address", "127.0.0.1:"+runtime, "--log-level", "info", bootstrap, "handler")
	return &Function{Process: p, url: "http://127.0.0.1:" + port + "/2015-03-31/functions/function/invocations"}
}

// Invoke sends one event and returns the answer.
func (f *Function) Invoke(tb testing.TB, event []byte) []byte {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, f.url, bytes.NewReader(event))
	if err != nil {
		tb.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return body
}
