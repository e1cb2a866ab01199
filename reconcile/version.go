package reconcile

import (
	"bytes"
	"math/big"
	"slices"
	"time"

	"icehose/catalog"
)

// Behind says how far the lake's version of a row is behind the source's.
type Behind struct {
	// Seconds is the difference of two times; 0 for a version that is a number.
	Seconds float64 `json:"seconds,omitempty"`
	// Versions is the difference of two numbers, in decimal.
	Versions string `json:"versions,omitempty"`

	lake []byte // the lake's version
	less func(a, b []byte) int
}

// versionOf finds the version column of a table and how its canonical texts
// compare; nil when the table has no such column, or one that does not grow.
func versionOf(t *catalog.Table, name string) (column string, compare func(a, b []byte) int) {
	columns := comparedColumns(t)
	i := slices.IndexFunc(columns, func(c *catalog.Column) bool { return c.Name == name })
	if name == "" || i < 0 || columns[i].Mask != "" {
		return "", nil
	}
	switch columns[i].Type.Kind {
	case catalog.Date, catalog.Timestamp, catalog.TimestampTZ:
		return name, bytes.Compare
	case catalog.Int, catalog.Long, catalog.Decimal:
		return name, compareNumbers
	case catalog.Boolean, catalog.Float, catalog.Double, catalog.Time, catalog.String, catalog.UUID, catalog.Fixed, catalog.Binary:
	}
	return "", nil
}

func compareNumbers(a, b []byte) int {
	x, okX := new(big.Rat).SetString(string(a))
	y, okY := new(big.Rat).SetString(string(b))
	if !okX || !okY {
		return bytes.Compare(a, b)
	}
	return x.Cmp(y)
}

// behind compares two versions; nil unless the lake's is the older one.
func behind(compare func(a, b []byte) int, source, lake []byte) *Behind {
	if source == nil || lake == nil || compare(lake, source) >= 0 {
		return nil
	}
	b := &Behind{lake: append([]byte{}, lake...), less: compare}
	from, errFrom := parseTime(lake)
	to, errTo := parseTime(source)
	if errFrom == nil && errTo == nil {
		b.Seconds = to.Sub(from).Seconds()
		return b
	}
	x, okX := new(big.Rat).SetString(string(source))
	y, okY := new(big.Rat).SetString(string(lake))
	if okX && okY {
		if d := x.Sub(x, y); d.IsInt() {
			b.Versions = d.Num().String()
		} else {
			b.Versions = d.FloatString(6)
		}
	}
	return b
}

// parseTime reads a canonical date, timestamp or timestamptz.
func parseTime(text []byte) (time.Time, error) {
	var t time.Time
	var err error
	for _, layout := range []string{"2006-01-02T15:04:05.000000Z", "2006-01-02T15:04:05.000000", "2006-01-02"} {
		if t, err = time.Parse(layout, string(text)); err == nil {
			return t, nil
		}
	}
	return t, err
}

// sortFindings puts stale rows first, the oldest first; the order of the
// others stays.
func (r *TableReport) sortFindings() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		switch {
		case a.Behind != nil && b.Behind != nil && a.Behind.less != nil:
			return a.Behind.less(a.Behind.lake, b.Behind.lake)
		case a.Behind != nil && b.Behind == nil:
			return -1
		case a.Behind == nil && b.Behind != nil:
			return 1
		}
		return 0
	})
}
