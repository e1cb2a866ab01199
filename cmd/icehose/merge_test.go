package main

import (
	"strings"
	"testing"
)

// TestMergeElsewhere merges in this process behind Glue, and behind a SQLite
// catalog with tables in S3: each run reads what is new since the last.
func TestMergeElsewhere(t *testing.T) {
	t.Parallel()
	pipeline := strings.Replace(remotePipeline, `mode: mirror, key: [id], partition: ["bucket(4, id)"]`, "mode: changelog, key: [id]", 1)
	elsewhere(t, pipeline, func(t *testing.T, r *remote) {
		for n, sequence := range []string{"10", "11"} {
			r.captured(sequence)
			r.run(exitSame, "sink", r.events)
			for again, want := range []int64{1, 0} { // a repeated run has nothing to do
				result := resultOf[mergeResult](r, "merge")
				if got := result.Tables[0]; got.Read != want || got.Changed != want || got.Current != "lake.item_folded" {
					t.Errorf("after %d records, run %d: %+v, want %d read and changed", n+1, again+1, got, want)
				}
			}
		}
	})
}
