package canonarrow

import (
	"math"
	"math/bits"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// parseInt reads minimal decimal: no plus, no leading zeros, no minus zero.
func parseInt(text []byte, size int) (int64, bool) {
	digits := text
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || digits[0] == '0' && len(text) > 1 || digits[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(text), 10, size)
	return n, err == nil
}

const (
	groupDigits = 19 // decimal digits that always fit 64 bits
	group       = 10_000_000_000_000_000_000
)

// appendDecimal appends n / 10^scale with exactly scale fraction digits.
func appendDecimal(dst []byte, n decimal128.Num, scale int) []byte {
	hi, lo := uint64(n.HighBits()), n.LowBits()
	if n.HighBits() < 0 {
		dst = append(dst, '-')
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
	}
	// hi is at most 2^63, less than the divisor, so the quotient fits.
	high, low := bits.Div64(hi, lo, group)
	var room [48]byte
	digits := room[:0]
	if high > 0 {
		digits = strconv.AppendUint(digits, high, 10)
		digits = appendPadded(digits, low, groupDigits)
	} else {
		digits = strconv.AppendUint(digits, low, 10)
	}
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = append(digits, make([]byte, missing)...)
		copy(digits[missing:], digits)
		for i := range missing {
			digits[i] = '0'
		}
	}
	point := len(digits) - scale
	dst = append(dst, digits[:point]...)
	if scale > 0 {
		dst = append(dst, '.')
		dst = append(dst, digits[point:]...)
	}
	return dst
}

// appendPadded appends n with leading zeros up to width digits.
func appendPadded(dst []byte, n uint64, width int) []byte {
	start := len(dst)
	for range width {
		dst = append(dst, '0')
	}
	for i := len(dst) - 1; i >= start; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
	return dst
}

// parseDecimal reads what appendDecimal writes.
func parseDecimal(text []byte, precision, scale int) (decimal128.Num, bool) {
	digits, negative := text, false
	if len(digits) > 0 && digits[0] == '-' {
		digits, negative = digits[1:], true
	}
	whole := len(digits)
	if scale > 0 {
		if whole -= scale + 1; whole < 1 || digits[whole] != '.' {
			return decimal128.Num{}, false
		}
	}
	if whole < 1 || whole > 1 && digits[0] == '0' {
		return decimal128.Num{}, false
	}
	var hi, lo uint64
	for i, c := range digits {
		if i == whole {
			continue
		}
		if c < '0' || c > '9' || hi > math.MaxInt64/10 {
			return decimal128.Num{}, false
		}
		over, product := bits.Mul64(lo, 10)
		var carry uint64
		lo, carry = bits.Add64(product, uint64(c-'0'), 0)
		hi = hi*10 + over + carry
	}
	significant := whole + scale
	if digits[0] == '0' {
		significant = scale
	}
	if significant > precision || negative && hi|lo == 0 {
		return decimal128.Num{}, false
	}
	n := decimal128.New(int64(hi), lo)
	if negative {
		n = n.Negate()
	}
	return n, true
}
