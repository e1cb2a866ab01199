//go:build interop

package interop_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// boundary are canonical texts at the limits of each type.
func boundary() []struct {
	column string
	texts  []string
} {
	return []struct {
		column string
		texts  []string
	}{
		{"ok boolean", []string{"true", "false"}},
		{"n int", []string{"-2147483648", "2147483647", "0"}},
		{"big long", []string{"-9223372036854775808", "9223372036854775807"}},
		{"f float", []string{"3.4028235e+38", "1e-45", "NaN", "-Infinity", "0.1"}},
		{"d double", []string{"1.7976931348623157e+308", "5e-324", "NaN", "Infinity", "0.1"}},
		{"money decimal(9,2)", []string{"-9999999.99", "9999999.99", "0.00"}},
		{"wide decimal(38,10)", []string{"9999999999999999999999999999.9999999999", "-0.0000000001"}},
		{"huge decimal(38,0)", []string{"-99999999999999999999999999999999999999", "1"}},
		{"day date", []string{"0001-01-01", "9999-12-31", "1970-01-01", "1582-10-10"}},
		{"at timestamp", []string{"0001-01-01T00:00:00.000000", "9999-12-31T23:59:59.999999", "1969-12-31T23:59:59.999999"}},
		{"moment timestamptz", []string{"0001-01-02T00:00:00.000000Z", "9999-12-30T23:59:59.999999Z", "1969-12-31T23:59:59.000001Z"}},
		{"s string", []string{"", "a\nb\tc\\\"'\u0001", "ünï🙂", strings.Repeat("x", 1<<16)}},
		{"u uuid", []string{"ffffffff-ffff-ffff-ffff-ffffffffffff", "00000000-0000-0000-0000-000000000000"}},
		{"h fixed[4]", []string{"00000000", "ffffffff"}},
		{"b binary", []string{"", "00ff10"}},
		{"clock time", []string{"00:00:00.000000", "23:59:59.999999"}},
	}
}

// typePipeline is a mirror of all types, read by the readers given; without
// time if Spark is to read it, which has no such type.
func typePipeline(name, readers string, withTime bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, `version: 1
database: types
source: {engine: postgresql, position: postgres}
tables:
  - source: s.%s
    mode: mirror
    key: [id]
    partition: ["bucket(3, id)"]
    readers: [%s]
    columns:
      - {name: id, type: int}
`, name, readers)
	for _, c := range boundary() {
		column, kind, _ := strings.Cut(c.column, " ")
		if kind != "time" || withTime {
			fmt.Fprintf(&b, "      - {name: %s, type: %q}\n", column, kind)
		}
	}
	return b.String()
}

// writeTypes fills the table: rows of boundary values, some of them updated and
// some deleted by later commits. It returns what the table must hold.
func writeTypes(t *testing.T, store *iceberg.Store, def *catalog.Table) [][]string {
	t.Helper()
	columns, data := def.LakeColumns()
	longest := 0
	for _, b := range boundary() {
		longest = max(longest, len(b.texts))
	}
	row := func(id, n int) [][]byte {
		out := [][]byte{[]byte(fmt.Sprint(id))}
		for _, b := range boundary() {
			column, _, _ := strings.Cut(b.column, " ")
			if !slices.ContainsFunc(columns, func(c catalog.Column) bool { return c.Name == column }) {
				continue
			}
			if n >= len(b.texts) {
				out = append(out, nil)
				continue
			}
			out = append(out, []byte(b.texts[n]))
		}
		return append(out, []byte("0000.00000000000000000000000000000000.1.0000000000000001"), []byte("2026-01-01T00:00:00.000000Z"))
	}
	table, err := store.OpenTable(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	commit := func(deletes, inserts [][][]byte) {
		t.Helper()
		state, err := table.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		id := rand.Text()
		batch := &sink.Batch{
			Parent: state.Properties[sink.PropertyCommit], ID: id, Properties: map[string]string{sink.PropertyCommit: id},
			Deletes: sink.NewRows(deletes...), Inserts: sink.NewRows(inserts...),
		}
		if err := table.Commit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	key := func(id int) [][]byte { return [][]byte{[]byte(fmt.Sprint(id))} }
	var first, wanted [][][]byte
	for n := range longest + 1 { // the last is null in every column but the key
		first = append(first, row(n, n), row(100+n, 0))
		wanted = append(wanted, row(n, n))
	}
	commit(nil, first)
	var gone, updated [][][]byte
	for n := range longest + 1 {
		if n%2 == 0 {
			gone = append(gone, key(100+n))
			continue
		}
		gone, updated = append(gone, key(100+n)), append(updated, row(100+n, 1))
		wanted = append(wanted, row(100+n, 1))
	}
	commit(gone, updated)
	commit([][][]byte{key(0)}, [][][]byte{row(0, 0)})
	var want [][]string
	for _, r := range wanted {
		texts := make([]string, data)
		for i := range texts {
			texts[i] = "NULL"
			if r[i] != nil {
				texts[i] = string(r[i])
			}
		}
		want = append(want, texts)
	}
	slices.SortFunc(want, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return want
}

// readTypes reads the table with an engine.
func readTypes(t *testing.T, e *engine, def *catalog.Table) ([][]string, error) {
	t.Helper()
	columns, data := def.LakeColumns()
	names := make([]string, data)
	for i := range names {
		names[i] = columns[i].Name
	}
	rows, err := e.scan(def.Database()+"."+def.Name(), names, 0)
	if err != nil {
		return nil, err
	}
	var out [][]string
	for _, row := range rows {
		texts := make([]string, data)
		for i, v := range row {
			texts[i] = canonical(t, columns[i], v)
		}
		out = append(out, texts)
	}
	slices.SortFunc(out, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return out, nil
}

// A readable is a table of all types, and the engines that must read it.
type readable struct {
	name     string
	readers  string // of the table: they choose the delete format
	withTime bool
	engines  []string
}

// Every reader that a pipeline file may list, as far as it can be had here,
// reads every type at its limits from both delete formats, down to the last row.
func TestReaders(t *testing.T) {
	testReaders(t, []readable{
		{"equality", "icehose, spark, trino", false, []string{"spark", "duckdb"}},
		{"equality_time", "icehose, trino", true, []string{"duckdb"}},
		{"rewritten", "icehose, spark, duckdb, pyiceberg", false, []string{"spark", "duckdb", "pyiceberg"}},
		{"rewritten_time", "icehose, duckdb, pyiceberg", true, []string{"duckdb", "pyiceberg"}},
	})
}

// So does Trino, which is an engine of its own and what Athena is built on.
func TestTrinoReaders(t *testing.T) {
	testReaders(t, []readable{
		{"equality_trino", "icehose, trino, athena", true, []string{"trino"}},
		{"rewritten_trino", "icehose, trino, duckdb, pyiceberg", true, []string{"trino"}},
	})
}

func testReaders(t *testing.T, tables []readable) {
	t.Helper()
	shared := sharedLake(t)
	for _, test := range tables {
		def := pipeline(t, typePipeline(test.name, test.readers, test.withTime)).ByTarget("types", test.name)
		want := writeTypes(t, shared.store, def)
		for _, name := range test.engines {
			t.Run(test.name+" "+name, func(t *testing.T) {
				got, err := readTypes(t, sharedLake(t).engine(t, name), def)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("rows (-written +read):\n%s", diff)
				}
			})
		}
	}
}

// PyIceberg must refuse what it cannot read, which is why readers: has it.
func TestPyIcebergRefusesEqualityDeletes(t *testing.T) {
	def := pipeline(t, typePipeline("refused", "icehose", false)).ByTarget("types", "refused")
	writeTypes(t, sharedLake(t).store, def)
	if _, err := readTypes(t, sharedLake(t).engine(t, "pyiceberg"), def); err == nil {
		t.Error("PyIceberg reads equality deletes now: catalog.Reader.ReadsEqualityDeletes may say so")
	}
}
