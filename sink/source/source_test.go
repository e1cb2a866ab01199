package source_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"icehose/sink"
	"icehose/sink/source"
)

// record is a line of a file: record n of a shard.
func record(shard string, n int) string {
	return fmt.Sprintf(`{"shardId":%q,"sequenceNumber":"%d","partitionKey":"k","approximateArrivalTimestamp":%d,"data":"%s/%d"}`, shard, 100+n, n, shard, n) + "\n"
}

func records(from, to int) (text string) {
	for n := from; n < to; n++ {
		text += record("a", n)
	}
	return text
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch filepath.Ext(path) {
	case ".gz":
		w = gzip.NewWriter(&b)
	case ".zst":
		z, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	default:
		b.WriteString(text)
	}
	if w != nil {
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func add(t *testing.T, path string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// text is a record for people: shard#ordinal@sequence=data.
func text(r source.Record) string {
	if r.Damaged {
		return "damaged=" + string(r.Data)
	}
	return fmt.Sprintf("%s#%d@%s=%s", r.Offset.Shard, r.Offset.Ordinal, r.Offset.Sequence, r.Data)
}

// read reads to the end, or to the first error, which is part of the result.
func read(t *testing.T, s source.Source, after map[string]sink.Offset) (got []string) {
	t.Helper()
	for r, err := range s.Records(t.Context(), after) {
		if err != nil {
			return append(got, "error: "+strings.ReplaceAll(err.Error(), filepath.Dir(place(s)), "DIR"))
		}
		got = append(got, text(r))
	}
	return got
}

func place(s source.Source) string {
	if f, ok := s.(*source.Files); ok {
		return f.Names[0]
	}
	return ""
}

// copied is what is told of a file whose records do not come after those of another.
const copied = "sequence numbers of a shard must ascend: the file probably has the same records under another name, or belongs before that one: " +
	"give each file once, in the order of the stream; a lake that this run has committed records to has wrong numbers, fill a new one"

// twice is what is told of a file and its copy, x and x.gz.
const twice = "error: read records: DIR/x:1 and DIR/x.gz:1 have the same record, sequence number 100 of shard a: sequence numbers of a shard must ascend: " +
	"the files probably have the same records: give one of them; nothing was delivered"

func TestFiles(t *testing.T) {
	t.Parallel()
	a3 := []string{"a#0@100=a/0", "a#1@101=a/1", "a#2@102=a/2"}
	after := func(shard string, ordinal uint64, sequence string) map[string]sink.Offset {
		return map[string]sink.Offset{shard: {Shard: shard, Ordinal: ordinal, Sequence: sequence}}
	}
	for _, tt := range []struct {
		name     string
		files    map[string]string
		names    []string
		after    map[string]sink.Offset
		resumes  bool
		redriven bool
		want     []string
	}{
		{name: "plain", files: map[string]string{"x": records(0, 3)}, names: []string{"x"}, want: a3},
		{name: "gzip", files: map[string]string{"x.gz": records(0, 3)}, names: []string{"x.gz"}, want: a3},
		{name: "zstd", files: map[string]string{"x.zst": records(0, 3)}, names: []string{"x.zst"}, want: a3},
		{name: "no end of line", files: map[string]string{"x": strings.TrimSpace(records(0, 3))}, names: []string{"x"}, want: a3},
		{name: "empty lines", files: map[string]string{"x": "\n \n" + records(0, 1) + "\r\n" + records(1, 3)}, names: []string{"x"}, want: a3},
		{name: "empty", files: map[string]string{"x": ""}, names: []string{"x"}},
		{
			name: "shards are numbered by themselves", files: map[string]string{"x": record("a", 0) + record("b", 0) + record("a", 1) + record("b", 1)},
			names: []string{"x"}, want: []string{"a#0@100=a/0", "b#0@100=b/0", "a#1@101=a/1", "b#1@101=b/1"},
		},
		{
			name: "files in their order", files: map[string]string{"z": records(0, 2), "b": records(2, 3)},
			names: []string{"z", "b"}, want: a3,
		},
		{
			name:  "folder in the alphabet's, only records",
			files: map[string]string{"2.ndjson.gz": records(1, 3), "1.json": record("a", 0), "notes.txt": "x", ".3.ndjson": "x", "4.csv": "x"},
			names: []string{"."}, want: a3,
		},
		{
			name: "pattern", files: map[string]string{"s-1": records(0, 1), "s-2": records(1, 3), "other": "x"},
			names: []string{"s-*"}, want: a3,
		},
		{name: "a file that is named twice", files: map[string]string{"x": records(0, 3)}, names: []string{"x", "*"}, want: a3},
		{
			name: "a damaged line hides nothing", files: map[string]string{"x": record("a", 0) + "{cut\n" + records(1, 3)},
			names: []string{"x"}, want: []string{a3[0], "damaged={cut", a3[1], a3[2]},
		},
		{
			name: "behind what was handled", files: map[string]string{"x": records(0, 3) + record("b", 0)},
			names: []string{"x"}, after: after("a", 1, "101"), want: []string{a3[2], "b#0@100=b/0"},
		},
		{name: "all was handled", files: map[string]string{"x": records(0, 3)}, names: []string{"x"}, after: after("a", 2, "102")},
		{name: "no sequence known", files: map[string]string{"x": records(0, 3)}, names: []string{"x"}, after: after("a", 1, ""), want: a3[2:]},
		{
			name: "another stream: last one differs", files: map[string]string{"x": records(0, 3)}, names: []string{"x"}, after: after("a", 1, "7"),
			want: []string{"error: read records: DIR/x:1: shard a record 0: not the stream that the lake was filled from"},
		},
		{
			name: "another stream: later", files: map[string]string{"x": records(50, 53)}, names: []string{"x"}, after: after("a", 9, "109"),
			want: []string{"error: read records: DIR/x:1: shard a record 0: not the stream that the lake was filled from"},
		},
		{
			name: "another stream: shorter", files: map[string]string{"x": records(0, 3)}, names: []string{"x"}, after: after("a", 9, "109"),
			want: []string{"error: shard a has 3 records, of which 10 were handled before: not the stream that the lake was filled from"},
		},
		{
			name: "continue", files: map[string]string{"x": records(40, 43) + record("b", 0)}, names: []string{"x"}, resumes: true,
			after: after("a", 5, "141"), want: []string{"a#6@142=a/42", "b#0@100=b/0"},
		},
		{
			name: "continue with longer sequence numbers", files: map[string]string{"x": record("a", 900)}, names: []string{"x"}, resumes: true,
			after: after("a", 5, "999"), want: []string{"a#6@1000=a/900"},
		},
		{
			name: "continue without sequence numbers", files: map[string]string{"x": record("a", 1)}, names: []string{"x"}, resumes: true, after: after("a", 5, ""),
			want: []string{"error: read records: DIR/x:1: cannot tell where to continue: a sequence number is not a decimal number"},
		},
		{
			name: "redriven", files: map[string]string{"x": record("a", 7) + record("a", 3)}, names: []string{"x"}, redriven: true, after: after("a", 9, "109"),
			want: []string{"redriven x a#0@107=a/7", "redriven x a#1@103=a/3"},
		},
		{
			name: "a file that is named again later", files: map[string]string{"x": record("a", 1), "y": record("a", 0)}, names: []string{"y", "x", "y"},
			want: a3[:2],
		},
		{name: "a file that is named in two ways", files: map[string]string{"x": records(0, 3)}, names: []string{"x", "./x", "./[x]"}, want: a3},
		{
			name: "a file and its copy", files: map[string]string{"x": records(0, 2), "x.gz": records(0, 2)}, names: []string{"x*"},
			want: []string{twice},
		},
		{
			name: "a copy of what was handled", files: map[string]string{"x": records(0, 2), "x.gz": records(0, 2)}, names: []string{"x*"}, after: after("a", 1, "101"),
			want: []string{twice},
		},
		{
			name: "a later file first", files: map[string]string{"10": records(2, 3), "9": records(0, 2)}, names: []string{"10", "9"},
			want: []string{"error: read records: DIR/10 comes before DIR/9, although it is later in the stream: shard a has sequence number 102 in DIR/10:1, and then 100 in DIR/9:1: " +
				"sequence numbers of a shard must ascend: give DIR/9 before DIR/10, or their folder, or a pattern in quotes: its files are read by the numbers in their names; nothing was delivered"},
		},
		{
			name: "a record twice", files: map[string]string{"x": record("a", 0) + record("b", 0) + record("a", 0)}, names: []string{"x"},
			want: []string{a3[0], "b#0@100=b/0", "error: read records: DIR/x:3: shard a has sequence number 100 behind 100 of DIR/x:1: " +
				"sequence numbers of a shard must ascend: the file has records twice, or not in the order of the stream: give each record once, in that order"},
		},
		{
			name: "numbers of more digits", files: map[string]string{"x": records(899, 901)}, names: []string{"x"},
			want: []string{"a#0@999=a/899", "a#1@1000=a/900"},
		},
		{
			name: "numbers that are none cannot be compared", files: map[string]string{"x": strings.ReplaceAll(record("a", 1)+record("a", 0), `"10`, `"x`)}, names: []string{"x"},
			want: []string{"a#0@x1=a/1", "a#1@x0=a/0"},
		},
		{
			name: "continue past what two files have", files: map[string]string{"x": records(0, 2), "y": records(1, 3)}, names: []string{"x", "y"}, resumes: true,
			after: after("a", 1, "101"), want: []string{"error: read records: DIR/y:1: shard a has sequence number 101 behind 101 of DIR/x:2: " + copied},
		},
		{
			name: "continue with a file and its copy", files: map[string]string{"x": records(0, 3), "y": records(0, 3)}, names: []string{"x", "y"}, resumes: true,
			after: after("a", 1, "101"), want: []string{"error: read records: DIR/x:1 and DIR/y:1 have the same record, sequence number 100 of shard a: sequence numbers of a shard must ascend: the files probably have the same records: give one of them; nothing was delivered"},
		},
		{name: "missing", names: []string{"none"}, want: []string{"error: list DIR/none: stat DIR/none: no such file or directory"}},
		{name: "no match", names: []string{"none*"}, want: []string{"error: list DIR/none*: no file is there"}},
		{name: "input and files", names: []string{"-", "x"}, want: []string{"error: read records: standard input cannot be read along with files"}},
		{
			name: "not gzip", files: map[string]string{"x": "text"}, names: []string{"x"},
			want: []string{"damaged=text"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range tt.files {
				write(t, filepath.Join(dir, name), text)
			}
			s := &source.Files{Continue: tt.resumes, Redriven: tt.redriven}
			for _, name := range tt.names {
				switch name {
				case "-":
				case ".":
					name = dir
				default:
					name = dir + "/" + name
				}
				s.Names = append(s.Names, name)
			}
			if diff := cmp.Diff(tt.want, read(t, s, tt.after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A compressed file that ends in the middle is an error, once its whole lines were yielded.
func TestCutFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "x.gz"), records(0, 2000))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	got := read(t, &source.Files{Names: []string{path}}, nil)
	if n := len(got); n < 100 || n > 1999 || !strings.HasPrefix(got[n-1], "error: read records: DIR/x.gz:") || !strings.HasSuffix(got[n-1], "unexpected EOF") {
		t.Errorf("%d records, then %q", n-1, got[n-1])
	}
}

func TestInput(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.WriteString(z, records(0, 2)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]io.Reader{"plain": strings.NewReader(records(0, 2)), "gzip": &packed} {
		want := []string{"a#0@100=a/0", "a#1@101=a/1"}
		if diff := cmp.Diff(want, read(t, &source.Files{Names: []string{"-"}, Input: in}, nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	broken := &source.Files{Names: []string{"-"}, Input: io.MultiReader(strings.NewReader(record("a", 0)), failing{})}
	if diff := cmp.Diff([]string{"a#0@100=a/0", "error: read records: -:2: wire cut"}, read(t, broken, nil)); diff != "" {
		t.Errorf("broken (-want +got):\n%s", diff)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("wire cut") }

// A line that never ends is refused before it fills the memory.
func TestEndlessLine(t *testing.T) {
	t.Parallel()
	got := read(t, &source.Files{Names: []string{"-"}, Input: endless{}}, nil)
	if diff := cmp.Diff([]string{"error: read records: -:1: line is longer than 67108864 bytes"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// Wherever a reading is cut off, the next one goes on with the next record,
// however the records lie in files.
func TestResumeAnywhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		shards := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 40).Draw(rt, "shards")
		cuts := rapid.IntRange(1, 4).Draw(rt, "files")
		s := &source.Files{}
		next := make(map[string]int)
		var all []string
		for i := range cuts {
			var text string
			for _, shard := range shards[len(shards)*i/cuts : len(shards)*(i+1)/cuts] {
				text += record(shard, next[shard])
				all = append(all, fmt.Sprintf("%s#%d@%d=%s/%d", shard, next[shard], 100+next[shard], shard, next[shard]))
				next[shard]++
			}
			s.Names = append(s.Names, write(t, filepath.Join(dir, fmt.Sprint(i)), text))
		}
		stop := rapid.IntRange(0, len(shards)).Draw(rt, "stop")
		after := make(map[string]sink.Offset)
		var got []string
		n := 0
		for r, err := range s.Records(t.Context(), nil) {
			if err != nil {
				rt.Fatal(err)
			}
			if n++; n > stop {
				break
			}
			got = append(got, text(r))
			after[r.Offset.Shard] = r.Offset
		}
		for r, err := range s.Records(t.Context(), after) {
			if err != nil {
				rt.Fatal(err)
			}
			got = append(got, text(r))
		}
		if diff := cmp.Diff(all, got); diff != "" {
			rt.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// FuzzLine: any bytes are records, damaged ones or an error; nothing is lost.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{"", "{", record("a", 0), "\x00\n\n", `{"data":"x"}`, `{"shardId":"a","data":"\ud800"}`, strings.Repeat("[", 1000), "\x1f\x8b\x08"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := 0
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			if len(bytes.Trim(line, " \t\r\n")) > 0 {
				lines++
			}
		}
		n := 0
		for _, err := range (&source.Files{Names: []string{"-"}, Input: bytes.NewReader(data)}).Records(t.Context(), nil) {
			if err != nil {
				if bytes.HasPrefix(data, []byte("\x1f\x8b")) || bytes.HasPrefix(data, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
					return // compressed, or said to be
				}
				t.Fatal(err)
			}
			n++
		}
		if n != lines {
			t.Errorf("%d records of %d lines", n, lines)
		}
	})
}
