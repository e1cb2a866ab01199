//go:build interop

package interop_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
)

var counting = flag.String("counting", "", "jar with CountingFileIO.java, compiled")

// A counted is what a Spark has read and written: bytes by "TABLE KIND read" and
// "TABLE KIND written", where kinds are data, deletes and metadata.
type counted map[string]int64

// read is what was read of a table's rows: data and deletes.
func (c counted) read(table string) int64 { return c[table+" data read"] + c[table+" deletes read"] }

// all sums up over tables and kinds.
func (c counted) all(suffix string) (n int64) {
	for name, bytes := range c {
		if strings.HasSuffix(name, suffix) {
			n += bytes
		}
	}
	return n
}

// countingSpark starts a Spark over the lake that counts, as one would run it and
// not as tests do.
func countingSpark(t testing.TB, s *shared) *engine {
	t.Helper()
	if *counting == "" {
		t.Fatal("want -counting: run make interop, or make bench-merge")
	}
	e, err := start(context.WithoutCancel(t.Context()), "spark", s.dir, "counting="+*counting, "adaptive=true", "partitions=8", "java=", "memory=6g")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.stop)
	return e
}

// counted returns what was counted since the last call.
func (e *engine) counted(t testing.TB) counted {
	t.Helper()
	r, err := e.call(map[string]any{"counted": true})
	if err != nil {
		t.Fatal(err)
	}
	return r.Counted
}

// noop computes the rows of a query.
func (e *engine) noop(query string) error {
	_, err := e.call(map[string]any{"noop": query})
	return err
}

// A footprint is what the metadata of a table's newest snapshot says of its files.
type footprint struct {
	columns map[string]int64 // bytes of each column in the data files
	data    int64            // bytes of the data files
	deletes int64            // bytes of the delete files
	files   []string         // paths of the data files
}

func footprintOf(t testing.TB, s *shared, def *catalog.Table, suffix string) *footprint {
	t.Helper()
	of, err := s.store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier(def.Database(), def.Name()+suffix))
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := of.Scan().PlanFiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := &footprint{columns: make(map[string]int64)}
	seen := make(map[string]bool)
	for i := range tasks {
		out.add(t, of, &tasks[i], seen)
	}
	return out
}

func (f *footprint) add(t testing.TB, of *table.Table, task *table.FileScanTask, seen map[string]bool) {
	t.Helper()
	sizes := task.File.ColumnSizes()
	if sizes == nil {
		t.Fatalf("file %s tells no sizes of its columns", task.File.FilePath())
	}
	for _, field := range of.Schema().Fields() {
		f.columns[field.Name] += sizes[field.ID]
	}
	f.data += task.File.FileSizeBytes()
	f.files = append(f.files, task.File.FilePath())
	for _, list := range [][]iceberg.DataFile{task.DeleteFiles, task.EqualityDeleteFiles, task.DeletionVectorFiles} {
		for _, d := range list {
			if !seen[d.FilePath()] {
				seen[d.FilePath()] = true
				f.deletes += d.FileSizeBytes()
			}
		}
	}
}

// parquetFooter returns how many bytes a Parquet file's footer takes.
func parquetFooter(t testing.TB, path string) int64 {
	t.Helper()
	u, err := url.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(u.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it only read
	var tail [8]byte
	if _, err := f.Seek(-int64(len(tail)), io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(f, tail[:]); err != nil {
		t.Fatal(err)
	}
	return int64(binary.LittleEndian.Uint32(tail[:])) + int64(len(tail))
}

// What CountingFileIO counts is what the metadata of files say that a column
// takes, and what the operating system has seen the process read and write.
func TestCountingFileIO(t *testing.T) {
	s := sharedLake(t)
	def := pipeline(t, strings.Replace(costPipeline, "database: cost", "database: counted", 1)).ByTarget("counted", "orders")
	if _, err := s.store.OpenTable(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	e := countingSpark(t, s)
	e.counted(t)
	const rows = 200_000
	e.sql(t, "INSERT INTO counted.orders "+costRowsOf(rows, 1, 2, "insert"))
	is := footprintOf(t, s, def, "")
	if got := e.counted(t)["orders data written"]; got != is.data {
		t.Errorf("%d bytes of data files are counted, want their sizes, %d", got, is.data)
	}
	footers := int64(0)
	for _, path := range is.files {
		footers += parquetFooter(t, path)
	}
	for _, column := range []string{"note", "id"} {
		query := "SELECT sum(hash(" + column + ")) FROM counted.orders"
		e.sql(t, query) // loads classes, from jars that the process reads too
		e.counted(t)
		before := processRead(t, e)
		e.sql(t, query)
		seen, got := processRead(t, e)-before, e.counted(t)
		// The footer may be read more than once.
		least := is.columns[column] + footers
		most := is.columns[column] + 3*footers
		t.Logf("%s: %d bytes counted, %d of the column, %d of footers; the process has read %d", column, got.read("orders"), is.columns[column], footers, seen)
		if n := got.read("orders"); n < least || n > most {
			t.Errorf("column %s: %d bytes counted, want between %d and %d", column, n, least, most)
		}
		// The file system reads checksums too, in whole pieces.
		if all := got.all(" read"); seen < all || seen > all+all/10+1<<20 {
			t.Errorf("column %s: %d bytes counted, the process has read %d", column, all, seen)
		}
	}
	e.counted(t)
	e.sql(t, "DELETE FROM counted.orders WHERE id = 5")
	is = footprintOf(t, s, def, "")
	if got := e.counted(t)["orders deletes written"]; got != is.deletes || got == 0 {
		t.Errorf("%d bytes of delete files are counted, want their sizes, %d", got, is.deletes)
	}
	if left := *e.sql(t, "SELECT count(id) FROM counted.orders")[0][0]; left != fmt.Sprint(rows-1) {
		t.Errorf("%s rows are left, want %d", left, rows-1)
	}
	if got := e.counted(t)["orders deletes read"]; got == 0 || got > 3*is.deletes {
		t.Errorf("%d bytes of delete files are read, of %d", got, is.deletes)
	}
}

// processRead is how many bytes the process of an engine has read from files.
func processRead(t testing.TB, e *engine) (n int64) {
	t.Helper()
	r, err := e.call(map[string]any{"process": true})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", r.Process))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(text), "rchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A reading is what a statement of Athena's reads of a table.
type reading struct {
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
	Times   int64    `json:"times"`
}

// readings says what statements of Athena's read.
func readings(t testing.TB, columns map[string][]string, views map[string]string, statements ...string) [][]reading {
	t.Helper()
	request, err := json.Marshal(map[string]any{"statements": statements, "columns": columns, "views": views})
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), *python, "reads.py")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("reads.py: %v\n%s", err, errs.String())
	}
	var of [][]reading
	if err := json.Unmarshal(out.Bytes(), &of); err != nil {
		t.Fatal(err)
	}
	return of
}

// What is read of a table is what is needed, once for each time that something
// names it, views and common table expressions in between.
func TestReadings(t *testing.T) {
	columns := map[string][]string{"d.t": {"a", "b", "c"}, "d.u": {"a", "z"}}
	views := map[string]string{"d.v": `CREATE OR REPLACE VIEW "d"."v" AS WITH x AS (SELECT a, b, c FROM "d"."t") SELECT l.a, r.b, l.c FROM x AS l JOIN x AS r ON l.a = r.a`}
	for statement, want := range map[string]string{
		`SELECT count(*) FROM d.v`:                                         "d.t[a]2",
		`SELECT v.a, v.b FROM d.v`:                                         "d.t[a b]1 d.t[a]1",
		`SELECT * FROM d.t WHERE c IS NULL`:                                "d.t[a b c]1",
		`SELECT a FROM d.u WHERE a NOT IN (SELECT a FROM d.t WHERE b = 1)`: "d.t[a b]1 d.u[a]1",
		`SELECT a FROM d.t UNION SELECT z FROM d.u`:                        "d.t[a]1 d.u[z]1",
		`DELETE FROM "d"."t" WHERE b = 1 OR c IS NOT NULL`:                 "d.t[b c]1",
		`MERGE INTO d.t AS t USING (SELECT a, z FROM d.u) AS s ON t.a = s.a AND t.b > 1 WHEN MATCHED THEN UPDATE SET c = s.z`: "d.t[a b]1 d.u[a z]1",
	} {
		var got []string
		for _, r := range readings(t, columns, views, statement)[0] {
			got = append(got, fmt.Sprintf("%s%v%d", r.Table, r.Columns, r.Times))
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", statement, diff)
		}
	}
}
