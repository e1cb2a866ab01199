package cdc_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"icehose/cdc"
)

// word draws numbers that lie at the edges of 64 bits as often as elsewhere.
func word() *rapid.Generator[uint64] {
	return rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1, 9, 10, 15, 16, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 1}))
}

func body() *rapid.Generator[cdc.Body] {
	return rapid.Custom(func(t *rapid.T) cdc.Body { return cdc.Body{Hi: word().Draw(t, "hi"), Lo: word().Draw(t, "lo")} })
}

func origin() *rapid.Generator[cdc.Origin] {
	return rapid.Custom(func(t *rapid.T) cdc.Origin {
		return cdc.Origin{
			Shard:    fmt.Sprintf("shardId-%012d", rapid.Uint32().Draw(t, "shard")),
			Sequence: rapid.StringMatching(`[0-9]{0,56}`).Draw(t, "sequence"),
		}
	})
}

// recordTime draws times that a position can hold, and the zero time.
func recordTime() *rapid.Generator[time.Time] {
	return rapid.OneOf(rapid.Just(time.Time{}), rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMicro(rapid.Int64Range(0, 1<<36*1000000-1).Draw(t, "micros"))
	}))
}

// number is the body as the 128-bit number that it stands for.
func number(b cdc.Body) *big.Int {
	n := new(big.Int).SetUint64(b.Hi)
	return n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(b.Lo))
}

func TestChangePositionsOrderAsTheirNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		epochs := rapid.SliceOfN(rapid.Uint16(), 2, 2).Draw(t, "epochs")
		bodies := rapid.SliceOfN(body(), 2, 2).Draw(t, "bodies")
		records := rapid.SliceOfN(word(), 2, 2).Draw(t, "records")
		// Equal parts are rare among random ones, and are where order is subtle.
		switch rapid.IntRange(0, 3).Draw(t, "equal") {
		case 1:
			epochs[1] = epochs[0]
		case 2:
			epochs[1], bodies[1] = epochs[0], bodies[0]
		case 3:
			epochs[1], bodies[1].Hi = epochs[0], bodies[0].Hi
		}
		a := cdc.ChangePosition(epochs[0], bodies[0], records[0])
		b := cdc.ChangePosition(epochs[1], bodies[1], records[1])
		want := cmp.Or(cmp.Compare(epochs[0], epochs[1]), number(bodies[0]).Cmp(number(bodies[1])), cmp.Compare(records[0], records[1]))
		if got := strings.Compare(string(a), string(b)); got != want {
			t.Errorf("%s and %s compare as %d, want %d", a, b, got, want)
		}
		if got := bodies[0].Compare(bodies[1]); got != number(bodies[0]).Cmp(number(bodies[1])) {
			t.Errorf("%v and %v compare as %d", bodies[0], bodies[1], got)
		}
	})
}

func TestLoadsStandAtTheirFloor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		epoch, floor := rapid.Uint16().Draw(t, "epoch"), body().Draw(t, "floor")
		other := rapid.OneOf(body(), rapid.Just(floor)).Draw(t, "body")
		load, err := cdc.LoadPosition(epoch, floor, recordTime().Draw(t, "built"), origin().Draw(t, "origin"))
		if err != nil {
			t.Fatal(err)
		}
		change := cdc.ChangePosition(epoch, other, word().Draw(t, "record"))
		// A load beats the changes below its floor and loses to the others.
		if got, want := load > change, number(other).Cmp(number(floor)) < 0; got != want {
			t.Errorf("load %s above change %s: %v", load, change, got)
		}
		if !load.Valid() || !load.IsLoad() || !change.Valid() || change.IsLoad() {
			t.Errorf("load %s or change %s does not look like one", load, change)
		}
		if load.Body() != floor.String() || change.Body() != other.String() || load.Epoch() != fmt.Sprintf("%04x", epoch) {
			t.Errorf("parts of %s or %s are wrong", load, change)
		}
	})
}

func TestLoadsOrderAmongThemselves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(recordTime(), 2, 2).Draw(t, "times")
		shards := rapid.SliceOfN(rapid.Uint32(), 2, 2).Draw(t, "shards")
		digits := rapid.SliceOfN(rapid.StringMatching(`[0-9]{1,56}`), 2, 2).Draw(t, "sequences")
		switch rapid.IntRange(0, 2).Draw(t, "equal") {
		case 1:
			times[1] = times[0]
		case 2:
			times[1], shards[1] = times[0], shards[0]
		}
		var loads [2]cdc.Position
		var sequences [2]*big.Int
		for i := range loads {
			var err error
			loads[i], err = cdc.LoadPosition(1, cdc.Body{}, times[i], cdc.Origin{Shard: fmt.Sprintf("shardId-%012d", shards[i]), Sequence: digits[i]})
			if err != nil {
				t.Fatal(err)
			}
			sequences[i], _ = new(big.Int).SetString(digits[i], 10)
		}
		want := cmp.Or(cmp.Compare(micros(times[0]), micros(times[1])), cmp.Compare(shards[0], shards[1]), sequences[0].Cmp(sequences[1]))
		if got := strings.Compare(string(loads[0]), string(loads[1])); got != want {
			t.Errorf("%s and %s compare as %d, want %d", loads[0], loads[1], got, want)
		}
	})
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// TestPositionText compares positions with their definition, written with fmt
// and math/big.
func TestPositionText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		epoch, b, record := rapid.Uint16().Draw(t, "epoch"), body().Draw(t, "body"), word().Draw(t, "record")
		at, o := recordTime().Draw(t, "built"), origin().Draw(t, "origin")
		sequence, ok := new(big.Int).SetString("0"+o.Sequence, 10)
		if !ok {
			t.Fatal("sequence")
		}
		var shard uint32
		if _, err := fmt.Sscanf(o.Shard, "shardId-%d", &shard); err != nil {
			t.Fatal(err)
		}
		tie := fmt.Sprintf("%014x%08x%047x", micros(at), shard, sequence)
		load, err1 := cdc.LoadPosition(epoch, b, at, o)
		arrival, err2 := cdc.ArrivalPosition(epoch, at, o)
		appended, err3 := cdc.AppendLoadPosition([]byte("x"), epoch, b, at, o)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		for _, p := range []struct{ got, want cdc.Position }{
			{cdc.ChangePosition(epoch, b, record), cdc.Position(fmt.Sprintf("%04x.%016x%016x.1.%016x", epoch, b.Hi, b.Lo, record))},
			{cdc.Position(cdc.AppendChangePosition([]byte("x"), epoch, b, record))[1:], cdc.ChangePosition(epoch, b, record)},
			{load, cdc.Position(fmt.Sprintf("%04x.%032x.0.%s", epoch, number(b), tie))},
			{cdc.Position(appended)[1:], load},
			{arrival, cdc.Position(fmt.Sprintf("%04x.%032x.1.%s", epoch, 0, tie))},
		} {
			if p.got != p.want || !p.got.Valid() {
				t.Errorf("got %s, want %s", p.got, p.want)
			}
		}
		back, err := cdc.ParseBody(b.String())
		if err != nil || back != b {
			t.Errorf("%v became %v, %v", b, back, err)
		}
	})
}

func TestPositionsRefused(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name  string
		built time.Time
		in    cdc.Origin
		want  string
	}{
		{"before 1970", time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC), cdc.Origin{}, "make position: record time out of range: no position"},
		{"year 5000", time.Date(5000, 1, 1, 0, 0, 0, 0, time.UTC), cdc.Origin{}, "make position: record time out of range: no position"},
		{"shard without number", at, cdc.Origin{Shard: "shardId-"}, "make position: shard id without a number: no position"},
		{"shard above 32 bits", at, cdc.Origin{Shard: "shardId-4294967296"}, "make position: shard id without a number: no position"},
		{"sequence with a sign", at, cdc.Origin{Sequence: "+1"}, "make position: sequence number is not a number of at most 188 bits: no position"},
		{"sequence with a letter late", at, cdc.Origin{Sequence: strings.Repeat("1", 20) + "x" + strings.Repeat("1", 15)}, "make position: sequence number is not a number of at most 188 bits: no position"},
		{"sequence with a colon early", at, cdc.Origin{Sequence: strings.Repeat("1", 20) + ":" + strings.Repeat("1", 11)}, "make position: sequence number is not a number of at most 188 bits: no position"},
		{"sequence with a byte above ASCII", at, cdc.Origin{Sequence: strings.Repeat("1", 17) + "\xfa" + strings.Repeat("1", 14)}, "make position: sequence number is not a number of at most 188 bits: no position"},
		{"sequence of text", at, cdc.Origin{Sequence: "x"}, "make position: sequence number is not a number of at most 188 bits: no position"},
		{"sequence of 2^188", at, cdc.Origin{Sequence: new(big.Int).Lsh(big.NewInt(1), 188).String()}, "make position: sequence number is not a number of at most 188 bits: no position"},
		{"sequence of 2^192", at, cdc.Origin{Sequence: new(big.Int).Lsh(big.NewInt(1), 192).String()}, "make position: sequence number is not a number of at most 188 bits: no position"},
		{"sequence of 80 nines", at, cdc.Origin{Sequence: strings.Repeat("9", 80)}, "make position: sequence number is not a number of at most 188 bits: no position"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			load, err1 := cdc.LoadPosition(0, cdc.Body{}, test.built, test.in)
			arrival, err2 := cdc.ArrivalPosition(0, test.built, test.in)
			for _, err := range []error{err1, err2} {
				if err == nil || err.Error() != test.want || !errors.Is(err, cdc.ErrNoPosition) {
					t.Errorf("got error %v", err)
				}
			}
			if load != "" || arrival != "" {
				t.Errorf("got %q and %q with an error", load, arrival)
			}
		})
	}
	highest := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 188), big.NewInt(1)).String()
	p, err := cdc.LoadPosition(0, cdc.Body{}, at, cdc.Origin{Sequence: highest})
	if err != nil || !strings.HasSuffix(string(p), strings.Repeat("f", 47)) {
		t.Errorf("the highest sequence became %s, %v", p, err)
	}
}

func TestPositionValid(t *testing.T) {
	t.Parallel()
	change := cdc.ChangePosition(1, cdc.Body{Hi: 2, Lo: 3}, 4)
	load, err := cdc.LoadPosition(1, cdc.Body{Hi: 2, Lo: 3}, time.Time{}, cdc.Origin{})
	if err != nil || !change.Valid() || !load.Valid() {
		t.Fatalf("%s, %s, %v", change, load, err)
	}
	for name, p := range map[string]cdc.Position{
		"empty":                       "",
		"short":                       change[:len(change)-1],
		"long":                        change + "0",
		"separator moved":             change[:4] + "0." + change[6:],
		"capital digit":               "A" + change[1:],
		"rank of neither":             change[:38] + "2" + change[39:],
		"load with a tie of a change": change[:38] + "0" + change[39:],
		"not hexadecimal":             change[:len(change)-1] + "g",
	} {
		if p.Valid() {
			t.Errorf("%s: %q is valid", name, p)
		}
	}
	for _, p := range []cdc.Position{"", "0000", change[:10]} {
		if p.Body() != "" || p.IsLoad() {
			t.Errorf("%q has a body or a rank", p)
		}
	}
}

func TestParseBodyRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "0", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("g", 32), strings.Repeat("0", 31) + "-", "+" + strings.Repeat("0", 31)} {
		if b, err := cdc.ParseBody(s); err == nil {
			t.Errorf("%q became %v", s, b)
		}
	}
}

func TestPositionsAllocateTheirTextOnly(t *testing.T) {
	o := cdc.Origin{Shard: "shardId-000000000007", Sequence: "49590338271490256608559692538361571095921575989136588898"}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	buf := make([]byte, 0, 256)
	n := testing.AllocsPerRun(100, func() {
		buf = cdc.AppendChangePosition(buf[:0], 1, cdc.Body{Hi: 1}, 2)
		buf, _ = cdc.AppendLoadPosition(buf[:0], 1, cdc.Body{Hi: 1}, at, o)
	})
	if n != 0 {
		t.Errorf("appending allocates %v times", n)
	}
}

func BenchmarkChangePosition(b *testing.B) {
	b.ReportAllocs()
	buf := make([]byte, 0, 64)
	for b.Loop() {
		buf = cdc.AppendChangePosition(buf[:0], 1, cdc.Body{Hi: 1 << 40, Lo: 77}, 2)
	}
}

func BenchmarkLoadPosition(b *testing.B) {
	o := cdc.Origin{Shard: "shardId-000000000007", Sequence: "49590338271490256608559692538361571095921575989136588898"}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b.ReportAllocs()
	buf := make([]byte, 0, 128)
	for b.Loop() {
		buf, _ = cdc.AppendLoadPosition(buf[:0], 1, cdc.Body{Hi: 1 << 40, Lo: 77}, at, o)
	}
}
