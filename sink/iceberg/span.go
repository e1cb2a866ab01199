package iceberg

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
)

// A span is the values of one key column in a set of keys, in order, to be
// compared with the bounds of files. Types whose order is neither that of
// integers nor that of bytes are not compared: then every file may have them.
type span struct {
	field    int // id
	integers []int64
	texts    [][]byte
	unknown  bool
}

func newSpan(f iceberg.NestedField) *span { return &span{field: f.ID} }

// add adds the values of a column. Texts are copied.
func (s *span) add(column arrow.Array) {
	switch c := column.(type) {
	case *array.Int32:
		for i := range c.Len() {
			s.integers = append(s.integers, int64(c.Value(i)))
		}
	case *array.Int64:
		s.integers = append(s.integers, c.Int64Values()...)
	case *array.Date32:
		for i := range c.Len() {
			s.integers = append(s.integers, int64(c.Value(i)))
		}
	case *array.Time64:
		for i := range c.Len() {
			s.integers = append(s.integers, int64(c.Value(i)))
		}
	case *array.Timestamp:
		for i := range c.Len() {
			s.integers = append(s.integers, int64(c.Value(i)))
		}
	case *array.String:
		for i := range c.Len() {
			s.texts = append(s.texts, []byte(c.Value(i)))
		}
	case *array.Binary:
		for i := range c.Len() {
			s.texts = append(s.texts, bytes.Clone(c.Value(i)))
		}
	default:
		s.unknown = true
	}
}

func (s *span) sort() {
	slices.Sort(s.integers)
	s.integers = slices.Compact(s.integers)
	slices.SortFunc(s.texts, bytes.Compare)
	s.texts = slices.CompactFunc(s.texts, bytes.Equal)
}

// meets reports whether any of the values can lie between the bounds of a file,
// which are in the binary form of the Iceberg specification, nil if the file
// does not tell. An upper bound of text may be cut short, rounded up.
func (s *span) meets(lower, upper []byte) bool {
	if s.unknown || lower == nil || upper == nil {
		return true
	}
	if s.texts != nil {
		i := sort.Search(len(s.texts), func(i int) bool { return bytes.Compare(s.texts[i], lower) >= 0 })
		// A bound that was cut short without rounding up still counts as long as
		// the value begins with it.
		return i < len(s.texts) && (bytes.Compare(s.texts[i], upper) <= 0 || bytes.HasPrefix(s.texts[i], upper))
	}
	low, ok1 := bound(lower)
	high, ok2 := bound(upper)
	if !ok1 || !ok2 {
		return true
	}
	i, _ := slices.BinarySearch(s.integers, low)
	return i < len(s.integers) && s.integers[i] <= high
}

// bound reads an integer of 4 bytes, as a column has it that was widened since,
// or of 8.
func bound(b []byte) (int64, bool) {
	switch len(b) {
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b))), true //nolint:gosec // the bits of a signed number
	case 8:
		return int64(binary.LittleEndian.Uint64(b)), true //nolint:gosec // the bits of a signed number
	}
	return 0, false
}
