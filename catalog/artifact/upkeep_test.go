package artifact_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/catalog/artifact"
)

// changelogs are the generated files of the changelogs of the golden pipelines, by
// file name without its kind, then by kind.
func changelogs(t *testing.T) map[string]map[string]string {
	t.Helper()
	out := make(map[string]map[string]string)
	for _, path := range []string{"testdata/shop1.yaml", "testdata/shop2.yaml"} {
		files := generate(t, path, nil)
		for _, def := range load(t, path).Tables {
			if def.Mode != catalog.Changelog {
				continue
			}
			for _, dialect := range []string{"athena", "spark"} {
				name := fmt.Sprintf("%s/%s.%s", dialect, def.Database(), def.Name())
				key := path + " " + name
				out[key] = make(map[string]string)
				for _, kind := range []string{"history", "erase", "maintain"} {
					text, ok := files[name+"."+kind+".sql"]
					if !ok {
						t.Errorf("%s: no %s.sql", key, kind)
					}
					out[key][kind] = text
				}
			}
		}
	}
	if len(out) == 0 {
		t.Fatal("no changelogs: the test shows nothing")
	}
	return out
}

// Erasure deletes from the changelog, rewrites its files and moves the tag of the
// last merge off them, before it deletes from the current table, which a merge
// until then may have filled again; snapshots expire last.
func TestErasureOrder(t *testing.T) {
	t.Parallel()
	step := regexp.MustCompile("(?m)^(DELETE FROM|CALL system.rewrite_data_files|OPTIMIZE|-- Now run icehose merge|SELECT count|CALL system.expire_snapshots|VACUUM)[^\n]*")
	for name, files := range changelogs(t) {
		var got []string
		for _, found := range step.FindAllStringSubmatch(files["erase"], -1) {
			table := "log"
			if strings.Contains(found[0], "_folded") {
				table = "folded"
			}
			verb := strings.NewReplacer("CALL system.rewrite_data_files", "rewrite", "OPTIMIZE", "rewrite", "CALL system.expire_snapshots", "expire", "VACUUM", "expire",
				"DELETE FROM", "delete", "SELECT count", "count", "-- Now run icehose merge", "merge").Replace(found[1])
			got = append(got, verb+" "+table)
		}
		want := []string{
			"delete log", "rewrite log", "merge log", "delete folded", "rewrite folded",
			"count log", "count folded", "count log", "count folded", "count log", "count folded", "expire log", "expire folded", "count log", "count folded",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// What expiry spares keeps the bytes: other tags are looked for before it, and
// snapshots of before the DELETE after it.
func TestErasureLooksForWhatExpirySpares(t *testing.T) {
	t.Parallel()
	for name, files := range changelogs(t) {
		before, after, ok := strings.Cut(files["erase"], "\n-- 4. ")
		refs := strings.Count(before, "\nWHERE name NOT IN ('main', 'icehose_merged');")
		snapshots := strings.Count(after, "\nWHERE committed_at < ${cdc_deleted}\n")
		if !ok || refs != 2 || snapshots != 2 {
			t.Errorf("%s: refs of %d tables, snapshots of %d, want both", name, refs, snapshots)
		}
		want := "Spark must be 4.0 or newer" // whose CALL takes a function
		if strings.Contains(name, "athena") {
			want = "or to what they were\n-- (SHOW TBLPROPERTIES says so, before step 1)"
		}
		if !strings.Contains(files["erase"], want) {
			t.Errorf("%s: it does not say %q", name, want)
		}
	}
}

// Positions of arrival order nothing, so that none of them lies below another.
func TestArrivalsAreNotCompared(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{"none": true, "postgres": false} {
		p, err := catalog.Parse("kinds.yaml", []byte("version: 1\ndatabase: d\nsource: {engine: postgresql, position: "+kind+"}\ntables:\n"+
			"  - {source: s.t, mode: changelog, key: [id], columns: [{name: id, type: int}]}\n"))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []artifact.Dialect{artifact.Athena, artifact.Spark} {
			m, err := artifact.NewMerge(d, p.ByTarget("d", "t"))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(m.Read, "WHEN false ") == 4; got != want {
				t.Errorf("%s, kind %s: left out %t, want %t, in\n%s", d, kind, got, want, m.Read)
			}
		}
	}
}

// VACUUM removes what no snapshot names, also what was written and is not
// committed yet: its age stays a day or more, and no property stays other than
// maintenance has it.
func TestVacuumLeavesWhatIsBeingWritten(t *testing.T) {
	t.Parallel()
	set := regexp.MustCompile(`'([a-z_]+)' = '(\d+)'`)
	for name, files := range changelogs(t) {
		last := make(map[string]int)
		for _, found := range set.FindAllStringSubmatch(files["maintain"]+files["erase"], -1) {
			n, err := strconv.Atoi(found[2])
			if err != nil {
				t.Fatal(err)
			}
			last[found[1]] = n
			if found[1] == "vacuum_max_snapshot_age_seconds" && n < 24*60*60 {
				t.Errorf("%s: VACUUM takes what is %d seconds old", name, n)
			}
		}
		if !strings.Contains(name, "athena") {
			continue
		}
		// The last two are Athena's defaults.
		for property, want := range map[string]int{"vacuum_max_snapshot_age_seconds": 7 * 24 * 60 * 60, "optimize_rewrite_delete_file_threshold": 2, "optimize_rewrite_data_file_threshold": 5} {
			if last[property] != want {
				t.Errorf("%s: %s is left at %d, want %d", name, property, last[property], want)
			}
		}
		for _, property := range []string{"optimize_rewrite_delete_file_threshold", "optimize_rewrite_data_file_threshold"} {
			if n := strings.Count(files["erase"], "'"+property+"' = '1'"); n != 2 {
				t.Errorf("%s: %s is 1 for %d tables, want both", name, property, n)
			}
		}
	}
}

// Retention's MERGE must not conflict with what a changelog gains meanwhile;
// merges of a current table must.
func TestIsolationOfMerges(t *testing.T) {
	t.Parallel()
	for _, def := range load(t, "testdata/shop1.yaml").Tables {
		const property = "write.merge.isolation-level"
		got, ok := def.Properties()[property]
		if def.Mode != catalog.Changelog {
			if ok {
				t.Errorf("mirror %s: %s is %s", def.Name(), property, got)
			}
			continue
		}
		if got != "snapshot" {
			t.Errorf("changelog %s: %s is %q, want snapshot", def.Name(), property, got)
		}
		if got, ok := def.Current().Properties()[property]; ok {
			t.Errorf("current table of %s: %s is %s", def.Name(), property, got)
		}
	}
}
