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
// tests, and Spark over it.
type fixture struct {
	database string
	pipeline *catalog.Pipeline
	store    *iceberg.Store
	engine   *engine
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	s := sharedLake(t)
	f := &fixture{database: fmt.Sprintf("d%d", s.databases.Add(1)), store: s.store, engine: s.spark(t)}
	f.pipeline = pipeline(t, strings.Replace(mergetest.Pipeline, "database: d\n", "database: "+f.database+"\n", 1))
	for _, def := range f.pipeline.Tables {
		if _, err := f.store.OpenTable(t.Context(), def); err != nil {
			t.Fatal(err)
		}
	}
	return f
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

func (f *fixture) table(name string) *catalog.Table { return f.pipeline.ByTarget(f.database, name) }

func (f *fixture) append(t testing.TB, def *catalog.Table, rows ...[][]byte) {
	t.Helper()
	if err := mergetest.Append(t.Context(), f.store, def, rows...); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) merge(t testing.TB, def *catalog.Table) *merge.Result {
	t.Helper()
	spec, err := merge.NewSparkSpec(def, "")
	if err != nil {
		t.Fatal(err)
	}
	result, err := f.engine.merge(spec, false)
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

// rows reads current rows from a table or a view of an engine.
func rows(t testing.TB, e *engine, def *catalog.Table, from string) map[string]mergetest.Current {
	t.Helper()
	columns := currentColumns(def)
	quote := map[string]string{"spark": "`"}[e.name]
	if quote == "" {
		quote = `"`
	}
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = quote + c.Name + quote
	}
	return parseRows(t, e, def, columns, "SELECT "+strings.Join(names, ", ")+" FROM "+from)
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

// tenants is how many seeds share the commits of one table: each has its own
// keys and its own order of delivery.
const tenants = 20

// deliver returns the rows of some seeds: every seed's in its own order, mixed.
func deliver(first, count int) [][][]byte {
	var logs [][][][]byte
	for seed := range count {
		var log [][][]byte
		for _, row := range mergetest.Log(uint64(first+seed), first+seed) {
			log = append(log, row.Lake())
		}
		logs = append(logs, log)
	}
	r := rand.New(rand.NewPCG(uint64(first), 3))
	var out [][][]byte
	for len(logs) > 0 {
		i := r.IntN(len(logs))
		out, logs[i] = append(out, logs[i][0]), logs[i][1:]
		if len(logs[i]) == 0 {
			logs = slices.Delete(logs, i, i+1)
		}
	}
	return out
}

// After every merge on Spark the current table, the view and our own fold hold
// the same rows, whatever the order of delivery and between which runs.
func TestSparkChaos(t *testing.T) {
	f := newFixture(t)
	def := f.table("keyed")
	f.engine.sql(t, statement(t, f.pipeline, "spark/"+f.database+".keyed.current.sql"))
	var log [][][]byte
	var total merge.Result
	merges, unresolved := 0, 0
	for first := 0; first < *seeds; first += tenants {
		batch := deliver(first, min(tenants, *seeds-first))
		r := rand.New(rand.NewPCG(uint64(first), 11))
		for from := 0; from < len(batch); {
			sinceMerge := 0
			for range 1 + r.IntN(4) { // commits between two merges
				to := min(len(batch), from+1+r.IntN(1+len(batch)/8))
				if to > from {
					f.append(t, def, batch[from:to]...)
				}
				sinceMerge += to - from
				log, from = append(log, batch[from:to]...), to
			}
			result := f.merge(t, def)
			merges++
			if result.Read != int64(sinceMerge) {
				t.Errorf("merge %d read %d rows, want %d: only what is new", merges, result.Read, sinceMerge)
			}
			total.Read, total.Changed, total.Deleted, total.Late = total.Read+result.Read, total.Changed+result.Changed, total.Deleted+result.Deleted, total.Late+result.Late
			want := fold(t, def, log)
			merged, viewed := rows(t, f.engine, def, f.database+".keyed_folded"), rows(t, f.engine, def, f.database+".keyed_current")
			if diff := mergetest.Diff(want, merged, false, names(def)); diff != "" {
				t.Fatalf("seeds from %d, merge %d: the current table is not the fold:\n%s", first, merges, diff)
			}
			if diff := cmp.Diff(viewed, merged); diff != "" {
				t.Fatalf("seeds from %d, merge %d: the current table is not the view (-view +table):\n%s", first, merges, diff)
			}
			unresolved = 0
			for key, row := range merged {
				unresolved += len(row.Unresolved) - len(want[key].Unresolved)
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

func plainRows(t testing.TB, e *engine, from string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, row := range e.sql(t, "SELECT CAST(id AS "+map[string]string{"spark": "STRING", "trino": "VARCHAR"}[e.name]+"), v FROM "+from) {
		out[*row[0]] = *row[1]
	}
	return out
}

// shifted moves a trap to keys and positions of its own, so that all share a table.
func shifted(trap int, row *mergetest.PlainRow) [][]byte {
	moved := *row
	moved.ID += 100 * trap
	if moved.OldID != 0 {
		moved.OldID += 100 * trap
	}
	return moved.Lake()
}

func wantOf(trap int, want map[string]string) map[string]string {
	out := make(map[string]string)
	for id, v := range want {
		var n int
		_, _ = fmt.Sscan(id, &n)
		out[fmt.Sprint(n+100*trap)] = v
	}
	return out
}

func TestSparkTraps(t *testing.T) {
	f := newFixture(t)
	def := f.table("plain")
	f.engine.sql(t, statement(t, f.pipeline, "spark/"+f.database+".plain.current.sql"))
	traps := mergetest.Traps()
	for n := range 4 { // the n-th step of every trap, in one window
		var batch [][][]byte
		for i := range traps {
			if n < len(traps[i].Steps) {
				for r := range traps[i].Steps[n].Rows {
					batch = append(batch, shifted(i+1, &traps[i].Steps[n].Rows[r]))
				}
			}
		}
		if len(batch) == 0 {
			break
		}
		f.append(t, def, batch...)
		f.merge(t, def)
		merged, viewed := plainRows(t, f.engine, f.database+".plain_folded"), plainRows(t, f.engine, f.database+".plain_current")
		for i, trap := range traps {
			t.Run(fmt.Sprintf("step %d %s", n+1, trap.Name), func(t *testing.T) {
				want := wantOf(i+1, trap.Steps[min(n, len(trap.Steps)-1)].Want)
				for name, all := range map[string]map[string]string{"table": merged, "view": viewed} {
					got := make(map[string]string)
					for id, v := range all {
						if len(id) > 2 && id[:len(id)-2] == fmt.Sprint(i+1) {
							got[id] = v
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s (-want +got):\n%s", name, diff)
					}
				}
			})
		}
	}
}

func TestSparkWithoutKey(t *testing.T) {
	f := newFixture(t)
	def := f.table("unkeyed")
	f.engine.sql(t, statement(t, f.pipeline, "spark/"+f.database+".unkeyed.current.sql"))
	log := mergetest.UnkeyedLog(4)
	for n := range 4 {
		to := len(log) * (n + 1) / 4
		f.append(t, def, log[len(log)*n/4:to]...)
		f.merge(t, def)
		want := fold(t, def, log[:to])
		for _, from := range []string{f.database + ".unkeyed_folded", f.database + ".unkeyed_current"} {
			if diff := mergetest.Diff(want, rows(t, f.engine, def, from), true, names(def)); diff != "" {
				t.Fatalf("%s after %d rows:\n%s", from, to, diff)
			}
		}
	}
}

// The engines share their notes: one goes on where another has stopped.
func TestSparkAndLocalTakeTurns(t *testing.T) {
	f := newFixture(t)
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
