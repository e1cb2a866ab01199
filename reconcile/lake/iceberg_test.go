package lake_test

import (
	"slices"
	"testing"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/lake"
	"icehose/reconcile/reconciletest"
	"icehose/sink"
	"icehose/sink/iceberg"
)

var (
	_ lake.Store    = (*iceberg.Store)(nil)
	_ lake.Newester = (*iceberg.Store)(nil)
	_ lake.Keeper   = (*iceberg.Store)(nil)
)

// The suite over real Iceberg tables. Rows of mirrors replace older versions
// of themselves, and a row that is gone, through delete files.
func TestIceberg(t *testing.T) {
	reconciletest.TestReader(t, func(t *testing.T, p *catalog.Pipeline, tables reconciletest.Tables) reconcile.Reader {
		store, err := iceberg.Open(t.Context(), t.TempDir(), iceberg.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		for name, rows := range tables {
			fill(t, store, reconciletest.Table(t, p, name), rows)
		}
		return lake.Open(store)
	})
}

func fill(t *testing.T, store *iceberg.Store, table *catalog.Table, rows []reconciletest.Row) {
	t.Helper()
	opened, err := store.OpenTable(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		return
	}
	commit := func(parent, id string, deletes, inserts [][][]byte) {
		t.Helper()
		err := opened.Commit(t.Context(), &sink.Batch{
			Parent: parent, ID: id, Properties: map[string]string{sink.PropertyCommit: id},
			Deletes: sink.NewRows(deletes...), Inserts: sink.NewRows(inserts...),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if table.Mode == catalog.Changelog {
		changes := texts(lakeRows(table, rows))
		half := len(changes) / 2
		commit("", "first", nil, changes[:half])
		commit("first", "second", nil, changes[half:])
		return
	}
	var older, keys [][][]byte
	ghost := slices.Clone(rows[0])
	for _, i := range table.KeyColumns() {
		ghost[i].Text = "4242"
	}
	for _, row := range texts(lakeRows(table, append([]reconciletest.Row{ghost}, rows...))) {
		var key [][]byte
		for i := range table.Columns {
			if !slices.Contains(table.KeyColumns(), i) {
				row[i] = nil
			}
		}
		for _, i := range table.KeyColumns() {
			key = append(key, row[i])
		}
		older, keys = append(older, row), append(keys, key)
	}
	commit("", "first", nil, older)
	commit("first", "second", keys, texts(lakeRows(table, rows)))
}

// texts makes rows of a store: nil for NULL.
func texts(rows []reconciletest.Row) [][][]byte {
	out := make([][][]byte, len(rows))
	for i, row := range rows {
		for _, v := range row {
			text := append([]byte{}, v.Text...)
			if v.Null {
				text = nil
			}
			out[i] = append(out[i], text)
		}
	}
	return out
}
