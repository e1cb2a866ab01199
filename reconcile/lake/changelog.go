package lake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/reconcile"
	"icehose/sink"
)

// changelog yields current rows of a changelog, those of the part among them,
// with their positions.
func (v *view) changelog(ctx context.Context, part reconcile.Part) iter.Seq2[stampedRow, error] {
	return func(yield func(stampedRow, error) bool) {
		t := v.table
		columns, data := t.LakeColumns()
		key := make([]int, len(t.Key))
		for i, name := range t.Key {
			key[i] = slices.IndexFunc(columns[:data], func(c catalog.Column) bool { return c.Name == name })
		}
		folder := sink.NewFolder(key, columns[:data])
		if err := v.fold(ctx, part, folder); err != nil {
			yield(stampedRow{}, err)
			return
		}
		n := 0
		var position []byte
		for row, err := range folder.Rows() {
			if n++; err == nil && n%checkEvery == 0 {
				err = ctx.Err()
			}
			if err != nil {
				yield(stampedRow{}, err)
				return
			}
			position = append(position[:0], row.Position...)
			if !yield(stampedRow{row.Values, position}, nil) {
				return
			}
		}
	}
}

// checkEvery is after how many folded rows a scan looks whether it was cancelled.
const checkEvery = 1024

// fold adds every change that the part depends on to the folder, twice if that
// is what it takes.
func (v *view) fold(ctx context.Context, part reconcile.Part, folder *sink.Folder) error {
	wanted, err := v.wantedOf(ctx, part)
	if err != nil {
		return err
	}
	for range 2 {
		c := newChange(v.table)
		for texts, err := range v.texts(ctx, c.columns, wanted.choice(v)) {
			if err != nil {
				return err
			}
			row, err := c.foldRow(texts)
			if err != nil {
				return err
			}
			if wanted.has(&row) {
				folder.Add(row)
			}
		}
		if !folder.Again() {
			return nil
		}
	}
	return fmt.Errorf("fold changelog: %w", sink.ErrFoldAgain)
}

// A change reads rows of a changelog.
type change struct {
	columns []catalog.Column // the data columns, then the metadata that the fold needs
	data    int
	key     int // number of key columns
	absent  []int
}

func newChange(t *catalog.Table) *change {
	lake, data := t.LakeColumns()
	c := &change{data: data, key: len(t.Key), columns: slices.Clone(lake[:data])}
	for _, name := range []string{catalog.ColumnPosition, catalog.ColumnOperation, catalog.ColumnOldKey, catalog.ColumnAbsent} {
		c.columns = append(c.columns, catalog.Column{Name: name, Type: catalog.Type{Kind: catalog.String}})
	}
	return c
}

// foldRow makes what the fold takes of one row's texts. It aliases them, and
// c until the next call.
func (c *change) foldRow(texts [][]byte) (sink.FoldRow, error) {
	position, operation, oldKey, absent := texts[c.data], texts[c.data+1], texts[c.data+2], texts[c.data+3]
	row := sink.FoldRow{Position: cdc.Position(position), Values: texts[:c.data]}
	if !row.Position.Valid() {
		return row, fmt.Errorf("column %s: not a position", catalog.ColumnPosition)
	}
	var ok bool
	if row.Operation, ok = operationOf(operation); !ok {
		return row, fmt.Errorf("column %s: not an operation", catalog.ColumnOperation)
	}
	var err error
	if row.OldKey, err = c.oldKeyOf(oldKey); err != nil {
		return row, fmt.Errorf("column %s: %w", catalog.ColumnOldKey, err)
	}
	if row.Absent, err = c.absentOf(absent); err != nil {
		return row, fmt.Errorf("column %s: %w", catalog.ColumnAbsent, err)
	}
	return row, nil
}

// operationOf reads the name of a data operation.
func operationOf(text []byte) (cdc.Operation, bool) {
	for _, o := range []cdc.Operation{cdc.Load, cdc.Insert, cdc.Update, cdc.Delete} {
		if string(text) == o.String() {
			return o, true
		}
	}
	return 0, false
}

// oldKeyOf reads a JSON array with a text per key column; NULL is no key change.
func (c *change) oldKeyOf(text []byte) ([][]byte, error) {
	if text == nil {
		return nil, nil
	}
	var parts []*string
	if err := json.Unmarshal(text, &parts); err != nil {
		return nil, errors.New("not a JSON array of strings")
	}
	if len(parts) != c.key {
		return nil, fmt.Errorf("%d texts for %d key columns", len(parts), c.key)
	}
	key := make([][]byte, len(parts))
	for i, part := range parts {
		if part != nil {
			key[i] = []byte(*part)
		}
	}
	return key, nil
}

// absentOf reads the names of columns, separated by commas.
func (c *change) absentOf(text []byte) ([]int, error) {
	c.absent = c.absent[:0]
	if len(text) == 0 {
		return nil, nil
	}
	for name := range strings.SplitSeq(string(text), ",") {
		at := slices.IndexFunc(c.columns[:c.data], func(column catalog.Column) bool { return column.Name == name })
		if at < 0 {
			return nil, errors.New("not the name of a column")
		}
		c.absent = append(c.absent, at)
	}
	return c.absent, nil
}
