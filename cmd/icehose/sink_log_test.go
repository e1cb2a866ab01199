package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Records that are alike are logged one by one again after a while, and their
// number at the end is that of all.
func TestRecordLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := &recordLog{log: slog.New(slog.NewJSONHandler(&out, nil)), now: func() time.Time { return now }, seen: make(map[likeness]*alike)}
	kept, few := likeness{reason: "out_of_range", table: "s.item", kept: "r.ndjson"}, likeness{reason: "old_key_left", table: "s.item"}
	count := func(like likeness, n int) (shown int) {
		for range n {
			if l.shows(t.Context(), like) {
				shown++
			}
		}
		return shown
	}
	for _, step := range []struct {
		after time.Duration
		like  likeness
		n     int
		shown int
	}{
		{0, kept, 30, 10}, {time.Minute, kept, 5, 0}, {time.Hour, kept, 4, 4}, {time.Minute, kept, 30, 6}, {0, few, 10, 10},
	} {
		now = now.Add(step.after)
		if got := count(step.like, step.n); got != step.shown {
			t.Errorf("%v later: %d of %d shown, want %d", step.after, got, step.n, step.shown)
		}
	}
	l.end(t.Context())
	text := out.String()
	for want, n := range map[string]int{
		`"msg":"more records alike are not logged","reason":"out_of_range","table":"s.item","until":"2026-01-01T01:00:00Z","all_in":"r.ndjson"}`: 1,
		`"msg":"more records alike are not logged","reason":"out_of_range","table":"s.item","until":"2026-01-01T02:01:00Z","all_in":"r.ndjson"}`: 1,
		`"msg":"records alike","reason":"out_of_range","table":"s.item","records":69,"not_logged":49,"all_in":"r.ndjson"}`:                       1,
		"\n": 3,
	} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("%d of %s in\n%s", got, want, text)
		}
	}
}
