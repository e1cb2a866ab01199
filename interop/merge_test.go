//go:build interop

package interop_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/artifact"
	"icehose/internal/canon"
	"icehose/sink/iceberg"
	"icehose/sink/merge"
	"icehose/sink/merge/mergetest"
)

func pipeline(t testing.TB, text string) *catalog.Pipeline {
	t.Helper()
	p, err := catalog.Parse("interop.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// statement returns a generated artifact.
func statement(t testing.TB, p *catalog.Pipeline, path string) string {
	t.Helper()
	made, err := artifact.Generate(p, artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range made.Files {
		if f.Path == path {
			return string(f.Data)
		}
	}
	t.Fatalf("no artifact %s", path)
	return ""
}

// A fixture is a database with the tables of mergetest, in the lake of all
// tests, and an engine over it: Spark, or Trino in the place of Athena.
type fixture struct {
	database string
	dialect  artifact.Dialect
	pipeline *catalog.Pipeline
	store    *iceberg.Store
	engine   *engine
}

func newFixture(t testing.TB, engine string) *fixture {
	t.Helper()
	return newFixtureOf(t, engine, mergetest.Pipeline)
}

// newFixtureOf returns a fixture with the tables of a pipeline file like that of
// mergetest.
func newFixtureOf(t testing.TB, engine, text string) *fixture {
	t.Helper()
	s := sharedLake(t)
	dialect := map[string]artifact.Dialect{"spark": artifact.Spark, "trino": artifact.Athena}[engine]
	f := &fixture{database: fmt.Sprintf("d%d", s.databases.Add(1)), dialect: dialect, store: s.store, engine: s.engine(t, engine)}
	f.define(t, text)
	for _, def := range f.pipeline.Tables {
		if _, err := f.store.OpenTable(t.Context(), def); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// define makes a pipeline file that of the fixture.
func (f *fixture) define(t testing.TB, text string) {
	t.Helper()
	f.pipeline = pipeline(t, strings.Replace(text, "database: d\n", "database: "+f.database+"\n", 1))
}

// sql runs a statement in which d. stands for the fixture's database.
func (f *fixture) sql(t testing.TB, statement string) [][]*string {
	t.Helper()
	return f.engine.sql(t, f.in(statement))
}

// in puts the fixture's database in the place of d.
func (f *fixture) in(text string) string {
	return strings.NewReplacer(" d.", " "+f.database+".", "'d.", "'"+f.database+".").Replace(text)
}

// artifact returns the generated SQL of a table: current, history and so on.
func (f *fixture) artifact(t testing.TB, table, kind string) string {
	t.Helper()
	return statement(t, f.pipeline, fmt.Sprintf("%s/%s.%s.%s.sql", f.dialect, f.database, table, kind))
}

func (f *fixture) table(name string) *catalog.Table { return f.pipeline.ByTarget(f.database, name) }

func (f *fixture) append(t testing.TB, def *catalog.Table, rows ...[][]byte) {
	t.Helper()
	if err := mergetest.Append(t.Context(), f.store, def, rows...); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) merge(t testing.TB, def *catalog.Table) *merge.Result {
	t.Helper()
	return f.mergeWith(t, def, merge.Options{})
}

func (f *fixture) mergeWith(t testing.TB, def *catalog.Table, o merge.Options) *merge.Result {
	t.Helper()
	var result *merge.Result
	var err error
	if f.dialect == artifact.Athena {
		result, err = merge.Athena(t.Context(), trinoQueries{f.engine}, f.store.Tables(), def, o)
	} else {
		var spec *merge.SparkSpec
		if spec, err = merge.NewSparkSpec(def, ""); err == nil {
			result, err = f.engine.merge(spec, o.Rebuild)
		}
	}
	if err != nil {
		t.Fatalf("merge %s: %v", def.Name(), err)
	}
	return result
}

// currentColumns are the columns of a current table, the list of unresolved
// columns last if there is one.
func currentColumns(def *catalog.Table) []catalog.Column {
	columns, _ := def.Current().LakeColumns()
	at := slices.IndexFunc(columns, func(c catalog.Column) bool { return c.Name == catalog.ColumnUnresolved })
	if at >= 0 {
		columns = append(slices.Delete(slices.Clone(columns), at, at+1), columns[at])
	}
	return columns
}

// list names columns as an engine does, with times of a zone where a view of
// Athena's has none.
func (e *engine) list(columns []catalog.Column) string {
	quote := `"`
	if e.name == "spark" {
		quote = "`"
	}
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = quote + c.Name + quote
		if c.Type.Kind == catalog.TimestampTZ {
			names[i] = fmt.Sprintf("CAST(%s AS %s)", names[i], map[string]string{
				"spark": "TIMESTAMP", "trino": "timestamp(6) with time zone", "duckdb": "TIMESTAMPTZ",
			}[e.name])
		}
	}
	return strings.Join(names, ", ")
}

// rows reads current rows from a table or a view of an engine.
func rows(t testing.TB, e *engine, def *catalog.Table, from string) map[string]mergetest.Current {
	t.Helper()
	columns := currentColumns(def)
	return parseRows(t, e, def, columns, "SELECT "+e.list(columns)+" FROM "+from)
}

// parseRows reads the current rows that a query gives.
func parseRows(t testing.TB, e *engine, def *catalog.Table, columns []catalog.Column, query string) map[string]mergetest.Current {
	t.Helper()
	out := make(map[string]mergetest.Current)
	for _, row := range e.sql(t, query) {
		var c mergetest.Current
		for i, v := range row {
			if columns[i].Name != catalog.ColumnUnresolved {
				c.Values = append(c.Values, canonical(t, columns[i], v))
			} else if v != nil {
				c.Unresolved = strings.Split(*v, ",")
			}
		}
		key := mergetest.KeyOf(def, c.Values)
		if _, twice := out[key]; twice {
			t.Fatalf("%s: row %q is there twice in %s", e.name, key, query)
		}
		out[key] = c
	}
	return out
}

// canonical is the canonical text of an engine's text, "NULL" for null.
func canonical(t testing.TB, c catalog.Column, text *string) string {
	t.Helper()
	if text == nil {
		return "NULL"
	}
	c.AllowLossy = nil
	out, err := canon.Append(nil, &c, canon.Postgres, []byte(*text))
	if err != nil {
		t.Fatalf("column %s: %v", c.Name, err)
	}
	return string(out)
}

func names(def *catalog.Table) []string {
	columns, data := def.LakeColumns()
	out := make([]string, data)
	for i := range out {
		out[i] = columns[i].Name
	}
	return out
}

func fold(t testing.TB, def *catalog.Table, log [][][]byte) map[string]mergetest.Current {
	t.Helper()
	want, err := mergetest.Fold(def, log)
	if err != nil {
		t.Fatal(err)
	}
	return want
}

// tenants is how many seeds share the commits and the merges of one table: each
// has its own keys and its own order of delivery, so that every merge cuts every
// seed elsewhere.
const tenants = 30

// deliver returns the rows of some seeds: every seed's in its own order, mixed.
func deliver(first, count int) [][][]byte {
	return deliverWith(first, count, func(log []mergetest.Row) []mergetest.Row { return log })
}

// deliverCopies is deliver with rows of the same position that differ, of every
// other seed: they leave little to be inherited by a key change.
func deliverCopies(first, count int) [][][]byte {
	return deliverWith(first, count, func(log []mergetest.Row) []mergetest.Row {
		if log[0].Tenant%2 == 0 {
			return log
		}
		return mergetest.Copies(uint64(log[0].Tenant), log)
	})
}

func deliverWith(first, count int, more func([]mergetest.Row) []mergetest.Row) [][][]byte {
	var logs [][][][]byte
	for seed := range count {
		var log [][][]byte
		for _, row := range more(mergetest.Log(uint64(first+seed), first+seed)) {
			log = append(log, row.Lake())
		}
		logs = append(logs, log)
	}
	r := rand.New(rand.NewPCG(uint64(first), 3))
	left := 0
	for _, log := range logs {
		left += len(log)
	}
	var out [][][]byte
	for ; left > 0; left-- {
		// A row of all that are left, so that each seed's lie all over.
		i, n := 0, r.IntN(left)
		for ; n >= len(logs[i]); i++ {
			n -= len(logs[i])
		}
		out, logs[i] = append(out, logs[i][0]), logs[i][1:]
	}
	return out
}

// After every merge the current table, the view and our own fold hold the same
// rows, whatever the order of delivery and between which runs.
func TestSparkChaos(t *testing.T) { chaos(t, newFixture(t, "spark")) }
func TestTrinoChaos(t *testing.T) { chaos(t, newFixture(t, "trino")) }

func chaos(t *testing.T, f *fixture) {
	t.Helper()
	def := f.table("keyed")
	f.engine.sql(t, f.artifact(t, "keyed", "current"))
	var log [][][]byte
	var total merge.Result
	merges, unresolved := 0, 0
	for first := 0; first < *seeds; first += tenants {
		batch := deliverCopies(first, min(tenants, *seeds-first))
		r := rand.New(rand.NewPCG(uint64(first), 11))
		cuts := make(map[string]int) // of a seed's rows by merges
		for from := 0; from < len(batch); {
			sinceMerge, cut := 0, make(map[string]bool)
			for range 1 + r.IntN(3) { // commits between two merges
				to := min(len(batch), from+1+r.IntN(1+len(batch)/12))
				if to > from {
					f.append(t, def, batch[from:to]...)
				}
				for _, row := range batch[from:to] {
					cut[string(row[0])] = true
				}
				sinceMerge += to - from
				log, from = append(log, batch[from:to]...), to
			}
			result := f.merge(t, def)
			merges++
			for tenant := range cut {
				cuts[tenant]++
			}
			if result.Read != int64(sinceMerge) {
				t.Errorf("merge %d read %d rows, want %d: only what is new", merges, result.Read, sinceMerge)
			}
			total.Read, total.Changed, total.Deleted, total.Late = total.Read+result.Read, total.Changed+result.Changed, total.Deleted+result.Deleted, total.Late+result.Late
			unresolved = f.compare(t, def, fold(t, def, log), fmt.Sprintf("seeds from %d, merge %d", first, merges))
		}
		for tenant, n := range cuts {
			if n < 3 {
				t.Errorf("seed %s: %d merges of its rows, want 3 at least", tenant, n)
			}
		}
	}
	if total.Late == 0 || total.Deleted == 0 {
		t.Errorf("no row was late, or none deleted: %+v", total)
	}
	t.Logf("%d seeds, %d merges of %d rows (%d late): %d changed, %d deleted; %d values lie more key changes back than the SQL follows",
		*seeds, merges, total.Read, total.Late, total.Changed, total.Deleted, unresolved)
	if again := f.merge(t, def); again.Read+again.Changed+again.Deleted != 0 {
		t.Errorf("a merge without anything new did %+v", again)
	}
}

// compare wants the current table and the view to hold rows. It returns how
// many values the SQL says that it does not know, and the fold does.
func (f *fixture) compare(t *testing.T, def *catalog.Table, want map[string]mergetest.Current, when string) (unresolved int) {
	t.Helper()
	merged, viewed := rows(t, f.engine, def, f.database+"."+def.Name()+"_folded"), rows(t, f.engine, def, f.database+"."+def.Name()+"_current")
	if diff := mergetest.Diff(want, merged, false, names(def)); diff != "" {
		t.Fatalf("%s: the current table is not the fold:\n%s", when, diff)
	}
	if diff := cmp.Diff(viewed, merged); diff != "" {
		t.Fatalf("%s: the current table is not the view (-view +table):\n%s", when, diff)
	}
	for key, row := range merged {
		unresolved += len(row.Unresolved) - len(want[key].Unresolved)
	}
	return unresolved
}

// A column that was added, with a default for older rows, is in every row after
// the next merge, also in those of keys that nothing touches.
func TestSparkColumnsChange(t *testing.T) {
	for _, rebuild := range []bool{false, true} {
		columnsChange(t, newFixtureOf(t, "spark", mergetest.Before()), merge.Options{Rebuild: rebuild})
	}
}

func TestTrinoColumnsChange(t *testing.T) {
	columnsChange(t, newFixtureOf(t, "trino", mergetest.Before()), merge.Options{})
}

func columnsChange(t *testing.T, f *fixture, o merge.Options) {
	t.Helper()
	log := deliver(300, 4)
	half := len(log) / 2
	var before [][][]byte
	for i, row := range log[:half] {
		before, log[i] = append(before, mergetest.RowBefore(row)), mergetest.NullGrade(row)
	}
	f.append(t, f.table("keyed"), before...)
	f.merge(t, f.table("keyed"))
	f.define(t, mergetest.Pipeline)
	def := f.table("keyed")
	f.append(t, def, log[half:]...)
	f.engine.sql(t, f.artifact(t, "keyed", "current"))
	if result := f.mergeWith(t, def, o); result.From != 0 {
		t.Errorf("%+v, want every key folded anew", result)
	}
	f.compare(t, def, fold(t, def, log), "after a column was added")
	if result := f.merge(t, def); result.From == 0 {
		t.Errorf("%+v, want nothing done again", result)
	}
}

func TestSparkWithoutKey(t *testing.T) { withoutKey(t, newFixture(t, "spark")) }
func TestTrinoWithoutKey(t *testing.T) { withoutKey(t, newFixture(t, "trino")) }

func withoutKey(t *testing.T, f *fixture) {
	t.Helper()
	def := f.table("unkeyed")
	f.engine.sql(t, f.artifact(t, "unkeyed", "current"))
	log := mergetest.UnkeyedLog(4)
	for n := range 4 {
		to := len(log) * (n + 1) / 4
		f.append(t, def, log[len(log)*n/4:to]...)
		f.merge(t, def)
		f.compare(t, def, fold(t, def, log[:to]), fmt.Sprint("after ", to, " rows"))
	}
	again := mergetest.UnkeyedAgain(log)
	f.append(t, def, again...)
	for _, rebuild := range []bool{false, true} {
		f.mergeWith(t, def, merge.Options{Rebuild: rebuild})
		f.compare(t, def, fold(t, def, append(log, again...)), fmt.Sprint("rows of the same positions, rebuild ", rebuild))
	}
}

// The engines share their notes: one goes on where another has stopped.
func TestSparkAndLocalTakeTurns(t *testing.T) {
	f := newFixture(t, "spark")
	def := f.table("keyed")
	log := deliver(900, 10)
	for n := range 4 {
		to := len(log) * (n + 1) / 4
		f.append(t, def, log[len(log)*n/4:to]...)
		if n%2 == 0 {
			f.merge(t, def)
		} else {
			result, err := merge.Local(t.Context(), f.store, def, merge.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if want := int64(to - len(log)*n/4); result.Read != want {
				t.Errorf("local merge read %d rows, want %d", result.Read, want)
			}
		}
		if diff := mergetest.Diff(fold(t, def, log[:to]), rows(t, f.engine, def, f.database+".keyed_folded"), false, names(def)); diff != "" {
			t.Fatalf("round %d:\n%s", n, diff)
		}
	}
}
