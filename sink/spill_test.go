package sink_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"icehose/cdc"
	"icehose/internal/canon"
	"icehose/sink"
)

// crowdedHashes share their upper bits, so that pages of a file begin alike.
func crowdedHashes() *rapid.Generator[canon.Hash] {
	return rapid.Custom(func(t *rapid.T) canon.Hash {
		hi := rapid.SampledFrom([]uint64{0, 1, 1 << 40, 1<<40 + 1, math.MaxUint64}).Draw(t, "hi")
		return canon.Hash{Hi: hi, Lo: rapid.Uint64Range(0, 79).Draw(t, "lo")}
	})
}

// twoGuards is one guard in memory, and one that the test spills.
type twoGuards struct {
	t               *rapid.T
	dir             string
	room            sink.Room
	memory, spilled sink.Guard
	found           []sink.Found // what storage has, stale tombstones too
	at              uint64
	now             int64
	commits         int
}

func (g *twoGuards) open(dir string) {
	g.dir = dir
	g.room = sink.NewRoom(sink.Options{IndexDir: dir, IndexMemory: rapid.SampledFrom([]int64{1, 1 << 16, 1 << 30}).Draw(g.t, "memory")})
	g.memory, g.spilled = sink.NewRoom(sink.Options{}).Guard(), g.room.Guard()
}

func (g *twoGuards) must(err error) {
	if err != nil {
		g.t.Fatal(err)
	}
}

// same compares what both say of everything together.
func (g *twoGuards) same() {
	rows, floor, err := g.memory.Sees()
	g.must(err)
	gotRows, gotFloor, err := g.spilled.Sees()
	if g.must(err); rows != gotRows || floor != gotFloor {
		g.t.Fatalf("on disk %d rows, floor %s; in memory %d, %s", gotRows, gotFloor, rows, floor)
	}
}

func (g *twoGuards) change() {
	h := crowdedHashes().Draw(g.t, "key")
	g.at++
	at := g.at - rapid.Uint64Range(0, min(g.at, 40)).Draw(g.t, "late")
	position := cdc.ChangePosition(0, cdc.Body{Lo: at}, 0)
	if rapid.IntRange(0, 5).Draw(g.t, "load") == 0 {
		var err error
		position, err = cdc.LoadPosition(0, cdc.Body{Lo: at}, time.UnixMicro(int64(at)), cdc.Origin{Shard: "shardId-000000000001", Sequence: "1"})
		g.must(err)
	}
	p := packed(g.t, position)
	deletes := rapid.IntRange(0, 2).Draw(g.t, "deletes") == 0
	committed := int64(sink.NoTime)
	if rapid.IntRange(0, 9).Draw(g.t, "undated") > 0 {
		committed = g.now - rapid.Int64Range(0, 12*day).Draw(g.t, "ago")
	}
	v, live, err := g.memory.Judge(h, p, deletes, committed)
	g.must(err)
	gotV, gotLive, err := g.spilled.Judge(h, p, deletes, committed)
	if g.must(err); v != gotV || live != gotLive {
		g.t.Fatalf("key %v at %s: on disk %s, row %t; in memory %s, row %t", h, position, gotV, gotLive, v, live)
	}
	if v == "apply" {
		g.store(sink.Found{Key: h, Position: p, Deleted: deletes, Committed: committed})
	}
}

// store notes a change in storage: a row takes the place of the one before, and
// a tombstone that is no longer the last one stays for a while.
func (g *twoGuards) store(f sink.Found) {
	kept := g.found[:0]
	for _, other := range g.found {
		if other.Key != f.Key || other.Deleted && rapid.Bool().Draw(g.t, "stale") {
			kept = append(kept, other)
		}
	}
	g.found = append(kept, f)
	if f.Deleted {
		held, err := g.memory.Holds(f.Key, f.Position)
		g.must(err)
		got, err := g.spilled.Holds(f.Key, f.Position)
		if g.must(err); got != held {
			g.t.Fatalf("tombstone of %v: on disk held %t, in memory %t", f.Key, got, held)
		}
	}
}

const day = int64(24 * time.Hour / time.Microsecond)

func (g *twoGuards) tick() {
	g.now += rapid.Int64Range(0, 3*day).Draw(g.t, "later")
	g.memory.Advance(g.now)
	g.spilled.Advance(g.now)
}

// reopen rebuilds both guards from storage, or only the one in memory while the
// other one takes over its files.
func (g *twoGuards) reopen() {
	_, floor, err := g.memory.Sees()
	g.must(err)
	g.commits++
	name := strings.Repeat("x", g.commits)
	closed := rapid.Bool().Draw(g.t, "closed")
	if closed {
		g.must(g.room.Close(g.t.Context(), g.spilled, name))
	}
	files := g.spilled.Files()
	dir := g.dir
	g.open(dir)
	adopted := false
	if closed {
		stale := rapid.IntRange(0, 3).Draw(g.t, "another commit") == 0
		if stale {
			name += "y"
		}
		adopted, err = g.spilled.Adopt(name)
		if g.must(err); adopted && stale {
			g.t.Fatal("an index of another commit was taken over")
		}
	} else if len(files) > 0 {
		ok, err := g.spilled.Adopt(name)
		if g.must(err); ok {
			g.t.Fatal("the index of a crashed run was taken over")
		}
	}
	found := rapid.Permutation(g.found).Draw(g.t, "found")
	for _, each := range []sink.Guard{g.memory, g.spilled} {
		each.SetFloor(floor)
		if each != g.spilled || !adopted {
			some := each == g.spilled
			g.must(each.Rebuild(g.t.Context(), found, func() bool { return some && rapid.IntRange(0, 20).Draw(g.t, "spill") == 0 }))
		}
		if g.now > 0 {
			each.Advance(g.now)
		}
	}
	g.same()
}

// TestSpilledGuard drives a guard in memory and one on disk with the same
// changes, clock and restarts: they must give the same answers.
func TestSpilledGuard(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		g := &twoGuards{t: rt, at: 100}
		g.open(t.TempDir())
		rt.Repeat(map[string]func(*rapid.T){
			"change": func(*rapid.T) { g.change() },
			"many": func(*rapid.T) {
				for range 60 {
					g.change()
				}
			},
			"tick":   func(*rapid.T) { g.tick() },
			"spill":  func(rt *rapid.T) { g.must(g.spilled.Spill(rt.Context())) },
			"room":   func(rt *rapid.T) { g.must(g.spilled.MakeRoom(rt.Context(), 1)) },
			"merged": func(*rapid.T) { g.must(g.spilled.Merged(t.Context())) },
			"reopen": func(*rapid.T) { g.reopen() },
			"same":   func(*rapid.T) { g.same() },
		})
		g.same()
	})
}

// at is the position of the n-th change.
func at(t *testing.T, n uint64) sink.Packed {
	t.Helper()
	return packed(t, cdc.ChangePosition(0, cdc.Body{Lo: n}, 0))
}

// TestForgottenTombstoneHidesOlderEntries: as long as an older entry of its key
// is in a file that is not merged with it, a tombstone stays.
func TestForgottenTombstoneHidesOlderEntries(t *testing.T) {
	t.Parallel()
	g := sink.NewRoom(sink.Options{IndexDir: t.TempDir()}).Guard()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	change := func(key uint64, n uint64, deletes bool, committed int64) string {
		t.Helper()
		v, _, err := g.Judge(benchKey(key), at(t, n), deletes, committed)
		must(err)
		return v
	}
	g.Advance(1)
	for key := range uint64(1000) { // a long run, which is not merged with a few short ones
		change(key, key+1, false, 1)
	}
	must(g.Spill(t.Context()))
	change(7, 5000, true, 1)
	must(g.Spill(t.Context()))
	change(8, 5001, true, sink.NoTime)
	must(g.Spill(t.Context()))
	g.Advance(day) // it counts from the first time on, and was looked at now
	_, floor, err := g.Sees()
	must(err)
	if floor != "" {
		t.Errorf("floor %s before the horizon", floor)
	}
	g.Advance(9 * day)
	_, floor, err = g.Sees()
	must(err)
	if want := sink.TextOf(at(t, 5001)); floor != want {
		t.Errorf("floor %s, want %s", floor, want)
	}
	for n := range uint64(8) {
		change(2000+n, 6000+n, false, 1)
		must(g.Spill(t.Context()))
		must(g.Merged(t.Context()))
	}
	if files := len(g.Files()); files < 2 || files > 5 {
		t.Fatalf("%d files, the test tests nothing", files)
	}
	for _, key := range []uint64{7, 8} {
		if v := change(key, 4000, false, 1); v != "too old" {
			t.Errorf("key %d: a change older than its forgotten delete: %s", key, v)
		}
	}
	for n := range uint64(3000) {
		change(3000+n, 10_000+n, false, 1)
	}
	must(g.Spill(t.Context()))
	for n := range uint64(8) {
		change(2000+n, 20_000+n, false, 1)
		must(g.Spill(t.Context()))
		must(g.Merged(t.Context()))
	}
	if v := change(7, 4000, false, 1); v != "too old" {
		t.Errorf("after all was merged: %s", v)
	}
	if rows, _, err := g.Sees(); err != nil || rows != 1000-2+8+3000 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// TestIndexMemoryIsBounded: several tables share the memory, while they are read
// and when they change.
func TestIndexMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 4 << 20
	room := sink.NewRoom(sink.Options{IndexDir: t.TempDir(), IndexMemory: limit})
	var guards []sink.Guard
	memory := func() (sum int64) {
		for _, g := range guards {
			m, _ := g.Size()
			sum += m
		}
		return sum
	}
	const keys = 60_000
	for n := range uint64(3) {
		g := room.Guard()
		guards = append(guards, g)
		g.Restoring()
		for key := range uint64(keys) {
			if key%1024 == 0 {
				if err := g.MakeRoom(t.Context(), 1024); err != nil {
					t.Fatal(err)
				}
			}
			g.Restore(benchKey(key*3+n), at(t, key), key%10 == 9)
			if m := memory(); m > limit+1<<18 {
				t.Fatalf("%d bytes of %d after %d keys", m, limit, key)
			}
		}
		if err := g.Restored(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for n := range uint64(2 * keys) {
		g := guards[n%3]
		if n%500 == 0 {
			for _, g := range guards {
				if err := g.MakeRoom(t.Context(), 500); err != nil {
					t.Fatal(err)
				}
			}
		}
		g.Change(benchKey(n), at(t, keys+n), n%7 == 0)
		if m := memory(); n%100 == 0 && m > limit+1<<19 {
			t.Fatalf("%d bytes of %d after %d changes", m, limit, n)
		}
	}
	for n, g := range guards {
		if err := g.Merged(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, disk := g.Size(); disk == 0 {
			t.Errorf("table %d is not on disk, the test tests nothing", n)
		}
	}
}
