//go:build interop

package interop_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/artifact"
	"icehose/cdc"
	"icehose/sink/merge/mergetest"
)

// A translated runs generated SQL of a dialect in DuckDB, after translation by
// sqlglot. It is quick, so it sees many seeds; that the statements run on their
// own engines, others tests show.
type translated struct {
	engine   *engine
	dialect  artifact.Dialect
	pipeline *catalog.Pipeline
}

func newTranslated(t *testing.T, dialect artifact.Dialect) *translated {
	t.Helper()
	e, err := start(t.Context(), "duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.stop)
	x := &translated{engine: e, dialect: dialect, pipeline: pipeline(t, mergetest.Pipeline)}
	x.native(t, "CREATE SCHEMA d")
	for _, def := range x.pipeline.Tables {
		columns, _ := def.LakeColumns()
		x.create(t, "d."+def.Name(), columns)
		x.create(t, "d."+def.Name()+"_added", columns)
	}
	return x
}

func (x *translated) native(t *testing.T, statement string) [][]*string {
	t.Helper()
	return x.engine.sql(t, statement)
}

func (x *translated) run(t *testing.T, statement string) {
	t.Helper()
	if _, err := x.engine.call(map[string]any{"sql": statement, "dialect": x.dialect}); err != nil {
		t.Fatalf("%s: %v\nin %s", x.dialect, err, statement)
	}
}

func (x *translated) create(t *testing.T, name string, columns []catalog.Column) {
	t.Helper()
	kinds := map[catalog.TypeKind]string{catalog.Int: "INTEGER", catalog.String: "VARCHAR", catalog.TimestampTZ: "TIMESTAMPTZ"}
	parts := make([]string, len(columns))
	for i, c := range columns {
		kind := kinds[c.Type.Kind]
		if c.Type.Kind == catalog.Decimal {
			kind = fmt.Sprintf("DECIMAL(%d,%d)", c.Type.Precision, c.Type.Scale)
		}
		parts[i] = c.Name + " " + kind
	}
	x.native(t, "CREATE TABLE "+name+" ("+strings.Join(parts, ", ")+")")
}

// append adds rows to a changelog and makes them its new rows.
func (x *translated) append(t *testing.T, def *catalog.Table, rows [][][]byte) {
	t.Helper()
	x.native(t, "DELETE FROM d."+def.Name()+"_added")
	if len(rows) == 0 {
		return
	}
	values := make([]string, len(rows))
	for i, row := range rows {
		texts := make([]string, len(row))
		for j, v := range row {
			texts[j] = "NULL"
			if v != nil {
				texts[j] = "'" + strings.ReplaceAll(string(v), "'", "''") + "'"
			}
		}
		values[i] = "(" + strings.Join(texts, ", ") + ")"
	}
	for _, name := range []string{def.Name(), def.Name() + "_added"} {
		x.native(t, "INSERT INTO d."+name+" VALUES "+strings.Join(values, ", "))
	}
}

// view creates the view that an artifact defines.
func (x *translated) view(t *testing.T, def *catalog.Table, kind string) {
	t.Helper()
	x.run(t, statement(t, x.pipeline, string(x.dialect)+"/d."+def.Name()+"."+kind+".sql"))
}

// merge runs the merge of what append has added last.
func (x *translated) merge(t *testing.T, def *catalog.Table) {
	t.Helper()
	m, err := artifact.NewMerge(x.dialect, def)
	if err != nil {
		t.Fatal(err)
	}
	r := artifact.MergeRange{Added: "d." + def.Name() + "_added", Log: "d." + def.Name(), Fence: "true"}
	r.Changes = "(" + r.Fill(m.Changes) + ")"
	x.run(t, r.Fill(m.Apply))
}

func dialects(t *testing.T, test func(t *testing.T, x *translated)) {
	t.Helper()
	for _, d := range []artifact.Dialect{artifact.Athena, artifact.Spark} {
		t.Run(string(d), func(t *testing.T) { test(t, newTranslated(t, d)) })
	}
}

// After every merge the current table and the view hold what the sink's fold gives.
func TestTranslatedChaos(t *testing.T) {
	dialects(t, func(t *testing.T, x *translated) {
		def := x.pipeline.ByTarget("d", "keyed")
		x.view(t, def, "current")
		x.native(t, "CREATE TABLE d.keyed_folded AS SELECT * FROM d.keyed_current LIMIT 0")
		const count = 200
		batch := deliver(5000, count)
		r := rand.New(rand.NewPCG(5, 5))
		merges, from := 0, 0
		for from < len(batch) {
			to := min(len(batch), from+1+r.IntN(len(batch)/6))
			x.append(t, def, batch[from:to])
			x.merge(t, def)
			merges, from = merges+1, to
			want := fold(t, def, batch[:to])
			merged, viewed := rows(t, x.engine, def, "d.keyed_folded"), rows(t, x.engine, def, "d.keyed_current")
			if diff := mergetest.Diff(want, merged, false, names(def)); diff != "" {
				t.Fatalf("merge %d: the current table is not the fold:\n%s", merges, diff)
			}
			if diff := cmp.Diff(viewed, merged); diff != "" {
				t.Fatalf("merge %d (-view +table):\n%s", merges, diff)
			}
		}
		far := 0
		for key, row := range rows(t, x.engine, def, "d.keyed_current") {
			far += len(row.Unresolved) - len(fold(t, def, batch)[key].Unresolved)
		}
		t.Logf("%d seeds, %d merges, %d rows; %d values lie more key changes back than the SQL follows", count, merges, len(batch), far)
		if far > len(batch)/100 {
			t.Errorf("the SQL does not resolve %d values", far)
		}
	})
}

func TestTranslatedTraps(t *testing.T) {
	dialects(t, func(t *testing.T, x *translated) {
		def := x.pipeline.ByTarget("d", "plain")
		x.view(t, def, "current")
		x.native(t, "CREATE TABLE d.plain_folded AS SELECT * FROM d.plain_current LIMIT 0")
		for _, trap := range mergetest.Traps() {
			t.Run(trap.Name, func(t *testing.T) {
				x.native(t, "DELETE FROM d.plain")
				x.native(t, "DELETE FROM d.plain_folded")
				for n, step := range trap.Steps {
					var batch [][][]byte
					for i := range step.Rows {
						batch = append(batch, step.Rows[i].Lake())
					}
					x.append(t, def, batch)
					x.merge(t, def)
					for _, from := range []string{"d.plain_folded", "d.plain_current"} {
						got := make(map[string]string)
						for _, row := range rows(t, x.engine, def, from) {
							got[row.Values[0]] = row.Values[1]
						}
						if diff := cmp.Diff(step.Want, got); diff != "" {
							t.Fatalf("step %d, %s (-want +got):\n%s", n+1, from, diff)
						}
					}
				}
			})
		}
	})
}

// What the SQL takes for the position of another kind is what cdc does.
func TestTranslatedKinds(t *testing.T) {
	dialects(t, func(t *testing.T, x *translated) {
		arrival, err := cdc.ArrivalPosition(0, mergetest.Start(), cdc.Origin{Sequence: "7"})
		if err != nil {
			t.Fatal(err)
		}
		load, err := cdc.LoadPosition(0, cdc.Body{Lo: 9}, mergetest.Start(), cdc.Origin{Sequence: "7"})
		if err != nil {
			t.Fatal(err)
		}
		positions := []cdc.Position{
			arrival, load, cdc.ChangePosition(0, cdc.Body{Lo: 9}, 1), cdc.ChangePosition(0, cdc.Body{Hi: 1 << 15, Lo: 9}, 1), cdc.ChangePosition(2, cdc.Body{Hi: 1 << 16}, 1),
		}
		for _, kind := range []string{"none", "postgres", "mysql", "sqlserver", "oracle", "column:n"} {
			def := pipeline(t, strings.Replace(mergetest.Pipeline, "position: postgres", "position: '"+kind+"'", 1)).ByTarget("d", "plain")
			m, err := artifact.NewMerge(x.dialect, def)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range positions {
				row := mergetest.PlainRow{Position: p, ID: 1, Operation: cdc.Update, Committed: mergetest.Start()}
				x.append(t, def, [][][]byte{row.Lake()})
				r := artifact.MergeRange{Added: "d.plain_added"}
				reply, err := x.engine.call(map[string]any{"sql": r.Fill(m.Read), "dialect": x.dialect})
				if err != nil {
					t.Fatal(err)
				}
				if strange := reply.Rows[0][4] != nil; strange == def.Position.Fits(p) {
					t.Errorf("%s: %s is strange to %s: %t in SQL, %t in cdc", x.dialect, p, kind, strange, !def.Position.Fits(p))
				}
			}
		}
	})
}

func TestTranslatedWithoutKey(t *testing.T) {
	dialects(t, func(t *testing.T, x *translated) {
		def := x.pipeline.ByTarget("d", "unkeyed")
		x.view(t, def, "current")
		x.native(t, "CREATE TABLE d.unkeyed_folded AS SELECT * FROM d.unkeyed_current LIMIT 0")
		for seed := range uint64(20) {
			x.native(t, "DELETE FROM d.unkeyed")
			x.native(t, "DELETE FROM d.unkeyed_folded")
			log := mergetest.UnkeyedLog(seed)
			log = append(log, mergetest.UnkeyedAgain(log)...)
			for n := range 4 {
				to := len(log) * (n + 1) / 4
				x.append(t, def, log[len(log)*n/4:to])
				x.merge(t, def)
				for _, from := range []string{"d.unkeyed_folded", "d.unkeyed_current"} {
					if diff := mergetest.Diff(fold(t, def, log[:to]), rows(t, x.engine, def, from), true, names(def)); diff != "" {
						t.Fatalf("seed %d, %s after %d rows:\n%s", seed, from, to, diff)
					}
				}
			}
		}
	})
}

// Retention removes rows, and none that a fold needs, whenever it cuts and
// however often it runs.
func TestTranslatedRetention(t *testing.T) {
	dialects(t, func(t *testing.T, x *translated) {
		for _, table := range []string{"keyed", "unkeyed"} {
			def := x.pipeline.ByTarget("d", table)
			x.view(t, def, "current")
			log := deliver(7000, 100)
			if table == "unkeyed" {
				log = mergetest.UnkeyedLog(9)
			}
			x.append(t, def, log)
			want := rows(t, x.engine, def, "d."+table+"_current")
			before := len(log)
			for day := 5; day <= 45; day += 5 {
				cut := mergetest.Start().AddDate(0, 0, day).Format("2006-01-02 15:04:05")
				literal := "TIMESTAMP '" + cut + " UTC'"
				for n, s := range artifact.Retention(x.dialect, def, literal) {
					x.run(t, s)
					if diff := cmp.Diff(want, rows(t, x.engine, def, "d."+table+"_current")); diff != "" {
						t.Fatalf("%s: cut at day %d, after statement %d (-before +after):\n%s", table, day, n+1, diff)
					}
				}
				young := x.native(t, "SELECT count(*) FROM d."+table+" WHERE cdc_committed_at >= '"+cut+"+00'")
				all := 0
				for _, row := range log {
					if string(row[len(row)-4]) >= strings.Replace(cut, " ", "T", 1) {
						all++
					}
				}
				if got := *young[0][0]; got != fmt.Sprint(all) {
					t.Errorf("%s: cut at day %d: %s younger rows are left, want all %d", table, day, got, all)
				}
			}
			left := *x.native(t, "SELECT count(*) FROM d."+table)[0][0]
			t.Logf("%s: %s of %d rows left", table, left, before)
			if left == fmt.Sprint(before) {
				t.Errorf("%s: retention removed nothing", table)
			}
		}
	})
}

func TestTranslatedHistory(t *testing.T) {
	dialects(t, func(t *testing.T, x *translated) {
		def := x.pipeline.ByTarget("d", "keyed")
		x.view(t, def, "history")
		log := deliver(8000, 40)
		x.append(t, def, log)
		checkHistory(t, x.engine, x.dialect, def, log, 0, 1, len(log)/2, len(log)-1)
	})
}

func TestTranslatedErasure(t *testing.T) {
	dialects(t, func(t *testing.T, x *translated) {
		def := x.pipeline.ByTarget("d", "keyed")
		x.view(t, def, "current")
		x.append(t, def, deliver(100, 4))
		x.native(t, "CREATE TABLE d.keyed_folded AS SELECT * FROM d.keyed_current")
		text := strings.NewReplacer("${id}", "'w'", "${tenant}", "101").Replace(statement(t, x.pipeline, string(x.dialect)+"/d.keyed.erase.sql"))
		deletes := 0
		for s := range strings.SplitSeq(text, ";\n") {
			if i := strings.Index(s, "DELETE FROM"); i >= 0 {
				x.run(t, s[i:])
				deletes++
			}
		}
		if deletes != 2 {
			t.Fatalf("%d statements delete, want 2", deletes)
		}
		for _, from := range []string{"d.keyed", "d.keyed_folded"} {
			if n := *x.native(t, "SELECT count(*) FROM "+from+" WHERE id = 'w' AND tenant = 101")[0][0]; n != "0" {
				t.Errorf("%s still has %s rows of the person", from, n)
			}
			if n := *x.native(t, "SELECT count(*) FROM "+from+" WHERE id = 'w'")[0][0]; n == "0" {
				t.Errorf("%s has lost the rows of others", from)
			}
		}
		if n := *x.native(t, "SELECT count(*) FROM d.keyed WHERE cdc_old_key = '[\"w\",\"101\"]'")[0][0]; n != "0" {
			t.Errorf("%s rows still tell the old key", n)
		}
	})
}
