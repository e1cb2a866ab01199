package iceberg_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/artifact"
	lake "icehose/catalog/iceberg"
)

const head = "version: 1\ndatabase: shop\nsource: {engine: postgresql, position: postgres}\ntables:\n"

func parse(t *testing.T, text string) *catalog.Pipeline {
	t.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte(head+text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// orders is a mirror with the columns given as "name type [renamed_from]".
func orders(mode string, key string, columns ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  - source: public.orders\n    mode: %s\n    key: [%s]\n    columns:\n", mode, key)
	for _, c := range columns {
		words := strings.Fields(c)
		renamed := ""
		if len(words) > 2 {
			renamed = ", renamed_from: " + words[2]
		}
		fmt.Fprintf(&b, "      - {name: %s, type: %q%s}\n", words[0], words[1], renamed)
	}
	return b.String()
}

// texts renders what a plan does and refuses.
func texts(p *lake.Plan) []string {
	var out []string
	for _, t := range p.Tables {
		for _, a := range t.Actions {
			out = append(out, strings.Join(strings.Fields(fmt.Sprint(a.Kind, " ", a.Column, " ", a.From, " ", a.To)), " "))
		}
		for _, r := range t.Refusals {
			out = append(out, "refuse "+r.Column+": "+r.Reason)
		}
	}
	return out
}

// fields renders the columns of a table with their ids.
func fields(t *testing.T, l *lake.Lake) []string {
	t.Helper()
	loaded, err := l.Tables.LoadTable(t.Context(), icecatalog.ToIdentifier("shop", "orders"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range loaded.Schema().Fields() {
		if strings.HasPrefix(f.Name, "cdc_") {
			continue
		}
		text := fmt.Sprint(f.ID, " ", f.Name, " ", f.Type)
		for _, id := range loaded.Schema().IdentifierFieldIDs {
			if id == f.ID {
				text += " key"
			}
		}
		out = append(out, text)
	}
	return out
}

// catalogs are the kinds of catalogs that every test of behaviour runs on.
var catalogs = map[string]func(*testing.T) opener{"sqlite": sqlite, "glue": glue, "rest": rest}

func TestEvolve(t *testing.T) {
	v1 := orders("mirror", "id", "id decimal(5,0)", "note string", "total decimal(10,2)", "rate float", "old int", "n int")
	v2 := orders("mirror", "order_id", "order_id decimal(20,0) id", "n long", "remark string note", "total decimal(20,2)", "rate double", "extra timestamptz")
	for name, start := range catalogs {
		t.Run(name, func(t *testing.T) {
			open := start(t)
			l := open()
			first, second := parse(t, v1), parse(t, v2)

			plan, err := l.Plan(t.Context(), first)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{
				"create", "add id decimal(5, 0)", "add note string", "add total decimal(10, 2)", "add rate float", "add old int", "add n int",
				"add cdc_position string", "add cdc_committed_at timestamptz",
			}
			if diff := cmp.Diff(want, texts(plan)); diff != "" {
				t.Errorf("plan of a new table (-want +got):\n%s", diff)
			}
			done, err := l.Apply(t.Context(), first)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, texts(done)); diff != "" {
				t.Errorf("apply did (-want +got):\n%s", diff)
			}

			// Without leave to drop, nothing is done at all.
			if _, err := open().Apply(t.Context(), second); !errors.Is(err, lake.ErrRefused) {
				t.Errorf("apply drops a column without leave: %v", err)
			}
			if diff := cmp.Diff([]string{"1 id decimal(5, 0) key", "2 note string", "3 total decimal(10, 2)", "4 rate float", "5 old int", "6 n int"}, fields(t, l)); diff != "" {
				t.Errorf("after a refusal (-want +got):\n%s", diff)
			}

			l.AllowDrop = true
			done, err = l.Apply(t.Context(), second)
			if err != nil {
				t.Fatal(err)
			}
			want = []string{
				"rename order_id id order_id", "widen order_id decimal(5, 0) decimal(20, 0)", "widen n int long", "rename remark note remark",
				"widen total decimal(10, 2) decimal(20, 2)", "widen rate float double", "add extra timestamptz", "drop old int",
			}
			if diff := cmp.Diff(want, texts(done)); diff != "" {
				t.Errorf("apply of version 2 did (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{
				"1 order_id decimal(20, 0) key", "2 remark string", "3 total decimal(20, 2)", "4 rate double", "6 n long", "9 extra timestamptz",
			}, fields(t, l)); diff != "" {
				t.Errorf("version 2 (-want +got):\n%s", diff)
			}

			for range 2 { // nothing is left to do, however often
				again, err := open().Apply(t.Context(), second)
				if err != nil || again.Pending() {
					t.Errorf("again: %v, %v", texts(again), err)
				}
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	v1 := orders("mirror", "id", "id long", "note string", "total decimal(10,2)")
	for name, test := range map[string]struct {
		v2   string
		want []string
	}{
		"narrow": {
			orders("mirror", "id", "id int", "note string", "total decimal(9,2)"),
			[]string{
				"refuse id: long cannot become int: Iceberg widens int to long, float to double and a decimal's precision, nothing else. Add a column of another name, or create the table anew",
				"refuse total: decimal(10, 2) cannot become decimal(9, 2): the table may hold numbers that do not fit. Keep the precision",
			},
		},
		"wider key": {
			orders("mirror", "id", "id long", "n long", "note string", "total decimal(10,2)"),
			[]string{"widen n int long", "refuse id: int cannot become long: it is the key of a mirror, and a delete of a long does not find a row that was written as an int: old rows would stay. Create the table anew"},
		},
		"scale": {
			orders("mirror", "id", "id long", "note string", "total decimal(12,4)"),
			[]string{"refuse total: decimal(10, 2) cannot become decimal(12, 4): a decimal's scale is fixed. Add a column of another name"},
		},
		"other key": {
			orders("mirror", "note", "id long", "note string", "total decimal(10,2)"),
			[]string{
				"refuse id: it is required in the table and no key column in the pipeline file: deletes could not be written",
				"refuse note: a key column must be required and this one is optional: old files may hold nulls in it. Create the table anew",
			},
		},
		"longer key": {
			orders("mirror", "id, region", "id long", "region string", "note string", "total decimal(10,2)"),
			[]string{"refuse region: a key column cannot be added to a table: its rows have no value for it"},
		},
		"key column gone": {
			orders("mirror", "uid", "uid long", "note string", "total decimal(10,2)"),
			[]string{
				"refuse uid: a key column cannot be added to a table: its rows have no value for it",
				"refuse id: it is part of the table's key and not in the pipeline file: rows could not be found any more",
			},
		},
		"changelog": {
			orders("changelog", "id", "id long", "note string", "total decimal(10,2)"),
			[]string{"set_property write.merge.isolation-level snapshot", "refuse : the table is a mirror and the pipeline file says changelog: its rows would mean something else. Give the table another target"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := sqlite(t)()
			first := v1
			if name == "wider key" {
				first = orders("mirror", "id", "id int", "n int", "note string", "total decimal(10,2)")
			}
			if _, err := l.Apply(t.Context(), parse(t, first)); err != nil {
				t.Fatal(err)
			}
			l.AllowDrop = true
			before := fields(t, l)
			plan, err := l.Apply(t.Context(), parse(t, test.v2))
			if !errors.Is(err, lake.ErrRefused) {
				t.Fatalf("not refused: %v, %v", texts(plan), err)
			}
			if diff := cmp.Diff(test.want, texts(plan)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, fields(t, l)); diff != "" {
				t.Errorf("the table changed:\n%s", diff)
			}
		})
	}
}

// Several appliers at once end where one would, and none fails.
func TestApplyAtOnce(t *testing.T) {
	v1 := parse(t, orders("changelog", "id", "id int", "note string"))
	v2 := parse(t, orders("changelog", "id", "id long", "remark string note", "a int", "b int", "c int"))
	for name, start := range catalogs {
		t.Run(name, func(t *testing.T) {
			open := start(t)
			for _, p := range []*catalog.Pipeline{v1, v2} {
				lakes := make([]*lake.Lake, 4)
				for i := range lakes {
					lakes[i] = open()
				}
				var wg sync.WaitGroup
				for _, l := range lakes {
					wg.Go(func() {
						if _, err := l.Apply(t.Context(), p); err != nil {
							t.Errorf("apply: %v", err)
						}
					})
				}
				wg.Wait()
			}
			if diff := cmp.Diff([]string{"1 id long key", "2 remark string", "8 a int", "9 b int", "10 c int"}, fields(t, open())); diff != "" {
				t.Errorf("columns (-want +got):\n%s", diff)
			}
		})
	}
}

// The schema that artifacts show and that of a created table are one.
func TestTPCC(t *testing.T) {
	p, err := catalog.Load("../../testdata/events/tpcc/pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	l := sqlite(t)()
	if _, err := l.Apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	plan, err := l.Plan(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Pending() || plan.Refused() || len(plan.Tables) != len(p.Tables) {
		t.Errorf("after apply: %v", texts(plan))
	}
	made, err := artifact.Generate(p, artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range p.Tables {
		loaded, err := l.Tables.LoadTable(t.Context(), icecatalog.ToIdentifier(table.Database(), table.Name()))
		if err != nil {
			t.Fatal(err)
		}
		path := fmt.Sprintf("iceberg/%s.%s.schema.json", table.Database(), table.Name())
		at := slices.IndexFunc(made.Files, func(f artifact.File) bool { return f.Path == path })
		if at < 0 {
			t.Fatalf("no %s", path)
		}
		shown := new(iceberg.Schema)
		if err := json.Unmarshal(made.Files[at].Data, shown); err != nil {
			t.Fatal(err)
		}
		if !loaded.Schema().Equals(shown) || !slices.Equal(loaded.Schema().IdentifierFieldIDs, shown.IdentifierFieldIDs) {
			t.Errorf("%s.%s is %s\nshown as %s", table.Database(), table.Name(), loaded.Schema(), shown)
		}
	}
}
