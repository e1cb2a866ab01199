package canon

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"math/bits"
	"strconv"

	"icehose/catalog"
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

// AppendTyped appends the field of a value whose canonical text is given, as
// rows are compared: AppendField, but a float or a double stands as its IEEE
// 754 bits, big-endian, in hexadecimal, because no two engines agree on the
// shortest decimal text. All NaN are one; the text has no minus zero.
func AppendTyped(dst []byte, kind catalog.TypeKind, text []byte) ([]byte, error) {
	if kind != catalog.Float && kind != catalog.Double {
		return AppendField(dst, text), nil
	}
	bitSize := 64
	if kind == catalog.Float {
		bitSize = 32
	}
	f, err := strconv.ParseFloat(string(text), bitSize)
	if err != nil {
		return dst, errors.New("append field: not the canonical text of a float")
	}
	var raw [8]byte
	if kind == catalog.Float {
		bits := math.Float32bits(float32(f))
		if math.IsNaN(f) {
			bits = quietNaN32
		}
		binary.BigEndian.PutUint32(raw[:], bits)
	} else {
		bits := math.Float64bits(f)
		if math.IsNaN(f) {
			bits = quietNaN64
		}
		binary.BigEndian.PutUint64(raw[:], bits)
	}
	var text16 [16]byte
	return AppendField(dst, hex.AppendEncode(text16[:0], raw[:bitSize/8])), nil
}

// The bits that stand for every NaN.
const (
	quietNaN32 = 0x7fc00000
	quietNaN64 = 0x7ff8000000000000
)

func appendUint(dst []byte, n uint64) []byte {
	if n < 10 {
		return append(dst, byte('0'+n))
	}
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
