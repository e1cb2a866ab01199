package source_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// rename moves a file; rewrite writes one anew where it is.
func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Error(err)
	}
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Error(err)
	}
}

// A followed file that is another one all at once is an error: what it had is
// not passed over. One that begins with all that was read goes on.
func TestFollowReplaced(t *testing.T) {
	t.Parallel()
	first := []string{"a#0@100=a/0", "a#1@101=a/1"}
	later := func(n int) string { return records(n, n+20) } // longer than what it replaces
	for _, tt := range []struct {
		name, file string
		begins     string
		then       func(t *testing.T, path string)
		refused    bool
	}{
		{"renamed, and begun again", "x", records(0, 2), func(t *testing.T, path string) {
			rename(t, path, path+".1")
			rewrite(t, path, later(2))
		}, true},
		{"renamed after it has grown, and begun again", "x", records(0, 2), func(t *testing.T, path string) {
			add(t, path, []byte(record("a", 2)))
			rename(t, path, path+".1")
			rewrite(t, path, later(3))
		}, true},
		{"renamed while it was empty", "x", "", func(t *testing.T, path string) {
			rename(t, path, path+".1")
			rewrite(t, path, later(2))
		}, true},
		{"cut, and longer than before", "x", records(0, 2), func(t *testing.T, path string) { rewrite(t, path, later(2)) }, true},
		{"cut, and as long as before", "x", records(0, 2), func(t *testing.T, path string) {
			rewrite(t, path, records(2, 4))
			if err := os.Chtimes(path, farAhead, farAhead); err != nil {
				t.Error(err)
			}
		}, true},
		{"another one, as long and as old", "x", records(0, 2), func(t *testing.T, path string) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			rewrite(t, path+".other", records(2, 4))
			if err := os.Chtimes(path+".other", info.ModTime(), info.ModTime()); err != nil {
				t.Error(err)
			}
			rename(t, path+".other", path)
		}, true},
		{"another compressed one", "x.gz", records(0, 2), func(t *testing.T, path string) { write(t, path, records(2, 400)) }, true},
		{"a copy that is made anew", "x", records(0, 2), func(t *testing.T, path string) {
			rewrite(t, path+".part", records(0, 4))
			rename(t, path+".part", path)
		}, false},
		{"a compressed copy that is made anew", "x.gz", records(0, 2), func(t *testing.T, path string) {
			write(t, filepath.Join(filepath.Dir(path), "part.gz"), records(0, 4))
			rename(t, filepath.Join(filepath.Dir(path), "part.gz"), path)
		}, false},
		{"touched, and grown", "x", records(0, 2), func(t *testing.T, path string) {
			if err := os.Chtimes(path, farAhead, farAhead); err != nil {
				t.Error(err)
			}
			add(t, path, []byte(records(2, 4)))
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := write(t, filepath.Join(t.TempDir(), tt.file), tt.begins)
			got := follow(t, []func(){func() { tt.then(t, path) }}, path)
			if !tt.refused {
				if diff := cmp.Diff(append(first[:2:2], "a#2@102=a/2", "a#3@103=a/3"), got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				return
			}
			n := strings.Count(tt.begins, "\n")
			if len(got) != n+1 || cmp.Diff(first[:n], got[:n]) != "" || !strings.HasPrefix(got[n], "error: read records: DIR/"+tt.file+": not the file any more that was followed: ") {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A file that grows by much, in long lines and short ones, is known again.
func TestFollowLongFile(t *testing.T) {
	t.Parallel()
	path := write(t, filepath.Join(t.TempDir(), "x"), "")
	long := strings.Replace(record("a", 0), `"k"`, `"`+strings.Repeat("k", 40_000)+`"`, 1)
	got := follow(t, []func(){
		func() { add(t, path, []byte(long+records(1, 1000))) },
		func() { add(t, path, []byte(records(1000, 1001))) },
		func() { add(t, path, []byte(records(1001, 2000))) },
	}, path)
	if len(got) != 2000 || got[1999] != "a#1999@2099=a/1999" {
		t.Errorf("%d records, the last %q", len(got), got[len(got)-1])
	}
}

// A followed folder in which a file is compressed when it is finished.
func TestFollowCompressed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "1.ndjson"), records(0, 2))
	got := follow(t, []func(){func() {
		write(t, path+".gz", records(0, 2))
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}}, dir)
	if len(got) != 3 || !strings.Contains(got[2], "/1.ndjson.gz:1: shard a has sequence number 100 behind 101 of ") {
		t.Errorf("got %q", got)
	}
}

// farAhead is a time at which no file was written before.
var farAhead = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
