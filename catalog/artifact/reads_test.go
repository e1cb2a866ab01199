package artifact_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/artifact"
)

// What a merge of a table without partial columns reads, counted by hand in the
// statements: ends is named by ended, which is named twice, and touched by
// both of those, by latest and by the select.
func TestReads(t *testing.T) {
	t.Parallel()
	p, err := catalog.Parse("reads.yaml", []byte(`version: 1
database: d
source: {engine: postgresql, position: postgres}
tables:
  - {source: s.keyed, mode: changelog, key: [id], columns: [{name: id, type: int}, {name: n, type: int}]}
  - {source: s.unkeyed, mode: changelog, columns: [{name: n, type: int}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	const added, log, current = artifact.SourceAdded, artifact.SourceLog, artifact.SourceCurrent
	for table, want := range map[string][]artifact.Read{
		"keyed": {
			{Of: added, Columns: []string{"cdc_position", "cdc_committed_at"}, Times: 1},
			{Of: current, Columns: []string{"id", "cdc_position", "n", "cdc_unresolved", "cdc_committed_at"}, Times: 1},
			{Of: log, Columns: []string{"id", "cdc_position", "n", "cdc_committed_at", "cdc_operation"}, Times: 1},
			{Of: log, Columns: []string{"id", "cdc_position", "cdc_operation"}, Times: 2},
			{Of: log, Columns: []string{"cdc_old_key", "cdc_position", "cdc_operation", "id"}, Times: 2},
			{Of: added, Columns: []string{"id"}, Times: 4},
			{Of: added, Columns: []string{"cdc_old_key", "cdc_operation"}, Times: 4},
		},
		"unkeyed": {
			{Of: added, Columns: []string{"cdc_position", "cdc_committed_at"}, Times: 1},
			{Of: current, Columns: []string{"cdc_position", "n", "cdc_committed_at"}, Times: 1},
			{Of: added, Columns: []string{"n", "cdc_position", "cdc_committed_at", "cdc_operation"}, Times: 1},
			{Of: current, Columns: []string{"n", "cdc_position", "cdc_committed_at"}, Times: 1},
			{Of: log, Columns: []string{"cdc_position"}, Times: 2},
		},
	} {
		for _, d := range []artifact.Dialect{artifact.Athena, artifact.Spark} {
			m, err := artifact.NewMerge(d, p.ByTarget("d", table))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, m.Reads()); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", d, table, diff)
			}
		}
	}
}
