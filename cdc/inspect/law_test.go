package inspect_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"icehose/cdc/capture"
	"icehose/cdc/inspect"
)

// The order in which shards are read changes what crosses shards, but not the
// chain: it is followed whatever comes first.
func TestChainInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var recs []rec
		n := rapid.IntRange(2, 30).Draw(t, "changes")
		for i := range n {
			r := rec{op: "insert", id: i, tx: i + 1, shard: rapid.IntRange(0, 2).Draw(t, "shard")}
			if i > 0 {
				r.prevTx = i
			}
			recs = append(recs, r)
		}
		records := stream(recs...)
		lost := rapid.IntRange(-1, n-1).Draw(t, "lost")
		if lost >= 0 {
			records = slices.Delete(records, lost, lost+1)
		}
		records = rapid.Permutation(records).Draw(t, "order")
		got := report(inspect.Options{}, records).Chain
		// What is lost at either end of the capture is not missed: nothing
		// follows the last, and what came before the first is not known.
		want := int64(0)
		if lost > 0 && lost < n-1 {
			want = 1
		}
		if got.Gaps != want || got.Links != int64(len(records)-1)-want {
			t.Errorf("%d of %d changes, %d lost: %+v", len(records), n, lost, got)
		}
	})
}

// Loads and changes that lie about nothing give no finding however shards interleave.
func TestCalmInAnyInterleaving(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var recs []rec
		for i := range 20 {
			id := rapid.IntRange(0, 5).Draw(t, "key")
			r := rec{op: "update", id: id, tx: i + 1, shard: id % 3, n: 1}
			if i > 0 {
				r.prevTx = i
			}
			recs = append(recs, r)
		}
		var shards [3][]capture.Record
		for i, r := range stream(recs...) {
			shards[recs[i].shard] = append(shards[recs[i].shard], r)
		}
		var mixed []capture.Record
		for len(mixed) < len(recs) {
			s := rapid.IntRange(0, 2).Draw(t, "next")
			if len(shards[s]) > 0 {
				mixed, shards[s] = append(mixed, shards[s][0]), shards[s][1:]
			}
		}
		if diff := cmp.Diff([]string{}, ids(report(inspect.Options{}, mixed))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
