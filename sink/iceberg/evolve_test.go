package iceberg_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

// evolving is a table before and after its definition changed.
func evolving(t *testing.T, reader, key, columns string) *catalog.Table {
	t.Helper()
	return sinktest.Pipeline(t, fmt.Sprintf(`
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- source: s.item
  mode: mirror
  key: [id]
  readers: [%s]
  columns:
  - {name: id, type: %s}
%s`, reader, key, columns)).Tables[0]
}

const (
	columnsBefore = `
  - {name: n, type: int}
  - {name: f, type: float}
  - {name: d, type: "decimal(10,2)"}
  - {name: old_name, type: string}
`
	columnsAfter = `
  - {name: added, type: string}
  - {name: n, type: long}
  - {name: f, type: double}
  - {name: d, type: "decimal(20,2)"}
  - {name: new_name, renamed_from: old_name, type: string}
`
)

// TestEvolution: a table gets what its definition gained in the commit of the
// first rows, and is read as if it had it before.
func TestEvolution(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reader, key, keyAfter string }{
		{"spark", "long", "long"}, {"pyiceberg", "long", "long"}, {"pyiceberg", "int", "long"}, {"spark", `"decimal(9,0)"`, `"decimal(18,0)"`},
	} {
		t.Run(test.reader+" "+test.key, func(t *testing.T) {
			t.Parallel()
			store := openUnsynced(t, t.TempDir())
			defer closeStore(t, store)
			first := commitRow(t, store, evolving(t, test.reader, test.key, columnsBefore), "", "one",
				nil, []string{"1", "7", "1.5", "8.25", "x", "p", "NULL"}, []string{"2", "8", "2.5", "9.25", "y", "p", "NULL"})
			if len(first) != 2 {
				t.Fatalf("rows: %v", first)
			}
			def := evolving(t, test.reader, test.keyAfter, columnsAfter)
			opened, err := store.OpenTable(t.Context(), def)
			if err != nil {
				t.Fatal(err)
			}
			before := loadTable(t, store, def)
			rows := [][]string{{"1", "NULL", "7", "1.5", "8.25", "x", "p", "NULL"}, {"2", "NULL", "8", "2.5", "9.25", "y", "p", "NULL"}}
			if diff := cmp.Diff(rows, sinktest.Contents(t.Context(), t, opened, def)); diff != "" {
				t.Fatalf("rows before the table has the columns (-want +got):\n%s", diff)
			}
			// Notes alone need no columns.
			notes := &sink.Batch{Parent: "one", ID: "notes", Properties: map[string]string{sink.PropertyCommit: "notes"}}
			if err := opened.Commit(t.Context(), notes); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before.Schema().String(), loadTable(t, store, def).Schema().String()); diff != "" {
				t.Fatalf("a commit without rows changed the columns:\n%s", diff)
			}
			rows[0] = []string{"1", "new", "5000000000", "2.5e+300", "999999999999999999.99", "z", "q", "NULL"}
			got := commitRow(t, store, def, "notes", "two", []string{"1"}, rows[0])
			if diff := cmp.Diff(rows, got); diff != "" {
				t.Fatalf("rows (-want +got):\n%s", diff)
			}
			after := loadTable(t, store, def)
			if s := after.CurrentSnapshot(); s.SchemaID == nil || *s.SchemaID != after.Schema().ID || len(after.Metadata().Snapshots()) != 3 {
				t.Errorf("snapshot %v of schema %d", s, after.Schema().ID)
			}
			// One commit, not one for the columns and one for the rows: since before
			// there were the notes and this one.
			logged := 0
			for range after.Metadata().PreviousFiles() {
				logged++
			}
			for range before.Metadata().PreviousFiles() {
				logged--
			}
			if logged != 2 {
				t.Errorf("%d commits, want 2", logged)
			}
			// Every row that was there can still be found by its key.
			got = commitRow(t, store, def, "two", "three", []string{"2"})
			if diff := cmp.Diff(rows[:1], got); diff != "" {
				t.Errorf("rows after a delete (-want +got):\n%s", diff)
			}
		})
	}
}

// commitRow commits the delete of a key, if any, and rows, and returns what the
// table then holds.
func commitRow(t *testing.T, store *iceberg.Store, def *catalog.Table, parent, id string, key []string, rows ...[]string) [][]string {
	t.Helper()
	opened, err := store.OpenTable(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	b := &sink.Batch{Parent: parent, ID: id, Properties: map[string]string{sink.PropertyCommit: id}}
	if key != nil {
		b.Deletes = sink.NewRows(sinktest.Row(key...))
	}
	var texts [][][]byte
	for _, row := range rows {
		texts = append(texts, sinktest.Row(row...))
	}
	b.Inserts = sink.NewRows(texts...)
	if err := opened.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return sinktest.Contents(t.Context(), t, opened, def)
}

// TestRefusedEvolution: what would lose something is refused, and nothing is
// written.
func TestRefusedEvolution(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, reader, key, columns, want string }{
		{"narrower", "spark", "long", "\n  - {name: n, type: int}\n", "column n: long cannot become int"},
		{"another type", "spark", "long", "\n  - {name: n, type: string}\n", "column n: long cannot become string"},
		{"a column less", "spark", "long", "", "column n: it is not in the pipeline file"},
		{"key of equality deletes", "spark", "decimal(30,0)", "\n  - {name: n, type: long}\n", "column id: long cannot become decimal(30, 0)"},
		{"several", "spark", "string", "\n  - {name: n, type: string}\n", "(and 1 more: icehose catalog diff lists them)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store := openUnsynced(t, t.TempDir())
			defer closeStore(t, store)
			def := evolving(t, "spark", "long", "\n  - {name: n, type: long}\n")
			rows := commitRow(t, store, def, "", "one", nil, []string{"1", "7", "p", "NULL"})
			other := evolving(t, test.reader, fmt.Sprintf("%q", test.key), test.columns)
			_, err := store.OpenTable(t.Context(), other)
			if !errors.Is(err, sink.ErrRefused) || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want it refused: %s", err, test.want)
			}
			oneLine(t, err)
			opened, err := store.OpenTable(t.Context(), def)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(rows, sinktest.Contents(t.Context(), t, opened, def)); diff != "" {
				t.Errorf("rows (-before +after):\n%s", diff)
			}
		})
	}
}

// TestWidenedKeyStaysOnCopyOnWrite: rows whose key was written as an int are
// found by copy-on-write, and by no equality delete.
func TestWidenedKeyStaysOnCopyOnWrite(t *testing.T) {
	t.Parallel()
	store := openUnsynced(t, t.TempDir())
	defer closeStore(t, store)
	commitRow(t, store, evolving(t, "spark", "int", columnsBefore), "", "one", nil, []string{"1", "7", "1.5", "8.25", "x", "p", "NULL"})
	if _, err := store.OpenTable(t.Context(), evolving(t, "spark", "long", columnsBefore)); !errors.Is(err, sink.ErrRefused) {
		t.Fatalf("widened key with equality deletes: %v", err)
	}
	got := commitRow(t, store, evolving(t, "pyiceberg", "long", columnsBefore), "one", "two", []string{"1"}, []string{"5000000000", "7", "1.5", "8.25", "x", "p", "NULL"})
	if len(got) != 1 {
		t.Fatalf("rows: %v", got)
	}
	if _, err := store.OpenTable(t.Context(), evolving(t, "spark", "long", columnsBefore)); !errors.Is(err, sink.ErrRefused) {
		t.Fatalf("back to equality deletes: %v", err)
	}
}

// TestFormatChanges: a table may go from equality deletes to copy-on-write, and
// be partitioned otherwise then; back it may not go while files of the former
// spec are left.
func TestFormatChanges(t *testing.T) {
	t.Parallel()
	store := openUnsynced(t, t.TempDir())
	defer closeStore(t, store)
	row := func(id, v string) []string { return []string{id, "n", v, "p", "NULL"} }
	def := func(reader, partition string) *catalog.Table {
		return sinktest.Pipeline(t, fmt.Sprintf(layoutTable, reader, partition)).Tables[0]
	}
	commitRow(t, store, def("spark", ""), "", "1", nil, row("1", "a"), row("2", "a"), row("3", "a"))
	commitRow(t, store, def("spark", ""), "1", "2", []string{"1", "n"}, row("1", "b"))
	got := commitRow(t, store, def("pyiceberg", `"bucket(4, id)"`), "2", "3", []string{"2", "n"}, row("2", "c"))
	want := [][]string{row("1", "b"), row("2", "c"), row("3", "a")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("copied on write (-want +got):\n%s", diff)
	}
	// Files of the old spec are left, in which equality deletes find nothing.
	if _, err := store.OpenTable(t.Context(), def("spark", `"bucket(4, id)"`)); !errors.Is(err, sink.ErrRefused) {
		t.Fatalf("equality deletes beside files of another spec: %v", err)
	}
	if got := commitRow(t, store, def("pyiceberg", `"bucket(4, id)"`), "3", "4", []string{"1", "n"}); len(got) != 2 {
		t.Fatalf("rows: %v", got)
	}
}

// TestRefusedTableLetsOthersGoOn: the rows of a table that cannot take them are
// rejected, each record once, and those of other tables are written.
func TestRefusedTableLetsOthersGoOn(t *testing.T) {
	t.Parallel()
	store := openUnsynced(t, t.TempDir())
	defer closeStore(t, store)
	const file = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- {source: s.item, mode: mirror, key: [id], columns: [{name: id, type: long}, {name: v, type: %s}]}
- {source: s.other, mode: mirror, key: [id], columns: [{name: id, type: long}]}
`
	before, after := sinktest.Pipeline(t, fmt.Sprintf(file, "string")), sinktest.Pipeline(t, fmt.Sprintf(file, "int"))
	commitRow(t, store, before.Tables[0], "", "one", nil, []string{"1", "x", "p", "NULL"})
	if _, err := sink.Open(t.Context(), after, store, sink.Options{}); !errors.Is(err, sink.ErrRefused) {
		t.Fatalf("open without anybody to keep rows: %v", err)
	}
	var refused []string
	var rejected []sink.Reason
	s, err := sink.Open(t.Context(), after, store, sink.Options{
		Refused: func(t *catalog.Table, err error) { refused = append(refused, t.Name()) },
		Reject: func(_ sink.Offset, err *sink.RejectError) error {
			rejected = append(rejected, err.Reason)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	at := cdc.ChangePosition(0, cdc.Body{Lo: 1}, 0)
	var stream []sink.Delivery
	for i, name := range []string{"item", "other", "item"} {
		data := fmt.Sprintf(`{"id":1,"v":2,"cdc_position":"%s","cdc_committed_at":null}`, at)
		if name == "other" {
			data = strings.Replace(data, `"v":2,`, "", 1)
		}
		stream = append(stream, sink.Delivery{
			Offset: sink.Offset{Shard: "s", Ordinal: uint64(i)}, Row: &sink.Row{Database: "lake", Table: name, Operation: cdc.Update, Data: []byte(data)},
		})
	}
	for range 2 {
		if err := s.Deliver(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"item"}, refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]sink.Reason{sink.SchemaRefused, sink.SchemaRefused}, rejected); diff != "" {
		t.Errorf("rejected (-want +got):\n%s", diff)
	}
	if got := s.Handled()["s"]; got != 3 {
		t.Errorf("handled %d records, want 3", got)
	}
	opened, err := store.OpenTable(t.Context(), after.Tables[1])
	if err != nil {
		t.Fatal(err)
	}
	if got := len(sinktest.Contents(t.Context(), t, opened, after.Tables[1])); got != 1 {
		t.Errorf("the other table has %d rows, want 1", got)
	}
}

// A definition by which folds would misread old rows stops plan and merge, and no
// pipeline that writes: rows of today say what they mean.
func TestDefinitionThatOnlyFoldsMisread(t *testing.T) {
	t.Parallel()
	store := openUnsynced(t, t.TempDir())
	defer closeStore(t, store)
	def := func(column string) *catalog.Table {
		return sinktest.Pipeline(t, fmt.Sprintf(`
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- {source: s.log, mode: changelog, key: [id], columns: [{name: id, type: long}, {%s, type: string, may_be_unchanged: true}]}
`, column)).Tables[0]
	}
	parent := ""
	for n, d := range []*catalog.Table{def("name: b"), def("name: b2, renamed_from: b"), def("name: b2")} {
		table, err := store.OpenTable(t.Context(), d)
		if err != nil {
			t.Fatalf("definition %d: %v", n, err)
		}
		columns, data := d.LakeColumns()
		row := make([][]byte, len(columns))
		row[0], row[data] = []byte("1"), fmt.Append(nil, "p", n)
		id := fmt.Sprint("commit ", n)
		batch := &sink.Batch{Parent: parent, ID: id, Properties: map[string]string{sink.PropertyCommit: id}, Inserts: sink.NewRows(row)}
		if err := table.Commit(t.Context(), batch); err != nil {
			t.Fatalf("definition %d: %v", n, err)
		}
		parent = id
	}
	current, err := store.Tables().Tables.LoadTable(t.Context(), []string{"lake", "log"})
	if err != nil {
		t.Fatal(err)
	}
	if err := lake.CheckMeaning(def("name: b2"), current); err == nil || !strings.Contains(err.Error(), "former_names: [b]") {
		t.Errorf("folds: %v", err)
	}
}
