//go:build interop

package interop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog/artifact"
	"icehose/cdc"
	"icehose/sink/merge"
	"icehose/sink/merge/mergetest"
)

// A merge that read an older changelog, and comes after a newer one, fails.
func TestSparkFence(t *testing.T) {
	f := newFixture(t, "spark")
	def := f.table("plain")
	m, err := artifact.NewMerge(artifact.Spark, def)
	if err != nil {
		t.Fatal(err)
	}
	traps := mergetest.Traps()
	f.append(t, def, traps[0].Steps[0].Rows[0].Lake()) // the insert alone
	f.merge(t, def)
	old := *f.sql(t, "SELECT snapshot_id FROM d.plain.refs WHERE name = 'main'")[0][0]
	before := *f.sql(t, "SELECT snapshot_id FROM d.plain_folded.refs WHERE name = 'main'")[0][0]
	f.append(t, def, traps[0].Steps[0].Rows[1].Lake()) // its delete
	f.merge(t, def)
	stale := artifact.MergeRange{
		Added: artifact.AsOfSnapshot(artifact.Spark, def, old), Log: artifact.AsOfSnapshot(artifact.Spark, def, old),
		Fence: artifact.Fence(artifact.Spark, def, before),
	}
	stale.Changes = "(" + stale.Fill(m.Changes) + ")"
	if _, err := f.engine.call(map[string]any{"sql": stale.Fill(m.Apply)}); err == nil || !strings.Contains(err.Error(), artifact.Fenced) {
		t.Errorf("got error %v, want %s", err, artifact.Fenced)
	}
	if got := plainRows(t, f.engine, f.database+".plain_folded"); len(got) != 0 {
		t.Errorf("a stale merge brought back %v", got)
	}
	stale.Fence = "true"
	f.engine.sql(t, stale.Fill(m.Apply))
	if got := plainRows(t, f.engine, f.database+".plain_folded"); len(got) == 0 {
		t.Error("without the fence nothing comes back: the test shows nothing")
	}
}

// A merge that somebody overtakes between its reading and its writing begins
// anew, and notes nothing that it has not done.
func TestSparkOvertaken(t *testing.T) {
	for name, between := range map[string]string{
		"by a compaction":  "CALL system.rewrite_data_files(table => 'd.keyed_folded', options => map('rewrite-all', 'true'))",
		"by a delete":      "DELETE FROM d.keyed_folded WHERE tenant = 700",
		"by another merge": "",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "spark")
			def := f.table("keyed")
			log := deliver(700, 6)
			f.append(t, def, log[:len(log)/2]...)
			f.merge(t, def)
			f.append(t, def, log[len(log)/2:]...)
			f.append(t, def, log...) // so that every key is touched
			spec, err := merge.NewSparkSpec(def, "")
			if err != nil {
				t.Fatal(err)
			}
			request := map[string]any{"merge": spec, "between": []string{f.in(between)}}
			if between == "" {
				request["between"] = []any{spec}
			}
			if _, err := f.engine.call(request); err != nil {
				t.Fatal(err)
			}
			if diff := mergetest.Diff(fold(t, def, log), rows(t, f.engine, def, f.database+".keyed_folded"), false, names(def)); diff != "" {
				t.Error(diff)
			}
			if again := f.merge(t, def); again.Read != 0 {
				t.Errorf("%+v, want nothing new", again)
			}
		})
	}
}

// A note in a snapshot that was not made upon the one that the merge has read
// counts for nothing.
func TestSparkNoteOfAFencedMerge(t *testing.T) {
	f := newFixture(t, "spark")
	def := f.table("plain")
	row := mergetest.Traps()[0].Steps[0].Rows[0].Lake()
	f.append(t, def, row)
	f.merge(t, def)
	f.append(t, def, row)
	head := *f.sql(t, "SELECT snapshot_id FROM d.plain.refs WHERE name = 'main'")[0][0]
	for _, onto := range []string{"17", ""} {
		notes := map[string]string{merge.PropertyMerged: head}
		if onto != "" {
			notes[merge.PropertyOnto] = onto
		}
		if _, err := f.engine.call(map[string]any{"sql": f.in("DELETE FROM d.plain_folded WHERE id = -1 AND v > ''"), "summary": notes}); err != nil {
			t.Fatal(err)
		}
	}
	if result := f.merge(t, def); result.Read != 1 {
		t.Errorf("%+v, want the new row read", result)
	}
}

// The tag keeps the list of files even where the snapshots after it have expired.
func TestSparkExpiredBetween(t *testing.T) {
	f := newFixture(t, "spark")
	def := f.table("keyed")
	log := deliver(720, 4)
	f.append(t, def, log[0])
	from := f.merge(t, def).To
	for _, row := range log[1:4] {
		f.append(t, def, row)
	}
	f.sql(t, "CALL system.expire_snapshots(table => 'd.keyed', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)")
	if result := f.merge(t, def); result.From != from || result.Read != 3 {
		t.Errorf("%+v, want 3 rows read since %d", result, from)
	}
	if diff := mergetest.Diff(fold(t, def, log[:4]), rows(t, f.engine, def, f.database+".keyed_folded"), false, names(def)); diff != "" {
		t.Error(diff)
	}
}

// Rows that come again, and files that compaction wrote, change nothing: no
// snapshot is made.
func TestSparkNothingChanges(t *testing.T) {
	f := newFixture(t, "spark")
	for name, log := range map[string][][][]byte{"keyed": deliver(740, 4), "unkeyed": mergetest.UnkeyedLog(3)} {
		def := f.table(name)
		head := func() string {
			return *f.sql(t, "SELECT snapshot_id FROM d."+name+"_folded.refs WHERE name = 'main'")[0][0]
		}
		f.append(t, def, log...)
		f.merge(t, def)
		before := head()
		f.append(t, def, log...)
		if result := f.merge(t, def); result.Read != int64(len(log)) || result.Changed+result.Deleted != 0 || head() != before {
			t.Errorf("%s: rows that come again: %+v, want %d read and no snapshot", name, result, len(log))
		}
		if result := f.mergeWith(t, def, merge.Options{Rebuild: true}); result.Changed+result.Deleted != 0 || head() != before {
			t.Errorf("%s: a rebuild: %+v, want no snapshot", name, result)
		}
		f.sql(t, "CALL system.rewrite_data_files(table => 'd."+name+"', options => map('rewrite-all', 'true'))")
		if result := f.merge(t, def); result.Read != 0 || result.Changed+result.Deleted != 0 || head() != before {
			t.Errorf("%s: after a compaction: %+v, want nothing read and no snapshot", name, result)
		}
	}
}

// That the tag cannot be set is no reason to say that the merge failed.
func TestSparkTagFails(t *testing.T) {
	f := newFixture(t, "spark")
	def := f.table("plain")
	f.append(t, def, mergetest.Traps()[0].Steps[0].Rows[0].Lake())
	f.sql(t, "ALTER TABLE d.plain CREATE BRANCH "+merge.Tag)
	if result := f.merge(t, def); result.Changed != 1 || len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0], "has no tag "+merge.Tag) {
		t.Errorf("%+v, want a row changed and a warning", result)
	}
	f.sql(t, "ALTER TABLE d.plain DROP BRANCH "+merge.Tag)
	if result := f.merge(t, def); result.Read != 0 || len(result.Warnings) != 0 {
		t.Errorf("%+v, want nothing new", result)
	}
	if rows := f.sql(t, "SELECT 1 FROM d.plain.refs WHERE name = '"+merge.Tag+"' AND type = 'TAG'"); len(rows) != 1 {
		t.Error("the next run has not set the tag")
	}
}

// What others keep in memory while a merge runs stays there.
func TestSparkKeepsWhatIsNotItsOwn(t *testing.T) {
	f := newFixture(t, "spark")
	def := f.table("plain")
	f.append(t, def, mergetest.Traps()[0].Steps[0].Rows[0].Lake())
	spec, err := merge.NewSparkSpec(def, "")
	if err != nil {
		t.Fatal(err)
	}
	kept := func() int {
		r, err := f.engine.call(map[string]any{"kept": true})
		if err != nil {
			t.Fatal(err)
		}
		return r.Kept
	}
	before := kept()
	if _, err := f.engine.call(map[string]any{"merge": spec, "between": []string{"CACHE TABLE icehose_others AS SELECT 1"}}); err != nil {
		t.Fatal(err)
	}
	if n := kept(); n != before+1 {
		t.Errorf("%d frames are kept, want %d: those before and the one of others", n, before+1)
	}
	f.sql(t, "UNCACHE TABLE icehose_others")
}

// Positions that fall while commit times rise are counted.
func TestSparkRegress(t *testing.T) {
	f := newFixture(t, "spark")
	def := f.table("plain")
	for _, test := range []struct {
		position, minute int
		want             int64
	}{{9, 0, 0}, {5, 10, 0}, {4, 16, 1}, {10, 20, 0}, {8, 30, 0}} {
		row := mergetest.PlainRow{
			Position: cdc.ChangePosition(0, cdc.Body{Hi: uint64(test.position), Lo: 1}, 1), ID: test.position, Operation: cdc.Update,
			Committed: mergetest.Start().Add(time.Duration(test.minute) * time.Minute),
		}
		f.append(t, def, row.Lake())
		if result := f.merge(t, def); result.Regressed != test.want {
			t.Errorf("position %d at minute %d: %+v, want %d regressed", test.position, test.minute, result, test.want)
		}
	}
}

// Merges that run at once end as one does.
func TestSparkTwiceAtOnce(t *testing.T) {
	f := newFixture(t, "spark")
	def := f.table("keyed")
	log := deliver(700, 10)
	f.append(t, def, log[:len(log)/2]...)
	f.merge(t, def)
	f.append(t, def, log[len(log)/2:]...)
	var wg sync.WaitGroup
	var local error
	wg.Go(func() { _, local = merge.Local(t.Context(), f.store, def, merge.Options{}) })
	f.merge(t, def)
	wg.Wait()
	if local != nil {
		t.Fatal(local)
	}
	if diff := mergetest.Diff(fold(t, def, log), rows(t, f.engine, def, f.database+".keyed_folded"), false, names(def)); diff != "" {
		t.Fatal(diff)
	}
}

// killed runs a merge's statements on Trino up to and with a MERGE.
type killed struct{ trinoQueries }

var errKilled = errors.New("killed")

func (k killed) Query(ctx context.Context, statement string) (*merge.QueryResult, error) {
	result, err := k.trinoQueries.Query(ctx, statement)
	if err == nil && strings.HasPrefix(statement, "MERGE") {
		err = errKilled
	}
	return result, err
}

// A run that is killed between its MERGE and its note is repeated by the next,
// and runs at once end as one does.
func TestTrinoKilledAndTwiceAtOnce(t *testing.T) {
	f := newFixture(t, "trino")
	def := f.table("keyed")
	f.engine.sql(t, f.artifact(t, "keyed", "current"))
	log := deliver(700, 10)
	half := len(log) / 2
	f.append(t, def, log[:half]...)
	queries := trinoQueries{f.engine}
	if _, err := merge.Athena(t.Context(), killed{queries}, f.store.Tables(), def, merge.Options{}); !errors.Is(err, errKilled) {
		t.Fatalf("got %v, want it killed", err)
	}
	f.append(t, def, log[half:]...)
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		wg.Go(func() { _, errs[i] = merge.Athena(t.Context(), queries, f.store.Tables(), def, merge.Options{}) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	f.compare(t, def, fold(t, def, log), "after a killed run and two at once")
}

// A run that is killed before it writes the properties leaves a note in the
// summary alone: the next one writes them, and folds every key anew if it cannot
// tell by which columns was merged.
func TestSparkKilledBeforeProperties(t *testing.T) {
	f := newFixture(t, "spark")
	def := f.table("plain")
	f.append(t, def, mergetest.Traps()[0].Steps[0].Rows[0].Lake())
	to := f.merge(t, def).To
	for _, test := range []struct {
		lost string
		from int64
	}{{"'icehose.merged-snapshot'", to}, {"'icehose.merged-snapshot', 'icehose.merged-columns'", 0}} {
		f.sql(t, "ALTER TABLE d.plain_folded UNSET TBLPROPERTIES ("+test.lost+")")
		if result := f.merge(t, def); result.From != test.from || result.To != to {
			t.Errorf("without %s: %+v, want it read from %d to %d", test.lost, result, test.from, to)
		}
		noted := f.sql(t, "SHOW TBLPROPERTIES d.plain_folded ('icehose.merged-snapshot')")
		if got := *noted[0][1]; got != fmt.Sprint(to) {
			t.Errorf("without %s: snapshot %s is noted, want %d", test.lost, got, to)
		}
	}
}

// A column that another run has just added is there.
func TestSparkColumnAddedByAnother(t *testing.T) {
	f := newFixture(t, "spark")
	def := f.table("plain")
	f.append(t, def, mergetest.Traps()[0].Steps[0].Rows[0].Lake())
	f.merge(t, def)
	spec, err := merge.NewSparkSpec(def, "")
	if err != nil {
		t.Fatal(err)
	}
	add := "ALTER TABLE " + f.database + ".plain_folded ADD COLUMNS "
	spec.Adds["w"], spec.Adds["x"] = add+"(w STRING, x STRING)", add+"(x STRING)" // the first adds what the second is to add
	if result, err := f.engine.merge(spec, false); err != nil || result.To == 0 {
		t.Errorf("%+v, %v", result, err)
	}
	spec.Adds["y"] = add + "(w STRING)"
	if _, err := f.engine.merge(spec, false); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("got error %v, want that of a column that cannot be added", err)
	}
}

func TestSparkRefuses(t *testing.T) {
	f := newFixture(t, "spark")
	def := f.table("plain")
	row := mergetest.Traps()[0].Steps[0].Rows[0]
	f.append(t, def, row.Lake())
	f.merge(t, def)
	spec, err := merge.NewSparkSpec(def, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		spoil func(s *merge.SparkSpec)
		want  string
	}{
		{"a missing metadata column", func(s *merge.SparkSpec) {
			other := newFixture(t, "spark")
			other.sql(t, "ALTER TABLE d.plain DROP COLUMN cdc_absent")
			spec, err := merge.NewSparkSpec(other.table("plain"), "")
			if err != nil {
				t.Fatal(err)
			}
			*s = *spec
		}, "the changelog has no column cdc_absent: icehose catalog apply"},
		{"another key than before", func(s *merge.SparkSpec) { s.Key = "id,v" }, "was written by the key (id), the pipeline file says (id,v)"},
		{"two kinds of position", func(s *merge.SparkSpec) {
			f.append(t, def, row.Lake())
			s.Kind = "mysql"
		}, "are of kind postgres, the pipeline file says mysql"},
		{"changes with positions of two kinds", func(*merge.SparkSpec) {
			other := row
			other.Position = cdc.ChangePosition(0, cdc.Body{Lo: 17}, 1)
			f.append(t, def, other.Lake())
		}, "0000.00000000000000000000000000000011.1.0000000000000001 is none of kind postgres"},
		{"rows that are no changes", func(*merge.SparkSpec) {
			lake := row.Lake()
			lake[2] = []byte("17")
			f.append(t, def, lake)
		}, "1 rows of the changelog have a cdc_position that is no position"},
		{"expired snapshots", func(s *merge.SparkSpec) {
			f.sql(t, "ALTER TABLE d.plain DROP TAG icehose_merged")
			f.sql(t, "CALL system.expire_snapshots(table => 'd.plain', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)")
		}, "up to which was merged, has expired: run with --rebuild"},
		{"the marker is missing", func(s *merge.SparkSpec) {
			f.sql(t, "ALTER TABLE d.plain_folded UNSET TBLPROPERTIES ('icehose.merged-snapshot')")
			f.sql(t, "INSERT INTO d.plain_folded SELECT 999 AS id, * EXCEPT (id) FROM d.plain_folded")
			f.sql(t, "CALL system.expire_snapshots(table => 'd.plain_folded', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)")
		}, "no note of how far it was merged"},
	} {
		t.Run(test.name, func(t *testing.T) {
			spoiled := *spec
			spoiled.Columns = slices.Clone(spec.Columns)
			test.spoil(&spoiled)
			if _, err := f.engine.merge(&spoiled, false); err == nil || !strings.Contains(err.Error(), "Refused: ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one that is refused and says %q", err, test.want)
			}
		})
	}
	f.sql(t, "DELETE FROM d.plain WHERE length(cdc_position) < 10 OR cdc_position LIKE '0000.0000000000000000%'")
	if _, err := f.engine.merge(spec, true); err != nil {
		t.Fatal(errors.Join(errors.New("rebuild"), err))
	}
	if diff := cmp.Diff(map[string]string{"1": "first"}, plainRows(t, f.engine, f.database+".plain_folded")); diff != "" {
		t.Errorf("after a rebuild (-want +got):\n%s", diff)
	}
}
