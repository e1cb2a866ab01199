package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	sinksource "icehose/sink/source"
)

// A screen writes its rows anew in their places, and leaves nothing behind.
func TestSinkScreen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := newSinkScreen(&out, sinksource.Progress{Size: 4 << 20, Known: true}, false)
	s.draw(&sinkStatus{lag: time.Minute, uncommitted: 1234, source: sinksource.Progress{Read: 1 << 20, Size: 4 << 20, Known: true}, retrying: true})
	const numbers = "a commit fails and is tried again  lag 1m0s  1,234 uncommitted  3.0 MiB unread  0 records  0 rows  0 superseded  0 failed  0 commits in 0.0s  0 files  at -"
	rows := strings.Split(out.String(), "\n")
	if len(rows) != 2 || !strings.HasPrefix(rows[0], "\r\x1b[Ksink        25% |") || !strings.Contains(rows[0], "(1.0/4.0 MiB") || rows[1] != "\r\x1b[K"+numbers+"\x1b[1A\r" {
		t.Errorf("%q", rows)
	}
	out.Reset()
	s.clear()
	if got, want := out.String(), "\r\x1b[K\n\r\x1b[K\x1b[1A\r"; got != want {
		t.Errorf("cleared by %q, want %q", got, want)
	}
	for _, unbarred := range []*sinkScreen{
		newSinkScreen(&out, sinksource.Progress{Size: 1, Known: true}, true), newSinkScreen(&out, sinksource.Progress{Size: 1}, false),
	} {
		out.Reset()
		unbarred.draw(&sinkStatus{lag: -1})
		if got := out.String(); !strings.HasPrefix(got, "\r\x1b[Klag -  0 uncommitted  0 records  ") || strings.Contains(got, "\n") {
			t.Errorf("without a bar: %q", got)
		}
	}
}

func TestFolded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		width int
		want  []string
	}{
		{0, []string{"lag 1s  22 records  3 files"}},
		{80, []string{"lag 1s  22 records  3 files"}},
		{19, []string{"lag 1s  22 records", "3 files"}},
		{18, []string{"lag 1s", "22 records", "3 files"}},
		{3, []string{"lag 1s", "22 records", "3 files"}},
	} {
		if diff := cmp.Diff(tt.want, folded("lag 1s  22 records  3 files", tt.width)); diff != "" {
			t.Errorf("width %d (-want +got):\n%s", tt.width, diff)
		}
	}
}

func TestInBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 3 << 19: "1.5 MiB", 1 << 40: "1.0 TiB", 1 << 50: "1024.0 TiB"} {
		if got := inBytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// A change that is dated in the future, by a wrong clock of the source, is not
// taken for how late the others are; and a lag that nobody knows is not 0.
func TestLagWithoutTheFuture(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	r, _ := slowRun(t, redrivePipeline, 0, sinkCmd{FlushBytes: 1 << 20, Batch: 1})
	r.source = &sinksource.Files{}
	for i, step := range []struct {
		table string
		after time.Duration
		want  string
	}{
		{"orders", 48 * time.Hour, `"failed":0,"uncommitted_records":`},
		{"log", -3 * time.Hour, `"failed":0,"lag":"3h0m0s","lag_seconds":10800.`},
		{"log", 10 * time.Second, `"failed":0,"lag":"0s","lag_seconds":0,`},
	} {
		at := time.Now().Add(step.after).UTC().Format("2006-01-02T15:04:05.000000Z")
		record := orderRecord("0", i)
		record.Data = fmt.Appendf(nil, `{"data":{"id":%d},"metadata":{"timestamp":%q,"record-type":"data","operation":"insert","partition-key-type":"primary-key",`+
			`"schema-name":"public","table-name":%q,"transaction-id":%d,"transaction-record-id":1,"commit-timestamp":%[2]q,"stream-position":"00000000/0000100%[1]d.2.00000000/0000100%[1]d"}}`,
			i, at, step.table, i+1)
		if err := r.add(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		out.Reset()
		r.logStatus(t.Context(), log)
		if got := out.String(); !strings.Contains(got, step.want) {
			t.Errorf("a change of %v later: %s, want %s", step.after, got, step.want)
		}
	}
}
