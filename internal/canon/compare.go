package canon

import (
	"bytes"
	"cmp"
	"math"
	"strconv"

	"icehose/catalog"
)

// Compare orders two canonical texts of a type as engines order the values. NaN
// is the greatest float.
func Compare(kind catalog.TypeKind, a, b []byte) int {
	switch kind {
	case catalog.Int, catalog.Long, catalog.Decimal:
		return compareNumbers(a, b)
	case catalog.Float, catalog.Double:
		return compareFloats(a, b)
	case catalog.Boolean, catalog.Date, catalog.Time, catalog.Timestamp, catalog.TimestampTZ, catalog.String, catalog.UUID,
		catalog.Fixed, catalog.Binary:
	}
	return bytes.Compare(a, b)
}

// compareNumbers compares decimals with as many digits after the point.
func compareNumbers(a, b []byte) int {
	x, negative := bytes.CutPrefix(a, []byte{'-'})
	y, other := bytes.CutPrefix(b, []byte{'-'})
	switch {
	case negative && !other:
		return -1
	case other && !negative:
		return 1
	}
	order := cmp.Or(cmp.Compare(len(x), len(y)), bytes.Compare(x, y))
	if negative {
		return -order
	}
	return order
}

func compareFloats(a, b []byte) int {
	x, errX := strconv.ParseFloat(string(a), 64)
	y, errY := strconv.ParseFloat(string(b), 64)
	if errX != nil || errY != nil {
		return bytes.Compare(a, b)
	}
	if math.IsNaN(x) || math.IsNaN(y) {
		return -cmp.Compare(x, y) // to which NaN is the least
	}
	return cmp.Compare(x, y)
}
