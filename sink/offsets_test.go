package sink_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"icehose/sink"
)

func offset(n uint64) sink.Offset {
	return sink.Offset{Shard: "shardId-000000000000", Sequence: fmt.Sprint(1000 + 3*n), Ordinal: n}
}

// TestTracker: in whatever order records come, and however often, the prefix
// ends at the first one that is missing.
func TestTracker(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.SliceOf(rapid.Uint64Range(0, 40)).Draw(t, "order")
		split := rapid.IntRange(0, len(order)).Draw(t, "split")
		seen := make(map[uint64]bool)
		parts := [2]*sink.Tracker{sink.NewTracker(), sink.NewTracker()}
		whole := sink.NewTracker()
		for i, n := range order {
			if got := whole.Add(offset(n)); got == seen[n] {
				t.Fatalf("record %d: added is %t", n, got)
			}
			seen[n] = true
			if i < split {
				parts[0].Add(offset(n))
			} else {
				parts[1].Add(offset(n))
			}
		}
		prefix, runs := uint64(0), 0
		for seen[prefix] {
			prefix++
		}
		for n := range uint64(42) {
			if seen[n] && (n == 0 || !seen[n-1]) {
				runs++
			}
			if got := whole.Contains(offset(0).Shard, n); got != seen[n] {
				t.Fatalf("contains %d is %t", n, got)
			}
		}
		shard := offset(0).Shard
		if whole.Prefix(shard) != prefix || whole.Spans(shard) != runs {
			t.Fatalf("prefix %d in %d spans, want %d in %d", whole.Prefix(shard), whole.Spans(shard), prefix, runs)
		}
		if !parts[0].Union(parts[1]).Equal(whole) {
			t.Fatal("the union of two parts is not the whole")
		}
		text, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		back := sink.NewTracker()
		if err := json.Unmarshal(text, back); err != nil || !back.Equal(whole) {
			t.Fatalf("%s reads back differently: %v", text, err)
		}
	})
}

// TestTrackerKnowsItsStream: no record of the stream contradicts what was seen
// of it; one of another stream does wherever it can.
func TestTrackerKnowsItsStream(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tracker := sink.NewTracker()
		for _, n := range rapid.SliceOf(rapid.Uint64Range(0, 40)).Draw(t, "order") {
			tracker.Add(offset(n))
		}
		for n := range uint64(42) {
			if tracker.Contradicts(offset(n)) {
				t.Fatalf("record %d contradicts its own stream", n)
			}
			later := offset(n)
			later.Sequence = "9000"
			if got, want := tracker.Contradicts(later), tracker.Contains(later.Shard, n); got != want {
				t.Fatalf("record %d of a later stream: contradicts is %t, want %t", n, got, want)
			}
		}
	})
}

func TestTrackerWithoutSequences(t *testing.T) {
	t.Parallel()
	tracker := sink.NewTracker()
	tracker.Add(sink.Offset{Shard: "s", Ordinal: 0})
	if tracker.Contradicts(sink.Offset{Shard: "s", Ordinal: 0, Sequence: "5"}) {
		t.Fatal("an unknown sequence number contradicts")
	}
}

func TestOffsetsRefuseDamage(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`[]`, `{"s":1}`, `{"s":[[0,1]]}`, `{"s":[[0,0,""]]}`, `{"s":[[5,3,""]]}`, `{"s":[[0,3,""],[3,4,""]]}`, `{"s":[[0,3,""],[1,9,""]]}`,
		`{"s":[[-1,3,""]]}`, `{"s":[[0,"3",""]]}`,
	} {
		if err := json.Unmarshal([]byte(text), sink.NewTracker()); err == nil {
			t.Errorf("%s is taken for offsets", text)
		}
	}
}
