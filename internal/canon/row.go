package canon

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// AppendField appends one field of a row: its length in decimal, a colon, the
// canonical text. Lengths make the fields of a row impossible to confuse.
func AppendField(dst, text []byte) []byte {
	dst = appendUint(dst, uint64(len(text)))
	dst = append(dst, ':')
	return append(dst, text...)
}

// AppendNull appends a field that is NULL.
func AppendNull(dst []byte) []byte { return append(dst, 'N', ':') }

func appendUint(dst []byte, n uint64) []byte {
	var buf [20]byte
	i := len(buf)
	for {
		i--
		buf[i] = byte('0' + n%10)
		n /= 10
		if n == 0 {
			return append(dst, buf[i:]...)
		}
	}
}

// A Hash is the first 128 bits of the SHA-256 of a row's canonical bytes.
type Hash struct{ Hi, Lo uint64 }

// HashRow hashes canonical bytes.
func HashRow(row []byte) Hash {
	sum := sha256.Sum256(row)
	return Hash{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])}
}

// A Digest summarises a set of rows whatever their order: how many, and the
// sum of their hashes. 192 bits hold the sum of 2^64 hashes without overflow.
// Sums, unlike XOR, do not let a pair of equal rows vanish.
type Digest struct {
	Count uint64
	Sum   [3]uint64 // little end first
}

// Add adds one row.
func (d *Digest) Add(h Hash) {
	var c uint64
	d.Count++
	d.Sum[0], c = bits.Add64(d.Sum[0], h.Lo, 0)
	d.Sum[1], c = bits.Add64(d.Sum[1], h.Hi, c)
	d.Sum[2] += c
}

// Merge adds all rows of e.
func (d *Digest) Merge(e Digest) {
	var c uint64
	d.Count += e.Count
	d.Sum[0], c = bits.Add64(d.Sum[0], e.Sum[0], 0)
	d.Sum[1], c = bits.Add64(d.Sum[1], e.Sum[1], c)
	d.Sum[2], _ = bits.Add64(d.Sum[2], e.Sum[2], c)
}
