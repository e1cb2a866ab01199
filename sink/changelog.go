package sink

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"icehose/catalog"
	"icehose/cdc"
)

// A ChangelogReader turns rows of a changelog table, as a lake gives them,
// into the rows that a Folder takes.
type ChangelogReader struct {
	key     []int // data columns
	columns []catalog.Column
	data    int
}

// NewChangelogReader returns a reader of the changelog table t.
func NewChangelogReader(t *catalog.Table) (*ChangelogReader, error) {
	columns, data := t.LakeColumns()
	if t.Mode != catalog.Changelog {
		return nil, fmt.Errorf("read changelog %s.%s: table is not a changelog", t.Database(), t.Name())
	}
	r := &ChangelogReader{columns: columns, data: data}
	for _, name := range t.Key {
		r.key = append(r.key, slices.IndexFunc(columns, func(c catalog.Column) bool { return c.Name == name }))
	}
	return r, nil
}

// Folder returns an empty Folder for the rows of the table.
func (r *ChangelogReader) Folder() *Folder { return NewFolder(r.key, r.columns[:r.data]) }

// Row reads one row: the canonical texts of all lake columns of the table, in
// order, nil for null. The result aliases them.
func (r *ChangelogReader) Row(values [][]byte) (FoldRow, error) {
	row := FoldRow{Position: cdc.Position(values[r.data]), Values: values[:r.data:r.data]}
	if !row.Position.Valid() {
		return row, fmt.Errorf("read changelog row: %s is not a position", catalog.ColumnPosition)
	}
	for _, o := range []cdc.Operation{cdc.Load, cdc.Insert, cdc.Update, cdc.Delete} {
		if string(values[r.data+2]) == o.String() {
			row.Operation = o
		}
	}
	if row.Operation == 0 {
		return row, fmt.Errorf("read changelog row: %s is not an operation on data", catalog.ColumnOperation)
	}
	if text := values[r.data+3]; text != nil {
		var err error
		if row.OldKey, err = r.oldKey(text); err != nil {
			return row, err
		}
	}
	if text := values[r.data+4]; len(text) > 0 {
		for name := range bytes.SplitSeq(text, []byte{','}) {
			i := slices.IndexFunc(r.columns[:r.data], func(c catalog.Column) bool { return c.Name == string(name) })
			if i < 0 {
				return row, fmt.Errorf("read changelog row: %s names no column of the table", catalog.ColumnAbsent)
			}
			row.Absent = append(row.Absent, i)
		}
	}
	return row, nil
}

// oldKey reads a JSON array of strings or nulls.
func (r *ChangelogReader) oldKey(text []byte) ([][]byte, error) {
	var texts []*string
	if err := json.Unmarshal(text, &texts); err != nil || len(texts) != len(r.key) {
		return nil, fmt.Errorf("read changelog row: %s is not an array of one text per key column", catalog.ColumnOldKey)
	}
	key := make([][]byte, len(texts))
	for i, t := range texts {
		if t != nil {
			key[i] = []byte(*t)
		}
	}
	return key, nil
}
