package merge_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink/iceberg"
	"icehose/sink/merge"
	"icehose/sink/merge/mergetest"
)

// apply makes the lake what a pipeline file says, and returns the table keyed.
func apply(t *testing.T, store *iceberg.Store, text string) *catalog.Table {
	t.Helper()
	l := store.Tables()
	l.AllowDrop = true
	p := pipeline(t, text)
	if _, err := l.Apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p.ByTarget("d", "keyed")
}

// values renders the current rows by their id: a, b and what is unresolved.
func values(rows map[string]mergetest.Current, columns ...int) map[string]string {
	out := make(map[string]string)
	for _, row := range rows {
		var texts []string
		for _, i := range columns {
			texts = append(texts, row.Values[i])
		}
		out[row.Values[1]] = strings.Join(append(texts, row.Unresolved...), " ")
	}
	return out
}

// Rows list what a change left out by the names of their day.
func TestLocalAbsentOfARenamedColumn(t *testing.T) {
	t.Parallel()
	const b = "{name: b, type: string, may_be_unchanged: true}"
	for _, test := range []struct {
		name  string
		files []string // what the file says of b, one after the other
		want  map[string]string
	}{
		{"renamed", []string{"{name: b2, source: b, renamed_from: b, type: string, may_be_unchanged: true}"}, map[string]string{"w": "2.50 BIG", "z": "4.50 BIG"}},
		{"renamed twice", []string{
			"{name: b2, source: b, renamed_from: b, type: string, may_be_unchanged: true}",
			"{name: b3, source: b, renamed_from: b2, former_names: [b], type: string, may_be_unchanged: true}",
		}, map[string]string{"w": "2.50 BIG", "z": "4.50 BIG"}},
		{"excluded", []string{"{name: b, type: string, exclude: true}"}, map[string]string{"w": "2.50 NULL", "z": "4.50 NULL"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store := open(t, t.TempDir())
			def := apply(t, store, mergetest.Pipeline)
			big, a := "BIG", func(n int) *string { s := fmt.Sprint(n, ".50"); return &s }
			change := func(n int, id, old string, b *string, absent ...string) [][]byte {
				r := mergetest.Row{
					Tenant: 1, ID: id, OldID: old, Position: mergetest.ChangeAt(n), Operation: cdc.Update, A: a(n), B: b, Absent: absent,
					Committed: mergetest.Start().Add(time.Duration(n) * time.Hour),
				}
				return r.Lake()
			}
			appendRows(t, store, def, change(1, "w", "", &big), change(2, "w", "", nil, "b"),
				change(3, "y", "", &big), change(4, "z", "y", nil, "b", "c"))
			for _, file := range test.files {
				def = apply(t, store, strings.Replace(mergetest.Pipeline, b, file, 1))
			}
			run(t, store, def)
			columns := []int{2, 3}
			if diff := cmp.Diff(test.want, values(current(t, store, def), columns...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A pipeline file by which rows would mean something else is refused by merges of any
// engine, as by the plan: see TestMeaningOfRows of package catalog/iceberg.
func TestRefusesOtherMeaning(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ old, new, want string }{
		"key in another order": {"key: [id, tenant]", "key: [tenant, id]", "in the order (id, tenant), and key: of the pipeline file says (tenant, id)"},
		"not marked any more":  {"{name: b, type: string, may_be_unchanged: true}", "{name: b, type: string}", "column b: rows may have left it out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t, t.TempDir())
			def := pipeline(t, mergetest.Pipeline).ByTarget("d", "keyed")
			for _, row := range mergetest.Log(1, 1) {
				appendRows(t, store, def, row.Lake())
			}
			other := pipeline(t, strings.Replace(mergetest.Pipeline, test.old, test.new, 1)).ByTarget("d", "keyed")
			_, err := merge.Local(t.Context(), store, other, merge.Options{})
			if !errors.Is(err, merge.ErrRefused) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("local: got error %v, want one that says %q", err, test.want)
			}
			_, err = merge.Athena(t.Context(), nil, store.Tables(), other, merge.Options{})
			if !errors.Is(err, merge.ErrRefused) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("athena: got error %v, want one that says %q", err, test.want)
			}
		})
	}
}

// A changelog from before columns that may be left out were noted: rows that inherit
// are folded with those that they inherit from all the same.
func TestLocalTiedWithoutMarks(t *testing.T) {
	t.Parallel()
	store := open(t, t.TempDir())
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "keyed")
	big := "BIG"
	row := func(n int, id, old string, b *string, absent ...string) [][]byte {
		r := mergetest.Row{Tenant: 1, ID: id, OldID: old, Position: mergetest.ChangeAt(n), Operation: cdc.Update, B: b, Absent: absent, Committed: mergetest.Start()}
		return r.Lake()
	}
	appendRows(t, store, def, row(4, "x", "w", nil, "b"), row(5, "y", "x", nil, "b"))
	log, err := store.Tables().Tables.LoadTable(t.Context(), icecatalog.ToIdentifier("d", "keyed"))
	if err != nil {
		t.Fatal(err)
	}
	tx := log.NewTransaction()
	if err := tx.RemoveProperties([]string{"icehose.absent"}); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	def = pipeline(t, strings.ReplaceAll(mergetest.Pipeline, ", may_be_unchanged: true", "")).ByTarget("d", "keyed")
	run(t, store, def)
	appendRows(t, store, def, row(3, "w", "", &big))
	run(t, store, def)
	if diff := cmp.Diff(map[string]string{"y": "BIG"}, values(current(t, store, def), 3)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A reload of a table without a key replaces what was below its floor from its first
// row on: until it is said to be finished, every merge warns.
func TestWarnsOfUnfinishedLoad(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		loads string
		want  bool
	}{
		"no load":    {"", false},
		"unfinished": {"    loads: [{floor: \"0000000000000000000000000000000a\", since: 2026-01-11T00:00:00Z}]\n", true},
		"finished":   {"    loads: [{floor: \"0000000000000000000000000000000a\", since: 2026-01-11T00:00:00Z, finished: true}]\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			def := pipeline(t, strings.Replace(mergetest.Pipeline, "  - source: s.unkeyed\n", "  - source: s.unkeyed\n"+test.loads, 1)).ByTarget("d", "unkeyed")
			store := open(t, t.TempDir())
			appendRows(t, store, def, mergetest.UnkeyedLog(1)[0])
			spec, err := merge.NewSparkSpec(def, "")
			if err != nil {
				t.Fatal(err)
			}
			for engine, warnings := range map[string][]string{"local": run(t, store, def).Warnings, "spark": spec.Warnings} {
				got := strings.Contains(strings.Join(warnings, "\n"), "the load of floor 0000000000000000000000000000000a is not finished")
				if got != test.want {
					t.Errorf("%s: warnings %q", engine, warnings)
				}
			}
		})
	}
}
