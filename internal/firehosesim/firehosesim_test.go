package firehosesim_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"icehose/cdc/kinesis"
	"icehose/internal/firehosesim"
)

var blank = make([]byte, 100)

func stream(shards, records int) [][]firehosesim.Record {
	out := make([][]firehosesim.Record, shards)
	for s := range out {
		for i := range records {
			out[s] = append(out[s], firehosesim.Record{
				Record:  kinesis.Record{ShardID: fmt.Sprintf("shardId-%012d", s), SequenceNumber: fmt.Sprint(i), Data: blank},
				Ordinal: uint64(i),
			})
		}
	}
	return out
}

// However hostile, every record arrives, and no batch breaks its limits or
// mixes shards.
func TestEveryRecordArrives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards, records := rapid.IntRange(1, 4).Draw(t, "shards"), rapid.IntRange(0, 120).Draw(t, "records")
		s := firehosesim.Settings{
			BatchRecords: rapid.IntRange(1, 50).Draw(t, "batch"), BatchBytes: rapid.IntRange(1, 2000).Draw(t, "bytes"),
			Retry: 0.3, Duplicate: 0.2, Late: 0.3, Stale: 0.2, Delay: rapid.IntRange(0, 20).Draw(t, "delay"),
		}
		seen := make(map[string]bool)
		for b := range firehosesim.Deliver(stream(shards, records), s, rapid.Uint64().Draw(t, "seed")) {
			if len(b.Records) == 0 {
				t.Fatal("an empty batch")
			}
			inBatch := make(map[uint64]bool)
			for _, r := range b.Records {
				if inBatch[r.Ordinal] {
					t.Fatal("a record twice in one batch")
				}
				inBatch[r.Ordinal] = true
				seen[fmt.Sprint(r.ShardID, "/", r.Ordinal)] = true
				if r.ShardID != b.Records[0].ShardID {
					t.Fatal("a batch of two shards")
				}
			}
		}
		if len(seen) != shards*records {
			t.Fatalf("%d records arrived, want %d", len(seen), shards*records)
		}
	})
}

func TestSeedDecides(t *testing.T) {
	collect := func(seed uint64) (out []firehosesim.Batch) {
		for b := range firehosesim.Deliver(stream(3, 100), firehosesim.Hostile(), seed) {
			out = append(out, b)
		}
		return out
	}
	if diff := cmp.Diff(collect(1), collect(1)); diff != "" {
		t.Errorf("one seed, two deliveries:\n%s", diff)
	}
	if cmp.Equal(collect(1), collect(2)) {
		t.Error("two seeds, one delivery")
	}
}

func TestCalmIsInOrder(t *testing.T) {
	next := make(map[string]uint64)
	for b := range firehosesim.Deliver(stream(4, 2000), firehosesim.Calm(), 7) {
		for _, r := range b.Records {
			if r.Ordinal != next[r.ShardID] {
				t.Fatalf("shard %s: record %d after %d", r.ShardID, r.Ordinal, next[r.ShardID])
			}
			next[r.ShardID]++
		}
	}
}

// A hostile delivery really is one: each kind of hostility strikes.
func TestHostilityStrikes(t *testing.T) {
	for seed := range uint64(20) {
		high, repeats, inversions, again := make(map[string]uint64), 0, 0, 0
		seen := make(map[string]bool)
		for b := range firehosesim.Deliver(stream(4, 2000), firehosesim.Hostile(), seed) {
			if b.Again {
				again++
			}
			for _, r := range b.Records {
				id := fmt.Sprint(r.ShardID, "/", r.Ordinal)
				switch {
				case seen[id]:
					repeats++
				case r.Ordinal < high[r.ShardID]:
					inversions++
				}
				seen[id] = true
				high[r.ShardID] = max(high[r.ShardID], r.Ordinal)
			}
		}
		if repeats == 0 || inversions == 0 || again == 0 {
			t.Errorf("seed %d: %d repeats, %d inversions, %d batches again", seed, repeats, inversions, again)
		}
	}
}
