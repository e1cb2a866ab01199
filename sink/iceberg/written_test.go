package iceberg_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/file"
	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

const partitioned = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- source: s.item
  mode: mirror
  key: [id, part]
  readers: [%s]
  partition: [part]
  columns: [{name: id, type: long}, {name: part, type: string}, {name: v, type: string}]
`

// TestPartitionThatCannotBeWritten lets a commit fail whose rows of one partition
// have no place: the library forgets the error of a partition's writer that has
// failed before it asks for it, and would commit the other rows.
func TestPartitionThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, reader := range []string{"spark", "pyiceberg"} {
		t.Run(reader, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			store := openUnsynced(t, dir)
			t.Cleanup(func() { closeStore(t, store) })
			def := sinktest.Pipeline(t, fmt.Sprintf(partitioned, reader)).ByTarget("lake", "item")
			table, err := store.OpenTable(t.Context(), def)
			if err != nil {
				t.Fatal(err)
			}
			var first, second, keys [][][]byte
			var want []string
			for id := range 40 {
				part := string(rune('a' + id/2))
				row := func(v string) [][]byte { return sinktest.Row(fmt.Sprint(id), part, v, "p", "NULL") }
				if part != "a" { // it has no folder yet
					first = append(first, row("first"))
				}
				second, keys = append(second, row("second")), append(keys, sinktest.Row(fmt.Sprint(id), part))
				want = append(want, "second")
			}
			batch := func(parent, id string, rows [][][]byte) *sink.Batch {
				return &sink.Batch{Parent: parent, ID: id, Properties: map[string]string{sink.PropertyCommit: id}, Inserts: sink.NewRows(rows...)}
			}
			if err := table.Commit(t.Context(), batch("", "one", first)); err != nil {
				t.Fatal(err)
			}
			folder := filepath.Join(dir, "warehouse", "lake", "item", "data", "part=a")
			if err := os.WriteFile(folder, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			upsert := batch("one", "two", second)
			upsert.Deletes = sink.NewRows(keys...)
			if err := table.Commit(t.Context(), upsert); !errors.Is(err, syscall.ENOTDIR) {
				t.Errorf("a commit that cannot write a partition: %v", err)
			}
			if got := values(t, store, def, 0); len(got) != len(first) || slices.Contains(got, "second") {
				t.Errorf("after a commit that failed: %q", got)
			}
			if err := errors.Join(os.Remove(folder), table.Commit(t.Context(), upsert)); err != nil {
				t.Fatalf("with the folder in place: %v", err)
			}
			if got := values(t, store, def, 0); !slices.Equal(got, want) {
				t.Errorf("in the end: %q", got)
			}
		})
	}
}

const texts = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- source: s.item
  mode: mirror
  key: [id, part]
  readers: [%s]
  partition: [%s]
  columns: [{name: id, type: long}, {name: part, type: string}, {name: v, type: string}, {name: w, type: string}, {name: full, type: string}]
`

// TestEmptyTextsAreFound: no file tells bounds of a column that are wrong since
// texts are empty, whether as metadata or in its footer: who reads by them passes
// over rows.
func TestEmptyTextsAreFound(t *testing.T) {
	t.Parallel()
	for _, reader := range []string{"spark", "pyiceberg"} {
		for _, partition := range []string{"", "part", `"bucket(2, id)"`} {
			t.Run(reader+" "+strings.Trim(partition, `"`), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				store := openUnsynced(t, dir)
				t.Cleanup(func() { closeStore(t, store) })
				def := sinktest.Pipeline(t, fmt.Sprintf(texts, reader, partition)).ByTarget("lake", "item")
				opened, err := store.OpenTable(t.Context(), def)
				if err != nil {
					t.Fatal(err)
				}
				const pages = "write.parquet.page-size-bytes"
				if err := store.SetProperty(t.Context(), def, pages, "1024"); err != nil {
					t.Fatal(err)
				}
				var first, second, keys [][][]byte
				row := func(id int, part, v string) [][]byte {
					return sinktest.Row(fmt.Sprint(id), part, v, v, strings.Repeat("full", 1+id%7), "p", "NULL")
				}
				for id := range 30_000 {
					v := "m"
					if id < 5 || id == 29_000 {
						v = ""
					} else if id < 10 {
						v = "z" // lost with the page of the empty ones
					}
					first = append(first, row(id, v, v))
				}
				for id := range 2000 {
					keys = append(keys, sinktest.Row(fmt.Sprint(id), string(first[id][1])))
					second = append(second, row(id, string(first[id][1]), "n"))
				}
				for i, b := range []*sink.Batch{
					{ID: "one", Inserts: sink.NewRows(first...)}, {Parent: "one", ID: "two", Deletes: sink.NewRows(keys...), Inserts: sink.NewRows(second...)},
				} {
					b.Properties = map[string]string{sink.PropertyCommit: b.ID}
					if err := opened.Commit(t.Context(), b); err != nil {
						t.Fatal(err)
					}
					if mustMiss := []string{"v"}; i == 0 && partition != "" {
						checkBounds(t, store, def, mustMiss...)
					} else {
						checkBounds(t, store, def)
					}
				}
				for value, want := range map[string]int{"": 1, "z": 0, "n": 2000, "m": 27_999} {
					if got := countWhere(t, store, def, "v", value); got != want {
						t.Errorf("%d rows have %q, want %d", got, value, want)
					}
				}
				for value, want := range map[string]int{"": 6, "z": 5, "m": 29_989} {
					got := 0
					for batch, err := range store.ScanKeys(t.Context(), def, 0, []string{"part"}, "part", []string{value}, "") {
						if err != nil {
							t.Fatal(err)
						}
						parts, ok := batch.Column(0).(*array.String)
						if !ok {
							t.Fatalf("column part is %s", batch.Column(0).DataType())
						}
						for i := range parts.Len() {
							if parts.Value(i) == value {
								got++
							}
						}
					}
					if got != want {
						t.Errorf("%d rows are of part %q, want %d", got, value, want)
					}
				}
			})
		}
	}
}

// checkBounds compares what the files of a table say of their texts with their
// rows: they tell bounds of a column without empty texts, and none of one with.
func checkBounds(t *testing.T, store *iceberg.Store, def *catalog.Table, mustMiss ...string) {
	t.Helper()
	loaded := loadTable(t, store, def)
	tasks, err := loaded.Scan().PlanFiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	missed := make(map[string]bool)
	for _, task := range tasks {
		files := append([]iceberglib.DataFile{task.File}, task.EqualityDeleteFiles...)
		for _, f := range files {
			r, err := file.OpenParquetFile(pathOf(t, f), false)
			if err != nil {
				t.Fatal(err)
			}
			for c := range r.MetaData().Schema.NumColumns() {
				name := r.MetaData().Schema.Column(c).Name()
				field, ok := loaded.Schema().FindFieldByName(name)
				if !ok {
					t.Fatalf("the table has no column %q of the file", name)
				}
				_, told := f.UpperBoundValues()[field.ID]
				for g := range r.NumRowGroups() {
					chunk, err := r.MetaData().RowGroup(g).ColumnChunk(c)
					if err != nil {
						t.Fatal(err)
					}
					stats, err := chunk.Statistics()
					if err != nil {
						t.Fatal(err)
					}
					if has := stats != nil && stats.HasMinMax(); has != told {
						t.Errorf("column %s: bounds in the footer: %t, in the metadata: %t", name, has, told)
					}
				}
				if !told {
					missed[name] = true
				}
				if !told && (name == "id" || name == "full") {
					t.Errorf("column %s has no bounds", name)
				}
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range mustMiss {
		if !missed[name] {
			t.Errorf("column %s, which has empty texts, has bounds", name)
		}
	}
}

func pathOf(t *testing.T, f iceberglib.DataFile) string {
	t.Helper()
	u, err := url.Parse(f.FilePath())
	if err != nil {
		t.Fatal(err)
	}
	return u.Path
}

// countWhere counts the rows that a reader finds who asks for a text.
func countWhere(t *testing.T, store *iceberg.Store, def *catalog.Table, column, value string) int {
	t.Helper()
	scan := loadTable(t, store, def).Scan(table.WithRowFilter(iceberglib.EqualTo(iceberglib.Reference(column), value)))
	_, batches, err := scan.ToArrowRecords(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for batch, err := range batches {
		if err != nil {
			t.Fatal(err)
		}
		n += int(batch.NumRows())
		batch.Release()
	}
	return n
}
