package sinktest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/sink"
)

const storeTables = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- source: s.all
  mode: mirror
  key: [id, part]
  columns:
  - {name: id, type: long}
  - {name: part, type: string}
  - {name: flag, type: boolean}
  - {name: small, type: int}
  - {name: single, type: float}
  - {name: twice, type: double}
  - {name: price, type: "decimal(12,2)"}
  - {name: big, type: "decimal(38,0)"}
  - {name: day, type: date}
  - {name: clock, type: time}
  - {name: local, type: timestamp}
  - {name: moment, type: timestamptz}
  - {name: ref, type: uuid}
  - {name: tag, type: "fixed[3]"}
  - {name: blob, type: binary}
- source: s.log
  mode: changelog
  key: [id]
  columns: [{name: id, type: long}, {name: v, type: string}]
- source: s.heap
  mode: mirror
  columns: [{name: v, type: string}]
`

// keyTypes are tables whose keys have every type that a key may have.
const keyTypes = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- source: s.keys
  mode: mirror
  key: [a, b, c, d, e, f, g, h, i, j, k]
  columns:
  - {name: a, type: boolean}
  - {name: b, type: int}
  - {name: c, type: long}
  - {name: d, type: "decimal(38,4)"}
  - {name: e, type: date}
  - {name: f, type: time}
  - {name: g, type: timestamp}
  - {name: h, type: timestamptz}
  - {name: i, type: uuid}
  - {name: j, type: "fixed[2]"}
  - {name: k, type: binary}
  - {name: v, type: string}
`

// RunStoreTests runs the tests that every sink.Store must pass. open returns an
// empty store, which the test owns for its run.
func RunStoreTests(t *testing.T, open func(t *testing.T) sink.Store) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(t *testing.T, store sink.Store)
	}{
		{"new table is empty", testEmpty},
		{"all types", testAllTypes},
		{"update and delete", testUpdateDelete},
		{"delete by every key type", testKeyTypes},
		{"conflict changes nothing", testConflict},
		{"cancelled commit changes nothing", testCancelled},
		{"notes only", testNotes},
		{"files written ahead", testAhead},
		{"files", testFiles},
		{"other columns are refused", testOtherColumns},
		{"many commits", testManyCommits},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// Pipeline parses a pipeline file.
func Pipeline(t testing.TB, text string) *catalog.Pipeline {
	t.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Row makes a row of texts; "NULL" stands for null.
func Row(texts ...string) [][]byte {
	row := make([][]byte, len(texts))
	for i, text := range texts {
		if text != "NULL" {
			row[i] = []byte(text)
		}
	}
	return row
}

// Contents reads all columns of a table, sorted, nulls as "NULL".
func Contents(ctx context.Context, t testing.TB, table sink.Table, def *catalog.Table) [][]string {
	t.Helper()
	rows, err := contentsOf(ctx, table, def)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func contentsOf(ctx context.Context, table sink.Table, def *catalog.Table) (rows [][]string, err error) {
	lake, _ := def.LakeColumns()
	columns := make([]int, len(lake))
	for i := range lake {
		columns[i] = i
	}
	for row, err := range table.Scan(ctx, columns) {
		if err != nil {
			return nil, err
		}
		texts := make([]string, len(row))
		for i, v := range row {
			if texts[i] = string(v); v == nil {
				texts[i] = "NULL"
			}
		}
		rows = append(rows, texts)
	}
	slices.SortFunc(rows, slices.Compare)
	return rows, nil
}

func openTable(t *testing.T, store sink.Store, text, name string) (sink.Table, *catalog.Table) {
	t.Helper()
	def := Pipeline(t, text).ByTarget("lake", name)
	table, err := store.OpenTable(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	return table, def
}

// batch is a commit with an id.
func batch(parent, id string) *sink.Batch {
	return &sink.Batch{Parent: parent, ID: id, Properties: map[string]string{sink.PropertyCommit: id}}
}

func commit(t *testing.T, table sink.Table, b *sink.Batch) {
	t.Helper()
	if err := table.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, table sink.Table, def *catalog.Table, rows ...[]string) {
	t.Helper()
	if diff := cmp.Diff(rows, Contents(t.Context(), t, table, def)); diff != "" {
		t.Fatalf("rows (-want +got):\n%s", diff)
	}
}

func load(t *testing.T, table sink.Table) sink.State {
	t.Helper()
	state, err := table.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return state
}

const at = "2026-01-02T03:04:05.000006Z"

func testEmpty(t *testing.T, store sink.Store) {
	table, def := openTable(t, store, storeTables, "log")
	state := load(t, table)
	for _, note := range []string{sink.PropertyCommit, sink.PropertyOffsets, sink.PropertyStarts, sink.PropertyTombstones, sink.PropertyLoad} {
		if text := state.Properties[note]; text != "" {
			t.Errorf("new table notes %s %q", note, text)
		}
	}
	if state.Rows != 0 {
		t.Errorf("new table has %d rows", state.Rows)
	}
	want(t, table, def)
}

func testAllTypes(t *testing.T, store sink.Store) {
	table, def := openTable(t, store, storeTables, "all")
	rows := [][]string{
		{
			"-9223372036854775808", "", "true", "-2147483648", "-1.5", "5e-324", "-9999999999.99",
			"-99999999999999999999999999999999999999", "0001-01-01", "00:00:00.000000", "0001-01-01T00:00:00.000000",
			"0001-01-01T00:00:00.000000Z", "00000000-0000-0000-0000-000000000000", "000000", "", "p1", at,
		},
		{
			"7", "NULL is a text", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL",
			"NULL", "NULL", "NULL",
		},
		{
			"9223372036854775807", "zoë \u0000 \U0001f600", "false", "2147483647", "Infinity", "NaN", "9999999999.99",
			"99999999999999999999999999999999999999", "9999-12-31", "23:59:59.999999", "9999-12-31T23:59:59.999999",
			"9999-12-31T23:59:59.999999Z", "ffffffff-ffff-ffff-ffff-ffffffffffff", "ffffff", "00ff", "p3", at,
		},
	}
	b := batch("", "one")
	b.Inserts = sink.NewRows(Row(rows[0]...), Row(rows[1]...), Row(rows[2]...))
	commit(t, table, b)
	want(t, table, def, rows...)
	if state := load(t, table); state.Rows != 3 {
		t.Fatalf("state says %d rows, want 3", state.Rows)
	}
}

// keyed is a row of table all.
func keyed(id, part, tag string) []string {
	row := []string{id, part}
	for len(row) < 17 {
		row = append(row, "NULL")
	}
	row[15] = tag
	return row
}

func testUpdateDelete(t *testing.T, store sink.Store) {
	table, def := openTable(t, store, storeTables, "all")
	b := batch("", "one")
	b.Inserts = sink.NewRows(Row(keyed("1", "a", "p1")...), Row(keyed("1", "b", "p1")...), Row(keyed("2", "a", "p1")...))
	commit(t, table, b)
	b = batch("one", "two")
	b.Deletes = sink.NewRows(Row("1", "a"), Row("2", "a"))
	b.Inserts = sink.NewRows(Row(keyed("2", "a", "p2")...), Row(keyed("3", "a", "p2")...))
	commit(t, table, b)
	want(t, table, def, keyed("1", "b", "p1"), keyed("2", "a", "p2"), keyed("3", "a", "p2"))
	b = batch("two", "three")
	b.Deletes = sink.NewRows(Row("1", "b"), Row("2", "a"))
	commit(t, table, b)
	want(t, table, def, keyed("3", "a", "p2"))
	b = batch("three", "four")
	b.Inserts = sink.NewRows(Row(keyed("2", "a", "p4")...))
	commit(t, table, b)
	want(t, table, def, keyed("2", "a", "p4"), keyed("3", "a", "p2"))
}

func testKeyTypes(t *testing.T, store sink.Store) {
	table, def := openTable(t, store, keyTypes, "keys")
	keys := [][]string{
		{
			"false", "-1", "-2", "-0.0001", "1969-12-31", "00:00:00.000001", "1969-12-31T23:59:59.999999",
			"1969-12-31T23:59:59.999999Z", "00112233-4455-6677-8899-aabbccddeeff", "0001", "",
		},
		{
			"true", "1", "2", "0.0001", "2026-02-28", "12:00:00.000000", "2026-02-28T12:00:00.000000",
			"2026-02-28T12:00:00.000000Z", "ffeeddcc-bbaa-9988-7766-554433221100", "ff00", "00",
		},
	}
	b := batch("", "one")
	b.Inserts = sink.NewRows(Row(append(slices.Clone(keys[0]), "x", "p", at)...), Row(append(slices.Clone(keys[1]), "y", "p", at)...))
	commit(t, table, b)
	b = batch("one", "two")
	b.Deletes = sink.NewRows(Row(keys[0]...))
	commit(t, table, b)
	want(t, table, def, append(slices.Clone(keys[1]), "y", "p", at))
}

func testConflict(t *testing.T, store sink.Store) {
	table, def := openTable(t, store, storeTables, "log")
	first := batch("", "one")
	first.Inserts = sink.NewRows(Row("1", "x", "p", at, "insert", "NULL", "NULL"))
	commit(t, table, first)
	second := batch("zero", "two")
	second.Inserts = sink.NewRows(Row("2", "x", "p", at, "insert", "NULL", "NULL"))
	if err := table.Commit(t.Context(), second); !errors.Is(err, sink.ErrConflict) {
		t.Fatalf("commit upon another parent: %v", err)
	}
	want(t, table, def, []string{"1", "x", "p", at, "insert", "NULL", "NULL"})
	if got := load(t, table).Properties[sink.PropertyCommit]; got != "one" {
		t.Fatalf("commit id is %q, want one", got)
	}
}

func testCancelled(t *testing.T, store sink.Store) {
	table, def := openTable(t, store, storeTables, "log")
	b := batch("", "one")
	b.Inserts = sink.NewRows(Row("1", "x", "p", at, "insert", "NULL", "NULL"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := table.Commit(ctx, b); err == nil || errors.Is(err, sink.ErrConflict) {
		t.Fatalf("cancelled commit: %v", err)
	}
	want(t, table, def)
	commit(t, table, b)
	want(t, table, def, []string{"1", "x", "p", at, "insert", "NULL", "NULL"})
}

func testNotes(t *testing.T, store sink.Store) {
	table, def := openTable(t, store, storeTables, "heap")
	b := batch("", "one")
	b.Properties[sink.PropertyOffsets] = "first"
	b.Properties[sink.PropertyHorizon] = "stays"
	commit(t, table, b)
	b = batch("one", "two")
	b.Properties[sink.PropertyOffsets] = "second"
	commit(t, table, b)
	again, err := store.OpenTable(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]string{sink.PropertyCommit: "two", sink.PropertyOffsets: "second", sink.PropertyHorizon: "stays"}
	if diff := cmp.Diff(wanted, load(t, again).Properties); diff != "" {
		t.Fatalf("properties (-want +got):\n%s", diff)
	}
	want(t, again, def)
}

func testFiles(t *testing.T, store sink.Store) {
	table, _ := openTable(t, store, storeTables, "all")
	b := batch("", "one")
	b.Files = []sink.File{{Name: "cdc-a.bin", Data: []byte("a")}, {Name: "cdc-b.bin", Data: nil}}
	commit(t, table, b)
	for _, f := range b.Files {
		data, err := table.ReadFile(t.Context(), f.Name)
		if err != nil || string(data) != string(f.Data) {
			t.Fatalf("file %s is %q, %v", f.Name, data, err)
		}
	}
	b = batch("one", "two")
	b.Drop = []string{"cdc-a.bin"}
	commit(t, table, b)
	if _, err := table.ReadFile(t.Context(), "cdc-a.bin"); err == nil {
		t.Fatal("dropped file is still there")
	}
	if _, err := table.ReadFile(t.Context(), "cdc-b.bin"); err != nil {
		t.Fatal(err)
	}
}

func testOtherColumns(t *testing.T, store sink.Store) {
	openTable(t, store, storeTables, "log")
	other := Pipeline(t, `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- {source: s.log, mode: changelog, key: [id], columns: [{name: id, type: int}, {name: v, type: string}]}
`).ByTarget("lake", "log")
	if _, err := store.OpenTable(t.Context(), other); err == nil {
		t.Fatal("table with other columns was opened")
	}
}

// testManyCommits goes on until a store's maintenance has had its turn.
func testManyCommits(t *testing.T, store sink.Store) {
	table, def := openTable(t, store, storeTables, "all")
	const commits = 70
	parent := ""
	for i := range commits {
		id := string(rune('A' + i))
		b := batch(parent, id)
		if i > 0 {
			b.Deletes = sink.NewRows(Row("1", "hot"))
		}
		b.Inserts = sink.NewRows(Row(keyed("1", "hot", id)...), Row(keyed("2", id, id)...))
		commit(t, table, b)
		parent = id
	}
	rows := Contents(t.Context(), t, table, def)
	if len(rows) != commits+1 || rows[0][15] != parent {
		t.Fatalf("%d rows, the hot one at %q; want %d and %q", len(rows), rows[0][15], commits+1, parent)
	}
	if got := load(t, table).Properties[sink.PropertyCommit]; got != parent {
		t.Fatalf("commit id is %q, want %q", got, parent)
	}
}
