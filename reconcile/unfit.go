package reconcile

import (
	"bytes"
	"errors"
	"iter"
	"slices"
	"strconv"

	"icehose/catalog"
	"icehose/internal/canon"
)

// unfitField stands for a value that has no canonical text. In a key its text as
// the source writes it follows, as a field of its own: two rows of unfit keys are
// two keys. No field of a lake row begins so.
const unfitField = "!:"

// isUnfit reports whether a value is one that the source can have and the type
// in the lake cannot; not whether its text was damaged on the way.
func isUnfit(err error) bool {
	value, ok := errors.AsType[*canon.ValueError](err)
	return ok && (value.Problem == canon.OutOfRange || value.Problem == canon.Inexact || value.Problem == canon.NotValid)
}

// appendUnfit appends the field of an unfit value.
func appendUnfit(dst []byte, c *catalog.Column, isKey bool, text []byte) []byte {
	if !isKey {
		return append(dst, unfitField...)
	}
	if c.Mask == catalog.MaskSHA256 {
		text = maskText(nil, text)
	}
	return canon.AppendField(append(dst, unfitField[0]), text)
}

// isUnfitField reports whether a field is of an unfit value.
func isUnfitField(field []byte) bool { return field[0] == unfitField[0] }

// isUnfitKey reports whether canonical bytes of a key, of so many columns, have an
// unfit value. No lake can have the key, so nothing that is on its way is waited
// for; and nobody can be asked for it.
func isUnfitKey(key []byte, columns int) bool {
	for field := range unfitFields(key, columns) {
		if field {
			return true
		}
	}
	return false
}

// unfitColumns returns those of the key columns whose value is unfit.
func unfitColumns(key []byte, columns []string) (unfit []string) {
	i := 0
	for field := range unfitFields(key, len(columns)) {
		if field && i < len(columns) {
			unfit = append(unfit, columns[i])
		}
		i++
	}
	return unfit
}

// unfitFields says of each field of a key whether it is of an unfit value. A table
// without a key has none.
func unfitFields(key []byte, columns int) iter.Seq[bool] {
	return func(yield func(bool) bool) {
		for columns > 0 && len(key) > 0 {
			unfit := isUnfitField(key)
			if unfit {
				key = key[1:]
			}
			digits, rest, _ := bytes.Cut(key, []byte{':'})
			n, err := strconv.Atoi(string(digits))
			if err != nil || n < 0 || n > len(rest) || !yield(unfit) {
				return
			}
			key = rest[n:]
		}
	}
}

// KeyCanBeUnfit reports whether a key column of a server that renders the key
// exactly can have a value that the type in the lake cannot hold: which bucket such
// a row is in, the server alone knows (Encoder.Placed).
func KeyCanBeUnfit(t *catalog.Table) bool {
	return slices.ContainsFunc(comparedColumns(t), func(c *catalog.Column) bool {
		switch c.Type.Kind {
		case catalog.Int, catalog.Long, catalog.String, catalog.UUID, catalog.Binary:
			return false
		case catalog.Boolean, catalog.Float, catalog.Double, catalog.Decimal, catalog.Date, catalog.Time, catalog.Timestamp, catalog.TimestampTZ, catalog.Fixed:
		}
		return slices.Contains(t.Key, c.Name)
	})
}
