package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestByteSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]byteSize{"0": 0, "7": 7, "7B": 7, "3KiB": 3072, "64MiB": 64 << 20, "2GiB": 2 << 30} {
		var got byteSize
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5MiB", "1MB", "1mib", "1 MiB", "99999999999999999999", "2000000GiB", "1KiBB"} {
		var got byteSize
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%s: taken for %d", text, got)
		}
	}
}

// What is begun may be ended for a while after an interrupt, not for ever.
func TestOutlive(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	work, release := outlive(ctx, time.Hour)
	defer release()
	interrupt()
	if err := work.Err(); err != nil {
		t.Errorf("done at once: %v", err)
	}
	short, releaseShort := outlive(ctx, time.Millisecond)
	defer releaseShort()
	<-short.Done()
	if cause := context.Cause(short); !errors.Is(cause, errTooLong) {
		t.Errorf("done because of %v", cause)
	}
}

// A sink that is interrupted before it began has not delivered everything. One
// that follows had no more to do.
func TestSinkInterruptedEarly(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{nil, exitTrouble, `{"error":"interrupted: what was committed stays, run it again to go on"}`},
		{[]string{"--follow"}, exitSame, `"interrupted": true`},
	} {
		var out bytes.Buffer
		args := append([]string{"--json", "sink", "--pipeline", filepath.Join(tpccFixture, "pipeline.yaml"), "--lake", filepath.Join(t.TempDir(), "lake")}, tt.args...)
		status := run(ctx, append(args, filepath.Join(tpccFixture, "events.ndjson.zst")), environment{stdin: strings.NewReader(""), stdout: &out, stderr: &out, getenv: func(string) string { return "" }})
		if status != tt.status || !strings.Contains(out.String(), tt.want) || !strings.Contains(out.String(), `"interrupted": true`) {
			t.Errorf("%q: status %d\n%s", tt.args, status, &out)
		}
	}
}

// A source that ends because it is told to was not read to its end, whatever
// is noticed first.
func TestSinkInterruptedAtTheEnd(t *testing.T) {
	t.Parallel()
	for range 8 {
		ctx, interrupt := context.WithCancel(t.Context())
		var out bytes.Buffer
		status := run(ctx, []string{"sink", "--pipeline", filepath.Join(tpccFixture, "pipeline.yaml"), "--lake", filepath.Join(t.TempDir(), "lake"), "-"},
			environment{stdin: &lastLine{text: fixtureLines(t)[0], read: interrupt}, stdout: &out, stderr: &out, getenv: func(string) string { return "" }})
		if status != exitTrouble || !strings.Contains(out.String(), "icehose: interrupted: ") {
			t.Fatalf("status %d\n%s", status, &out)
		}
	}
}

// lastLine is a line, and then what happens at its end.
type lastLine struct {
	text []byte
	read func()
}

func (l *lastLine) Read(p []byte) (int, error) {
	n := copy(p, l.text)
	l.text = l.text[n:]
	if n == 0 {
		l.read()
		return 0, io.EOF
	}
	return n, nil
}
