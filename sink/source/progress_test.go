package source_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"icehose/sink"
	"icehose/sink/source"
)

// TestProgress: how far files are read is told in the bytes that the files have,
// growing, and at the end it is all of them.
func TestProgress(t *testing.T) {
	t.Parallel()
	for _, ext := range []string{"", ".gz", ".zst"} {
		dir := t.TempDir()
		size := int64(0)
		for i, name := range []string{"1.ndjson", "2.ndjson"} {
			var text strings.Builder
			for n := range 8000 {
				text.WriteString(record("a", i*8000+n))
			}
			path := write(t, filepath.Join(dir, name+ext), text.String())
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
		// One of the files under two names is one file.
		f := &source.Files{Names: []string{dir, filepath.Join(dir, ".", "1*")}, Uneven: map[string]sink.Uneven{"b": {}}}
		if got := f.Progress(); got.Known {
			t.Errorf("%q: known before anybody has looked: %+v", ext, got)
		}
		if got, want := f.Measure(), (source.Progress{Size: size, Known: true}); got != want {
			t.Errorf("%q: %+v before it is read, want %+v", ext, got, want)
		}
		n, last, between := 0, int64(0), 0
		for _, err := range f.Records(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			now := f.Progress()
			if now.Read < last || now.Size != size || !now.Known {
				t.Fatalf("%q: %+v after %d behind it, at record %d", ext, now, last, n)
			}
			if now.Read > last && now.Left() > 0 {
				between++
			}
			last = now.Read
		}
		if got := f.Progress(); n != 16_000 || got.Read != size || got.Left() != 0 {
			t.Errorf("%q: %+v at the end of %d records", ext, got, n)
		}
		if between < 5 {
			t.Errorf("%q: %d steps between the start and the end", ext, between)
		}
	}
}

// TestProgressOfFollowed: what a followed file, or a folder, grows by is left
// until it is read, as is a line that has no end.
func TestProgressOfFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, half := write(t, filepath.Join(dir, "1.ndjson"), records(0, 3)), record("a", 3)[:20]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var left []int64
	var f *source.Files
	step := 0
	f = &source.Files{Names: []string{dir}, Follow: true, Wait: func(ctx context.Context) error {
		left = append(left, f.Measure().Left())
		switch step++; step {
		case 1:
			add(t, first, []byte(half))
		case 2:
			add(t, first, []byte(record("a", 3)[20:]))
			write(t, filepath.Join(dir, "2.ndjson"), records(4, 6))
			left = append(left, f.Measure().Left())
		case 3:
			if err := os.Remove(first); err != nil {
				t.Error(err)
			}
		default:
			cancel()
		}
		return ctx.Err()
	}}
	for _, err := range f.Records(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []int64{0, int64(len(half)), int64(len(record("a", 3) + records(4, 6))), 0, 0}
	if len(left) != len(want) {
		t.Fatalf("left %v, want %v", left, want)
	}
	for i := range want {
		if left[i] != want[i] {
			t.Errorf("left %v, want %v", left, want)
			break
		}
	}
}

// TestProgressUnknown: nobody knows how much is still to come on standard input.
func TestProgressUnknown(t *testing.T) {
	t.Parallel()
	f := &source.Files{Names: []string{"-"}, Input: strings.NewReader(records(0, 2))}
	if got := f.Measure(); got.Known {
		t.Errorf("known: %+v", got)
	}
	read(t, f, nil)
	if got := f.Progress(); got.Known {
		t.Errorf("known: %+v", got)
	}
}
