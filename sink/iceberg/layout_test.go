package iceberg_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
)

// layoutTable is a mirror whose key has a text that many keys begin alike with:
// longer than the bounds that files keep of it.
const layoutTable = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- source: s.item
  mode: mirror
  key: [id, name]
  readers: [%s]
  partition: [%s]
  columns: [{name: id, type: long}, {name: name, type: string}, {name: v, type: string}]
`

// TestLayouts compares mirrors of every delete format and partitioning with a
// model after each of many commits.
func TestLayouts(t *testing.T) {
	t.Parallel()
	for _, reader := range []string{"spark", "pyiceberg"} {
		for _, partition := range []string{"", `"bucket(4, id)"`, `"truncate(3, name)", "bucket(2, name)"`, "id", `"truncate(10, id)"`} {
			t.Run(reader+" "+partition, func(t *testing.T) {
				t.Parallel()
				runLayout(t, sinktest.Pipeline(t, fmt.Sprintf(layoutTable, reader, partition)))
			})
		}
	}
}

// openUnsynced opens a lake that need not outlive a power cut.
func openUnsynced(t testing.TB, dir string) *iceberg.Store {
	t.Helper()
	store, err := iceberg.Open(context.WithoutCancel(t.Context()), dir, iceberg.Options{Sync: func(*os.File) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func runLayout(t *testing.T, p *catalog.Pipeline) {
	t.Helper()
	def := p.Tables[0]
	dir := t.TempDir()
	store := openUnsynced(t, dir)
	defer func() { closeStore(t, store) }()
	r := rand.New(rand.NewPCG(1, 2))
	model := make(map[string][]string)
	position := uint64(0)
	for round := range 16 {
		if round%5 == 4 { // all that is in memory is forgotten
			closeStore(t, store)
			store = openUnsynced(t, dir)
		}
		s, err := sink.Open(t.Context(), p, store, sink.Options{Background: round%2 == 0, FlushRows: 40})
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + r.IntN(60) {
			id, name := r.IntN(12), "a name that is long and ends in "+strconv.Itoa(r.IntN(6))
			if r.IntN(4) == 0 {
				name = strconv.Itoa(r.IntN(3))
			}
			position++
			at := cdc.ChangePosition(0, cdc.Body{Lo: position}, 0)
			key := strconv.Itoa(id) + "|" + name
			operation := cdc.Update
			if delete(model, key); r.IntN(3) == 0 {
				operation = cdc.Delete
			} else {
				model[key] = []string{strconv.Itoa(id), name, strconv.FormatUint(position, 10)}
			}
			data := fmt.Appendf(nil, `{"id":%d,"name":%q,"v":"%d","cdc_position":"%s","cdc_committed_at":null}`, id, name, position, at)
			err := s.Deliver(t.Context(), []sink.Delivery{{
				Offset: sink.Offset{Shard: "s", Ordinal: position - 1},
				Row:    &sink.Row{Database: "lake", Table: "item", Operation: operation, Data: data},
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if round == 2 {
			for key, value := range pieces() {
				if err := store.SetProperty(t.Context(), def, key, value); err != nil {
					t.Fatal(err)
				}
			}
		}
		checkLayout(t, store, def, model)
	}
}

func checkLayout(t *testing.T, store *iceberg.Store, def *catalog.Table, model map[string][]string) {
	t.Helper()
	opened, err := store.OpenTable(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	var want, got [][]string
	for _, row := range model {
		want = append(want, row)
	}
	slices.SortFunc(want, slices.Compare)
	for _, row := range sinktest.Contents(t.Context(), t, opened, def) {
		got = append(got, row[:3])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("rows (-model +table):\n%s", diff)
	}
	loaded := loadTable(t, store, def)
	summary := loaded.CurrentSnapshot().Summary.Properties
	if deletes := summary["total-delete-files"]; def.DeleteFormat() == catalog.CopyOnWrite && deletes != "0" {
		t.Fatalf("a table that is copied on write has %s delete files", deletes)
	}
	if rows := summary["total-records"]; def.DeleteFormat() == catalog.CopyOnWrite && rows != strconv.Itoa(len(want)) {
		t.Fatalf("the summary counts %s rows of %d", rows, len(want))
	}
	tasks, err := loaded.Scan().PlanFiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spec := loaded.Spec()
	for _, task := range tasks {
		if got := len(task.File.Partition()); got != spec.NumFields() {
			t.Fatalf("file %s has %d partition values, want %d", task.File.FilePath(), got, spec.NumFields())
		}
	}
}

// loadTable loads a table as any reader does.
func loadTable(t *testing.T, store *iceberg.Store, def *catalog.Table) *table.Table {
	t.Helper()
	loaded, err := store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier(def.Database(), def.Name()))
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// TestTransforms compares the partitions that rows land in with the values
// that the Iceberg specification publishes (appendix B, "32-bit hash
// requirements", with bucket = (hash & max int) % N) and with those of its
// section "Partition transforms".
func TestTransforms(t *testing.T) {
	t.Parallel()
	const n = 1 << 20
	bucket := func(hash int32) string { return strconv.Itoa(int(hash&0x7fffffff) % n) }
	for _, test := range []struct{ columnType, partition, value, want string }{
		{"int", "bucket(1048576, v)", "34", bucket(2017239379)},
		{"long", "bucket(1048576, v)", "34", bucket(2017239379)},
		{"decimal(9,2)", "bucket(1048576, v)", "14.20", bucket(-500754589)},
		{"date", "bucket(1048576, v)", "2017-11-16", bucket(-653330422)},
		{"time", "bucket(1048576, v)", "22:31:08.000000", bucket(-662762989)},
		{"timestamp", "bucket(1048576, v)", "2017-11-16T22:31:08.000000", bucket(-2047944441)},
		{"timestamptz", "bucket(1048576, v)", "2017-11-16T22:31:08.000000Z", bucket(-2047944441)},
		{"timestamp", "bucket(1048576, v)", "2017-11-16T22:31:08.000001", bucket(-1207196810)},
		{"string", "bucket(1048576, v)", "iceberg", bucket(1210000089)},
		{"uuid", "bucket(1048576, v)", "f79c3e09-677c-4bbd-a479-3f349cb785e7", bucket(1488055340)},
		{"fixed[4]", "bucket(1048576, v)", "00010203", bucket(-188683207)},
		{"binary", "bucket(1048576, v)", "00010203", bucket(-188683207)},
		{"int", "truncate(10, v)", "1", "0"},
		{"int", "truncate(10, v)", "-1", "-10"},
		{"long", "truncate(10, v)", "-1", "-10"},
		{"string", "truncate(3, v)", "iceberg", "ice"},
		{"date", "year(v)", "2017-11-16", "47"},
		{"date", "month(v)", "2017-11-16", "574"},
		{"date", "day(v)", "2017-11-16", "17486"},
		{"date", "month(v)", "1969-12-31", "-1"},
		{"timestamp", "day(v)", "2017-11-16T22:31:08.000000", "17486"},
		{"timestamptz", "hour(v)", "2017-11-16T22:31:08.000000Z", strconv.Itoa(17486*24 + 22)},
		{"timestamptz", "hour(v)", "1969-12-31T23:59:59.999999Z", "-1"},
		{"timestamptz", "year(v)", "1969-12-31T23:59:59.999999Z", "-1"},
		{"string", "v", "é", "é"},
		{"string", "v", "NULL", "null"},
		{"timestamptz", "day(v)", "NULL", "null"},
		{"int", "bucket(1048576, v)", "NULL", "null"},
		{"string", "truncate(3, v)", "NULL", "null"},
	} {
		t.Run(test.columnType+" "+test.partition+" "+test.value, func(t *testing.T) {
			t.Parallel()
			def := sinktest.Pipeline(t, fmt.Sprintf(`
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- {source: s.log, mode: changelog, key: [id], partition: [%q], columns: [{name: id, type: long}, {name: v, type: %q}]}
`, test.partition, test.columnType)).Tables[0]
			store := openUnsynced(t, t.TempDir())
			defer closeStore(t, store)
			opened, err := store.OpenTable(t.Context(), def)
			if err != nil {
				t.Fatal(err)
			}
			row := []string{"1", test.value, "p", "NULL", "insert", "NULL", "NULL"}
			b := &sink.Batch{ID: "one", Properties: map[string]string{sink.PropertyCommit: "one"}, Inserts: sink.NewRows(sinktest.Row(row...))}
			if err := opened.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			tasks, err := loadTable(t, store, def).Scan().PlanFiles(t.Context())
			if err != nil || len(tasks) != 1 {
				t.Fatalf("%d files, %v", len(tasks), err)
			}
			got := "null"
			for _, value := range tasks[0].File.Partition() {
				if value != nil {
					got = fmt.Sprint(value)
				}
			}
			if got != test.want {
				t.Errorf("partition %s, want %s", got, test.want)
			}
			if diff := cmp.Diff([][]string{row}, sinktest.Contents(t.Context(), t, opened, def)); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

// TestManyPartitions writes rows of many partitions in one commit, two times.
func TestManyPartitions(t *testing.T) {
	t.Parallel()
	def := sinktest.Pipeline(t, fmt.Sprintf(layoutTable, "spark", "id")).Tables[0]
	store := openUnsynced(t, t.TempDir())
	defer closeStore(t, store)
	opened, err := store.OpenTable(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	const partitions = 200
	var rows, keys [][][]byte
	for i := range 2 * partitions {
		key := []string{strconv.Itoa(i % partitions), strconv.Itoa(i / partitions)}
		keys = append(keys, sinktest.Row(key...))
		rows = append(rows, sinktest.Row(key[0], key[1], "one", "p", "NULL"))
	}
	parent := ""
	for _, id := range []string{"one", "two"} {
		b := &sink.Batch{Parent: parent, ID: id, Properties: map[string]string{sink.PropertyCommit: id}, Inserts: sink.NewRows(rows...)}
		if parent != "" {
			b.Deletes = sink.NewRows(keys...)
		}
		if err := opened.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		parent = id
	}
	if got := len(sinktest.Contents(t.Context(), t, opened, def)); got != 2*partitions {
		t.Errorf("%d rows, want %d", got, 2*partitions)
	}
}
