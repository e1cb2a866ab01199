package merge_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink/iceberg"
	"icehose/sink/merge"
	"icehose/sink/merge/mergetest"
)

// movedFile is a pipeline of the changelog d.t, keyed by its first column: each
// column is a name, a type and perhaps the name that it had before.
func movedFile(columns []string) string {
	name, _, _ := strings.Cut(columns[0], " ")
	text := "version: 1\ndatabase: d\nsource: {engine: postgresql, position: postgres}\nreaders: [icehose, spark, trino, athena]\n" +
		"tables:\n  - source: s.t\n    mode: changelog\n    key: [" + name + "]\n    columns:\n"
	for _, c := range columns {
		words := strings.Fields(c)
		text += fmt.Sprintf("      - {name: %s, type: %s", words[0], words[1])
		if len(words) > 2 {
			text += ", renamed_from: " + words[2]
		}
		text += "}\n"
	}
	return text
}

func movedTable(t testing.TB, columns []string) *catalog.Table {
	t.Helper()
	return pipeline(t, movedFile(columns)).ByTarget("d", "t")
}

// movedApply is icehose catalog apply --allow-drop.
func movedApply(t testing.TB, store *iceberg.Store, columns []string) *catalog.Table {
	t.Helper()
	p := pipeline(t, movedFile(columns))
	l := store.Tables()
	l.AllowDrop = true
	if plan, err := l.Apply(t.Context(), p); err != nil {
		t.Fatalf("apply %v: %+v, %v", columns, plan, err)
	}
	return p.ByTarget("d", "t")
}

// movedRow is an insert with texts of the data columns.
func movedRow(n int, values ...string) [][]byte {
	var row [][]byte
	for _, v := range values {
		row = append(row, []byte(v))
	}
	return append(row, []byte(cdc.ChangePosition(0, cdc.Body{Hi: uint64(n), Lo: 1}, 1)), []byte("2026-01-01T00:00:00.000000Z"), []byte("insert"), nil, nil) //nolint:gosec // small
}

// movedValues are the data columns of the current rows, by the first of them.
func movedValues(t testing.TB, store *iceberg.Store, def *catalog.Table) map[string]string {
	t.Helper()
	_, data := def.LakeColumns()
	got := make(map[string]string)
	for _, c := range current(t, store, def) {
		got[c.Values[0]] = strings.Join(c.Values[:data], " ")
	}
	return got
}

// movedFields are the columns of the current table that are the changelog's, with
// their field ids, in the order of the ids.
func movedFields(t testing.TB, store *iceberg.Store, def *catalog.Table) string {
	t.Helper()
	c := def.Current()
	table, err := store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier(c.Database(), c.Name()))
	if err != nil {
		t.Fatal(err)
	}
	fields := slices.Clone(table.Schema().Fields())
	var texts []string
	for _, f := range fields {
		if !strings.HasPrefix(f.Name, "cdc_") {
			texts = append(texts, fmt.Sprintf("%d %s", f.ID, f.Name))
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// What catalog apply has done to the columns of the changelog reaches the current
// table by the next merge, whether new rows have come or not, and by a rebuild. A
// column that was renamed keeps its field, and rows that it leaves equal are not
// written.
func TestColumnsMove(t *testing.T) {
	t.Parallel()
	before := []string{"id int", "a string", "b string"}
	for name, test := range map[string]struct {
		files  [][]string // one apply each
		fields string     // of the current table, after the merge
		want   string     // the row 1 x y
		exact  bool       // it takes the note of the fields to know
	}{
		"renamed":                           {[][]string{{"id int", "a string", "c string b"}}, "1 id, 2 a, 3 c", "1 x y", false},
		"renamed, and the file forgot":      {[][]string{{"id int", "a string", "c string b"}, {"id int", "a string", "c string"}}, "1 id, 2 a, 3 c", "1 x y", false},
		"renamed twice":                     {[][]string{{"id int", "a string", "c string b"}, {"id int", "a string", "e string c"}}, "1 id, 2 a, 3 e", "1 x y", false},
		"dropped":                           {[][]string{{"id int", "b string"}}, "1 id, 3 b", "1 y", false},
		"dropped and renamed":               {[][]string{{"id int", "c string b"}}, "1 id, 3 c", "1 y", false},
		"the key renamed":                   {[][]string{{"n int id", "a string", "b string"}}, "1 n, 2 a, 3 b", "1 x y", false},
		"dropped and added anew":            {[][]string{{"id int", "b string"}, {"id int", "a string", "b string"}}, "1 id, 3 b, 7 a", "1 NULL y", true},
		"dropped and added as another type": {[][]string{{"id int", "b string"}, {"id int", "a int", "b string"}}, "1 id, 3 b, 7 a", "1 NULL y", false},
		"renamed to the name of one that was dropped": {[][]string{{"id int", "b string"}, {"id int", "a string b"}}, "1 id, 3 a", "1 y", true},
		"moved up by a name":                          {[][]string{{"id int", "a string", "c string b"}, {"id int", "b string a", "c string"}}, "1 id, 2 b, 3 c", "1 x y", true},
		"names that change places": {
			[][]string{{"id int", "a string", "c string b"}, {"id int", "b string a", "c string"}, {"id int", "b string", "a string c"}},
			"1 id, 3 a, 7 b", "1 x y", true,
		},
	} {
		for _, how := range []string{"merged", "merged with new rows", "rebuilt", "the note is missing"} {
			if how == "the note is missing" && test.exact {
				continue
			}
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				store := open(t, t.TempDir())
				def := movedApply(t, store, before)
				appendRows(t, store, def, movedRow(1, "1", "x", "y"))
				run(t, store, def)
				if how == "the note is missing" {
					merge.RemoveFieldsNote(t, store, def)
				}
				for _, file := range test.files {
					def = movedApply(t, store, file)
				}
				want := map[string]string{"1": test.want}
				if how == "merged with new rows" {
					_, data := def.LakeColumns()
					values := slices.Repeat([]string{"2"}, data)
					appendRows(t, store, def, movedRow(2, values...))
					want["2"] = strings.Join(values, " ")
				}
				o := merge.Options{Rebuild: how == "rebuilt"}
				result, err := merge.Local(t.Context(), store, def, o)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, movedValues(t, store, def)); diff != "" {
					t.Errorf("current rows (-want +got):\n%s", diff)
				}
				if got := movedFields(t, store, def); got != test.fields {
					t.Errorf("current table has %s, want %s", got, test.fields)
				}
				if strings.HasPrefix(name, "renamed") && !test.exact && result.Changed != int64(len(want)-1) {
					t.Errorf("%+v: a row was written that has not changed", result)
				}
				if again := run(t, store, def); again.From == 0 || again.Changed+again.Deleted > 0 {
					t.Errorf("the next run: %+v, want nothing to do", again)
				}
			})
		}
	}
}

// A run that was killed between two steps of moving columns is finished by the next.
func TestColumnsMoveKilled(t *testing.T) {
	t.Parallel()
	store := open(t, t.TempDir())
	def := movedApply(t, store, []string{"id int", "a string", "b string"})
	appendRows(t, store, def, movedRow(1, "1", "x", "y"))
	run(t, store, def)
	for _, file := range [][]string{{"id int", "a string", "c string b"}, {"id int", "b string a", "c string"}, {"id int", "b string", "a string c"}} {
		def = movedApply(t, store, file)
	}
	for n := 1; ; n++ {
		moved, err := merge.MoveOnce(t.Context(), store, def)
		if err != nil {
			t.Fatal(err)
		}
		if !moved {
			if n < 3 {
				t.Errorf("moved in %d steps: the test shows nothing", n-1)
			}
			break
		}
	}
	run(t, store, def)
	if diff := cmp.Diff(map[string]string{"1": "1 x y"}, movedValues(t, store, def)); diff != "" {
		t.Errorf("current rows (-want +got):\n%s", diff)
	}
}

// What the owner has not dropped from the changelog stays, and so does what was
// never the changelog's, unless a rebuild is asked for.
func TestColumnsThatStay(t *testing.T) {
	t.Parallel()
	before := []string{"id int", "a string", "b string"}
	fewer := []string{"id int", "b string"}
	for _, test := range []struct {
		name  string
		spoil func(store *iceberg.Store, def *catalog.Table) *catalog.Table
		want  string
		drops bool // a rebuild
	}{
		{"still in the changelog", func(*iceberg.Store, *catalog.Table) *catalog.Table {
			return movedTable(t, fewer)
		}, "column a: the changelog has it and the pipeline file does not: icehose catalog apply --allow-drop drops it there, and the next icehose merge here; or put it back into the file", false},
		{"somebody else's", func(store *iceberg.Store, def *catalog.Table) *catalog.Table {
			merge.AddColumn(t, store, def, "theirs")
			return def
		}, "column theirs of d.t_folded is none of the changelog's: drop it there, or icehose merge --rebuild drops it and its values", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := open(t, t.TempDir())
			def := movedApply(t, store, before)
			appendRows(t, store, def, movedRow(1, "1", "x", "y"))
			run(t, store, def)
			def = test.spoil(store, def)
			_, err := merge.Local(t.Context(), store, def, merge.Options{})
			if !errors.Is(err, merge.ErrRefused) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one that is refused and says %q", err, test.want)
			}
			if _, err := merge.Local(t.Context(), store, def, merge.Options{Rebuild: true}); (err == nil) != test.drops {
				t.Errorf("a rebuild: %v, want that it drops the column: %t", err, test.drops)
			}
		})
	}
}

// A column that catalog apply has added is null in the rows from before, also
// while the changelog has gained none since.
func TestColumnAddedByApply(t *testing.T) {
	t.Parallel()
	for _, rebuild := range []bool{false, true} {
		store := open(t, t.TempDir())
		def := movedApply(t, store, []string{"id int", "a string"})
		appendRows(t, store, def, movedRow(1, "1", "x"))
		run(t, store, def)
		def = movedApply(t, store, []string{"id int", "a string", "c string"})
		if _, err := merge.Local(t.Context(), store, def, merge.Options{Rebuild: rebuild}); err != nil {
			t.Fatalf("rebuild %t: %v", rebuild, err)
		}
		appendRows(t, store, def, movedRow(2, "2", "z", "c"))
		run(t, store, def)
		if diff := cmp.Diff(map[string]string{"1": "1 x NULL", "2": "2 z c"}, movedValues(t, store, def)); diff != "" {
			t.Errorf("current rows (-want +got):\n%s", diff)
		}
	}
}

// A table that has the current table's name and is something else is not merged
// into, even while it is empty.
func TestNotItsOwn(t *testing.T) {
	t.Parallel()
	keyed := strings.Replace(mergetest.Pipeline, "readers: [icehose, spark, trino, athena]", "readers: [icehose]", 1)
	keyless := strings.NewReplacer("    key: [id]\n    partition: [day(cdc_committed_at)]\n    columns:\n      - {name: id", "    partition: [day(cdc_committed_at)]\n    columns:\n      - {name: id").Replace(keyed)
	mirrored := strings.NewReplacer("source: s.plain\n    mode: changelog", "source: s.plain\n    target: plain_folded\n    mode: mirror", "    partition: [day(cdc_committed_at)]\n", "")
	other := strings.NewReplacer("source: s.plain\n", "source: s.plain\n    target: plain_folded\n")
	for name, test := range map[string]struct {
		other, file string
	}{
		"a mirror beside a key":     {mirrored.Replace(keyed), keyed},
		"a mirror beside no key":    {mirrored.Replace(keyed), keyless},
		"a changelog beside a key":  {other.Replace(keyed), keyed},
		"a changelog beside no key": {other.Replace(keyed), keyless},
	} {
		for _, rebuild := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", rebuild ", rebuild), func(t *testing.T) {
				t.Parallel()
				store := open(t, t.TempDir())
				if _, err := store.OpenTable(t.Context(), pipeline(t, test.other).ByTarget("d", "plain_folded")); err != nil {
					t.Fatal(err)
				}
				def := pipeline(t, test.file).ByTarget("d", "plain")
				row := mergetest.Traps()[0].Steps[0].Rows[0]
				appendRows(t, store, def, row.Lake())
				want := "d.plain_folded is no current table of d.plain, although it has the name: give one of them another target:, or drop d.plain_folded"
				if _, err := merge.Local(t.Context(), store, def, merge.Options{Rebuild: rebuild}); !errors.Is(err, merge.ErrRefused) || !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want one that is refused and says %q", err, want)
				}
			})
		}
	}
}

// Athena reads a snapshot with the columns of when it was made: what was added or
// renamed since is put in its place. Renames and drops need none of its statements.
func TestAthenaColumnsMove(t *testing.T) {
	t.Parallel()
	before := []string{"id int", "a string", "n int"}
	for name, test := range map[string]struct {
		after  []string
		fields string
		want   string
	}{
		"added":             {append(slices.Clone(before), "c int"), "1 id, 2 a, 3 n", `(SELECT "id", "a", "n", CAST(NULL AS integer) AS "c", "cdc_position",`},
		"renamed":           {[]string{"id int", "c string a", "n int"}, "1 id, 2 c, 3 n", `(SELECT "id", "a" AS "c", "n", "cdc_position",`},
		"dropped":           {[]string{"id int", "a string"}, "1 id, 2 a", `FROM "d"."t" FOR VERSION AS OF`},
		"widened and added": {[]string{"id int", "a string", "n long", "c int"}, "1 id, 2 a, 3 n", `(SELECT "id", "a", CAST("n" AS bigint) AS "n", CAST(NULL AS integer) AS "c",`},
	} {
		for _, rebuild := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", rebuild ", rebuild), func(t *testing.T) {
				t.Parallel()
				store := open(t, t.TempDir())
				def := movedApply(t, store, before)
				appendRows(t, store, def, movedRow(1, "1", "x", "7"))
				run(t, store, def)
				def = movedApply(t, store, test.after)
				q := &queries{store: store, def: def}
				if _, err := merge.Athena(t.Context(), q, store.Tables(), def, merge.Options{Rebuild: rebuild}); err != nil {
					t.Fatal(err)
				}
				if got := movedFields(t, store, def); !strings.HasPrefix(got, test.fields) {
					t.Errorf("current table has %s, want %s", got, test.fields)
				}
				if all := strings.Join(q.statements, "\n"); !strings.Contains(all, test.want) {
					t.Errorf("no %s in\n%s", test.want, all)
				}
			})
		}
	}
}
