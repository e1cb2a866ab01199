//go:build aws

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/transform"
	"icehose/transform/firehose"
)

const (
	golden = "../../testdata/golden/transform"
	// maxZip is what design sets; Lambda itself takes 50 MB.
	maxZip = 10 << 20
)

// build builds the program as make build does.
func build(tb testing.TB, arch, out string) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-pgo=../../bench/transform.pgo", "-tags", "lambda.norpc", "-ldflags", "-s -w -buildid=", "-o", out, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("build: %v\n%s", err, text)
	}
}

// A safeBuffer collects output while it is still being written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// An emulator is AWS's Runtime Interface Emulator around one bootstrap.
type emulator struct {
	url            string
	stdout, stderr safeBuffer
}

// freePorts returns two addresses nobody listens on.
func freePorts(tb testing.TB) [2]string {
	tb.Helper()
	var out [2]string
	for i := range out {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		out[i] = l.Addr().String()
	}
	return out
}

// startEmulator starts the emulator that make aws-test has installed. It is
// stopped, and what it has started with it, when the test ends.
func startEmulator(tb testing.TB, bootstrap string, environ ...string) *emulator {
	tb.Helper()
	rie := os.Getenv("LAMBDA_RIE")
	if rie == "" {
		tb.Fatal("LAMBDA_RIE does not say where the emulator is: run make aws-test")
	}
	ports := freePorts(tb)
	e := &emulator{url: "http://" + ports[0] + "/2015-03-31/functions/function/invocations"}
	cmd := exec.Command(rie, "--runtime-interface-emulator-address", ports[0], "--runtime-api-address", ports[1], "--log-level", "info", bootstrap, "handler")
	cmd.Dir = filepath.Dir(bootstrap)
	cmd.Stdout, cmd.Stderr = &e.stdout, &e.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, variablePrefix) && !strings.HasPrefix(pair, "AWS_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, environ...)
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			tb.Errorf("stop emulator: %v", err)
		}
		_ = cmd.Wait() // killed: that it says so is no news
	})
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 2000 {
		if conn, err := net.Dial("tcp", ports[0]); err == nil {
			_ = conn.Close()
			return e
		}
		<-tick.C
	}
	tb.Fatalf("emulator does not listen:\n%s%s", &e.stdout, &e.stderr)
	return nil
}

// invoke sends one event.
func (e *emulator) invoke(tb testing.TB, event []byte) []byte {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, e.url, bytes.NewReader(event))
	if err != nil {
		tb.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		tb.Fatal(err)
	}
	return body
}

// output waits until the emulator has passed on n lines that hold text.
func (e *emulator) output(tb testing.TB, text string, n int) string {
	tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 2000 {
		if all := e.stdout.String() + e.stderr.String(); strings.Count(all, text) >= n {
			return all
		}
		<-tick.C
	}
	tb.Fatalf("want %d times %q in the output:\n%s%s", n, text, &e.stdout, &e.stderr)
	return ""
}

// TestEmulated compares the deployed program's answers with those of the
// handler in this process, byte for byte.
func TestEmulated(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(golden, "pipeline.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pipeline.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := catalog.Parse("pipeline.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	options := transform.Options{Mode: catalog.Changelog, Database: "history", Suffix: "_log"}
	transformer, err := transform.New(p, options)
	if err != nil {
		t.Fatal(err)
	}
	handler := firehose.New(transformer, firehose.Options{})
	bootstrap := filepath.Join(dir, "bootstrap")
	build(t, runtime.GOARCH, bootstrap)
	e := startEmulator(t, bootstrap, "ICEHOSE_MODE=changelog", "ICEHOSE_DATABASE=history", "ICEHOSE_SUFFIX=_log")
	events, err := filepath.Glob(filepath.Join(golden, "*.event.json"))
	if err != nil || len(events) == 0 {
		t.Fatalf("no events: %v", err)
	}
	for _, path := range events {
		event, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := handler.Handle(t.Context(), event)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.invoke(t, event); !bytes.Equal(got, want) {
			t.Errorf("%s: answer differs from the handler's:\n%s\nwant\n%s", path, got, want)
		}
	}
	broken := e.invoke(t, []byte(`{"records":[{"recordId":"`+secret))
	want := `{"errorMessage":"handle event: parse event: unterminated string at byte 44","errorType":"wrapError"}`
	if string(broken) != want {
		t.Errorf("a broken event gave %s, want %s", broken, want)
	}
	if got := e.invoke(t, []byte(`{"records":[]}`)); string(got) != `{"records":[]}` {
		t.Errorf("after a broken event: %s", got)
	}
}

// TestEmulatedPipelineOnS3 has the deployed program read its pipeline file
// from S3, and changes it there.
func TestEmulatedPipelineOnS3(t *testing.T) {
	b := newBucket(t)
	b.put(t, pipeline("one"))
	bootstrap := filepath.Join(t.TempDir(), "bootstrap")
	build(t, runtime.GOARCH, bootstrap)
	e := startEmulator(t, bootstrap, append(b.environ(), "ICEHOSE_PIPELINE_REFRESH=0s")...)
	for i, step := range []struct{ text, want, log string }{
		{"", "one", `"message":"record failed"`},
		{pipeline("two"), "two", `"message":"pipeline file changed"`},
		{"tables: []", "two", `"message":"pipeline file refused"`},
		{pipeline("three"), "three", `"message":"pipeline file changed"`},
	} {
		if step.text != "" {
			b.put(t, step.text)
		}
		answers, err := firehose.ParseResponse(e.invoke(t, notes()))
		if err != nil || len(answers) != 2 {
			t.Fatalf("step %d: %d answers: %v", i, len(answers), err)
		}
		if answers[0].Database != step.want || answers[1].Result != transform.ProcessingFailed {
			t.Errorf("step %d: delivered to %q, want %q; second answer %s", i, answers[0].Database, step.want, answers[1].Result)
		}
		checkSecret(t, e.output(t, step.log, 1))
	}
	all := e.output(t, `"outcome":"Ok"`, 4)
	checkSecret(t, all)
	for line := range strings.Lines(all) {
		if strings.Contains(line, "pipeline file") && !strings.HasPrefix(line, `{"timestamp":`) {
			t.Errorf("a line is not JSON: %s", line)
		}
	}
}

// TestZips packs what make build packs, twice.
func TestZips(t *testing.T) {
	for _, arch := range []string{"arm64", "amd64"} {
		var zips [2][]byte
		for i := range zips {
			dir := t.TempDir()
			build(t, arch, filepath.Join(dir, "bootstrap"))
			out := filepath.Join(dir, "out.zip")
			cmd := exec.CommandContext(t.Context(), "go", "run", "./package", "-out", out, "-bootstrap", filepath.Join(dir, "bootstrap"))
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("package: %v\n%s", err, text)
			}
			text, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			zips[i] = text
		}
		if !bytes.Equal(zips[0], zips[1]) {
			t.Errorf("%s: built twice, other bytes", arch)
		}
		if len(zips[0]) >= maxZip {
			t.Errorf("%s: %d bytes, want fewer than %d", arch, len(zips[0]), maxZip)
		}
	}
}

// BenchmarkInit reports what the emulator measures from the start of the
// process to its first request for work: the median of five.
func BenchmarkInit(b *testing.B) {
	bootstrap := filepath.Join(b.TempDir(), "bootstrap")
	build(b, runtime.GOARCH, bootstrap)
	text, err := os.ReadFile(filepath.Join(golden, "pipeline.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(bootstrap), "pipeline.yaml"), text, 0o600); err != nil {
		b.Fatal(err)
	}
	report := regexp.MustCompile(`INIT REPORT\(durationMs: ([0-9.]+)\)`)
	for b.Loop() {
		var times []float64
		for range 5 {
			e := startEmulator(b, bootstrap)
			if got := e.invoke(b, []byte(`{"records":[]}`)); string(got) != `{"records":[]}` {
				b.Fatalf("answer %s", got)
			}
			found := report.FindStringSubmatch(e.output(b, "INIT REPORT", 1))
			if found == nil {
				b.Fatal(fmt.Errorf("no init time in the output"))
			}
			ms, err := strconv.ParseFloat(found[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			times = append(times, ms)
		}
		slices.Sort(times)
		b.ReportMetric(times[len(times)/2], "init-ms")
	}
}
