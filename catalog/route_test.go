package catalog_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"icehose/catalog"
)

// routed is a pipeline file of the given head and one table for each source.
func routed(head string, tables ...string) string {
	text := "version: 1\ndatabase: shop\nsource: {engine: oracle, position: none}\n" + head + "tables:\n"
	for _, t := range tables {
		text += "  - {" + t + ", mode: changelog, columns: [{name: id, type: long}]}\n"
	}
	return text
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, head, table string
		target            string
		route             int      // -1: none
		others            []string // tables that use the other routes
	}{
		{"no routes", "", "source: SALES.Orders", "shop.orders", -1, nil},
		{"prefix", "routes: [{match: 'SALES.%', target: sales_%}]\n", "source: SALES.Orders", "shop.sales_orders", 0, nil},
		{"database", "routes: [{match: 'SALES.%', target: lake.%}]\n", "source: SALES.Orders", "lake.orders", 0, nil},
		{"database by pattern", "routes: [{match: '%.%', target: '%.%'}]\n", "source: SALES.Orders", "sales.orders", 0, nil},
		{"fewer in the target", "routes: [{match: 'S%.%', target: all_%}]\n", "source: SALES.Orders", "shop.all_ales", 0, nil},
		{"constant", "routes: [{match: 'SALES.Orders', target: lake.o}]\n", "source: SALES.Orders", "lake.o", 0, nil},
		{"shortest text first", "routes: [{match: '%.%_%', target: '%.%__%'}]\n", "source: A.b_c_d", "a.b__c_d", 0, nil},
		{"first match counts", "routes: [{match: 'SALES.Or%', target: first_%}, {match: 'SALES.%', target: second_%}]\n", "source: SALES.Orders", "shop.first_ders", 0, []string{"source: SALES.x"}},
		{"explicit target wins", "routes: [{match: 'SALES.%', target: sales_%}]\n", "source: SALES.Orders, target: mine", "shop.mine", -1, []string{"source: SALES.x"}},
		{"case counts", "routes: [{match: 'sales.%', target: sales_%}, {match: 'SALES.%', target: upper_%}]\n", "source: SALES.Orders", "shop.upper_orders", 1, []string{"source: sales.x"}},
		{"case folded", "names: fold\nroutes: [{match: 'sales.%', target: sales_%}]\n", "source: SALES.Orders", "shop.sales_orders", 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			text := routed(test.head, append([]string{test.table}, test.others...)...)
			p, err := catalog.Parse("pipeline.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			table := p.Tables[0]
			if got := table.Database() + "." + table.Name(); got != test.target {
				t.Errorf("got %s, want %s", got, test.target)
			}
			route, ok := table.Route()
			if ok != (test.route >= 0) || ok && route != test.route {
				t.Errorf("got route %d %t, want %d", route, ok, test.route)
			}
		})
	}
}

func TestRoutesRefused(t *testing.T) {
	t.Parallel()
	orders := "source: sales.orders"
	for _, test := range []struct{ name, text, want string }{
		{"no dot", routed("routes: [{match: sales, target: x}]\n", orders), `pipeline.yaml:4: routes[0].match: want schema.table, with % for any text, got "sales"`},
		{"upper-case target", routed("routes: [{match: 'sales.%', target: Sales_%}]\n", orders), `pipeline.yaml:4: routes[0].target: want database.table or table`},
		{"no target", routed("routes: [{match: 'sales.%'}]\n", orders), `pipeline.yaml:4: routes[0].target: want database.table or table`},
		{"three parts", routed("routes: [{match: 'sales.%', target: a.b.%}]\n", orders), `routes[0].target: want database.table or table`},
		{"more in the target", routed("routes: [{match: 'sales.%', target: '%_%'}]\n", orders), `pipeline.yaml:4: routes[0].target: it has 2 % and match has 1, got "%_%"`},
		{"unknown key", routed("routes: [{match: 'sales.%', target: x_%, to: y}]\n", orders), `pipeline.yaml:4: routes[0].to`},
		{"matches nothing", routed("routes: [{match: 'sale.%', target: x_%}]\n", orders), `pipeline.yaml:4: routes[0].match: it names no table`},
		{"shadowed", routed("routes:\n  - {match: '%.%', target: '%_%'}\n  - {match: 'sales.%', target: x_%}\n", orders), `pipeline.yaml:6: routes[1].match: it names no table`},
		{"name that no lake has", routed("routes: [{match: 'sales.%', target: x_%}]\n", "source: sales.order-lines"), `pipeline.yaml:6: tables[0].source: want lower-case names of letters, digits and underscores; routes[0] made this: give the table a target:, got "shop.x_order-lines"`},
		{"two to one", routed("routes: [{match: '%.orders', target: orders}]\n", orders, "source: other.orders"), `pipeline.yaml:7: tables[1].source: already the target of tables[0], got "shop.orders"`},
		{"names", routed("names: lower\n", orders), `pipeline.yaml:4: names: want exact, fold, got "lower"`},
		{"two spellings of one", routed("names: fold\n", orders, "source: SALES.Orders, target: x"), `pipeline.yaml:7: tables[1].source: already described by tables[0]`},
		{"include", routed("include: [sales]\n", orders), `pipeline.yaml:4: include[0]: want schema.table, with % for any text, got "sales"`},
		{"not included", routed("include: ['other.%']\n", orders), `pipeline.yaml:6: tables[0].source: include: leaves it out, so it would never flow, got "sales.orders"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := catalog.Parse("pipeline.yaml", []byte(test.text))
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
			var place *catalog.FileError
			if !errors.As(err, &place) || place.Line == 0 {
				t.Errorf("error has no line: %#v", err)
			}
		})
	}
}

func TestExcluded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		head, source string
		want         bool
	}{
		{"", "a.b", false},
		{"exclude: ['a.%']\n", "a.b", true},
		{"exclude: ['a.%']\n", "b.a.b", false},
		{"exclude: ['%.b']\n", "a.b", true},
		{"exclude: ['%.b']\n", "a.bb", false},
		{"exclude: ['a.%c%e']\n", "a.bcde", true},
		{"exclude: ['a.%c%e']\n", "a.bced", false},
		{"exclude: ['a.b']\n", "a.bc", false},
		{"exclude: ['A.%']\n", "a.b", false},
		{"names: fold\nexclude: ['A.%']\n", "a.b", true},
		{"include: ['sales.%']\n", "a.b", true},
		{"include: ['sales.%', 'a.%']\n", "a.b", false},
		{"include: ['sales.%', 'a.%']\nexclude: ['a.b']\n", "a.b", true},
	} {
		p, err := catalog.Parse("pipeline.yaml", []byte(routed(test.head, "source: sales.orders")))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Excluded(test.source); got != test.want {
			t.Errorf("%q %s: got %t", test.head, test.source, got)
		}
	}
}

func TestBySourceFolds(t *testing.T) {
	t.Parallel()
	p, err := catalog.Parse("pipeline.yaml", []byte(routed("names: fold\n", "source: Sales.Orders")))
	if err != nil {
		t.Fatal(err)
	}
	if p.BySource("SALES", "orders") != p.Tables[0] || p.BySource("SALES", "order") != nil {
		t.Error("names: fold does not find the table by another spelling")
	}
	p, err = catalog.Parse("pipeline.yaml", []byte(routed("", "source: Sales.Orders")))
	if err != nil {
		t.Fatal(err)
	}
	if p.BySource("SALES", "orders") != nil {
		t.Error("exact names find another spelling")
	}
}

// A target of the form of its pattern gives the source's own name back.
func TestRouteIdentity(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		allowed := func(name string) bool { return !catalog.ReservedTable(name) }
		schema := rapid.StringMatching(`[a-z][a-z_]{0,5}`).Filter(allowed).Draw(t, "schema")
		name := rapid.StringMatching(`[a-z][a-z_]{0,8}`).Filter(allowed).Draw(t, "table")
		p, err := catalog.Parse("p", []byte(routed("routes: [{match: '%.%', target: '%.%'}]\n", "source: "+schema+"."+name)))
		if err != nil {
			t.Fatal(err)
		}
		got := []string{p.Tables[0].Database(), p.Tables[0].Name()}
		if diff := cmp.Diff([]string{schema, name}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
