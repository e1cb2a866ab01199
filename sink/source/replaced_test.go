package source_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/sink/source"
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

// An empty file whose name is given to another one has lost nothing, as long as
// it stays empty.
func TestFollowReplacedWhileEmpty(t *testing.T) {
	t.Parallel()
	const gone = "error: read records: DIR/x: not the file any more that was followed: "
	move := func(t *testing.T, path string) {
		rename(t, path, path+".1")
		rewrite(t, path, records(2, 4))
	}
	for _, tt := range []struct {
		name  string
		steps []func(t *testing.T, path string)
		want  []string // as it begins
	}{
		{"by one that was made beside it", []func(*testing.T, string){func(t *testing.T, path string) {
			rewrite(t, path+".part", records(2, 4))
			rename(t, path+".part", path)
		}}, []string{"a#0@102=a/2", "a#1@103=a/3"}},
		{"renamed, and begun again", []func(*testing.T, string){move}, []string{"a#0@102=a/2", "a#1@103=a/3"}},
		{"removed, and begun again later", []func(*testing.T, string){func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		}, func(t *testing.T, path string) { rewrite(t, path, records(2, 4)) }}, []string{"a#0@102=a/2", "a#1@103=a/3"}},
		{"again and again", []func(*testing.T, string){
			func(t *testing.T, path string) { rename(t, path, path+".1"); rewrite(t, path, "") },
			func(t *testing.T, path string) { rename(t, path, path+".2"); rewrite(t, path, "") },
			func(t *testing.T, path string) { add(t, path, []byte(records(2, 4))) },
		}, []string{"a#0@102=a/2", "a#1@103=a/3"}},
		{"after it has got records", []func(*testing.T, string){func(t *testing.T, path string) {
			add(t, path, []byte(record("a", 0)))
			move(t, path)
		}}, []string{gone}},
		{"after it has got half a record", []func(*testing.T, string){
			func(t *testing.T, path string) { add(t, path, []byte(record("a", 0)[:20])) },
			move,
		}, []string{gone}},
		{"it gets records under its new name", []func(*testing.T, string){
			move,
			func(t *testing.T, path string) { add(t, path+".1", []byte(record("a", 0))) },
		}, []string{"a#0@102=a/2", "a#1@103=a/3", gone}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := write(t, filepath.Join(t.TempDir(), "x"), "")
			var steps []func()
			for _, step := range tt.steps {
				steps = append(steps, func() { step(t, path) })
			}
			got := follow(t, steps, path)
			if len(got) != len(tt.want) {
				t.Fatalf("got %q", got)
			}
			for i, want := range tt.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("got %q", got)
				}
			}
		})
	}
}

// Also when that happens after the look at what was taken away.
func TestFollowReplacedWhileOthersAreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other, path := write(t, filepath.Join(dir, "a"), ""), write(t, filepath.Join(dir, "x"), "")
	f := &source.Files{Names: []string{other, path}, Follow: true}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks := 0
	f.Wait = func(ctx context.Context) error {
		if looks++; looks == 1 {
			add(t, other, []byte(record("b", 0)))
		} else if looks == 4 {
			cancel()
		}
		return ctx.Err()
	}
	var got []string
	for r, err := range f.Records(ctx, nil) {
		if err != nil {
			got = append(got, err.Error())
			break
		}
		if got = append(got, text(r)); len(got) == 1 {
			add(t, path, []byte(records(0, 2)))
			rename(t, path, path+".1")
			rewrite(t, path, records(2, 4))
		}
	}
	if len(got) != 2 || !strings.Contains(got[1], "/x: not the file any more that was followed: ") {
		t.Errorf("got %q", got)
	}
}

// What a followed file got before it was taken away, since it was last looked at,
// is not passed over.
func TestFollowTakenAway(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"1.ndjson", "1.ndjson.gz", "1.ndjson.zst"} {
		for _, grown := range []bool{true, false} {
			dir := t.TempDir()
			path := write(t, filepath.Join(dir, name), records(0, 2))
			more, err := os.ReadFile(write(t, filepath.Join(t.TempDir(), name), record("a", 2)))
			if err != nil {
				t.Fatal(err)
			}
			got := follow(t, []func(){func() {
				if grown {
					add(t, path, more)
				}
				rename(t, path, path+".done")
			}, func() {}}, dir)
			if n := len(got); grown != (n == 3 && strings.Contains(got[2], name+": not the file any more that was followed: ")) || !grown && n != 2 {
				t.Errorf("%s, grown %v: got %q", name, grown, got)
			}
		}
	}
}

// A file that grew while it was read, and was renamed then, was read whole.
func TestFollowTakenAwayWhileRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "1.ndjson"), records(0, 2))
	f := &source.Files{Names: []string{dir}, Follow: true}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks := 0
	f.Wait = func(ctx context.Context) error {
		if looks++; looks == 1 {
			rename(t, path, path+".done")
		} else if looks == 3 {
			cancel()
		}
		return ctx.Err()
	}
	n := 0
	for _, err := range f.Records(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 2 { // the reader has reached the end that the file had
			add(t, path, []byte(record("a", 2)))
		}
	}
	if n != 3 {
		t.Errorf("%d records", n)
	}
}

// A compressed copy that is made anew may be smaller, and go on.
func TestFollowSmallerCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole, err := os.ReadFile(write(t, filepath.Join(dir, "whole.gz"), records(0, 1000)))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x.gz")
	for n := range 100 { // in pieces, which take more room
		piece, err := os.ReadFile(write(t, filepath.Join(dir, "piece.gz"), records(10*n, 10*n+10)))
		if err != nil {
			t.Fatal(err)
		}
		add(t, path, piece)
	}
	got := follow(t, []func(){
		func() { rewrite(t, path+".part", string(whole)); rename(t, path+".part", path) },
		func() {
			more, err := os.ReadFile(write(t, filepath.Join(dir, "piece.gz"), records(1000, 1001)))
			if err != nil {
				t.Error(err)
			}
			add(t, path, more)
		},
	}, path)
	if len(got) != 1001 || got[1000] != "a#1000@1100=a/1000" {
		t.Errorf("%d, the last %q", len(got), got[len(got)-1])
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
