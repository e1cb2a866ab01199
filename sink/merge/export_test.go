package merge

import (
	"context"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
)

// RemoveNotes takes the notes off a current table.
func RemoveNotes(t testing.TB, store Store, def *catalog.Table) {
	t.Helper()
	removeNotes(t, store, def, PropertyMerged, PropertyPosition, PropertyKind)
}

// RemoveColumnsNote takes off only that of the columns.
func RemoveColumnsNote(t testing.TB, store Store, def *catalog.Table) {
	t.Helper()
	removeNotes(t, store, def, PropertyColumns)
}

func removeNotes(t testing.TB, store Store, def *catalog.Table, names ...string) {
	t.Helper()
	c := def.Current()
	table, err := store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier(c.Database(), c.Name()))
	if err != nil {
		t.Fatal(err)
	}
	tx := table.NewTransaction()
	if err := tx.RemoveProperties(names); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// SetMarker notes another snapshot of the changelog.
func SetMarker(t testing.TB, store Store, def *catalog.Table, snapshot string) {
	t.Helper()
	c := def.Current()
	table, err := store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier(c.Database(), c.Name()))
	if err != nil {
		t.Fatal(err)
	}
	tx := table.NewTransaction()
	if err := tx.SetProperties(map[string]string{PropertyMerged: snapshot}); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// AddedRelations are the relations of what is new in a changelog.
func AddedRelations(ctx context.Context, store Store, def *catalog.Table, size int, o Options) ([]string, error) {
	p, err := newPlan(ctx, store.Tables().Tables, def, o)
	if err != nil {
		return nil, err
	}
	return addedRelations(p, size), nil
}

// AthenaScanOf is AthenaScan where size bytes of file names fit into a statement.
func AthenaScanOf(ctx context.Context, store Store, def *catalog.Table, size int) (int64, error) {
	return athenaScan(ctx, store.Tables().Tables, def, size)
}

// CommitNotes commits a snapshot of a current table with nothing in it but notes.
func CommitNotes(t testing.TB, store Store, def *catalog.Table, notes map[string]string) {
	t.Helper()
	c := def.Current()
	current, err := store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier(c.Database(), c.Name()))
	if err != nil {
		t.Fatal(err)
	}
	schema, err := table.SchemaToArrowSchema(current.Schema(), nil, false, false)
	if err != nil {
		t.Fatal(err)
	}
	none, err := array.NewRecordReader(schema, nil)
	if err != nil {
		t.Fatal(err)
	}
	tx := current.NewTransaction()
	if err := tx.Append(t.Context(), none, notes); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// RemoveFieldsNote takes off only that of the fields.
func RemoveFieldsNote(t testing.TB, store Store, def *catalog.Table) {
	t.Helper()
	removeNotes(t, store, def, PropertyFields)
}

// MoveOnce takes one step of moving the columns of a current table, and reports
// whether there was one to take.
func MoveOnce(ctx context.Context, store Store, def *catalog.Table) (bool, error) {
	p, err := newPlan(ctx, store.Tables().Tables, def, Options{})
	if err != nil || len(p.moves) == 0 {
		return false, err
	}
	return true, p.move(ctx)
}

// AddColumn adds a column of texts to a current table.
func AddColumn(t testing.TB, store Store, def *catalog.Table, name string) {
	t.Helper()
	c := def.Current()
	current, err := store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier(c.Database(), c.Name()))
	if err != nil {
		t.Fatal(err)
	}
	tx := current.NewTransaction()
	if err := tx.UpdateSchema(true, false).AddColumn([]string{name}, iceberg.PrimitiveTypes.String, "", false, nil).Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}
