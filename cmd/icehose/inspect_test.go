package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// cutOff writes a compressed file of many records that lost its end, and a
// whole one, and changes into their folder.
func cutOff(t *testing.T, compress func(io.Writer) (io.WriteCloser, error)) {
	t.Helper()
	var packed bytes.Buffer
	w, err := compress(&packed)
	if err != nil {
		t.Fatal(err)
	}
	record := func(id int) string {
		return fmt.Sprintf(`{"data":{"id":%d},"metadata":{"timestamp":"2026-01-02T03:04:05.%06dZ","record-type":"data","operation":"load",`+
			`"partition-key-type":"primary-key","partition-key-value":"public.log.%d","schema-name":"public","table-name":"log"}}`+"\n", id, id, id)
	}
	for i := range 5000 {
		if _, err := io.WriteString(w, record(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for name, content := range map[string][]byte{
		"cut": packed.Bytes()[:packed.Len()*3/4], "whole": []byte(record(9999)), "pipeline.yaml": []byte(redrivePipeline),
	} {
		if err := os.WriteFile(filepath.Clean(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A file that is damaged in its middle is reported on up to there.
func TestDamagedFile(t *testing.T) {
	for name, compress := range map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip": func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"zstd": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	} {
		t.Run(name, func(t *testing.T) {
			cutOff(t, compress)
			content, err := os.ReadFile("cut")
			if err != nil {
				t.Fatal(err)
			}
			for i := len(content) * 2 / 3; i < len(content)*2/3+64; i++ {
				content[i] ^= 0x5a
			}
			if err := os.WriteFile("damaged", content, 0o600); err != nil {
				t.Fatal(err)
			}
			status, stdout, stderr := runCommand(t, "inspect", "damaged", "whole")
			var records int
			_, err = fmt.Sscanf(stdout, "%d records", &records)
			if status != exitTrouble || !strings.Contains(stdout, "problem file_ends_early") || !strings.Contains(stderr, "icehose: damaged: read records: ") ||
				err != nil || records < 2 || records > 5000 {
				t.Errorf("status %d, %d records, %v\n%s%s", status, records, err, stdout, stderr)
			}
		})
	}
}

// A file that lost its end is still reported on, and the status says that
// something is missing.
func TestCutOffFile(t *testing.T) {
	for name, compress := range map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip": func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"zstd": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	} {
		t.Run(name, func(t *testing.T) {
			cutOff(t, compress)
			status, stdout, stderr := runCommand(t, "inspect", "cut", "whole")
			if status != exitTrouble || !strings.Contains(stdout, "problem file_ends_early") || !strings.Contains(stdout, "such as: cut") ||
				!strings.Contains(stderr, "icehose: cut: read records: unexpected EOF") {
				t.Errorf("inspect: status %d\n%s%s", status, stdout, stderr)
			}
			var records int
			if _, err := fmt.Sscanf(stdout, "%d records", &records); err != nil || records < 2 || records > 5000 {
				t.Errorf("inspect: %d records: %v\n%s", records, err, stdout)
			}
			status, stdout, _ = runCommand(t, "--json", "inspect", "cut")
			if status != exitTrouble || strings.Count(stdout, `"file_ends_early"`) != 1 || strings.Contains(stdout, `"error"`) {
				t.Errorf("inspect --json: status %d\n%s", status, stdout)
			}
			status, stdout, stderr = runCommand(t, "transform", "--pipeline", "pipeline.yaml", "--batch", "100", "cut")
			summary := fmt.Sprintf("%s records: %[1]s delivered, 0 dropped, 0 failed\n", thousands(int64(strings.Count(stdout, "\n"))))
			if status != exitTrouble || stdout == "" || !strings.Contains(stderr, summary) || !strings.Contains(stderr, "icehose: cut: read records: unexpected EOF") {
				t.Errorf("transform: status %d, want %s%s", status, summary, stderr)
			}
		})
	}
}
