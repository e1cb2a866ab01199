package sink_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"icehose/cdc"
	"icehose/internal/canon"
	"icehose/sink"
)

// benchKey is the hash of a key: spread as those of SHA-256 are.
func benchKey(n uint64) canon.Hash {
	mix := func(x uint64) uint64 { // splitmix64
		x += 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		return x ^ x>>31
	}
	return canon.Hash{Hi: mix(2 * n), Lo: mix(2*n + 1)}
}

func benchPosition(b *testing.B, n uint64) sink.Packed {
	b.Helper()
	return packed(b, cdc.ChangePosition(0, cdc.Body{Lo: n}, 0))
}

// BenchmarkGuard asks about a change of one of a million keys and applies it, an
// operation: 10 % of them are deletes.
func BenchmarkGuard(b *testing.B) {
	const keys = 1_000_000
	g := sink.NewGuard(0)
	for n := range uint64(keys) {
		g.Restore(benchKey(n), benchPosition(b, n), false)
	}
	r := rand.New(rand.NewPCG(1, 1))
	p := benchPosition(b, 0)
	b.ReportAllocs()
	b.ResetTimer()
	for n := range b.N {
		p = sink.Later(p, keys+uint64(n))
		g.Change(benchKey(r.Uint64N(keys)), p, n%10 == 0)
	}
}

// benchStep is how many keys an operation is about.
const benchStep = 500_000

// BenchmarkIndex reads an index as from a table and asks about 500,000 keys an
// operation, half of which are there: all of it in memory, and with memory for
// about a twentieth. change also applies the changes, 50,000 between two commits.
func BenchmarkIndex(b *testing.B) {
	for name, memory := range map[string]int64{"memory": 1 << 40, "disk": *indexKeys * 4} {
		options := sink.Options{IndexDir: b.TempDir(), IndexMemory: memory}
		room := sink.NewRoom(options)
		g := room.Guard()
		keys := uint64(*indexKeys)
		p := benchPosition(b, 0)
		b.Run("read/"+name, func(b *testing.B) {
			for range b.N {
				if err := room.Abandon(); err != nil {
					b.Fatal(err)
				}
				room = sink.NewRoom(options)
				g = room.Guard()
				g.Restoring()
				for n := range keys {
					if n%1024 == 0 {
						if err := g.MakeRoom(b.Context(), 1024); err != nil {
							b.Fatal(err)
						}
					}
					g.Restore(benchKey(n), sink.Later(p, n), n%10 == 9)
				}
				if err := g.Restored(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*float64(keys)/b.Elapsed().Seconds(), "keys/s")
			inMemory, onDisk := g.Size()
			b.ReportMetric(float64(inMemory)/float64(keys), "memory-B/key")
			b.ReportMetric(float64(onDisk)/float64(keys), "disk-B/key")
		})
		r := rand.New(rand.NewPCG(1, 1))
		at := keys
		b.Run("look-up/"+name, func(b *testing.B) {
			p := sink.Later(p, 0)
			for range b.N * benchStep {
				if _, _, err := g.Judge(benchKey(r.Uint64N(2*keys)), p, true, 1); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(benchStep*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
		})
		b.Run("change/"+name, func(b *testing.B) {
			for n := range b.N * benchStep {
				if n%50_000 == 0 {
					if err := g.MakeRoom(b.Context(), 50_000); err != nil {
						b.Fatal(err)
					}
				}
				at++
				if _, _, err := g.Judge(benchKey(r.Uint64N(keys)), sink.Later(p, at), n%10 == 9, 1); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(benchStep*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
			inMemory, onDisk := g.Size()
			b.ReportMetric(float64(inMemory)/float64(keys), "memory-B/key")
			b.ReportMetric(float64(onDisk)/float64(keys), "disk-B/key")
		})
		if err := room.Abandon(); err != nil {
			b.Fatal(err)
		}
	}
}

// indexKeys is how many keys BenchmarkIndex has.
var indexKeys = flag.Int64("index.keys", 2_000_000, "keys of BenchmarkIndex")
