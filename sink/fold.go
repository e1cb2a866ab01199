package sink

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon"
)

// A FoldRow is one row of a changelog.
type FoldRow struct {
	Position  cdc.Position
	Operation cdc.Operation // Load, Insert, Update or Delete
	Values    [][]byte      // canonical text per data column, nil for null
	OldKey    [][]byte      // texts of the key before a key change; nil if it did not change
	Absent    []int         // data columns that the change did not carry
}

// A FoldedRow is one current row of a folded changelog.
type FoldedRow struct {
	Position cdc.Position // of the last change of the row
	Values   [][]byte     // canonical text per data column, nil for null
	// Unknown lists columns that no row of the changelog carries: the row that
	// did is older than the changelog. Their Values are nil.
	Unknown []int
}

// ErrFoldAgain is yielded by Rows when Again would have returned true.
var ErrFoldAgain = errors.New("rows must be added once more")

// A Folder turns the rows of a changelog, in any order and repeated any number
// of times, into the current rows of the table. The result depends on nothing
// but the set of rows added.
//
// A key has a row unless the change of the greatest position that speaks of it
// ended it: a delete, or a key change away from it. Each column has the value
// of the latest change since then that carries the column; an explicit null
// counts. The row of a changed key takes what its change did not carry from the
// row of the old key just before the change. Rows of one key at one position that
// differ are one change, which another pipeline file has made another row of:
// together they carry what one of them carries, and each column has the greatest
// of the values that they give it. Null counts as the column's default, or else
// is the least. Distinct says otherwise.
//
// A table without key has the rows of its newest load, all of the same floor,
// and of the changes above that floor; the floor zero, of a first load, lies
// below every change. A row is identified by its position, and has the greatest
// values that are given at it.
//
// Memory is proportional to the number of keys: per key the latest change and
// those earlier ones that still give a column. What a row of an old key was at
// an earlier time is kept only for key changes that left columns out. If such a
// change is added after a later row of its old key, what the Folder has kept
// does not suffice, and all rows must be added again: see Again.
type Folder struct {
	key     []int
	columns []catalog.Column
	keys    map[string]*history
	rows    map[string][]byte // without key: position -> encoded row
	floor   cdc.Position      // without key: epoch and body of the newest load
	refused int               // rows that cannot be folded
	again   bool              // a history was needed that may have been forgotten

	distinct  bool // see Distinct
	committed int  // column of the commit time, -1 for none; if distinct

	keyText, rowText []byte // scratch
}

// NewFolder returns a Folder of rows with the given data columns, of which key
// lists the key's; without any the table has no key.
func NewFolder(key []int, columns []catalog.Column) *Folder {
	f := &Folder{key: key, columns: columns, keys: make(map[string]*history)}
	if len(key) == 0 {
		f.rows = make(map[string][]byte)
	}
	return f
}

// A history is what is kept of the changes of one key below a bound: the
// latest, and every earlier one that gives a column that no later one gives. No
// two have the same position, unless they are distinct.
type history struct {
	bound    cdc.Position // "" for none
	end      cdc.Position // greatest position at which the key's row ended, "" for never
	newest   cdc.Position // greatest position seen
	versions []version    // latest first, all above end
	earlier  []*history   // the same key's, as key changes need it
}

// A version is one change that wrote the row of a key.
type version struct {
	position cdc.Position
	row      []byte // encoded values
	absent   []int  // sorted columns that the change did not carry
	// from is the old key's history just before a key change, where the
	// absent columns come from; nil if the key did not change.
	from   *history
	oldKey string // whose history that is
}

func (v *version) lacks(column int) bool {
	_, found := slices.BinarySearch(v.absent, column)
	return found
}

// Add adds one row. The Folder keeps nothing of r's memory.
func (f *Folder) Add(r FoldRow) {
	switch r.Operation {
	case cdc.Load, cdc.Insert:
	case cdc.Update, cdc.Delete:
		if len(f.key) == 0 {
			f.refused++
			return
		}
	case cdc.Control:
		f.refused++
		return
	default:
		f.refused++
		return
	}
	if len(f.key) == 0 {
		f.addUnkeyed(&r)
		return
	}
	moved := r.OldKey != nil && r.Operation != cdc.Delete && !f.sameKey(&r)
	v := version{position: r.Position}
	if moved {
		old := f.history(f.keyOf(r.OldKey, nil))
		if len(r.Absent) > 0 {
			v.from, v.oldKey = f.before(old, r.Position), string(f.keyText)
		}
		old.finish(r.Position)
	}
	h := f.history(f.keyOf(r.Values, f.key))
	if r.Operation == cdc.Delete {
		h.finish(r.Position)
		return
	}
	f.rowText = appendRow(f.rowText[:0], r.Values)
	v.row, v.absent = f.rowText, r.Absent
	if !slices.IsSorted(v.absent) {
		v.absent = slices.Sorted(slices.Values(v.absent))
	}
	f.write(h, &v)
}

func (f *Folder) sameKey(r *FoldRow) bool {
	for n, i := range f.key {
		if !bytes.Equal(r.OldKey[n], r.Values[i]) || (r.OldKey[n] == nil) != (r.Values[i] == nil) {
			return false
		}
	}
	return true
}

func (f *Folder) keyOf(values [][]byte, pick []int) []byte {
	key := f.keyText[:0]
	for n := range f.key {
		v := values[n]
		if pick != nil {
			v = values[pick[n]]
		}
		if v == nil {
			key = canon.AppendNull(key)
		} else {
			key = canon.AppendField(key, v)
		}
	}
	f.keyText = key
	return key
}

func (f *Folder) history(key []byte) *history {
	h := f.keys[string(key)]
	if h == nil {
		h = &history{}
		f.keys[string(key)] = h
	}
	return h
}

// before returns the history of h's key below the position of a key change. If
// h has seen anything at or above that, it may have forgotten what lies below.
func (f *Folder) before(h *history, position cdc.Position) *history {
	for _, e := range h.earlier {
		if e.bound == position {
			return e
		}
	}
	e := &history{bound: position}
	if h.newest < position {
		e.end, e.newest, e.versions = h.end, h.newest, slices.Clone(h.versions)
	} else {
		f.again = true
	}
	h.earlier = append(h.earlier, e)
	return e
}

// finish notes that the row ended at position.
func (h *history) finish(position cdc.Position) {
	for _, e := range h.earlier {
		if position < e.bound {
			e.finish(position)
		}
	}
	h.newest = max(h.newest, position)
	if position > h.end {
		h.end = position
		h.versions = slices.DeleteFunc(h.versions, func(v version) bool { return v.position <= position })
	}
}

// write notes a change that wrote the row of a history. It copies v.row and
// v.absent if it keeps them.
func (f *Folder) write(h *history, v *version) {
	for _, e := range h.earlier {
		if v.position < e.bound {
			f.write(e, v)
		}
	}
	h.newest = max(h.newest, v.position)
	if v.position <= h.end {
		return
	}
	at, found := slices.BinarySearchFunc(h.versions, v.position, func(w version, p cdc.Position) int { return cmp.Compare(p, w.position) })
	there := false
	if found && f.distinct {
		at, there = f.among(h.versions, at, v)
		found = false
	}
	switch {
	case there, found && v.equal(&h.versions[at]):
		return
	case found:
		h.versions[at] = f.joined(&h.versions[at], v)
	case at > 0 && !v.gives(h.missing(at)):
		return
	default:
		kept := *v
		kept.row, kept.absent = slices.Clone(v.row), slices.Clone(v.absent)
		h.versions = slices.Insert(h.versions, at, kept)
	}
	for n := at + 1; n < len(h.versions); {
		if h.versions[n].gives(h.missing(n)) {
			n++
		} else {
			h.versions = slices.Delete(h.versions, n, n+1)
		}
	}
}

// equal reports whether two versions of the same position are the same.
func (v *version) equal(w *version) bool {
	return bytes.Equal(v.row, w.row) && slices.Equal(v.absent, w.absent) && v.oldKey == w.oldKey
}

// missing returns the columns that none of the first n versions gives; n > 0.
func (h *history) missing(n int) []int {
	left := h.versions[0].absent
	for i := range n {
		v := &h.versions[i]
		if v.from != nil || len(left) == 0 {
			return nil
		}
		if i > 0 {
			left = slices.DeleteFunc(slices.Clone(left), func(column int) bool { return !v.lacks(column) })
		}
	}
	return left
}

// gives reports whether v gives one of the columns.
func (v *version) gives(columns []int) bool {
	return slices.ContainsFunc(columns, func(column int) bool { return v.from != nil || !v.lacks(column) })
}

// value returns the current value of a column; ok is false if no version gives it.
func (h *history) value(column int) (text []byte, ok bool) {
	for i := range h.versions {
		v := &h.versions[i]
		if !v.lacks(column) {
			return rowValue(v.row, column), true
		}
		if v.from != nil {
			return v.from.value(column)
		}
	}
	return nil, false
}

// Again reports that what was added does not determine the rows yet: all rows
// must be added a second time, to this Folder, and Again asked again. It is
// true at most once, and only for changelogs with key changes that left
// columns out.
func (f *Folder) Again() bool {
	again := f.again
	f.again = false
	return again
}

// Rows yields the current rows in no particular order. Values are good until
// the next row. An error is the only thing that is yielded.
func (f *Folder) Rows() iter.Seq2[FoldedRow, error] {
	return func(yield func(FoldedRow, error) bool) {
		switch {
		case f.refused > 0:
			yield(FoldedRow{}, fmt.Errorf("fold changelog: %d rows are updates or deletes without key, or no data change", f.refused))
			return
		case f.again:
			yield(FoldedRow{}, fmt.Errorf("fold changelog: %w", ErrFoldAgain))
			return
		}
		values := make([][]byte, len(f.columns))
		for position, row := range f.rows {
			readRow(row, values)
			if !yield(FoldedRow{Position: cdc.Position(position), Values: values}, nil) {
				return
			}
		}
		for _, h := range f.keys {
			if len(h.versions) > 0 && !yield(h.current(values), nil) {
				return
			}
		}
	}
}

// current assembles the row of a history that has one.
func (h *history) current(values [][]byte) FoldedRow {
	newest := &h.versions[0]
	row := FoldedRow{Position: newest.position, Values: values}
	readRow(newest.row, values)
	for _, column := range newest.absent {
		var ok bool
		if values[column], ok = h.value(column); !ok {
			row.Unknown = append(row.Unknown, column)
		}
	}
	return row
}

// addUnkeyed adds a row of a table without key.
func (f *Folder) addUnkeyed(r *FoldRow) {
	if floor := floorOf(r.Position); r.Position.IsLoad() && floor > f.floor {
		f.floor = floor
		for position := range f.rows {
			if !f.counts(cdc.Position(position)) {
				delete(f.rows, position)
			}
		}
	}
	if !f.counts(r.Position) {
		return
	}
	f.rowText = appendRow(f.rowText[:0], r.Values)
	switch old, ok := f.rows[string(r.Position)]; {
	case !ok:
		f.rows[string(r.Position)] = slices.Clone(f.rowText)
	case f.distinct:
		if f.order(&version{row: f.rowText}, &version{row: old}) > 0 {
			f.rows[string(r.Position)] = slices.Clone(f.rowText)
		}
	case !bytes.Equal(old, f.rowText):
		f.rows[string(r.Position)] = f.joined(&version{row: old}, &version{row: f.rowText}).row
	}
}

// counts reports whether a row belongs to the newest load or lies above it.
func (f *Folder) counts(p cdc.Position) bool {
	floor := floorOf(p)
	if p.IsLoad() || floor == f.floor && p.Body() == (cdc.Body{}).String() {
		return floor == f.floor
	}
	return floor > f.floor
}

// floorOf is the part of a position that is compared with the floor of a load.
func floorOf(p cdc.Position) cdc.Position { return p[:min(len(p), rankAt-1)] }
