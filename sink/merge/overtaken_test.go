package merge_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	icecatalog "github.com/apache/iceberg-go/catalog"

	"icehose/cdc"
	"icehose/sink/merge"
	"icehose/sink/merge/mergetest"
)

// An overtaken Athena lets another run merge what is newer, once, before a
// statement that begins with a text; if that is the MERGE, the fence keeps it from
// its work. Nothing of what it has read is left to be merged.
type overtaken struct {
	*queries
	when  string
	rival func()
}

func (o *overtaken) Query(ctx context.Context, statement string) (*merge.QueryResult, error) {
	fenced := o.rival != nil && strings.HasPrefix(statement, "MERGE INTO") && strings.HasPrefix(statement, o.when)
	if o.rival != nil && strings.HasPrefix(statement, o.when) {
		o.rival()
		o.rival = nil
	}
	if fenced {
		o.statements = append(o.statements, statement)
		return &merge.QueryResult{}, nil
	}
	return o.queries.Query(ctx, statement)
}

// A run that another one has overtaken does not take back how far that one came,
// nor the tag.
func TestAthenaOvertaken(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	rows := mergetest.Traps()[0].Steps[0].Rows
	for _, parts := range []int{1, 2} {
		for _, when := range []string{"MERGE INTO", "SELECT\n  count("} {
			store := open(t, t.TempDir())
			if _, err := store.OpenTable(t.Context(), def.Current()); err != nil {
				t.Fatal(err)
			}
			appendRows(t, store, def, rows[0].Lake())
			q := &overtaken{queries: &queries{store: store, def: def, silent: true}, when: when}
			q.rival = func() {
				appendRows(t, store, def, rows[1].Lake(), rows[2].Lake())
				run(t, store, def)
			}
			result, err := merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{Parts: parts})
			if err != nil {
				t.Fatalf("%d parts, %q: %v", parts, when, err)
			}
			current, err := store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier("d", "plain_folded"))
			if err != nil {
				t.Fatal(err)
			}
			log, err := store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier("d", "plain"))
			if err != nil {
				t.Fatal(err)
			}
			head := newest(t, store, def)
			if noted := current.Properties()[merge.PropertyMerged]; noted != fmt.Sprint(head) || result.To != head || log.SnapshotByName(merge.Tag).SnapshotID != head {
				t.Errorf("%d parts, %q: noted %s, tagged %d, %+v; want %d", parts, when, noted, log.SnapshotByName(merge.Tag).SnapshotID, result, head)
			}
			if n := strings.Count(strings.Join(q.statements, "\n"), "MERGE INTO"); when == "MERGE INTO" && n != 1 {
				t.Errorf("%d parts: %d merges, want none more of what it had read before", parts, n)
			}
		}
	}
}

// What others have made of the current table since it was read is nothing to go
// on from, though nothing of what was read is left to be merged: the run begins
// anew.
func TestAthenaOvertakenWithoutANote(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	store := open(t, t.TempDir())
	appendRows(t, store, def, mergetest.Traps()[0].Steps[0].Rows[0].Lake())
	q := &overtaken{queries: &queries{store: store, def: def}, when: "MERGE INTO"}
	q.rival = func() {
		for _, id := range []string{"7", "8"} {
			appendRows(t, store, def.Current(), currentRow(id))
		}
	}
	if _, err := merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(strings.Join(q.statements, "\n"), "MERGE INTO"); n != 2 {
		t.Errorf("%d merges, want a second one", n)
	}
}

// That the parts asked for have no effect is said.
func TestAthenaRebuildIsNotSplit(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	store := open(t, t.TempDir())
	appendRows(t, store, def, mergetest.Traps()[0].Steps[0].Rows[0].Lake())
	run(t, store, def)
	merge.RemoveColumnsNote(t, store, def)
	const want = "--parts does not split a rebuild, which this run is: drop d.plain_folded and merge"
	q := &queries{store: store, def: def, killed: true}
	if _, err := merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{Parts: 3}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want it to say %q", err, want)
	}
	result, err := merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{Parts: 3})
	if err != nil || len(result.Warnings) != 1 || result.Warnings[0] != want {
		t.Errorf("%+v, %v; want a warning %q", result, err, want)
	}
}

// Positions of arrival order nothing: that a source sends again what it has sent
// is no restart of its numbering.
func TestArrivalsDoNotRegress(t *testing.T) {
	t.Parallel()
	def := pipeline(t, strings.Replace(mergetest.Pipeline, "position: postgres", "position: none", 1)).ByTarget("d", "plain")
	store := open(t, t.TempDir())
	for _, test := range []struct{ position, minute int }{{9, 0}, {5, 30}, {4, 60}} {
		position, err := cdc.ArrivalPosition(0, mergetest.Start().Add(time.Duration(test.position)*time.Minute), cdc.Origin{})
		if err != nil {
			t.Fatal(err)
		}
		row := mergetest.PlainRow{
			Position: position, Operation: cdc.Update, ID: 1,
			Committed: mergetest.Start().Add(time.Duration(test.minute) * time.Minute),
		}
		appendRows(t, store, def, row.Lake())
		if result := run(t, store, def); result.Regressed != 0 || len(result.Warnings) != 0 {
			t.Errorf("%+v, want no alarm", result)
		}
	}
}
