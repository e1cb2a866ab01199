package iceberg_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/google/go-cmp/cmp"

	lake "icehose/catalog/iceberg"
)

// options adds settings of the table to what orders makes.
func options(text, settings string) string {
	return strings.Replace(text, "    columns:\n", "    "+settings+"\n    columns:\n", 1)
}

func loadOrders(t *testing.T, l *lake.Lake) *table.Table {
	t.Helper()
	loaded, err := l.Tables.LoadTable(t.Context(), icecatalog.ToIdentifier("shop", "orders"))
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// spec renders the table's partition fields.
func spec(t *testing.T, l *lake.Lake) []string {
	t.Helper()
	var out []string
	s := loadOrders(t, l).Spec()
	for _, f := range s.Fields() {
		out = append(out, fmt.Sprint(f.FieldID, " ", f.Name, " ", f.Transform, " of ", f.SourceIDs))
	}
	return out
}

// fill appends a row whose first column, a long, is 1 and whose others are null.
func fill(t *testing.T, l *lake.Lake) {
	t.Helper()
	loaded := loadOrders(t, l)
	schema, err := table.SchemaToArrowSchema(loaded.Schema(), nil, true, false)
	if err != nil {
		t.Fatal(err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i, f := range b.Fields() {
		if i == 0 {
			f.(*array.Int64Builder).Append(1) //nolint:forcetypeassert // a panic fails the test as well
		} else {
			f.AppendNull()
		}
	}
	record := b.NewRecordBatch()
	defer record.Release()
	rows, err := array.NewRecordReader(schema, []arrow.RecordBatch{record})
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Release()
	if _, err := loaded.Append(t.Context(), rows, nil); err != nil {
		t.Fatal(err)
	}
}

func apply(t *testing.T, l *lake.Lake, text string) []string {
	t.Helper()
	p := parse(t, text)
	done, err := l.Apply(t.Context(), p)
	if err != nil && !errors.Is(err, lake.ErrRefused) {
		t.Fatal(err)
	}
	if err == nil {
		if again, err := l.Plan(t.Context(), p); err != nil || again.Pending() || again.Refused() {
			t.Errorf("after apply: %v, %v", texts(again), err)
		}
	}
	return texts(done)
}

// A table is created with its partitions, and those of a changelog change for
// rows to come, with columns that come at the same time.
func TestPartitionEvolves(t *testing.T) {
	for name, start := range catalogs {
		t.Run(name, func(t *testing.T) {
			l := start(t)()
			v1 := options(orders("changelog", "id", "id long", "note string"), `partition: ["bucket(16, id)", day(cdc_committed_at)]`)
			got := apply(t, l, v1)
			if want := "partition bucket(16, id), day(cdc_committed_at)"; got[len(got)-1] != want {
				t.Errorf("plan of a new table ends with %s, want %s", got[len(got)-1], want)
			}
			want := []string{"1000 id_bucket bucket[16] of [1]", "1001 cdc_committed_at_day day of [4]"}
			if diff := cmp.Diff(want, spec(t, l)); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
			if name != "rest" { // the fake has no file access for its clients
				fill(t, l)
			}
			v2 := options(orders("changelog", "id", "id long", "remark string note", "placed date"), `partition: [month(placed), day(cdc_committed_at), "bucket(8, id)", "truncate(3, remark)"]`)
			if diff := cmp.Diff([]string{
				"rename remark note remark", "add placed date",
				"partition bucket(16, id), day(cdc_committed_at) month(placed), day(cdc_committed_at), bucket(8, id), truncate(3, remark)",
			}, apply(t, l, v2)); diff != "" {
				t.Errorf("evolved (-want +got):\n%s", diff)
			}
			want = []string{
				"1001 cdc_committed_at_day day of [4]", "1002 placed_month month of [8]", "1003 id_bucket bucket[8] of [1]", "1004 remark_trunc truncate[3] of [2]",
			}
			if diff := cmp.Diff(want, spec(t, l)); diff != "" {
				t.Errorf("evolved (-want +got):\n%s", diff)
			}
			plain := orders("changelog", "id", "id long", "remark string", "placed date")
			apply(t, l, plain)
			if got := spec(t, l); len(got) > 0 {
				t.Errorf("still partitioned: %v", got)
			}
			// Back to fields that were there before, which keep their ids.
			apply(t, l, options(plain, `partition: [day(cdc_committed_at)]`))
			if diff := cmp.Diff([]string{"1001 cdc_committed_at_day day of [4]"}, spec(t, l)); diff != "" {
				t.Errorf("back again (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPartitionOfMirrors(t *testing.T) {
	plain := orders("mirror", "id", "id long", "note string")
	byKey := options(plain, `partition: ["bucket(16, id)"]`)
	copied := options(byKey, "readers: [pyiceberg]")

	t.Run("empty", func(t *testing.T) {
		l := sqlite(t)()
		apply(t, l, plain)
		if diff := cmp.Diff([]string{"partition bucket(16, id)"}, apply(t, l, byKey)); diff != "" {
			t.Errorf("plan (-want +got):\n%s", diff)
		}
	})
	t.Run("equality deletes", func(t *testing.T) {
		l := sqlite(t)()
		apply(t, l, byKey)
		fill(t, l)
		for partition, said := range map[string]string{`"bucket(8, id)"`: "bucket(8, id)", "": ""} {
			want := []string{"refuse : the table is partitioned by (bucket(16, id)) and the pipeline file says (" + said + "): its equality deletes look for rows in partitions " +
				"of the newest spec alone, so rows in the files that are there would never go. Put the table's own partition: into the file, or create the table anew"}
			if diff := cmp.Diff(want, apply(t, l, options(plain, "partition: ["+partition+"]"))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		}
		if diff := cmp.Diff([]string{"1000 id_bucket bucket[16] of [1]"}, spec(t, l)); diff != "" {
			t.Errorf("the table changed (-want +got):\n%s", diff)
		}
	})
	t.Run("copy on write", func(t *testing.T) {
		l := sqlite(t)()
		apply(t, l, options(plain, "readers: [pyiceberg]"))
		fill(t, l)
		if diff := cmp.Diff([]string{"partition bucket(16, id)"}, apply(t, l, copied)); diff != "" {
			t.Errorf("plan (-want +got):\n%s", diff)
		}
		// Equality deletes from now on would not find the row that is there.
		want := []string{"refuse : it has files of an older partition spec, in which equality deletes of the newest spec (bucket(16, id)) find no row. Rewrite the data files, or create the table anew"}
		if diff := cmp.Diff(want, apply(t, l, byKey)); diff != "" {
			t.Errorf("plan (-want +got):\n%s", diff)
		}
	})
	t.Run("new readers", func(t *testing.T) {
		l := sqlite(t)()
		apply(t, l, byKey)
		want := []string{
			"set_property write.delete.mode merge-on-read copy-on-write", "set_property write.merge.mode merge-on-read copy-on-write",
			"set_property write.update.mode merge-on-read copy-on-write",
		}
		if diff := cmp.Diff(want, apply(t, l, copied)); diff != "" {
			t.Errorf("plan (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string(nil), apply(t, l, byKey)); diff != "" {
			t.Errorf("back (-want +got):\n%s", diff)
		}
	})
	t.Run("renamed key", func(t *testing.T) {
		l := sqlite(t)()
		apply(t, l, byKey)
		fill(t, l)
		renamed := options(orders("mirror", "uid", "uid long id", "note string"), `partition: ["bucket(16, uid)"]`)
		if diff := cmp.Diff([]string{"rename uid id uid"}, apply(t, l, renamed)); diff != "" {
			t.Errorf("plan (-want +got):\n%s", diff)
		}
	})
}

// Two that change the partitions at once end where one would.
func TestPartitionAtOnce(t *testing.T) {
	v1 := orders("changelog", "id", "id long")
	v2 := parse(t, options(orders("changelog", "id", "id long", "a int"), `partition: ["bucket(16, id)", a]`))
	open := sqlite(t)
	apply(t, open(), v1)
	var wg sync.WaitGroup
	for range 4 {
		l := open()
		wg.Go(func() {
			if _, err := l.Apply(t.Context(), v2); err != nil {
				t.Errorf("apply: %v", err)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff([]string{"1000 id_bucket bucket[16] of [1]", "1001 a identity of [7]"}, spec(t, open())); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
}
