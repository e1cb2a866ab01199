//go:build aws

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/internal/rietest"
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

// start starts the bootstrap under the emulator that make aws-test has installed.
func start(tb testing.TB, bootstrap string, environ ...string) *rietest.Function {
	tb.Helper()
	return rietest.StartFunction(tb, os.Getenv("LAMBDA_RIE"), bootstrap, environ...)
}

// output waits until the emulator has passed on n lines that hold text.
func output(tb testing.TB, f *rietest.Function, text string, n int) string {
	tb.Helper()
	return f.Await(tb, func(all string) bool { return strings.Count(all, text) >= n })
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
	e := start(t, bootstrap, "ICEHOSE_MODE=changelog", "ICEHOSE_DATABASE=history", "ICEHOSE_SUFFIX=_log")
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
		if got := e.Invoke(t, event); !bytes.Equal(got, want) {
			t.Errorf("%s: answer differs from the handler's:\n%s\nwant\n%s", path, got, want)
		}
	}
	broken := e.Invoke(t, []byte(`{"records":[{"recordId":"`+secret))
	want := `{"errorMessage":"handle event: parse event: unterminated string at byte 44","errorType":"wrapError"}`
	if string(broken) != want {
		t.Errorf("a broken event gave %s, want %s", broken, want)
	}
	if got := e.Invoke(t, []byte(`{"records":[]}`)); string(got) != `{"records":[]}` {
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
	e := start(t, bootstrap, append(b.environ(), "ICEHOSE_PIPELINE_REFRESH=0s")...)
	for i, step := range []struct{ text, want, log string }{
		{"", "one", `"message":"record failed"`},
		{pipeline("two"), "two", `"message":"pipeline file changed"`},
		{"tables: []", "two", `"message":"pipeline file refused"`},
		{pipeline("three"), "three", `"message":"pipeline file changed"`},
	} {
		if step.text != "" {
			b.put(t, step.text)
		}
		answers, err := firehose.ParseResponse(e.Invoke(t, notes()))
		if err != nil || len(answers) != 2 {
			t.Fatalf("step %d: %d answers: %v", i, len(answers), err)
		}
		if answers[0].Database != step.want || answers[1].Result != transform.ProcessingFailed {
			t.Errorf("step %d: delivered to %q, want %q; second answer %s", i, answers[0].Database, step.want, answers[1].Result)
		}
		checkSecret(t, output(t, e, step.log, 1))
	}
	all := output(t, e, `"outcome":"Ok"`, 4)
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
			e := start(b, bootstrap)
			if got := e.Invoke(b, []byte(`{"records":[]}`)); string(got) != `{"records":[]}` {
				b.Fatalf("answer %s", got)
			}
			found := report.FindStringSubmatch(output(b, e, "INIT REPORT", 1))
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
