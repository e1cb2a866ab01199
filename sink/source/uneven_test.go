package source_test

import (
	"path/filepath"
	"strings"
	"testing"

	"icehose/sink"
	"icehose/sink/sinktest"
	"icehose/sink/source"
)

// uneven is a source of one file, of shard a, which one table has up to record 9.
func uneven(t *testing.T, text string) *source.Files {
	t.Helper()
	return &source.Files{
		Names:  []string{write(t, filepath.Join(t.TempDir(), "x"), text)},
		Uneven: map[string]sink.Uneven{"a": {Last: sink.Offset{Shard: "a", Sequence: "109", Ordinal: 9}, Behind: sinktest.Pipeline(t, unevenTable).Tables[0]}},
	}
}

// Where not all tables have the same records, the files must go back to what
// all have: from later on nobody can number them.
func TestContinueUneven(t *testing.T) {
	t.Parallel()
	all := map[string]sink.Offset{"a": {Shard: "a", Sequence: "105", Ordinal: 5}}
	const (
		refused = "error: read records: DIR/x:1: shard a begins too late to continue: table lake.item has less of it than others, which have it up to sequence number 109: give the files from sequence number 105 on, that record included, or all of the stream without continuing"
		none    = "error: read records: DIR/x:1: cannot tell where to continue shard a: table lake.item has less of it than others, which have it up to sequence number 109, and no record is in all of them: give all files from the start of the stream, without continuing"
	)
	for _, tt := range []struct {
		name  string
		from  int // first record of the file
		after map[string]sink.Offset
		want  string // what is yielded first
	}{
		{"with what all have", 5, all, "a#6@106=a/6"},
		{"from the next record on, of which nobody can tell", 6, all, refused},
		{"behind what some have", 10, all, refused},
		{"behind what some have, all have none", 10, nil, none},
		{"in the middle, all have none", 5, nil, none},
		{"from the start on, which nobody can tell", 0, nil, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := uneven(t, records(tt.from, 12))
			s.Continue = true
			if got := read(t, s, tt.after); got[0] != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A file that leaves records out is noticed no later than where one table ends.
func TestContinueWithAHole(t *testing.T) {
	t.Parallel()
	s := uneven(t, records(5, 7)+records(8, 12))
	s.Continue = true
	got := read(t, s, map[string]sink.Offset{"a": {Shard: "a", Sequence: "105", Ordinal: 5}})
	if n := len(got); n != 3 || !strings.Contains(got[2], "shard a record 8: not the stream that the lake was filled from") {
		t.Errorf("got %q", got)
	}
}

// Without continuing, a table that has nothing would take any file for the
// start of the stream: what the others have tells, before anything is yielded.
func TestUnevenFromTheStart(t *testing.T) {
	t.Parallel()
	const advice = "table lake.item has less of it than others, which have it up to sequence number 109: give all files from the start of the stream"
	for _, tt := range []struct {
		name, text string
		want       string // what is yielded first
		n          int
	}{
		{"all of it", records(0, 12), "a#0@100=a/0", 12},
		{"as far as some have it", records(0, 10), "a#0@100=a/0", 10},
		{"another shard alone", record("b", 7), "b#0@107=b/7", 1},
		{"from the middle", records(5, 12), "error: read records: DIR/x:5: shard a record 4: not the stream that the lake was filled from: " + advice, 1},
		{"behind what some have", records(10, 12), "error: read records: DIR/x:1: shard a begins in the middle: " + advice, 1},
		{"less than some have", records(5, 8), "error: shard a has 3 records, of which 10 were handled before: " + advice + ": not the stream that the lake was filled from", 1},
		{"without one", records(0, 3) + records(4, 12), "error: read records: DIR/x:9: shard a record 8: not the stream that the lake was filled from: " + advice, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := read(t, uneven(t, tt.text), nil); got[0] != tt.want || len(got) != tt.n {
				t.Errorf("got %d, first %q, want %d, %q", len(got), got[0], tt.n, tt.want)
			}
		})
	}
	s := uneven(t, records(5, 12))
	s.Names, s.Input = []string{"-"}, strings.NewReader(records(5, 12))
	got := read(t, s, nil) // which can be read but once
	if n := len(got); n != 5 || !strings.HasPrefix(got[4], "error: read records: -:5: shard a record 4: not the stream that ") {
		t.Errorf("got %q", got)
	}
}

const unevenTable = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- {source: s.item, mode: mirror, key: [id], columns: [{name: id, type: long}]}
`
