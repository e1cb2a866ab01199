//go:build interop

package interop_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

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
	// What sqlglot leaves as it is, and DuckDB does not have.
	x.native(t, "CREATE MACRO conv(digits, base, other) AS CAST('0x' || digits AS BIGINT)")
	x.native(t, "CREATE MACRO from_base(digits, base) AS CAST('0x' || digits AS BIGINT)")
	x.native(t, "CREATE MACRO timestamp_micros(micros) AS CAST(make_timestamp(micros) AS TIMESTAMPTZ)")
	x.native(t, "CREATE MACRO from_unixtime_nanos(nanos) AS CAST(make_timestamp(nanos // 1000) AS TIMESTAMPTZ)")
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
		batch := deliverCopies(5000, count)
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

// Positions that fall while commit times rise are counted by the SQL.
func TestTranslatedRegress(t *testing.T) {
	dialects(t, func(t *testing.T, x *translated) {
		def := x.pipeline.ByTarget("d", "plain")
		m, err := artifact.NewMerge(x.dialect, def)
		if err != nil {
			t.Fatal(err)
		}
		at := func(n, minute int) mergetest.PlainRow {
			return mergetest.PlainRow{
				Position: cdc.ChangePosition(0, cdc.Body{Hi: uint64(n), Lo: 1}, 1), ID: 1, Operation: cdc.Update,
				Committed: mergetest.Start().Add(time.Duration(minute) * time.Minute),
			}
		}
		load, err := cdc.LoadPosition(0, cdc.Body{Hi: 9}, mergetest.Start(), cdc.Origin{Sequence: "7"})
		if err != nil {
			t.Fatal(err)
		}
		loaded := mergetest.PlainRow{Position: load, ID: 1, Operation: cdc.Load, Committed: mergetest.Start().AddDate(1, 0, 0)}
		var batch [][][]byte
		for _, row := range []mergetest.PlainRow{at(3, 20), at(4, 31), at(5, 36), at(6, 40), at(2, 50), loaded} {
			batch = append(batch, row.Lake())
		}
		unknown := at(8, 0)
		noTime := unknown.Lake()
		noTime[3] = nil
		x.append(t, def, append(batch, noTime))
		newest := at(5, 20)
		r := artifact.MergeRange{Added: "d.plain_added", Change: string(newest.Position), Time: newest.Committed.Unix()}
		reply, err := x.engine.call(map[string]any{"sql": r.Fill(m.Read), "dialect": x.dialect})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range reply.Rows[0][5:] {
			got = append(got, *v)
		}
		high, latest := at(6, 40), at(2, 50)
		want := []string{string(high.Position), fmt.Sprint(high.Committed.Unix()), fmt.Sprint(latest.Committed.Unix()), "2"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
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

// Rows list a column that was renamed since by the name of their day.
func TestTranslatedRenamed(t *testing.T) {
	dialects(t, func(t *testing.T, x *translated) {
		x.pipeline = pipeline(t, strings.NewReplacer("name: b,", "name: b3, renamed_from: b2, former_names: [b],", "name: c,", "name: c2, renamed_from: c,").Replace(mergetest.Pipeline))
		def := x.pipeline.ByTarget("d", "keyed")
		for _, name := range []string{"d.keyed", "d.keyed_added"} {
			x.native(t, "ALTER TABLE "+name+" RENAME COLUMN b TO b3")
			x.native(t, "ALTER TABLE "+name+" RENAME COLUMN c TO c2")
		}
		x.view(t, def, "current")
		x.view(t, def, "history")
		x.native(t, "CREATE TABLE d.keyed_folded AS SELECT * FROM d.keyed_current LIMIT 0")
		for seed := range uint64(20) {
			x.native(t, "DELETE FROM d.keyed")
			x.native(t, "DELETE FROM d.keyed_folded")
			var log [][][]byte
			for i, row := range mergetest.Log(seed, 1) {
				lake := row.Lake()
				if absent := lake[len(lake)-1]; absent != nil && i%2 == 0 {
					lake[len(lake)-1] = []byte(strings.NewReplacer("b", "b2", "c", "c2").Replace(string(absent)))
				}
				log = append(log, lake)
			}
			x.append(t, def, log)
			x.merge(t, def)
			want := fold(t, def, log)
			for _, from := range []string{"d.keyed_folded", "d.keyed_current"} {
				if diff := mergetest.Diff(want, rows(t, x.engine, def, from), false, names(def)); diff != "" {
					t.Fatalf("seed %d, %s:\n%s", seed, from, diff)
				}
			}
		}
	})
}

// Where changes may share a position, each of them is a change of its own, of which the
// later committed one wins, as a whole row: in the fold of the sink and in SQL.
func TestTranslatedSharedPositions(t *testing.T) {
	dialects(t, func(t *testing.T, x *translated) {
		x.pipeline = pipeline(t, strings.Replace(mergetest.Pipeline, "  - source: s.keyed\n", "  - source: s.keyed\n    position: column:serial\n", 1))
		def := x.pipeline.ByTarget("d", "keyed")
		x.view(t, def, "current")
		x.view(t, def, "history")
		x.native(t, "CREATE TABLE d.keyed_folded AS SELECT * FROM d.keyed_current LIMIT 0")
		columns := currentColumns(def)
		lasting := "SELECT " + x.engine.list(columns) + " FROM d.keyed_history AS h WHERE h.cdc_valid_to_position IS NULL"
		lasting = strings.Replace(lasting, `"cdc_committed_at"`, `(SELECT max(k.cdc_committed_at) FROM d.keyed_current AS k WHERE k.id = h.id AND k.tenant = h.tenant)`, 1)
		for seed := range uint64(8) {
			x.native(t, "DELETE FROM d.keyed")
			x.native(t, "DELETE FROM d.keyed_folded")
			var log [][][]byte
			for _, row := range mergetest.Copies(seed, mergetest.Log(seed, 1)) {
				log = append(log, row.Lake())
			}
			for n := range 3 {
				to := len(log) * (n + 1) / 3
				x.append(t, def, log[len(log)*n/3:to])
				x.merge(t, def)
				want := fold(t, def, log[:to])
				for _, from := range []string{"d.keyed_folded", "d.keyed_current"} {
					if diff := mergetest.Diff(want, rows(t, x.engine, def, from), false, names(def)); diff != "" {
						t.Fatalf("seed %d, %s after %d rows:\n%s", seed, from, to, diff)
					}
				}
				// Of two key changes at one position the history takes what either carries.
				history := parseRows(t, x.engine, def, columns, lasting)
				for key, w := range want {
					if len(w.Unresolved) > 0 {
						delete(want, key)
						delete(history, key)
					}
				}
				if diff := mergetest.Diff(want, history, false, names(def)); diff != "" {
					t.Fatalf("seed %d, history after %d rows:\n%s", seed, to, diff)
				}
			}
		}
	})
}
