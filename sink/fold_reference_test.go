package sink_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"icehose/cdc"
	"icehose/sink"
)

// reference folds by looking through all rows for each answer.
type reference struct{ rows []sink.FoldRow }

func (r reference) end(key string, bound cdc.Position) (end cdc.Position) {
	for _, row := range r.rows {
		ends := row.Operation == cdc.Delete && string(row.Values[0]) == key ||
			row.Operation != cdc.Delete && row.OldKey != nil && string(row.OldKey[0]) == key && string(row.Values[0]) != key
		if ends && row.Position < bound {
			end = max(end, row.Position)
		}
	}
	return end
}

// writes are the rows that wrote a key since its end, latest first.
func (r reference) writes(key string, bound cdc.Position) []sink.FoldRow {
	end := r.end(key, bound)
	var writes []sink.FoldRow
	for _, row := range r.rows {
		if row.Operation != cdc.Delete && string(row.Values[0]) == key && row.Position < bound && row.Position > end {
			writes = append(writes, row)
		}
	}
	slices.SortFunc(writes, func(a, b sink.FoldRow) int { return cmp.Compare(b.Position, a.Position) })
	return writes
}

func (r reference) value(key string, column int, bound cdc.Position) (value []byte, ok bool) {
	for _, w := range r.writes(key, bound) {
		if !slices.Contains(w.Absent, column) {
			return w.Values[column], true
		}
		if w.OldKey != nil && string(w.OldKey[0]) != key {
			return r.value(string(w.OldKey[0]), column, w.Position)
		}
	}
	return nil, false
}

func (r reference) fold() []string {
	const all = cdc.Position("~")
	keys := make(map[string]bool)
	for _, row := range r.rows {
		keys[string(row.Values[0])] = true
	}
	var out []string
	for key := range keys {
		writes := r.writes(key, all)
		if len(writes) == 0 {
			continue
		}
		values := slices.Clone(writes[0].Values)
		var unknown []int
		for column := range values {
			value, ok := r.value(key, column, all)
			if values[column] = value; !ok {
				unknown = append(unknown, column)
			}
		}
		out = append(out, rowString(writes[0].Position, values, unknown))
	}
	slices.Sort(out)
	return out
}

// foldRows draws changelog rows with distinct positions, not all of which make
// sense: the fold has to agree with the reference on any of them.
func foldRows(t *rapid.T) []sink.FoldRow {
	keys := rapid.SampledFrom([]string{"a", "b", "c"})
	var rows []sink.FoldRow
	for n := range rapid.IntRange(0, 14).Draw(t, "n") {
		row := sink.FoldRow{
			Position:  change(uint64(n)),
			Operation: rapid.SampledFrom([]cdc.Operation{cdc.Insert, cdc.Update, cdc.Update, cdc.Update, cdc.Delete}).Draw(t, "op"),
			Values:    texts(keys.Draw(t, "key"), fmt.Sprint("x", n), fmt.Sprint("y", n), "NULL"),
		}
		if rapid.IntRange(0, 2).Draw(t, "moves") == 0 {
			row.OldKey = texts(keys.Draw(t, "old"))
		}
		for column := 1; column < 4; column++ {
			if row.Operation == cdc.Update && rapid.Bool().Draw(t, "absent") {
				row.Absent = append(row.Absent, column)
				row.Values[column] = nil
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func TestFoldAgreesWithReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rows := foldRows(t)
		want := reference{rows}.fold()
		in := rapid.Permutation(slices.Concat(rows, rows)).Draw(t, "order")
		if diff := gocmp.Diff(want, folded(t, []int{0}, 4, in)); diff != "" {
			t.Fatalf("rows (-want +got):\n%s", diff)
		}
	})
}
