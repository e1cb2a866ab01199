package sink

import (
	"encoding/json"
	"fmt"
	"slices"

	"icehose/catalog"
	"icehose/cdc"
)

// A ChangelogReader turns rows of a changelog table, as a lake gives them,
// into the rows that a Folder takes.
type ChangelogReader struct {
	table   *catalog.Table
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
	r := &ChangelogReader{table: t, columns: columns, data: data}
	for _, name := range t.Key {
		r.key = append(r.key, slices.IndexFunc(columns, func(c catalog.Column) bool { return c.Name == name }))
	}
	return r, nil
}

// Folder returns an empty Folder for the rows of the table.
func (r *ChangelogReader) Folder() *Folder { return FolderOf(r.table, r.columns[:r.data]) }

// FolderOf returns an empty Folder for rows of a changelog with the columns given:
// the data columns of the table, or these and cdc_committed_at, which then is folded
// like one of them. Only with it the folds of all that read a table whose positions
// may repeat are the same.
func FolderOf(t *catalog.Table, columns []catalog.Column) *Folder {
	key := make([]int, len(t.Key))
	for i, name := range t.Key {
		key[i] = slices.IndexFunc(columns, func(c catalog.Column) bool { return c.Name == name })
	}
	f := NewFolder(key, columns)
	if t.SharesPositions() {
		f.Distinct()
	}
	return f
}

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
	var err error
	if text := values[r.data+3]; text != nil {
		if row.OldKey, err = r.oldKey(text); err != nil {
			return row, err
		}
	}
	if row.Absent, err = catalog.AppendAbsent(nil, r.columns[:r.data], values[r.data+4]); err != nil {
		return row, fmt.Errorf("read changelog row: %w", err)
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
