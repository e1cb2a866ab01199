package main

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPackage(t *testing.T) {
	type entry struct {
		Name, Text string
		Mode       os.FileMode
		Time       time.Time
	}
	want := []entry{
		{"bootstrap", "program", 0o755, time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)},
		{"a.yaml", "first", 0o644, time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)},
		{"b.yaml", "second", 0o644, time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
	var zips [][]byte
	for i, mode := range []os.FileMode{0o600, 0o755} {
		dir := t.TempDir()
		for name, text := range map[string]string{"binary": "program", "a.yaml": "first", "b.yaml": "second"} {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(text), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, time.Time{}, time.Unix(int64(1e9*i), 0)); err != nil {
				t.Fatal(err)
			}
		}
		files := []string{filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")}
		if i > 0 {
			files[0], files[1] = files[1], files[0]
		}
		out := filepath.Join(dir, "dist", "out.zip")
		var stderr bytes.Buffer
		if status := run(append([]string{"-out", out, "-bootstrap", filepath.Join(dir, "binary")}, files...), &stderr); status != 0 {
			t.Fatalf("status %d: %s", status, &stderr)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		zips = append(zips, text)
	}
	if !bytes.Equal(zips[0], zips[1]) {
		t.Error("the same files gave other bytes")
	}
	z, err := zip.NewReader(bytes.NewReader(zips[0]), int64(len(zips[0])))
	if err != nil {
		t.Fatal(err)
	}
	var got []entry
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, entry{f.Name, string(text), f.Mode(), f.Modified.UTC()})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries differ (-want +got):\n%s", diff)
	}
}

func TestPackageRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		name, want string
		args       []string
	}{
		{"no arguments", "want -out and -bootstrap", nil},
		{"an unknown flag", "not defined", []string{"-quick"}},
		{"no program", "no such file", []string{"-out", filepath.Join(dir, "out.zip"), "-bootstrap", filepath.Join(dir, "none")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stderr bytes.Buffer
			if status := run(test.args, &stderr); status != 2 || !strings.Contains(stderr.String(), test.want) {
				t.Errorf("status %d, %s", status, &stderr)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "out.zip")); !os.IsNotExist(err) {
		t.Errorf("a zip was left behind: %v", err)
	}
}
