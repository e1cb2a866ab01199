package lake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

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
		c := newChange(t)
		folder := sink.FolderOf(t, c.columns[:c.values])
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
			if !yield(stampedRow{row.Values[:c.data], position}, nil) {
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
	values  int // number of columns that are folded: with the commit time where that orders
	key     int // number of key columns
	absent  []int
}

func newChange(t *catalog.Table) *change {
	lake, data := t.LakeColumns()
	c := &change{data: data, key: len(t.Key), columns: slices.Clone(lake[:data])}
	if t.SharesPositions() {
		c.columns = append(c.columns, catalog.Column{Name: catalog.ColumnCommittedAt, Type: catalog.Type{Kind: catalog.TimestampTZ}})
	}
	c.values = len(c.columns)
	for _, name := range []string{catalog.ColumnPosition, catalog.ColumnOperation, catalog.ColumnOldKey, catalog.ColumnAbsent} {
		c.columns = append(c.columns, catalog.Column{Name: name, Type: catalog.Type{Kind: catalog.String}})
	}
	return c
}

// foldRow makes what the fold takes of one row's texts. It aliases them, and
// c until the next call.
func (c *change) foldRow(texts [][]byte) (sink.FoldRow, error) {
	position, operation, oldKey, absent := texts[c.values], texts[c.values+1], texts[c.values+2], texts[c.values+3]
	row := sink.FoldRow{Position: cdc.Position(position), Values: texts[:c.values]}
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
	if c.absent, err = catalog.AppendAbsent(c.absent[:0], c.columns[:c.data], absent); err != nil {
		return row, err
	}
	row.Absent = c.absent
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
