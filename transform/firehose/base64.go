package firehose

import (
	"encoding/base64"
	"slices"

	simd "github.com/segmentio/asm/base64"
)

// appendEncode appends the standard base64 of src.
func appendEncode(dst, src []byte) []byte {
	n := base64.StdEncoding.EncodedLen(len(src))
	dst = slices.Grow(dst, n)
	simd.StdEncoding.Encode(dst[len(dst):len(dst)+n], src)
	return dst[:len(dst)+n]
}

// decodeSpare is room behind what is decoded: with it, the last bytes are decoded
// eight at a time like those before them.
const decodeSpare = 8

// appendDecode appends the bytes of src, which has to be standard base64 with
// its padding and nothing else: encoding/base64 alone would pass over line
// ends, which JSON does not allow inside a string.
func appendDecode(dst, src []byte) (out []byte, ok bool) {
	if len(src)%4 != 0 {
		return dst, false
	}
	n := len(src) / 4 * 3
	dst = slices.Grow(dst, n+decodeSpare)
	decoded, err := simd.StdEncoding.Decode(dst[len(dst):len(dst)+n+decodeSpare], src)
	if err != nil || decoded != n-padding(src) {
		return dst, false
	}
	return dst[:len(dst)+decoded], true
}

// padding counts the padding characters at the end, two at most.
func padding(src []byte) (n int) {
	for n < 2 && n < len(src) && src[len(src)-1-n] == '=' {
		n++
	}
	return n
}
