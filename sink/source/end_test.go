package source_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/sink/source"
)

// A record whose line has no end counts where a file is followed too: those of
// later files are numbered behind it, as on a reading that does not follow.
func TestFollowRecordWithoutEnd(t *testing.T) {
	t.Parallel()
	whole, half := strings.TrimSuffix(record("a", 1), "\n"), record("a", 2)[:20]
	want := []string{"a#0@100=a/0", "a#1@101=a/1", "a#2@102=a/2", "a#3@103=a/3"}
	for _, tt := range []struct {
		name  string
		text  string
		steps []func(t *testing.T, path, next string)
		want  []string // "END" ends a path
	}{
		{"the next file comes", record("a", 0) + whole, []func(*testing.T, string, string){
			func(t *testing.T, _, next string) { rewrite(t, next, records(2, 4)) },
		}, want},
		{"its end comes", record("a", 0) + whole, []func(*testing.T, string, string){
			func(t *testing.T, path, _ string) { add(t, path, []byte("\r")) },
			func(t *testing.T, path, _ string) { add(t, path, []byte("\n")) },
			func(t *testing.T, path, _ string) { add(t, path, []byte(records(2, 4))) },
		}, want},
		{"its end comes with more", record("a", 0) + whole, []func(*testing.T, string, string){
			func(t *testing.T, path, _ string) { add(t, path, []byte("\n"+half)) },
			func(t *testing.T, path, _ string) { add(t, path, []byte(record("a", 2)[20:]+record("a", 3))) },
		}, want},
		{"its line goes on", record("a", 0) + whole, []func(*testing.T, string, string){
			func(t *testing.T, path, _ string) { add(t, path, []byte(records(2, 4))) },
		}, append(want[:2:2], "error: read records: DIR/1.ndjson:2: line goes on behind its record")},
		{"lines are counted once", record("a", 0) + whole, []func(*testing.T, string, string){
			func(t *testing.T, path, _ string) { add(t, path, []byte("\n"+record("a", 2)+record("a", 2))) },
		}, append(want[:3:3], "error: read records: DIR/1.ndjson:4: shard a has sequence number 102 behind 102 of DIR/1.ndjson:3: "+
			"sequence numbers of a shard must ascend: the file has records twice, or not in the order of the stream: give each record once, in that order")},
	} {
		for _, ext := range []string{"", ".gz"} {
			if ext != "" && len(tt.steps) > 1 {
				continue
			}
			t.Run(tt.name+ext, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				path := write(t, filepath.Join(dir, "1.ndjson"+ext), tt.text)
				var steps []func()
				for _, step := range tt.steps {
					steps = append(steps, func() {
						grown := filepath.Join(t.TempDir(), "grown"+ext)
						step(t, grown, filepath.Join(dir, "2.ndjson"))
						if text, err := os.ReadFile(grown); err == nil {
							add(t, path, packed(t, ext, text))
						}
					})
				}
				got := follow(t, steps, path, filepath.Join(dir, "2*"))
				for i := range got {
					got[i] = strings.ReplaceAll(got[i], "1.ndjson.gz", "1.ndjson")
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

// packed compresses text for a file whose name ends so.
func packed(t *testing.T, ext string, text []byte) []byte {
	t.Helper()
	if ext == "" {
		return text
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Half a record at the end of a file may be one that is still being written;
// anything else there is not.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	half := record("a", 1)[:30]
	for _, tt := range []struct {
		name, text string
		want       bool
	}{
		{"half a record", record("a", 0) + half, true},
		{"cut in a letter", record("a", 0) + strings.Replace(record("a", 1), "a/1", "ä", 1)[:len(record("a", 1))-6], true},
		{"with an end", record("a", 0) + half + "\n", false},
		{"not the last", half + "\n" + record("a", 0), false},
		{"no object", record("a", 0) + "text", false},
		{"a whole object", record("a", 0) + `{"data":1}`, false},
		{"a broken object", record("a", 0) + `{"data":x`, false},
	} {
		path := write(t, filepath.Join(t.TempDir(), "x"), tt.text)
		damaged := 0
		for r, err := range (&source.Files{Names: []string{path}}).Records(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Damaged {
				damaged++
				if r.Unfinished != tt.want {
					t.Errorf("%s: %v", tt.name, r.Unfinished)
				}
			}
		}
		if damaged != 1 {
			t.Errorf("%s: %d damaged", tt.name, damaged)
		}
	}
}

// A compressed file that has no end yet is told from one that is broken.
func TestCutFileMayGrow(t *testing.T) {
	t.Parallel()
	whole := packed(t, ".gz", []byte(records(0, 100)))
	broken := bytes.Clone(whole)
	broken[len(broken)-6] ^= 1
	const mayGrow = "ends in the middle, and may still be being written: read it again once it is whole, or follow it: "
	for _, tt := range []struct {
		name string
		text []byte
		want string
	}{
		{"nothing", nil, "DIR/x.gz:1: " + mayGrow + "open records: EOF"},
		{"its head", whole[:8], "DIR/x.gz:1: " + mayGrow + "open records: unexpected EOF"},
		{"all but its end", whole[:len(whole)-1], "DIR/x.gz:101: " + mayGrow + "unexpected EOF"},
		{"broken", broken, "DIR/x.gz:101: gzip: invalid checksum"},
	} {
		path := filepath.Join(t.TempDir(), "x.gz")
		add(t, path, tt.text)
		got := read(t, &source.Files{Names: []string{path}}, nil)
		if last := got[len(got)-1]; last != "error: read records: "+tt.want {
			t.Errorf("%s: got %q", tt.name, last)
		}
	}
	in := io.MultiReader(bytes.NewReader(whole[:len(whole)-1]))
	got := read(t, &source.Files{Names: []string{"-"}, Input: in}, nil)
	const want = "error: read records: -:101: ends in the middle, and may still be being written: read it again from its start: unexpected EOF"
	if last := got[len(got)-1]; last != want {
		t.Errorf("input: got %q", last)
	}
}

// A pipe by a name is read once, to its end: what stands there without an end is
// told also when it is followed.
func TestFollowPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(path, []byte(record("a", 0)+record("a", 1)[:20]), 0o600) }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks := 0
	f := &source.Files{Names: []string{path}, Follow: true, Wait: func(ctx context.Context) error {
		if looks++; looks == 3 {
			cancel()
		}
		return ctx.Err()
	}}
	if err := f.Check(ctx); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r, err := range f.Records(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, text(r))
	}
	if diff := cmp.Diff([]string{"a#0@100=a/0", "damaged=" + record("a", 1)[:20]}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := <-written; err != nil && !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}
