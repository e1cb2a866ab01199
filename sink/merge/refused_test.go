package merge_test

import (
	"errors"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink/iceberg"
	"icehose/sink/merge"
	"icehose/sink/merge/mergetest"
)

func TestRefused(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	row := mergetest.Traps()[0].Steps[0].Rows[0]
	for name, test := range map[string]struct {
		spoil func(t *testing.T, store *iceberg.Store) *catalog.Table
		want  string
	}{
		"two kinds of position": {func(t *testing.T, store *iceberg.Store) *catalog.Table {
			run(t, store, def)
			appendRows(t, store, def, row.Lake())
			return pipeline(t, strings.Replace(mergetest.Pipeline, "engine: postgresql, position: postgres", "engine: mysql, position: mysql", 1)).ByTarget("d", "plain")
		}, "the positions merged so far are of kind postgres, the pipeline file says mysql"},
		"another key than before": {func(t *testing.T, store *iceberg.Store) *catalog.Table {
			run(t, store, def)
			return pipeline(t, strings.Replace(mergetest.Pipeline, "key: [id]\n", "key: [id, v]\n", 1)).ByTarget("d", "plain")
		}, "its rows have the key before a key change as (id), and key: of the pipeline file says (id, v): they cannot be read by another key. Create the changelog anew, and load it"},
		"changes with positions of two kinds": {func(t *testing.T, store *iceberg.Store) *catalog.Table {
			run(t, store, def)
			other := row
			other.Position = cdc.ChangePosition(0, cdc.Body{Lo: 17}, 1)
			appendRows(t, store, def, other.Lake())
			return def
		}, "0000.00000000000000000000000000000011.1.0000000000000001 is none of kind postgres, which the pipeline file says, and the two do not compare: delete the changes of the other kind, or give"},
		"an epoch whose first change is awaited": {func(t *testing.T, store *iceberg.Store) *catalog.Table {
			return pipeline(t, strings.Replace(mergetest.Pipeline, "engine: postgresql, position: postgres", "engine: mysql, position: mysql", 1)).ByTarget("d", "plain")
		}, "where an epoch has been given, wait for its first change"},
		"rows that are no changes": {func(t *testing.T, store *iceberg.Store) *catalog.Table {
			lake := row.Lake()
			lake[2] = []byte("17")
			appendRows(t, store, def, lake)
			return def
		}, "cdc_position is not a position: the changelog has rows of something else"},
		"a missing metadata column": {func(t *testing.T, store *iceberg.Store) *catalog.Table {
			mirror := pipeline(t, strings.NewReplacer("source: s.plain\n    mode: changelog", "source: s.plain\n    target: d.mirror\n    mode: mirror", "    partition: [day(cdc_committed_at)]\n", "").Replace(mergetest.Pipeline)).ByTarget("d", "mirror")
			if _, err := store.OpenTable(t.Context(), mirror); err != nil {
				t.Fatal(err)
			}
			return pipeline(t, strings.Replace(mergetest.Pipeline, "source: s.plain\n", "source: s.plain\n    target: d.mirror\n", 1)).ByTarget("d", "mirror")
		}, "the changelog has no column cdc_operation: icehose catalog apply adds it"},
		"the marker is missing": {func(t *testing.T, store *iceberg.Store) *catalog.Table {
			run(t, store, def)
			merge.RemoveNotes(t, store, def)
			return def
		}, "no note of how far it was merged: was it filled by something else, or restored? icehose merge --rebuild"},
		"snapshots have expired": {func(t *testing.T, store *iceberg.Store) *catalog.Table {
			run(t, store, def)
			merge.SetMarker(t, store, def, "12345")
			return def
		}, "snapshot 12345 of the changelog, up to which was merged, has expired: icehose merge --rebuild"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t, t.TempDir())
			appendRows(t, store, def, row.Lake())
			changed := test.spoil(t, store)
			_, err := merge.Local(t.Context(), store, changed, merge.Options{})
			if !errors.Is(err, merge.ErrRefused) || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got error %v, want one that is refused and says %q", err, test.want)
			}
		})
	}
}

// Positions of another kind do no harm where a later epoch begins with the kind.
func TestAnotherKindBeforeAnEpoch(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	store := open(t, t.TempDir())
	before, after := mergetest.Traps()[0].Steps[0].Rows[0], mergetest.Traps()[0].Steps[0].Rows[2]
	before.Position, before.ID = cdc.ChangePosition(0, cdc.Body{Lo: 17}, 1), 5
	after.Position = cdc.ChangePosition(1, cdc.Body{Hi: 1, Lo: 1}, 1)
	appendRows(t, store, def, before.Lake(), after.Lake())
	if result := run(t, store, def); result.Changed != 2 {
		t.Errorf("%+v, want both rows", result)
	}
	late := before
	late.ID = 6
	appendRows(t, store, def, late.Lake())
	if result := run(t, store, def); result.Changed != 1 || result.Late != 1 {
		t.Errorf("a late row of the epoch before: %+v, want it merged", result)
	}
}
