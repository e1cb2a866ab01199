package iceberg

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
)

// PartitionSpec is iceberg-go's partition spec.
type PartitionSpec = iceberg.PartitionSpec

// SpecOf returns the partition spec of a new lake table with the schema that
// SchemaOf returns.
func SpecOf(t *catalog.Table, schema *Schema) (*PartitionSpec, error) {
	options := make([]iceberg.PartitionOption, 0, len(t.Partition))
	for _, f := range t.Partition {
		transform, err := iceberg.ParseTransform(f.IcebergTransform())
		if err != nil {
			return nil, fmt.Errorf("partition %s: %w", f, err)
		}
		options = append(options, iceberg.AddPartitionFieldByName(f.Column, f.Name(), transform, schema, nil))
	}
	spec, err := iceberg.NewPartitionSpecOpts(options...)
	if err != nil {
		return nil, fmt.Errorf("partition: %w", err)
	}
	return &spec, nil
}

// partition compares the partition specs. It runs after the columns.
func (p *planner) partition(ctx context.Context, current *table.Table) error {
	want := fieldTexts(p.t)
	have, foreign := p.partitionOf(current)
	if foreign {
		return nil // said already
	}
	keyed := p.t.Mode == catalog.Mirror && len(p.t.Key) > 0
	same := slices.Equal(sorted(have), sorted(want))
	if !keyed || p.t.DeleteFormat() != catalog.EqualityDeletes {
		if !same {
			p.act(Action{Kind: Partition, From: list(have), To: list(want)})
		}
		return nil
	}
	other, err := filesOutside(ctx, current, same)
	switch {
	case err != nil:
		return err
	case !same && other:
		p.refuse("", "the table is partitioned by (%s) and the pipeline file says (%s): its equality deletes look for rows in partitions of the newest spec alone, "+
			"so rows in the files that are there would never go. Put the table's own partition: into the file, or create the table anew", list(have), list(want))
	case other:
		p.refuse("", "it has files of an older partition spec, in which equality deletes of the newest spec (%s) find no row. Rewrite the data files, or create the table anew", list(have))
	case !same:
		p.act(Action{Kind: Partition, From: list(have), To: list(want)})
	}
	return nil
}

// partitionOf renders the table's partition fields with the names that its
// columns have in the pipeline file. It refuses those that no delete of a mirror
// could name, and reports whether there were any.
func (p *planner) partitionOf(current *table.Table) (fields []string, refused bool) {
	spec := current.Spec()
	for _, f := range spec.Fields() {
		if len(f.SourceIDs) == 0 || f.Transform.String() == "void" {
			continue
		}
		for _, id := range f.SourceIDs {
			if name := p.matched[id]; p.t.Mode == catalog.Mirror && len(p.t.Key) > 0 && !p.t.IsKey(name) {
				name, _ = current.Schema().FindColumnName(id)
				p.refuse(name, "the table is partitioned by %s(%s), which is no key column: a delete carries the key alone, and would not find its row",
					f.Transform, name)
				refused = true
			}
		}
		fields = append(fields, partitionField(p.matched[f.SourceIDs[0]], f.Transform.String()))
	}
	return fields, refused
}

// partitionField renders a column and a transform of table metadata as the
// pipeline file spells them.
func partitionField(column, transform string) string {
	name, width, ok := strings.Cut(strings.TrimSuffix(transform, "]"), "[")
	switch {
	case name == string(catalog.PartitionIdentity):
		return column
	case ok:
		return fmt.Sprintf("%s(%s, %s)", name, width, column)
	}
	return fmt.Sprintf("%s(%s)", name, column)
}

// filesOutside reports whether the newest snapshot has data files that
// equality deletes of another spec would not reach: any files at all when the
// spec is to change, else those of older specs. Deletes of an unpartitioned
// spec reach all of them.
func filesOutside(ctx context.Context, current *table.Table, same bool) (bool, error) {
	snapshot := current.CurrentSnapshot()
	spec := current.Spec()
	if snapshot == nil || same && (len(current.Metadata().PartitionSpecs()) == 1 || spec.IsUnpartitioned()) {
		return false, nil
	}
	lists, err := NewLists(ctx, current, bySink)
	if err != nil {
		return false, err
	}
	manifests, err := lists.Whole(snapshot) // one that was cut would show fewer files
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(manifests, func(m iceberg.ManifestFile) bool {
		live := m.HasAddedFiles() || m.HasExistingFiles()
		return m.ManifestContent() == iceberg.ManifestContentData && live && (!same || int(m.PartitionSpecID()) != spec.ID())
	}), nil
}

// bySink reports whether a sink, or what maintains its tables, made a snapshot.
func bySink(s *table.Snapshot) bool {
	for name := range s.Summary.Properties {
		if strings.HasPrefix(name, "icehose.") {
			return true
		}
	}
	return false
}

// fieldTexts renders the partition fields of the pipeline file.
func fieldTexts(t *catalog.Table) []string {
	texts := make([]string, len(t.Partition))
	for i, f := range t.Partition {
		texts[i] = f.String()
	}
	return texts
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func list(names []string) string { return strings.Join(names, ", ") }

// repartition stages the table's new partition spec.
func repartition(tx *table.Transaction, t *catalog.Table, spec PartitionSpec) error {
	update := tx.UpdateSpec(true)
	for _, f := range spec.Fields() {
		update.RemoveField(f.Name)
	}
	for _, f := range t.Partition {
		transform, err := iceberg.ParseTransform(f.IcebergTransform())
		if err != nil {
			return fmt.Errorf("partition %s: %w", f, err)
		}
		update.AddField(f.Column, transform, f.Name())
	}
	if err := update.Commit(); err != nil {
		return fmt.Errorf("change partitions: %w", err)
	}
	return nil
}
