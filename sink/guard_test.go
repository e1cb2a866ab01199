package sink_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"icehose/cdc"
	"icehose/internal/canon"
	"icehose/sink"
)

func packed(t interface{ Fatalf(string, ...any) }, p cdc.Position) sink.Packed {
	out, ok := sink.Pack(string(p))
	if !ok {
		t.Fatalf("not a position: %s", p)
	}
	return out
}

// TestIndex compares the index with a map. The low bits of the hashes collide,
// so that entries crowd.
func TestIndex(t *testing.T) {
	t.Parallel()
	type state struct {
		p       sink.Packed
		deleted bool
	}
	rapid.Check(t, func(t *rapid.T) {
		var x sink.Index
		model := make(map[canon.Hash]state)
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			h := canon.Hash{Hi: rapid.Uint64Range(0, 60).Draw(t, "hi"), Lo: rapid.SampledFrom([]uint64{0, 1, 1020, 1023, 1 << 40}).Draw(t, "lo")}
			if _, ok := model[h]; ok && rapid.IntRange(0, 2).Draw(t, "op") == 0 {
				x.Remove(h)
				delete(model, h)
			} else {
				s := state{packed(t, positions().Draw(t, "p")), rapid.Bool().Draw(t, "deleted")}
				x.Put(h, s.p, s.deleted)
				model[h] = s
			}
		}
		if x.Len() != len(model) {
			t.Fatalf("%d keys, want %d", x.Len(), len(model))
		}
		for hi := range uint64(61) {
			for _, lo := range []uint64{0, 1, 1020, 1023, 1 << 40} {
				h := canon.Hash{Hi: hi, Lo: lo}
				p, deleted, ok := x.Get(h)
				want, held := model[h]
				if ok != held || p != want.p || deleted != want.deleted {
					t.Fatalf("key %v: got %v %t %t, want %v %t", h, p, deleted, ok, want, held)
				}
			}
		}
	})
}

func TestIndexGrows(t *testing.T) {
	t.Parallel()
	var x sink.Index
	const n = 20_000
	hash := func(i int) canon.Hash { return canon.HashRow([]byte{byte(i), byte(i >> 8), byte(i >> 16)}) }
	for i := range n {
		x.Put(hash(i), packed(t, cdc.ChangePosition(0, cdc.Body{Lo: uint64(i)}, 0)), i%3 == 0)
	}
	for i := range n {
		p, deleted, ok := x.Get(hash(i))
		if want := cdc.ChangePosition(0, cdc.Body{Lo: uint64(i)}, 0); !ok || sink.TextOf(p) != want || deleted != (i%3 == 0) {
			t.Fatalf("key %d: %s %t %t", i, sink.TextOf(p), deleted, ok)
		}
	}
}

// TestGuardKeepsARowThatAnotherWriterBroughtBack: the row loses to everything
// its tombstone beats, but the next change knows that it has to be deleted.
func TestGuardKeepsARowThatAnotherWriterBroughtBack(t *testing.T) {
	t.Parallel()
	at := func(n uint64) sink.Packed { return packed(t, cdc.ChangePosition(0, cdc.Body{Lo: n}, 0)) }
	key := canon.HashRow([]byte("k"))
	g := sink.NewGuard(time.Hour)
	g.Restore(key, at(1), false)
	g.Restore(key, at(5), true)
	if applies, live := g.Check(key, at(4), false); applies || !live {
		t.Errorf("a change older than the tombstone: applies %t, row %t", applies, live)
	}
	if applies, live := g.Check(key, at(6), false); !applies || !live {
		t.Errorf("a later change: applies %t, row %t", applies, live)
	}
}

func TestTombstonesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var keys []canon.Hash
		var at []sink.Packed
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			keys = append(keys, canon.Hash{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")})
			at = append(at, packed(t, positions().Draw(t, "p")))
		}
		if n, err := sink.RoundTripTombstones(keys, at); err != nil || n != len(keys) {
			t.Fatalf("%d of %d tombstones came back: %v", n, len(keys), err)
		}
	})
}

func FuzzParseTombstones(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("icehose tombstones 1\n"))
	f.Add([]byte("icehose tombstones 1\n\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, err := sink.ParseTombstones(data); err != nil && n != 0 {
			t.Fatalf("%d tombstones of a damaged file", n)
		}
	})
}
