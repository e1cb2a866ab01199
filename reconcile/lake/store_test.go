package lake_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon/canonarrow"
	"icehose/reconcile/reconciletest"
)

// A fakeStore holds snapshots of lake rows: canonical texts of all lake
// columns. Batches are small and come with their columns in reverse, since
// nothing promises an order.
type fakeStore struct {
	mu        sync.Mutex
	snapshots map[string][][]reconciletest.Row // by source name; the id of a snapshot is its index + 1
	scanned   [][]string                       // the columns of every scan
	fail      error                            // after the first batch
	drop      string                           // a column that batches lack
}

func newFakeStore() *fakeStore {
	return &fakeStore{snapshots: map[string][][]reconciletest.Row{}}
}

func (s *fakeStore) put(source string, rows []reconciletest.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshots[source] = append(s.snapshots[source], rows)
}

func (s *fakeStore) Snapshot(_ context.Context, t *catalog.Table) (id int64, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshots, found := s.snapshots[t.Source]
	if !found {
		return 0, false, errors.New("no such table")
	}
	return int64(len(snapshots)), len(snapshots) > 0, nil
}

const batchRows = 7

func (s *fakeStore) Scan(_ context.Context, t *catalog.Table, snapshotID int64, names []string) iter.Seq2[arrow.RecordBatch, error] {
	s.mu.Lock()
	rows := s.snapshots[t.Source][snapshotID-1]
	s.scanned = append(s.scanned, names)
	s.mu.Unlock()
	lake, _ := t.LakeColumns()
	var columns []int
	for i := range lake {
		if slices.Contains(names, lake[i].Name) && lake[i].Name != s.drop {
			columns = append([]int{i}, columns...)
		}
	}
	return func(yield func(arrow.RecordBatch, error) bool) {
		for n := 0; n < len(rows); n += batchRows {
			if n > 0 && s.fail != nil {
				yield(nil, s.fail)
				return
			}
			batch, err := makeBatch(lake, columns, rows[n:min(n+batchRows, len(rows))])
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

func makeBatch(lake []catalog.Column, columns []int, rows []reconciletest.Row) (arrow.RecordBatch, error) {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = arrow.Field{Name: lake[c].Name, Type: arrowType(lake[c].Type), Nullable: true}
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for _, row := range rows {
		for i, c := range columns {
			var text []byte
			if !row[c].Null {
				text = []byte(row[c].Text)
				if text == nil {
					text = []byte{}
				}
			}
			if err := canonarrow.AppendToBuilder(b.Field(i), lake[c].Type, text); err != nil {
				return nil, fmt.Errorf("column %s: %w", lake[c].Name, err)
			}
		}
	}
	return b.NewRecordBatch(), nil
}

func arrowType(t catalog.Type) arrow.DataType {
	switch t.Kind {
	case catalog.Boolean:
		return arrow.FixedWidthTypes.Boolean
	case catalog.Int:
		return arrow.PrimitiveTypes.Int32
	case catalog.Long:
		return arrow.PrimitiveTypes.Int64
	case catalog.Float:
		return arrow.PrimitiveTypes.Float32
	case catalog.Double:
		return arrow.PrimitiveTypes.Float64
	case catalog.Decimal:
		return &arrow.Decimal128Type{Precision: int32(t.Precision), Scale: int32(t.Scale)}
	case catalog.Date:
		return arrow.FixedWidthTypes.Date32
	case catalog.Time:
		return arrow.FixedWidthTypes.Time64us
	case catalog.Timestamp:
		return &arrow.TimestampType{Unit: arrow.Microsecond}
	case catalog.TimestampTZ:
		return arrow.FixedWidthTypes.Timestamp_us
	case catalog.String:
		return arrow.BinaryTypes.String
	case catalog.UUID:
		return extensions.NewUUIDType()
	case catalog.Fixed:
		return &arrow.FixedSizeBinaryType{ByteWidth: t.Length}
	case catalog.Binary:
		return arrow.BinaryTypes.Binary
	}
	return arrow.Null
}

// position returns that of the n-th change of a source.
func position(n int) string {
	return string(cdc.ChangePosition(0, cdc.Body{Lo: uint64(n)}, 1))
}

// lakeRows makes rows of the lake table that mean the given current rows. To a
// changelog it adds what must be folded away: older versions, repeated
// changes, deleted keys, changes in the wrong order.
func lakeRows(t *catalog.Table, rows []reconciletest.Row) []reconciletest.Row {
	var out []reconciletest.Row
	for n, row := range rows {
		operation := cdc.Update
		if len(t.Key) == 0 {
			operation = cdc.Insert
		}
		out = append(out, change(t, row, 10*n+5, operation, "", ""))
		if t.Mode == catalog.Mirror {
			continue
		}
		if len(t.Key) == 0 {
			if n%3 == 0 {
				out = append(out, out[len(out)-1])
			}
			continue
		}
		older := slices.Clone(row)
		older[1] = reconciletest.Value{Text: "older"}
		deleted := slices.Clone(row)
		deleted[0].Text = "-1" + deleted[0].Text
		out = append(out, change(t, older, 10*n+2, cdc.Insert, "", ""), out[len(out)-1],
			change(t, deleted, 10*n+4, cdc.Delete, "", ""), change(t, deleted, 10*n+3, cdc.Insert, "", ""))
	}
	return out
}

// change makes a lake row of data columns and metadata.
func change(t *catalog.Table, data reconciletest.Row, n int, o cdc.Operation, oldKey, absent string) reconciletest.Row {
	row := append(slices.Clone(data), reconciletest.MakeRow(position(n), "2026-10-05T01:02:03.000000Z")...)
	if t.Mode == catalog.Changelog {
		row = append(row, reconciletest.Value{Text: o.String()},
			reconciletest.Value{Text: oldKey, Null: oldKey == ""}, reconciletest.Value{Text: absent, Null: absent == ""})
	}
	return row
}
