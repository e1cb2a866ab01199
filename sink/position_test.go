package sink_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"icehose/cdc"
	"icehose/sink"
)

// positions draws positions that are often close to each other.
func positions() *rapid.Generator[cdc.Position] {
	return rapid.Custom(func(t *rapid.T) cdc.Position {
		small := func(name string) uint64 {
			return rapid.SampledFrom([]uint64{0, 1, 2, 1 << 32, 1<<64 - 1}).Draw(t, name)
		}
		epoch := uint16(small("epoch") & 0xffff)
		body := cdc.Body{Hi: small("hi"), Lo: small("lo")}
		at := time.UnixMicro(int64(small("micros") & 0xffff_ffff)).UTC()
		origin := cdc.Origin{
			Shard:    rapid.SampledFrom([]string{"", "shardId-000000000000", "shardId-000000000016"}).Draw(t, "shard"),
			Sequence: rapid.SampledFrom([]string{"", "1", "16", "49590338271490256608559692538361571095921575989136588898"}).Draw(t, "sequence"),
		}
		var p cdc.Position
		var err error
		switch rapid.IntRange(0, 2).Draw(t, "form") {
		case 0:
			p = cdc.ChangePosition(epoch, body, small("record"))
		case 1:
			p, err = cdc.LoadPosition(epoch, body, at, origin)
		default:
			p, err = cdc.ArrivalPosition(epoch, at, origin)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	})
}

func TestPackedPositionsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := positions().Draw(t, "a"), positions().Draw(t, "b")
		pa, okA := sink.Pack(string(a))
		pb, okB := sink.Pack(string(b))
		if !okA || !okB {
			t.Fatalf("not a position: %s %s", a, b)
		}
		if got, want := sink.ComparePacked(pa, pb), cmp.Compare(a, b); got != want {
			t.Fatalf("compare %s with %s: got %d, want %d", a, b, got, want)
		}
		if got := sink.TextOf(pa); got != a {
			t.Fatalf("text of %s is %s", a, got)
		}
	})
}

func TestPackRefusesWhatIsNoPosition(t *testing.T) {
	t.Parallel()
	good := string(cdc.ChangePosition(1, cdc.Body{Hi: 2, Lo: 3}, 4))
	if _, ok := sink.Pack(good); !ok {
		t.Fatalf("%s is refused", good)
	}
	for i := range good {
		for _, c := range []string{"g", "A", " ", "\xff"} {
			if text := good[:i] + c + good[i+1:]; text != good {
				if _, ok := sink.Pack(text); ok {
					t.Errorf("%q is taken for a position", text)
				}
			}
		}
	}
	for _, text := range []string{"", good[:len(good)-1], good + "0", good + strings.Repeat("0", 52), strings.Replace(good, ".1.", ".2.", 1)} {
		if _, ok := sink.Pack(text); ok {
			t.Errorf("%q is taken for a position", text)
		}
	}
}
