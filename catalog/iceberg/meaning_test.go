package iceberg_test

import (
	"strings"
	"testing"

	"github.com/apache/iceberg-go/table"
	"github.com/google/go-cmp/cmp"

	icecatalog "github.com/apache/iceberg-go/catalog"

	"icehose/sink/iceberg"
)

// log is a changelog with the columns given as the pipeline file has them.
func changelog(key string, columns ...string) string {
	return "  - source: public.orders\n    mode: changelog\n    key: [" + key + "]\n    columns:\n      - {name: k, type: string}\n      - {name: n, type: string}\n      - {" +
		strings.Join(columns, "}\n      - {") + "}\n"
}

const part, whole = "type: string, may_be_unchanged: true", "type: string"

// What the rows of a changelog say stays what the pipeline file says of it, whatever
// becomes of names, keys and marks of columns.
func TestMeaningOfRows(t *testing.T) {
	t.Parallel()
	absent := func(names string) string { return "set_property icehose.absent " + names }
	for _, test := range []struct {
		name  string
		empty bool     // no rows
		old   bool     // the table has not noted anything
		files []string // applied one after the other; the last is planned
		want  []string // of the last
	}{
		{"nothing changes", false, false, []string{changelog("k, n", "name: b, "+part), changelog("k, n", "name: b, "+part)}, nil},
		{"the key in another order", false, false, []string{changelog("k, n", "name: b, "+part), changelog("n, k", "name: b, "+part)}, []string{
			"set_property icehose.key k,n n,k", "refuse : its rows have the key before a key change in the order (k, n), and key: of the pipeline file says (n, k): " +
				"a row that changed its key would stay under its old one too. Write key: [k, n]",
		}},
		{"the key in another order, and no rows", true, false, []string{changelog("k, n", "name: b, "+part), changelog("n, k", "name: b, "+part)}, []string{"set_property icehose.key k,n n,k"}},
		{"a column of the key renamed", false, false, []string{
			changelog("k, n", "name: b, "+part),
			strings.NewReplacer("[k, n]", "[k, m]", "name: n,", "name: m, renamed_from: n,").Replace(changelog("k, n", "name: b, "+part)),
		}, []string{"rename m n m", "set_property icehose.key k,n k,m"}},
		{"renamed", false, false, []string{changelog("k", "name: b, "+part), changelog("k", "name: b2, renamed_from: b, "+part)}, []string{"rename b2 b b2", absent("b b,b2")}},
		{
			"renamed twice, the first name forgotten", false, false,
			[]string{changelog("k", "name: b, "+part), changelog("k", "name: b2, renamed_from: b, "+part), changelog("k", "name: b3, renamed_from: b2, "+part)},
			[]string{"rename b3 b2 b3", absent("b,b2 b,b2,b3"), "refuse b3: it was called b, and rows that left it out say b in cdc_absent: write former_names: [b] on it, and leave that there"},
		},
		{
			"renamed twice", false, false,
			[]string{changelog("k", "name: b, "+part), changelog("k", "name: b2, renamed_from: b, "+part), changelog("k", "name: b3, renamed_from: b2, former_names: [b], "+part)},
			[]string{"rename b3 b2 b3", absent("b,b2 b,b2,b3")},
		},
		{
			"the name before is taken out", false, false,
			[]string{changelog("k", "name: b, "+part), changelog("k", "name: b2, renamed_from: b, "+part), changelog("k", "name: b2, "+part)},
			[]string{"refuse b2: it was called b, and rows that left it out say b in cdc_absent: write former_names: [b] on it, and leave that there"},
		},
		{
			"another column takes the name", false, false,
			[]string{changelog("k", "name: b, "+part), changelog("k", "name: b2, renamed_from: b, "+part), changelog("k", "name: b2, "+whole, "name: b, "+part)},
			[]string{
				"add b string", "refuse b: b was the name of column b2, and rows that left that out still say b in cdc_absent: give this column another name",
				"refuse b2: rows may have left it out, because it was may_be_unchanged: null there does not mean null. Put may_be_unchanged: true back, " +
					"which does no harm where every change carries the column; if no row has b2 in cdc_absent, take it out of the table's property icehose.absent",
			},
		},
		{"not marked any more", false, false, []string{changelog("k", "name: b, "+part), changelog("k", "name: b, "+whole)}, []string{
			"refuse b: rows may have left it out, because it was may_be_unchanged: null there does not mean null. Put may_be_unchanged: true back, " +
				"which does no harm where every change carries the column; if no row has b in cdc_absent, take it out of the table's property icehose.absent",
		}},
		{"not marked any more, and no rows", true, false, []string{changelog("k", "name: b, "+part), changelog("k", "name: b, "+whole)}, []string{"set_property icehose.absent b"}},
		{"dropped", false, false, []string{changelog("k", "name: b, "+part, "name: c, "+part), changelog("k", "name: c, "+part)}, []string{"drop b string"}},
		{"made before anything was noted", false, true, []string{changelog("k", "name: b, "+part), changelog("k", "name: b, "+part)}, []string{absent("b"), "set_property icehose.key k"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store, err := iceberg.Open(t.Context(), t.TempDir(), iceberg.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close() //nolint:errcheck // nothing is written any more
			l := store.Tables()
			l.AllowDrop = true
			last := len(test.files) - 1
			for i, file := range test.files[:last] {
				p := parse(t, file)
				if _, err := l.Apply(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				if i == 0 && !test.empty {
					columns, _ := p.Tables[0].LakeColumns()
					values := make([]string, len(columns))
					for i := range values {
						values[i] = "NULL"
					}
					values[0], values[1] = "1", "2"
					write(t, store, p.Tables[0], "", "one", nil, [][][]byte{row(values...)})
				}
			}
			if test.old {
				loaded, err := l.Tables.LoadTable(t.Context(), icecatalog.ToIdentifier("shop", "orders"))
				if err != nil {
					t.Fatal(err)
				}
				removeProperties(t, loaded, "icehose.key", "icehose.absent")
			}
			plan, err := l.Plan(t.Context(), parse(t, test.files[last]))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, texts(plan)); diff != "" {
				t.Fatalf("plan (-want +got):\n%s", diff)
			}
			if plan.Refused() {
				return
			}
			if _, err := l.Apply(t.Context(), parse(t, test.files[last])); err != nil {
				t.Fatal(err)
			}
			if again, err := l.Plan(t.Context(), parse(t, test.files[last])); err != nil || again.Pending() {
				t.Errorf("after apply: %v, %v", texts(again), err)
			}
		})
	}
}

func removeProperties(t *testing.T, of *table.Table, names ...string) {
	t.Helper()
	tx := of.NewTransaction()
	if err := tx.RemoveProperties(names); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}
