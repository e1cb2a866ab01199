package iceberg_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go/table"
)

// TestOwn: a table is the sink's own until somebody else changes rows, which
// rewriting files or manifests is not.
func TestOwn(t *testing.T) {
	t.Parallel()
	store := open(t, t.TempDir())
	def := fill(t, store, "", "one", 3)
	lakeTable, err := store.OpenTable(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	own := func(when string, want bool) {
		t.Helper()
		state, err := lakeTable.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if state.Own != want {
			t.Errorf("%s: own %t", when, state.Own)
		}
	}
	own("after a commit", true)
	tables, err := lakeTables(store)
	if err != nil {
		t.Fatal(err)
	}
	change := func(make func(tx *table.Transaction, current *table.Table) error) {
		t.Helper()
		current, err := tables.LoadTable(t.Context(), table.Identifier{def.Database(), def.Name()})
		if err != nil {
			t.Fatal(err)
		}
		tx := current.NewTransaction()
		if err := make(tx, current); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	fill(t, store, "one", "two", 3)
	change(func(tx *table.Transaction, _ *table.Table) error {
		_, err := tx.RewriteManifests(t.Context())
		return err
	})
	own("after manifests were rewritten", true)
	change(func(tx *table.Transaction, current *table.Table) error {
		schema, err := table.SchemaToArrowSchema(current.Schema(), nil, true, false)
		if err != nil {
			return err
		}
		rows, err := array.NewRecordReader(schema, nil)
		if err != nil {
			return err
		}
		defer rows.Release()
		return tx.Append(t.Context(), rows, nil)
	})
	own("after somebody else has appended", false)
	fill(t, store, "two", "three", 3)
	own("after the next commit", true)
}
