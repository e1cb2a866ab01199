package iceberg_test

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/google/go-cmp/cmp"

	"icehose/bench/sink/stream"
	"icehose/catalog"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// TestPlainColumns asks of columns with few and with many rows a value whether
// they get a dictionary.
func TestPlainColumns(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	columns := []struct {
		name  string
		value func(i int) string // "" is null
		plain bool
	}{
		{"unique", strconv.Itoa, true},
		{"two in a run", func(i int) string { return strconv.Itoa(i / 2) }, true},
		{"two apart", func(i int) string { return strconv.Itoa(i % (rows / 2)) }, true},
		{"eight in a run", func(i int) string { return strconv.Itoa(i / 8) }, false},
		{"eight apart", func(i int) string { return strconv.Itoa(i % (rows / 8)) }, false},
		{"one", func(int) string { return "x" }, false},
		{"none", func(int) string { return "" }, false},
		{"too few to tell", func(i int) string { return cut(i, 100) }, false},
		{"unique where it is not null", func(i int) string { return cut(i, 4) }, true},
	}
	var names []string
	want := make(map[string]string)
	for _, c := range columns {
		names = append(names, c.name)
		if c.plain {
			want["write.parquet.dict-encoding-enabled.column."+c.name] = "false"
		}
	}
	var all [][][]byte
	for i := range rows {
		row := make([][]byte, len(columns))
		for j, c := range columns {
			if v := c.value(i); v != "" {
				row[j] = []byte(v)
			}
		}
		all = append(all, row)
	}
	if diff := cmp.Diff(want, iceberg.PlainColumns(sink.NewRows(all...), names)); diff != "" {
		t.Errorf("of %d rows (-want +got):\n%s", rows, diff)
	}
	if got := iceberg.PlainColumns(sink.NewRows(all[:1000]...), names); len(got) > 0 {
		t.Errorf("of 1000 rows: got %v, want none", got)
	}
}

// cut returns a text for every n-th number, and none for the others.
func cut(i, n int) string {
	if i%n > 0 {
		return ""
	}
	return strconv.Itoa(i)
}

// TestDictionary writes what PlainColumns says, unless the table has a property
// of its own.
func TestDictionary(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := openUnsynced(t, dir)
	t.Cleanup(func() { closeStore(t, store) })
	wide := stream.Table{Name: "wide", Mode: "changelog"}
	p, err := stream.Pipeline(wide)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sink.Open(t.Context(), p, store, sink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	setProperty(t, store, p.Tables[0], "write.parquet.dict-encoding-enabled.column.country", "false")
	if err := s.Deliver(t.Context(), wide.Deliveries(0, 20_000, stream.NewKey)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := dictionaries(t, dir)
	want := map[string]bool{
		"id": false, "name": false, "country": false, "day": true, "note": false, "cdc_position": false, "cdc_committed_at": false, "cdc_operation": true,
	}
	for column := range got {
		if _, ok := want[column]; !ok {
			delete(got, column)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns with a dictionary (-want +got):\n%s", diff)
	}
}

func setProperty(t *testing.T, store *iceberg.Store, def *catalog.Table, name, value string) {
	t.Helper()
	tx := loadTable(t, store, def).NewTransaction()
	if err := tx.SetProperties(map[string]string{name: value}); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// dictionaries tells of the columns of the one data file below dir whether they
// have a dictionary.
func dictionaries(t *testing.T, dir string) map[string]bool {
	t.Helper()
	got := make(map[string]bool)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".parquet") {
			return err
		}
		r, err := file.OpenParquetFile(path, false)
		if err != nil {
			return err
		}
		defer r.Close() //nolint:errcheck // only read
		group := r.MetaData().RowGroup(0)
		for i := range group.NumColumns() {
			chunk, err := group.ColumnChunk(i)
			if err != nil {
				return err
			}
			got[chunk.PathInSchema().String()] = chunk.HasDictionaryPage()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}
