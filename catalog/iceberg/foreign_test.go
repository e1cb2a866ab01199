package iceberg_test

import (
	"errors"
	"testing"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
)

// foreign creates the table orders with a schema that apply did not make.
func foreign(t *testing.T, l *lake.Lake, schema *iceberg.Schema, options ...icecatalog.CreateTableOpt) {
	t.Helper()
	if err := l.Tables.CreateNamespace(t.Context(), icecatalog.ToIdentifier("shop"), nil); err != nil {
		t.Fatal(err)
	}
	options = append(options, icecatalog.WithLocation(l.Location+"/foreign"))
	if _, err := l.Tables.CreateTable(t.Context(), icecatalog.ToIdentifier("shop", "orders"), schema, options...); err != nil {
		t.Fatal(err)
	}
}

func field(id int, name string, typ iceberg.Type, required bool) iceberg.NestedField {
	return iceberg.NestedField{ID: id, Name: name, Type: typ, Required: required}
}

func TestForeignTables(t *testing.T) {
	str, long, tz := iceberg.PrimitiveTypes.String, iceberg.PrimitiveTypes.Int64, iceberg.PrimitiveTypes.TimestampTz
	meta := []iceberg.NestedField{field(3, "cdc_position", str, false), field(4, "cdc_committed_at", tz, false)}
	byDay := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1000, Name: "note_16", Transform: iceberg.BucketTransform{NumBuckets: 16}})
	byKey := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "id_16", Transform: iceberg.BucketTransform{NumBuckets: 16}})
	properties := icecatalog.WithProperties(lake.NewProperties(new(catalog.Table)))
	old := lake.NewProperties(new(catalog.Table))
	old["format-version"] = "1"
	for name, test := range map[string]struct {
		columns []iceberg.NestedField
		key     []int
		options []icecatalog.CreateTableOpt
		want    []string
		left    bool // something is refused
	}{
		"no identifier": {
			append([]iceberg.NestedField{field(1, "id", long, true), field(2, "note", str, false)}, meta...), nil,
			[]icecatalog.CreateTableOpt{properties},
			[]string{"set_key id"},
			false,
		},
		"partitioned by the key": {
			append([]iceberg.NestedField{field(1, "id", long, true), field(2, "note", str, false)}, meta...),
			[]int{1},
			[]icecatalog.CreateTableOpt{properties, icecatalog.WithPartitionSpec(&byKey)},
			[]string{"partition bucket(16, id)"}, // it has no rows yet
			false,
		},
		"partitioned by something else": {
			append([]iceberg.NestedField{field(1, "id", long, true), field(2, "note", str, false)}, meta...),
			[]int{1},
			[]icecatalog.CreateTableOpt{properties, icecatalog.WithPartitionSpec(&byDay)},
			[]string{"refuse note: the table is partitioned by bucket[16](note), which is no key column: a delete carries the key alone, and would not find its row"},
			true,
		},
		"optional key": {
			append([]iceberg.NestedField{field(1, "id", long, false), field(2, "note", str, false)}, meta...), nil,
			[]icecatalog.CreateTableOpt{properties},
			[]string{"refuse id: a key column must be required and this one is optional: old files may hold nulls in it. Create the table anew"},
			true,
		},
		"other case": {
			append([]iceberg.NestedField{field(1, "id", long, true), field(2, "Note", str, false)}, meta...),
			[]int{1},
			[]icecatalog.CreateTableOpt{properties},
			[]string{
				"refuse note: the table has column Note, which engines without case take for the same",
				"refuse Note: it is not in the pipeline file: --allow-drop drops it and its values; renamed_from: on the column that it became renames it, unless the table has that one already",
			},
			true,
		},
		"somebody's table": {
			[]iceberg.NestedField{field(1, "id", long, true)},
			[]int{1},
			[]icecatalog.CreateTableOpt{properties},
			[]string{"refuse cdc_position: the table was not made by icehose: it has no cdc_position. Give the table another target"},
			true,
		},
		"version 1": {
			append([]iceberg.NestedField{field(1, "id", long, true), field(2, "note", str, false)}, meta...),
			[]int{1},
			[]icecatalog.CreateTableOpt{icecatalog.WithProperties(old)},
			[]string{"refuse : its format version is 1, and Firehose writes version 2 alone"},
			true,
		},
		"properties lost": {
			append([]iceberg.NestedField{field(1, "id", long, true), field(2, "note", str, false)}, meta...),
			[]int{1},
			[]icecatalog.CreateTableOpt{icecatalog.WithProperties(iceberg.Properties{
				"format-version": "2", "write.delete.mode": "copy-on-write", "write.update.mode": "merge-on-read", "write.merge.mode": "merge-on-read",
				"write.parquet.row-group-limit": "1", "write.parquet.compression-codec": "snappy", "write.metadata.previous-versions-max": "2",
			})},
			[]string{"set_property write.delete.isolation-level snapshot", "set_property write.metadata.delete-after-commit.enabled true"},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := sqlite(t)()
			foreign(t, l, iceberg.NewSchemaWithIdentifiers(0, test.key, test.columns...), test.options...)
			p := parse(t, orders("mirror", "id", "id long", "note string"))
			plan, err := l.Plan(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, texts(plan)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if plan.Refused() != test.left {
				t.Errorf("refused is %t", plan.Refused())
			}
			if _, err := l.Apply(t.Context(), p); errors.Is(err, lake.ErrRefused) != test.left {
				t.Errorf("apply: %v", err)
			}
			if again, err := l.Plan(t.Context(), p); !test.left && (err != nil || again.Pending()) {
				t.Errorf("after apply: %v, %v", texts(again), err)
			}
		})
	}
}
