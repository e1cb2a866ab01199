package catalog_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/cdc"
)

const minimal = `version: 1
database: shop
source: {engine: postgresql, position: postgres}
tables:
  - source: public.Orders
    mode: mirror
    key: [id]
    columns:
      - {name: id, type: long}
      - {name: total, type: "decimal(12,2)"}
`

// What is not in the lake may have any name.
func TestExcludedName(t *testing.T) {
	text := strings.Replace(minimal, "name: total,", "name: _deleted, exclude: true,", 1)
	if _, err := catalog.Parse("pipeline.yaml", []byte(text)); err != nil {
		t.Error(err)
	}
}

// A column may take the lake name of one that is excluded from now on.
func TestRenamedFromExcluded(t *testing.T) {
	text := minimal + "      - {name: note, type: string, exclude: true}\n      - {name: remark, type: string, renamed_from: note}\n"
	if _, err := catalog.Parse("pipeline.yaml", []byte(text)); err != nil {
		t.Error(err)
	}
}

func TestParseDefaults(t *testing.T) {
	p, err := catalog.Parse("pipeline.yaml", []byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	table := p.BySource("public", "Orders")
	if table == nil {
		t.Fatal("no table public.Orders")
	}
	if p.ByTarget("shop", "orders") != table {
		t.Error("target shop.orders is not the same table")
	}
	got := []any{
		table.Database(), table.Name(), table.OnLoad, table.OnInsert, table.Nulls, table.Unchanged, table.Position.Source,
		p.OnUnknownTable, p.Source.BeforeImage, table.KeyColumns(), table.Columns[1].Type,
	}
	want := []any{
		"shop", "orders", catalog.LoadInsert, catalog.InsertUpdate, catalog.NullsOmitted, catalog.UnchangedAbsent, cdc.SourcePostgres,
		catalog.UnknownFail, "before-image",
		[]int{0},
		catalog.Type{Kind: catalog.Decimal, Precision: 12, Scale: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults differ (-want +got):\n%s", diff)
	}
}

// A broken file is refused with file, line, field and value.
func TestParseRefuses(t *testing.T) {
	edit := func(old, text string) string {
		if !strings.Contains(minimal, old) {
			t.Fatalf("minimal file has no %q", old)
		}
		return strings.Replace(minimal, old, text, 1)
	}
	tests := []struct{ name, text, want string }{
		{"not yaml", "version: [1", `pipeline.yaml:1:`},
		{"empty", "", `pipeline.yaml:1: nothing is described here: icehose catalog discover writes a file from a source`},
		{"only a comment", "# nothing\n", `pipeline.yaml:1: nothing is described here`},
		{"null", "null\n", `pipeline.yaml:1: nothing is described here`},
		{"a tag", edit("mode: mirror", "mode: !!str mirror"), `pipeline.yaml:6: tables[0].mode: a tag means nothing in a pipeline file: remove it, got "!!str"`},
		{"a tag in place of a list", minimal[:strings.Index(minimal, "    columns:")] + "    columns: !!str 5\n", `pipeline.yaml:8: tables[0].columns: a tag means nothing`},
		{"two documents", minimal + "---\nexclude: [a.b]\n", `pipeline.yaml:1: want one YAML document`},
		{"before image is data", edit("position: postgres", "position: postgres, before_image: data"), `pipeline.yaml:3: source.before_image: want the name`},
		{"unknown key", edit("mode: mirror", "mode: mirror\n    modes: x"), `pipeline.yaml:7: tables[0].modes`},
		{"wrong mode", edit("mode: mirror", "mode: miror"), `pipeline.yaml:6: tables[0].mode: want mirror, changelog, got "miror"`},
		{"no mode", edit("    mode: mirror\n", ""), `pipeline.yaml:5: tables[0].mode: want mirror, changelog`},
		{"wrong version", edit("version: 1", "version: 2"), `pipeline.yaml:1: version: want 1`},
		{"version is text", edit("version: 1", "version: one"), `pipeline.yaml:1: version`},
		{"wrong engine", edit("postgresql", "postgres9"), `pipeline.yaml:3: source.engine: want postgresql`},
		{"wrong type", edit("type: long", "type: bigint"), `pipeline.yaml:9: tables[0].columns[0].type`},
		{"decimal too wide", edit("12,2", "39,2"), `pipeline.yaml:10: tables[0].columns[1].type`},
		{"key is no column", edit("key: [id]", "key: [nr]"), `pipeline.yaml:7: tables[0].key[0]: no column of this name, got "nr"`},
		{"float key", edit("type: long", "type: double"), `pipeline.yaml:7: tables[0].key[0]: a double cannot be a key`},
		{"masked key", edit("type: long", "type: long, mask: sha256"), `tables[0].key[0]: a key column cannot be excluded or masked`},
		{"upper-case column", edit("name: total", "name: Total"), `pipeline.yaml:10: tables[0].columns[1].name: want a lower-case name`},
		{"same column twice", edit("name: total", "name: id"), `tables[0].columns[1].name: already the name of columns[0]`},
		{"metadata name", edit("name: total", "name: cdc_position"), `names that begin with cdc_`},
		{"no position", edit("position: postgres", "position: lsn"), `pipeline.yaml:3: source.position: want postgres`},
		{"mirror without position", edit("position: postgres", "position: none"), `tables[0].position: a mirror with a key needs a position`},
		{"no columns", minimal[:strings.Index(minimal, "    columns:")], `tables[0].columns: want at least one column`},
		{"bad floor", minimal + "    loads: [{floor: 0/16, since: 2026-01-01T00:00:00Z}]\n", `tables[0].loads[0].floor: want the 32 hexadecimal digits`},
		{"a list as floor", minimal + "    loads: [{floor: [0], since: 2026-01-01T00:00:00Z}]\n", `pipeline.yaml:11: tables[0].loads[0].floor: want one value`},
		{"table twice", minimal + strings.TrimPrefix(minimal[strings.Index(minimal, "  - source"):], ""), `tables[1].source: already described by tables[0]`},
		{"reserved table", edit("public.Orders", "public.Order"), `pipeline.yaml:5: tables[0].source: a reserved word, and Athena's OPTIMIZE and VACUUM take no quotes: give public.Order another target:, got "order"`},
		{"reserved target", edit("mode: mirror", "mode: mirror\n    target: shop.values"), `pipeline.yaml:7: tables[0].target: a reserved word, and Athena's`},
		{"reserved database", edit("database: shop", "database: end"), `pipeline.yaml:2: database: a reserved word, and Athena's OPTIMIZE and VACUUM take no quotes: want another name, got "end"`},
		{"Iceberg's own column", edit("name: total", "name: _deleted"), `pipeline.yaml:10: tables[0].columns[1].name: Iceberg adds a column of this name to every table, and Spark could not read public.Orders: rename it with source: and name:, or exclude it, got "_deleted"`},
		{"windows line ends", strings.ReplaceAll("# one\n# two\n"+edit("type: long", "type: bigint"), "\n", "\r\n"), `pipeline.yaml:11: tables[0].columns[0].type`},
		{"renamed from no name", edit("name: total", `name: total, renamed_from: "Bad Name"`), `pipeline.yaml:10: tables[0].columns[1].renamed_from: want the name that the column had in the lake: lower-case letters, digits and underscores, got "Bad Name"`},
		{"renamed from itself", edit("name: total", "name: total, renamed_from: total"), `pipeline.yaml:10: tables[0].columns[1].renamed_from: the name that the column has now: remove renamed_from`},
		{"renamed from metadata", edit("name: total", "name: total, renamed_from: cdc_position"), `pipeline.yaml:10: tables[0].columns[1].renamed_from: a metadata column of every lake table`},
		{"renamed from another column", edit("name: total", "name: total, renamed_from: id"), `pipeline.yaml:10: tables[0].columns[1].renamed_from: columns[0] has this name: remove renamed_from when the rename has been applied; otherwise rename in two steps, with an apply between them, got "id"`},
		{"names swapped", edit("id, type: long}", "id, type: long, renamed_from: total}\n      - {name: x, type: int, renamed_from: id}"), `pipeline.yaml:10: tables[0].columns[1].renamed_from: columns[0] has this name`},
		{"two renamed from one", minimal + "      - {name: a, type: int, renamed_from: c}\n      - {name: b, type: int, renamed_from: c}\n", `pipeline.yaml:12: tables[0].columns[3].renamed_from: columns[2] is renamed from it too: a column becomes one column`},
		{"excluded and renamed", edit("name: total", "name: total, exclude: true, renamed_from: sum"), `pipeline.yaml:10: tables[0].columns[1].renamed_from: the column is excluded`},
		{"a former name of another column", edit("name: total", "name: total, former_names: [sum, id]"), `pipeline.yaml:10: tables[0].columns[1].former_names[1]: columns[0] has this name: a row of a changelog that lists it in cdc_absent could mean either of the two`},
		{"a former name twice", edit("name: total", "name: total, renamed_from: sum, former_names: [sum]"), `pipeline.yaml:10: tables[0].columns[1].former_names[0]: named twice: remove this name`},
		{"a former name of two", minimal + "      - {name: a, type: int, former_names: [c]}\n      - {name: b, type: int, renamed_from: c}\n", `pipeline.yaml:12: tables[0].columns[3].renamed_from: columns[2] is renamed from it too`},
		{"loss that does not exist", edit("type: long", "type: long, allow_lossy: [all]"), `allow_lossy[0]: want round, null, replace`},
		{"bad default", edit("12,2)\"", "12,2)\", not_null: true, default: many"), `pipeline.yaml:10: tables[0].columns[1].default: not a value of decimal(12,2), such as 12.50 with no more digits than the type has, got "many"`},
		{"default with digits too many", edit("12,2)\"", "12,2)\", not_null: true, default: 0.001"), `columns[1].default: not a value of decimal(12,2), such as 12.50 with no more digits than the type has, got "0.001"`},
		{"default of the key", edit("type: long", "type: long, not_null: true, default: 1"), `pipeline.yaml:9: tables[0].columns[0].default: a key column is never null: remove it, got "1"`},
		{"default of a mask", edit("12,2)\"", "12,2)\", mask: sha256, not_null: true, default: 1"), `columns[1].default: the column is masked, and its default would not be`},
		{"default beside nulls", edit("12,2)\"", "12,2)\", default: 1"), `columns[1].default: without not_null: true a null of the source cannot be told from one of an older row, got "1"`},
		{"default is a list", edit("12,2)\"", "12,2)\", default: [1]"), `pipeline.yaml:10: tables[0].columns[1].default: want one value`},
		{"one source twice", minimal + "      - {name: a, source: A, type: int}\n      - {name: b, source: A, type: int}\n", `pipeline.yaml:12: tables[0].columns[3].source: columns[2] has this source too: two columns cannot share one, got "A"`},
		{"rounded integer", edit("type: long", "type: long, allow_lossy: [\"null\", round]"), `pipeline.yaml:9: tables[0].columns[0].allow_lossy[1]: a long never loses a value this way, only float, decimal, time, timestamp, timestamptz can: remove it, got "round"`},
		{"text that becomes null", edit("type: long", "type: string, allow_lossy: [\"null\"]"), `allow_lossy[0]: a string never loses a value this way`},
		{"number of no text", edit("type: long", "type: long, allow_lossy: [replace]"), `allow_lossy[0]: a long never loses a value this way, only string can`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := catalog.Parse("pipeline.yaml", []byte(tt.text))
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			var place *catalog.FileError
			if !errors.As(err, &place) || place.Line == 0 {
				t.Errorf("error has no line: %#v", err)
			}
		})
	}
}

func TestLoadMissingFile(t *testing.T) {
	_, err := catalog.Load(filepath.Join(t.TempDir(), "pipeline.yaml"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want a missing file", err)
	}
}

func TestEpochAndLoad(t *testing.T) {
	at := func(s string) time.Time {
		when, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	text := minimal + `    loads:
      - {floor: 00000000000000010000000000000000, since: 2026-02-01T00:00:00Z}
      - {floor: 00000000000000020000000000000000, since: 2026-03-01T00:00:00Z}
epochs: [{epoch: 1, since: 2026-02-15T00:00:00Z}]
`
	p, err := catalog.Parse("pipeline.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	table := p.Tables[0]
	if _, ok := table.LoadAt(at("2026-01-31T23:59:59Z")); ok {
		t.Error("a record built before the first reload belongs to the first load")
	}
	if l, ok := table.LoadAt(at("2026-02-01T00:00:00Z")); !ok || l.Floor != (cdc.Body{Hi: 1}) {
		t.Errorf("since is inclusive: got %v %v", l, ok)
	}
	if !table.LoadOpen() {
		t.Error("the last load is finished")
	}
	table.Loads[1].Finished = true
	if table.LoadOpen() {
		t.Error("a load is open, although a later one is finished")
	}
	if l, _ := table.LoadAt(at("2026-12-01T00:00:00Z")); l.Floor != (cdc.Body{Hi: 2}) {
		t.Errorf("the last load counts: got %v", l)
	}
	if got := p.EpochAt(at("2026-02-14T00:00:00Z")); got != 0 {
		t.Errorf("epoch before the first: got %d", got)
	}
	if got := p.EpochAt(at("2026-02-15T00:00:00Z")); got != 1 {
		t.Errorf("epoch at its since: got %d", got)
	}
}

func TestTypeRoundTrip(t *testing.T) {
	for _, s := range []string{
		"boolean", "int", "long", "float", "double", "decimal(38,0)", "decimal(9,9)", "date", "time", "timestamp", "timestamptz",
		"string", "uuid", "fixed[16]", "binary",
	} {
		typ, err := catalog.ParseType(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
		}
		if got := typ.String(); got != s {
			t.Errorf("got %s, want %s", got, s)
		}
	}
	for _, s := range []string{"", "bigint", "decimal", "decimal(0,0)", "decimal(10)", "decimal(10,11)", "decimal(39,1)", "fixed", "fixed[0]", "fixed[x]", "Long", "fixed[1"} {
		if _, err := catalog.ParseType(s); err == nil {
			t.Errorf("accepted %q", s)
		}
	}
	for _, s := range []string{"list<int>", "map<string, string>", "struct<a: int>", "array<int>", "variant"} {
		if _, err := catalog.ParseType(s); err == nil || !strings.Contains(err.Error(), "no nested types: use string") {
			t.Errorf("%q: got %v", s, err)
		}
	}
}

func TestLakeColumns(t *testing.T) {
	table := &catalog.Table{Mode: catalog.Changelog, Columns: []*catalog.Column{
		{Name: "id", Type: catalog.Type{Kind: catalog.Long}},
		{Name: "secret", Type: catalog.Type{Kind: catalog.Long}, Exclude: true},
		{Name: "mail", Type: catalog.Type{Kind: catalog.Binary}, Mask: catalog.MaskSHA256},
	}}
	columns, data := table.LakeColumns()
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name + " " + c.Type.String()
	}
	want := []string{
		"id long", "mail string", "cdc_position string", "cdc_committed_at timestamptz", "cdc_operation string",
		"cdc_old_key string", "cdc_absent string",
	}
	if diff := cmp.Diff(want, names); diff != "" || data != 2 {
		t.Errorf("data columns %d, columns (-want +got):\n%s", data, diff)
	}
	table.Mode = catalog.Mirror
	if columns, _ := table.LakeColumns(); len(columns) != 4 {
		t.Errorf("a mirror has %d columns, want 4", len(columns))
	}
}

// The pipeline file of the TPC-C fixture is one that people read first.
func TestLoadTPCC(t *testing.T) {
	p, err := catalog.Load("../testdata/events/tpcc/pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	modes := make(map[catalog.Mode]int)
	for _, table := range p.Tables {
		modes[table.Mode]++
	}
	if diff := cmp.Diff(map[catalog.Mode]int{catalog.Mirror: 6, catalog.Changelog: 3}, modes); diff != "" {
		t.Errorf("modes (-want +got):\n%s", diff)
	}
}
