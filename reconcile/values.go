package reconcile

import (
	"context"
	"encoding/hex"
	"errors"
	"iter"
	"math"
	"strconv"

	"icehose/catalog"
)

// A ValueView is a View of a source that also yields the values of rows, for a
// repair.
type ValueView interface {
	View
	// Values yields the rows of the part, in any order: for each column of
	// Encoder.Columns its canonical text as the lake must hold it, masked when
	// the column is; nil for NULL. A row is valid until the next one. The first
	// error ends it.
	Values(ctx context.Context, part Part) iter.Seq2[[][]byte, error]
}

// SelectValues yields the values of the rows of a part in a stream of encoded
// rows: Values of a ValueView. The stream may have more rows than the part.
func SelectValues(t *catalog.Table, rows iter.Seq2[*Encoder, error], part Part) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		s, err := part.selector(t)
		if err != nil {
			yield(nil, err)
			return
		}
		var values [][]byte
		for e, err := range rows {
			if err != nil {
				yield(nil, err)
				return
			}
			row, err := e.place(part.Buckets)
			if err != nil {
				yield(nil, err)
				return
			}
			if !s.has(e, &row) {
				continue
			}
			if values, err = e.appendTexts(values[:0]); err == nil {
				err = e.unfit
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(values, nil) {
				return
			}
		}
	}
}

// appendTexts appends the canonical texts of the finished row.
func (e *Encoder) appendTexts(values [][]byte) ([][]byte, error) {
	for i := range e.columns {
		text, null := e.value(i)
		switch {
		case null:
			text = nil
		case e.kinds[i] == catalog.Float || e.kinds[i] == catalog.Double:
			var err error
			if text, err = floatText(text); err != nil {
				return nil, err
			}
		}
		values = append(values, text)
	}
	return values, nil
}

// floatText is the canonical text of a float of which the row has the bits
// (canon.AppendTyped).
func floatText(digits []byte) ([]byte, error) {
	raw, err := hex.DecodeString(string(digits))
	if err != nil || len(raw) != 4 && len(raw) != 8 {
		return nil, errors.New("read value: not the bits of a float")
	}
	var word uint64
	for _, b := range raw {
		word = word<<8 | uint64(b)
	}
	f, size := math.Float64frombits(word), 64
	if len(raw) == 4 {
		f, size = float64(math.Float32frombits(uint32(word))), 32
	}
	switch {
	case math.IsInf(f, 1):
		return []byte("Infinity"), nil
	case math.IsInf(f, -1):
		return []byte("-Infinity"), nil
	}
	return strconv.AppendFloat(nil, f, 'g', -1, size), nil
}
