package sink

import (
	"math/bits"

	"icehose/internal/canon"
)

// A filter says of most keys that a file does not have that it does not: a
// Bloom filter whose bits of one key lie in one block of 64 bytes. With 10 bits
// a key it errs about once in a hundred keys. An empty filter says of no key that
// it is not there.
type filter []uint64

const (
	blockWords  = 8
	filterBits  = 10 // a key, where there is room
	filterLeast = 4  // with fewer it says too little
	filterPicks = 7
)

// newFilter returns a filter for n keys that takes at most limit bytes, nil if
// that is too little for them.
func newFilter(n, limit int64) filter {
	size := min(max(n*filterBits, blockWords*64), limit*8)
	if n == 0 || size < n*filterLeast || size < blockWords*64 {
		return nil
	}
	return make(filter, (size+blockWords*64-1)/(blockWords*64)*blockWords)
}

// block returns the words that hold the bits of h. Hashes stand sorted by their
// upper half in files, so that the block goes by the lower one.
func (f filter) block(h canon.Hash) []uint64 {
	n, _ := bits.Mul64(h.Lo, uint64(len(f)/blockWords))
	return f[n*blockWords:][:blockWords]
}

func (f filter) add(h canon.Hash) {
	if len(f) == 0 {
		return
	}
	block, picks := f.block(h), h.Hi
	for range filterPicks {
		block[picks>>6&(blockWords-1)] |= 1 << (picks & 63)
		picks >>= 9
	}
}

func (f filter) has(h canon.Hash) bool {
	if len(f) == 0 {
		return true
	}
	block, picks := f.block(h), h.Hi
	for range filterPicks {
		if block[picks>>6&(blockWords-1)]&(1<<(picks&63)) == 0 {
			return false
		}
		picks >>= 9
	}
	return true
}
