package iceberg_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// write commits rows to the table of a pipeline: deletes by key, then inserts.
func write(t *testing.T, store *iceberg.Store, table *catalog.Table, parent, id string, deletes, inserts [][][]byte) {
	t.Helper()
	opened, err := store.OpenTable(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	err = opened.Commit(t.Context(), &sink.Batch{
		Parent: parent, ID: id, Properties: map[string]string{sink.PropertyCommit: id}, Deletes: sink.NewRows(deletes...), Inserts: sink.NewRows(inserts...),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// rows reads the table, by the key.
func rows(t *testing.T, store *iceberg.Store, table *catalog.Table) map[string][]string {
	t.Helper()
	opened, err := store.OpenTable(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string][]string)
	for row, err := range opened.Scan(t.Context(), []int{0, 1, 2, 3, 4}) {
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, v := range row[1:] {
			if v == nil {
				texts = append(texts, "NULL")
			} else {
				texts = append(texts, string(v))
			}
		}
		if got[string(row[0])] != nil {
			t.Errorf("key %s is there twice", row[0])
		}
		got[string(row[0])] = texts
	}
	return got
}

func row(texts ...string) [][]byte {
	out := make([][]byte, len(texts))
	for i, text := range texts {
		if text != "NULL" {
			out[i] = []byte(text)
		}
	}
	return out
}

// Rows and deletes that were written before a table evolved mean the same
// afterwards, and rows written before can be changed afterwards.
func TestRowsOutliveEvolution(t *testing.T) {
	store, err := iceberg.Open(t.Context(), t.TempDir(), iceberg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // the test reads what it wrote before
	v1 := parse(t, orders("mirror", "id", "id decimal(5,0)", "note string", "rate float", "total decimal(10,2)"))
	v2 := parse(t, orders("mirror", "order_id", "order_id decimal(20,0) id", "total decimal(20,2)", "remark string note", "extra date", "rate double"))
	if _, err := store.Tables().Apply(t.Context(), v1); err != nil {
		t.Fatal(err)
	}
	write(t, store, v1.Tables[0], "", "one", nil, [][][]byte{
		row("1", "first", "1.5", "10.00", "p", "NULL"), row("2", "second", "2.5", "20.00", "p", "NULL"), row("3", "NULL", "NULL", "NULL", "p", "NULL"),
	})
	write(t, store, v1.Tables[0], "one", "two", [][][]byte{row("2")}, [][][]byte{row("2", "changed", "0.25", "21.00", "q", "NULL")})

	if _, err := store.Tables().Apply(t.Context(), v2); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"1": {"10.00", "first", "NULL", "1.5"}, "2": {"21.00", "changed", "NULL", "0.25"}, "3": {"NULL", "NULL", "NULL", "NULL"},
	}
	if diff := cmp.Diff(want, rows(t, store, v2.Tables[0])); diff != "" {
		t.Errorf("after evolution (-want +got):\n%s", diff)
	}

	write(t, store, v2.Tables[0], "two", "three", [][][]byte{row("1"), row("3")}, [][][]byte{
		row("1", "123456789012345678.25", "again", "2024-02-29", "0.1", "r", "NULL"),
		row("5000000000", "NULL", "long", "NULL", "NULL", "r", "NULL"),
	})
	want["1"] = []string{"123456789012345678.25", "again", "2024-02-29", "0.1"}
	want["5000000000"] = []string{"NULL", "long", "NULL", "NULL"}
	delete(want, "3")
	if diff := cmp.Diff(want, rows(t, store, v2.Tables[0])); diff != "" {
		t.Errorf("changed after evolution (-want +got):\n%s", diff)
	}
	if _, err := store.OpenTable(t.Context(), v1.Tables[0]); err == nil {
		t.Error("the sink opens a table that the old pipeline file does not describe")
	}
}
