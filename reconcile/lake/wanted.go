package lake

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/sink"
)

// foldBytes is how much a reading of a changelog holds at most, about: the fold
// keeps each key's rows. Two tables at a time, and as much again until memory is
// collected, fit a function of 1769 MB.
const foldBytes = 256 << 20

// foldOverhead is what the fold keeps for a key beside the texts of its values.
const foldOverhead = 512

// weighedRows is how many changes are read to know how large they are.
const weighedRows = 1000

// foldRows returns how many changes a reading of the changelog may be about: as
// many as fit in foldBytes, if all are as large as the first of them.
func (v *view) foldRows(ctx context.Context) (int64, error) {
	rows, size := int64(0), int64(0)
	if v.pinned.Rows > weighedRows {
		lake, data := v.table.LakeColumns()
		for texts, err := range v.texts(ctx, lake[:data], nil) {
			if err != nil {
				return 0, err
			}
			for _, text := range texts {
				size += int64(len(text))
			}
			if rows++; rows == weighedRows {
				break
			}
		}
	}
	return foldBytes / (foldOverhead + size/max(rows, 1)), nil
}

// wanted says which changes of a changelog the rows of a part depend on. The nil
// value wants all.
type wanted struct {
	of    func(key [][]byte) bool // the part's own keys
	more  map[string]bool         // identity of keys that became one of those, by key changes
	key   []int                   // the key columns among the values
	keys  [][]string              // of both, when the part is one of keys
	known bool                    // keys has them
}

// wantedOf reads the key changes of a table: the row of a key takes what its
// change did not carry from the key before, and so on.
func (v *view) wantedOf(ctx context.Context, part reconcile.Part) (*wanted, error) {
	of, err := part.KeySelector(v.table)
	if err != nil || of == nil {
		return nil, err
	}
	lake, data := v.table.LakeColumns()
	w := &wanted{of: of, more: map[string]bool{}}
	var columns []catalog.Column
	for _, name := range v.table.Key {
		at := slices.IndexFunc(lake[:data], func(c catalog.Column) bool { return c.Name == name })
		w.key = append(w.key, at)
		columns = append(columns, lake[at])
	}
	if part.Keys != nil {
		w.keys, w.known = slices.Clone(part.Keys.Texts()), true
	}
	from := map[string][][][]byte{} // the keys that a key was before
	var open [][][]byte
	c := newChange(v.table)
	columns = append(columns, catalog.Column{Name: catalog.ColumnOldKey, Type: catalog.Type{Kind: catalog.String}})
	for texts, err := range v.texts(ctx, columns, &choice{orSet: catalog.ColumnOldKey}) {
		if err != nil {
			return nil, err
		}
		old, err := c.oldKeyOf(texts[len(w.key)])
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", catalog.ColumnOldKey, err)
		}
		if old == nil {
			continue
		}
		key := texts[:len(w.key)]
		id := identify(key)
		from[id] = append(from[id], old)
		if of(key) {
			open = append(open, old)
		}
	}
	for len(open) > 0 {
		old := open[len(open)-1]
		open = open[:len(open)-1]
		id := identify(old)
		if w.more[id] {
			continue
		}
		w.more[id] = true
		if w.known && !of(old) {
			w.keys = append(w.keys, textsOf(old))
		}
		open = append(open, from[id]...)
	}
	return w, nil
}

// choice is what the store may leave out.
func (w *wanted) choice(v *view) *choice {
	if w == nil || !w.known {
		return nil
	}
	return v.only(w.keys, catalog.ColumnOldKey)
}

// has reports whether a change is needed: one of a wanted key, or away from it.
func (w *wanted) has(row *sink.FoldRow) bool {
	if w == nil {
		return true
	}
	key := make([][]byte, len(w.key))
	for n, at := range w.key {
		key[n] = row.Values[at]
	}
	return w.hasKey(key) || row.OldKey != nil && w.hasKey(row.OldKey)
}

func (w *wanted) hasKey(key [][]byte) bool {
	return w.of(key) || len(w.more) > 0 && w.more[identify(key)]
}

// identify makes one text of a key that no other key has.
func identify(key [][]byte) string {
	text, _ := json.Marshal(key) // bytes can always be written
	return string(text)
}

func textsOf(key [][]byte) []string {
	texts := make([]string, len(key))
	for i, part := range key {
		texts[i] = string(part)
	}
	return texts
}
