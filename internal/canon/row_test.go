package canon_test

import (
	"encoding/hex"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"icehose/internal/canon"
)

// No two different lists of fields have the same bytes.
func TestFieldsAreUnambiguous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.SliceOfN(rapid.SampledFrom([]string{"null", "", "1:", "N:", "0:", "a", "2:N:"}), 0, 4)
		a, b := fields.Draw(t, "a"), fields.Draw(t, "b")
		encode := func(fs []string) (out []byte) {
			for _, f := range fs {
				if f == "null" {
					out = canon.AppendNull(out)
				} else {
					out = canon.AppendField(out, []byte(f))
				}
			}
			return out
		}
		if same := string(encode(a)) == string(encode(b)); same != (strings.Join(a, "|") == strings.Join(b, "|") && len(a) == len(b)) {
			t.Fatalf("%q and %q: same bytes is %v", a, b, same)
		}
	})
}

// A digest does not depend on order, adds up, and unlike XOR does not lose a
// pair of equal rows. math/big is the oracle of the sum.
func TestDigest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c", "d"})).Draw(t, "rows")
		cut := rapid.IntRange(0, len(rows)).Draw(t, "cut")
		var all, left, right canon.Digest
		sum := new(big.Int)
		for i, r := range rows {
			h := canon.HashRow([]byte(r))
			all.Add(h)
			if i < cut {
				left.Add(h)
			} else {
				right.Add(h)
			}
			word := new(big.Int).SetUint64(h.Hi)
			sum.Add(sum, word.Lsh(word, 64).Or(word, new(big.Int).SetUint64(h.Lo)))
		}
		right.Merge(left)
		if right != all {
			t.Fatalf("parts merge to %v, the whole is %v", right, all)
		}
		got := new(big.Int)
		for i := len(all.Sum) - 1; i >= 0; i-- {
			got.Lsh(got, 64).Or(got, new(big.Int).SetUint64(all.Sum[i]))
		}
		if got.Cmp(sum) != 0 || all.Count != uint64(len(rows)) {
			t.Fatalf("sum %v of %d, want %v of %d", got, all.Count, sum, len(rows))
		}
	})
}

// The hash is SHA-256's first half, so that every engine can compute it.
func TestHashRowIsSHA256(t *testing.T) {
	h := canon.HashRow([]byte("abc"))
	want, err := hex.DecodeString("ba7816bf8f01cfea414140de5dae2223")
	if err != nil {
		t.Fatal(err)
	}
	got := new(big.Int).SetUint64(h.Hi)
	got.Lsh(got, 64).Or(got, new(big.Int).SetUint64(h.Lo))
	if got.Cmp(new(big.Int).SetBytes(want)) != 0 {
		t.Errorf("got %x, want %x", got, want)
	}
}
