//go:build interop

package interop_test

import (
	"fmt"
	"strconv"
	"testing"

	"icehose/sink"
)

// TestReadersFilter asks readers for rows by a text. They pass over files and row
// groups by the bounds that these tell, which were wrong
// where the texts of a whole batch were empty. DuckDB 1.5 fails by an assertion of
// its own on equality deletes beside a filter, PyIceberg reads none.
func TestReadersFilter(t *testing.T) {
	testFilters(t, readable{name: "equality", readers: "spark", engines: []string{"spark"}})
	testFilters(t, readable{name: "rewritten", readers: "spark, duckdb, pyiceberg", engines: []string{"spark", "duckdb", "pyiceberg"}})
}

func TestTrinoFilter(t *testing.T) {
	testFilters(t, readable{name: "equality_trino", readers: "trino, athena", engines: []string{"trino"}})
	testFilters(t, readable{name: "rewritten_trino", readers: "trino, pyiceberg", engines: []string{"trino"}})
}

// testFilters writes a table and asks for its rows by a text.
func testFilters(t *testing.T, test readable) {
	t.Helper()
	def := pipeline(t, fmt.Sprintf(`version: 1
database: filters
source: {engine: postgresql, position: postgres}
tables:
- source: s.%s
  mode: mirror
  key: [id, part]
  partition: [part]
  readers: [%s]
  columns: [{name: id, type: long}, {name: part, type: string}, {name: v, type: string}]
`, test.name, test.readers)).Tables[0]
	table, err := sharedLake(t).store.OpenTable(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][][]byte
	for id := range 50_000 {
		v := "m" + strconv.Itoa(id%5000)
		if id < 16_384 { // whole batches
			v = ""
		}
		rows = append(rows, [][]byte{[]byte(strconv.Itoa(id)), []byte(strconv.Itoa(id % 2)), []byte(v), []byte("p"), nil})
	}
	if err := table.Commit(t.Context(), &sink.Batch{ID: "one", Properties: map[string]string{sink.PropertyCommit: "one"}, Inserts: sink.NewRows(rows...)}); err != nil {
		t.Fatal(err)
	}
	change := &sink.Batch{Parent: "one", ID: "two", Properties: map[string]string{sink.PropertyCommit: "two"}}
	change.Deletes = sink.NewRows([][]byte{[]byte("0"), []byte("0")}, [][]byte{[]byte("20021"), []byte("1")})
	if err := table.Commit(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	for _, name := range test.engines {
		t.Run(test.name+" "+name, func(t *testing.T) {
			for value, want := range map[string]int{"": 16_383, "m21": 5, "m4999": 7} {
				if got := sharedLake(t).engine(t, name).find(t, "filters."+test.name, "v", value); len(got) != want {
					t.Errorf("%d rows have %q, want %d", len(got), value, want)
				}
			}
		})
	}
}
