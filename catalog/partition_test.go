package catalog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
)

func TestPartitionField(t *testing.T) {
	for text, want := range map[string][]string{ // the Iceberg transform and the field's name
		"region":                {"identity", "region"},
		"bucket(16, id)":        {"bucket[16]", "id_bucket"},
		"bucket(2147483647,id)": {"bucket[2147483647]", "id_bucket"},
		"truncate( 4 , code )":  {"truncate[4]", "code_trunc"},
		"year(at)":              {"year", "at_year"},
		"month(at)":             {"month", "at_month"},
		"day(cdc_committed_at)": {"day", "cdc_committed_at_day"},
		"hour(at)":              {"hour", "at_hour"},
		"bucket":                {"identity", "bucket"},
	} {
		f, err := catalog.ParsePartitionField(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, []string{f.IcebergTransform(), f.Name()}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if again, err := catalog.ParsePartitionField(f.String()); err != nil || again != f {
			t.Errorf("%s is written as %s, which reads as %+v, %v", text, f, again, err)
		}
	}
	for text, want := range map[string]string{
		"":                                  "want a column, bucket(N, column)",
		"Region":                            "want a column, bucket(N, column)",
		"days(at)":                          "want a column, bucket(N, column)",
		"identity(at)":                      "want the column's name alone",
		"bucket(id)":                        "want bucket(N, column) with N from 1",
		"bucket(id, 16)":                    "want a column, bucket(N, column)",
		"bucket(0, id)":                     "want bucket(N, column) with N from 1",
		"bucket(2147483648,a)":              "want bucket(N, column) with N from 1",
		"truncate(99999999999999999999, a)": "want truncate(N, column) with N from 1",
		"day(3, at)":                        "want day(column), without a number",
		"bucket(16":                         "write \"bucket(N, column)\" in quotes",
		"id)":                               "write \"bucket(N, column)\" in quotes",
		"bucket(16, id) ":                   "want a column",
	} {
		if f, err := catalog.ParsePartitionField(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, %v; want an error with %q", text, f, err, want)
		}
	}
}

// Which types a transform takes is what Iceberg says; except for identity of
// floating point, which is refused here.
func TestPartitionTransformTypes(t *testing.T) {
	types := []string{
		"boolean", "int", "long", "float", "double", "decimal(9,2)", "date", "time", "timestamp", "timestamptz", "string", "uuid", "fixed[4]", "binary",
	}
	for _, text := range []string{"a", "bucket(8, a)", "truncate(8, a)", "year(a)", "month(a)", "day(a)", "hour(a)"} {
		f, err := catalog.ParsePartitionField(text)
		if err != nil {
			t.Fatal(err)
		}
		transform, err := iceberg.ParseTransform(f.IcebergTransform())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range types {
			typ, err := catalog.ParseType(name)
			if err != nil {
				t.Fatal(err)
			}
			of, err := lake.TypeOf(typ)
			if err != nil {
				t.Fatal(err)
			}
			want := transform.CanTransform(of) && (f.Transform != catalog.PartitionIdentity || typ.Kind != catalog.Float && typ.Kind != catalog.Double)
			if got := f.Transform.Takes(typ); got != want {
				t.Errorf("%s of %s: got %t, want %t", f.IcebergTransform(), name, got, want)
			}
		}
	}
}

const partitioned = `version: 1
database: shop
source: {engine: postgresql, position: postgres}
tables:
  - source: public.orders
    mode: %s
    key: [id, placed]
    partition: [%s]
    columns:
      - {name: id, type: long}
      - {name: placed, type: date}
      - {name: region, type: string}
      - {name: rate, type: double}
      - {name: card, type: string, exclude: true}
      - {name: email, type: string, mask: sha256}
      - {name: region_trunc, type: string}
`

func TestPartition(t *testing.T) {
	for _, tt := range []struct{ mode, partition, want string }{
		{"mirror", `"bucket(16, id)", month(placed)`, ""},
		{"mirror", "id, placed", ""},
		{"changelog", `region, day(cdc_committed_at), "bucket(4, cdc_position)", cdc_operation`, ""},
		{"mirror", "region", "public.orders.region is no key column: a delete carries what its record has, so it would look for its row in another partition. " +
			"Partition by key columns, such as bucket(16, id), or make the table a changelog"},
		{"mirror", "day(cdc_committed_at)", "public.orders.cdc_committed_at is no key column"},
		{"mirror", "cdc_operation", "no column of this name in the lake table of public.orders"}, // a mirror has none
		{"changelog", "nowhere", "no column of this name in the lake table of public.orders"},
		{"changelog", "card", "public.orders.card is excluded, so the lake does not have it: partition by another column"},
		{"changelog", "email", "public.orders.email is masked: partition by another column, or take the mask away"},
		{"changelog", "rate", "public.orders.rate is a double, of which identity makes no partitions"},
		{"changelog", `"bucket(4, rate)"`, "public.orders.rate is a double, of which bucket makes no partitions"},
		{"mirror", "hour(placed)", "public.orders.placed is a date, of which hour makes no partitions"},
		{"changelog", "day(region)", "public.orders.region is a string, of which day makes no partitions"},
		{"mirror", "id, id", "the partition field id is there already"},
		{"mirror", `"bucket(8, id)", "bucket(16, id)"`, "the partition field id_bucket is there already"},
		{"mirror", "day(placed), month(placed)", "public.orders.placed is partitioned by day already: leave the finer one"},
		{"changelog", `"truncate(2, region)"`, "the partition field would be called region_trunc, as a column is: rename that column with source: and name:"},
		{"mirror", "bucket(16, id)", `write "bucket(N, column)" in quotes`},
	} {
		t.Run(tt.mode+" "+tt.partition, func(t *testing.T) {
			p, err := catalog.Parse("pipeline.yaml", fmt.Appendf(nil, partitioned, tt.mode, tt.partition))
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if got, want := len(p.Tables[0].Partition), strings.Count(tt.partition, ", ")+1-strings.Count(tt.partition, `(16, `)-strings.Count(tt.partition, `(4, `); got != want {
					t.Errorf("got %d fields, want %d", got, want)
				}
				return
			}
			var place *catalog.FileError
			if !errors.As(err, &place) || place.Line != 8 || !strings.HasPrefix(place.Field, "tables[0].partition[") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant line 8, %s", err, tt.want)
			}
		})
	}
}

// A table of inserts alone has no deletes that must find their rows.
func TestPartitionOfKeylessMirror(t *testing.T) {
	text := strings.Replace(fmt.Sprintf(partitioned, "mirror", "region"), "    key: [id, placed]\n", "", 1)
	if _, err := catalog.Parse("pipeline.yaml", []byte(text)); err != nil {
		t.Error(err)
	}
}

// A changelog that another stream delivers as a mirror has only the partitions
// that its deletes can name, and the changelog keeps its own.
func TestPartitionInAnotherMode(t *testing.T) {
	p, err := catalog.Parse("pipeline.yaml", fmt.Appendf(nil, partitioned, "changelog", `region, "bucket(4, id)", day(cdc_committed_at), cdc_operation, placed`))
	if err != nil {
		t.Fatal(err)
	}
	texts := func(table *catalog.Table) (out []string) {
		for _, f := range table.Partition {
			out = append(out, f.String())
		}
		return out
	}
	before := texts(p.Tables[0])
	as, err := p.Tables[0].As(catalog.Mirror, "", "_mirror")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"bucket(4, id)", "placed"}, texts(as)); diff != "" {
		t.Errorf("as a mirror (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, texts(p.Tables[0])); diff != "" || len(before) != 5 {
		t.Errorf("the changelog changed (-want +got):\n%s", diff)
	}
	if _, err := p.Tables[0].As("", "values", ""); err == nil || !strings.Contains(err.Error(), "deliver table public.orders: target values.orders: a reserved word") {
		t.Errorf("a reserved database: %v", err)
	}
}

func TestReaders(t *testing.T) {
	parse := func(file, table string) (*catalog.Table, error) {
		text := strings.Replace(minimal, "tables:\n", file+"tables:\n", 1)
		text = strings.Replace(text, "    key: [id]\n", "    key: [id]\n"+table, 1)
		p, err := catalog.Parse("pipeline.yaml", []byte(text))
		if err != nil {
			return nil, err
		}
		return p.Tables[0], nil
	}
	for _, tt := range []struct {
		name, file, table string
		readers           []catalog.Reader
		want              catalog.DeleteFormat
	}{
		{"none", "", "", nil, catalog.EqualityDeletes},
		{"of the file", "readers: [spark, trino, athena, icehose]\n", "", []catalog.Reader{"spark", "trino", "athena", "icehose"}, catalog.EqualityDeletes},
		{"of the table", "readers: [spark]\n", "    readers: [spark, pyiceberg]\n", []catalog.Reader{"spark", "pyiceberg"}, catalog.CopyOnWrite},
		{"the table's replace the file's", "readers: [duckdb]\n", "    readers: [trino]\n", []catalog.Reader{"trino"}, catalog.EqualityDeletes},
		{"duckdb", "readers: [duckdb]\n", "", []catalog.Reader{"duckdb"}, catalog.CopyOnWrite},
		{"snowflake", "", "    readers: [athena, snowflake]\n", []catalog.Reader{"athena", "snowflake"}, catalog.CopyOnWrite},
		{"databricks", "", "    readers: [databricks]\n", []catalog.Reader{"databricks"}, catalog.CopyOnWrite},
	} {
		table, err := parse(tt.file, tt.table)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(tt.readers, table.Readers); diff != "" {
			t.Errorf("%s: readers (-want +got):\n%s", tt.name, diff)
		}
		if got := table.DeleteFormat(); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	for _, tt := range []struct{ file, table, want string }{
		{"readers: [sparc]\n", "", `pipeline.yaml:4: readers[0]: want icehose, spark, trino, athena, duckdb, pyiceberg, snowflake, databricks, got "sparc"`},
		{"", "    readers: [spark, flink]\n", `pipeline.yaml:8: tables[0].readers[1]: want icehose`},
		{"", "    readers: [spark, spark]\n", `pipeline.yaml:8: tables[0].readers[1]: listed twice, got "spark"`},
	} {
		if _, err := parse(tt.file, tt.table); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got  %v\nwant %s", err, tt.want)
		}
	}
}
