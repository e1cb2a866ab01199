package source_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/sink/source"
)

// A following source is told what happens between its looks.
type script struct {
	t     *testing.T
	steps []func()
}

func (s *script) wait(ctx context.Context) error {
	if len(s.steps) == 0 {
		return context.Canceled
	}
	s.steps[0]()
	s.steps = s.steps[1:]
	return ctx.Err()
}

func follow(t *testing.T, steps []func(), names ...string) []string {
	t.Helper()
	s := &script{t: t, steps: steps}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	files := &source.Files{Names: names, Follow: true, Wait: func(ctx context.Context) error {
		err := s.wait(ctx)
		if err != nil {
			cancel()
		}
		return err
	}}
	var got []string
	for r, err := range files.Records(ctx, nil) {
		if err != nil {
			return append(got, "error: "+strings.ReplaceAll(err.Error(), filepath.Dir(names[0]), "DIR"))
		}
		got = append(got, text(r))
	}
	if len(s.steps) > 0 {
		t.Errorf("%d steps were not waited for", len(s.steps))
	}
	return got
}

func TestFollow(t *testing.T) {
	t.Parallel()
	want := []string{"a#0@100=a/0", "a#1@101=a/1", "a#2@102=a/2", "a#3@103=a/3"}
	check := func(t *testing.T, got []string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	t.Run("a file grows, by half a line too", func(t *testing.T) {
		t.Parallel()
		path := write(t, filepath.Join(t.TempDir(), "x"), record("a", 0))
		half := record("a", 1)
		check(t, follow(t, []func(){
			func() { add(t, path, []byte(half[:20])) },
			func() {},
			func() { add(t, path, []byte(half[20:]+record("a", 2))) },
			func() { add(t, path, []byte(record("a", 3))) },
		}, path))
	})
	for _, ext := range []string{".gz", ".zst"} {
		t.Run("a compressed file grows, cut anywhere"+ext, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			whole, err := os.ReadFile(write(t, filepath.Join(dir, "whole"+ext), records(0, 2)))
			if err != nil {
				t.Fatal(err)
			}
			second, err := os.ReadFile(write(t, filepath.Join(dir, "second"+ext), records(2, 4)))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "grows"+ext)
			add(t, path, nil)
			var steps []func()
			for _, b := range append(whole, second...) {
				steps = append(steps, func() { add(t, path, []byte{b}) })
			}
			check(t, follow(t, steps, path))
		})
	}
	t.Run("new files in a folder that was empty", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		check(t, follow(t, []func(){
			func() { write(t, filepath.Join(dir, "1.ndjson"), records(0, 2)) },
			func() { write(t, filepath.Join(dir, "2.ndjson.gz"), records(2, 4)) },
			func() {},
		}, dir))
	})
	t.Run("files that match, taken away when read", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		first := write(t, filepath.Join(dir, "s1"), records(0, 2))
		check(t, follow(t, []func(){
			func() {
				if err := os.Remove(first); err != nil {
					t.Error(err)
				}
				write(t, filepath.Join(dir, "s2"), records(2, 4))
			},
		}, filepath.Join(dir, "s*")))
	})
	t.Run("two shards in two files side by side", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		a, b := write(t, filepath.Join(dir, "a"), record("a", 0)), write(t, filepath.Join(dir, "b"), record("b", 0))
		got := follow(t, []func(){
			func() { add(t, a, []byte(record("a", 1))); add(t, b, []byte(record("b", 1))) },
		}, a, b)
		if diff := cmp.Diff([]string{"a#0@100=a/0", "b#0@100=b/0", "a#1@101=a/1", "b#1@101=b/1"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("an earlier file grows by a shard that has moved on", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		a, b := write(t, filepath.Join(dir, "1"), record("a", 0)), write(t, filepath.Join(dir, "2"), record("a", 1))
		got := follow(t, []func(){func() { add(t, a, []byte(record("a", 2))) }}, a, b)
		if len(got) != 3 || !strings.HasPrefix(got[2], "error: read records: DIR/1:2: file has a record of shard a that came after a later file") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a file shrinks", func(t *testing.T) {
		t.Parallel()
		path := write(t, filepath.Join(t.TempDir(), "x"), records(0, 2))
		got := follow(t, []func(){func() { write(t, path, record("a", 0)) }}, path)
		if len(got) != 3 || got[2] != "error: read records: DIR/x has shrunk while it was followed" {
			t.Errorf("got %q", got)
		}
	})
}
