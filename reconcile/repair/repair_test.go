package repair_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/catalog/artifact"
	"icehose/cdc"
	"icehose/reconcile"
	"icehose/reconcile/dump"
	"icehose/reconcile/lake"
	"icehose/reconcile/repair"
	"icehose/sink"
	"icehose/sink/iceberg"
)

const pipelineText = `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- source: s.m
  mode: mirror
  key: [id, part]
  columns:
  - {name: part, type: string}
  - {name: id, type: long}
  - {name: f, type: float}
  - {name: d, type: double}
  - {name: n, type: "decimal(12,2)", allow_lossy: [round]}
  - {name: b, type: boolean}
  - {name: day, type: date}
  - {name: at, type: timestamp}
  - {name: atz, type: timestamptz}
  - {name: raw, type: binary}
  - {name: secret, type: string, mask: sha256}
  - {name: hidden, type: string, mask: "null"}
- {source: s.c, mode: changelog, key: [id], columns: [{name: id, type: long}, {name: v, type: string}]}
- {source: s.heap, mode: changelog, columns: [{name: v, type: string}]}
`

// A world is a source and a lake that is to equal it.
type world struct {
	t      *testing.T
	p      *catalog.Pipeline
	store  *iceberg.Store
	dir    string            // of the source
	m      map[string]string // rows of s.m by key, as CSV
	c      map[string]string // rows of s.c
	heap   []string
	lsn    uint64 // the place of the source's log
	next   uint64 // of the deliveries
	opened func()
	noLow  bool
	copied bool // the source follows another server, and has a log of its own
}

func newWorld(t *testing.T) *world {
	t.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte(pipelineText))
	if err != nil {
		t.Fatal(err)
	}
	store, err := iceberg.Open(t.Context(), t.TempDir(), iceberg.Options{Sync: func(*os.File) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{t: t, p: p, store: store, dir: t.TempDir(), m: map[string]string{}, c: map[string]string{}, lsn: 1000}
}

// row is a row of s.m in the source's words, a function of key and version.
func row(id int, version int) string {
	floats := []string{"1.5", "-0", "NaN", "Infinity", "-Infinity", "0.1", ""}
	wide := []string{"0.1", "1e-300", "NaN", "-Infinity", "-0", "12345678901234567", ""}
	pick := func(from []string) string { return from[(id+version)%len(from)] }
	return fmt.Sprintf(`"p,%d",%d,%s,%s,%d.%03d,%s,%s,2026-01-02 03:04:05.%06d,2026-01-02 03:04:05.%06d+00,\x%02x,secret %d,hidden`,
		id%2, id, pick(floats), pick(wide), version, id, pick([]string{"t", "f", ""}), pick([]string{"2026-02-03", "0044-03-15", ""}), version, version, (id+version)%256, version)
}

func note(id, version int) string { return fmt.Sprintf("%d,\"note \"\"%d\"\"\"", id, version) }

// write writes the source's files.
func (w *world) write() {
	w.t.Helper()
	file := func(name, header string, rows []string) {
		if err := os.WriteFile(filepath.Join(w.dir, name+".csv"), []byte(header+"\n"+strings.Join(append(rows, ""), "\n")), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	sorted := func(rows map[string]string) []string { return slices.Sorted(maps.Values(rows)) }
	file("s.m", "part,id,f,d,n,b,day,at,atz,raw,secret,hidden", sorted(w.m))
	file("s.c", "id,v", sorted(w.c))
	file("s.heap", "v", w.heap)
}

// Open implements reconcile.Reader: the source as it is now, in a log.
func (w *world) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	if w.opened != nil {
		w.opened()
	}
	w.write()
	d, err := dump.Open(w.dir, dump.Options{Final: true})
	if err != nil {
		return nil, err
	}
	view, err := d.Open(ctx, t, exact)
	if err != nil {
		return nil, err
	}
	values, ok := view.(reconcile.ValueView)
	if !ok {
		return nil, errors.New("a dump does not give values")
	}
	at := cdc.Body{Hi: w.lsn}
	log := &reconcile.LogRange{High: at}
	if exact && !w.noLow {
		log.Low = &at
	}
	pinned := view.Pinned()
	pinned.Log, pinned.Time = log, clock(w.lsn)
	if w.copied {
		pinned.Log, pinned.Through = nil, &pinned.Time
	}
	return &liveView{ValueView: values, pinned: pinned}, nil
}

// State implements reconcile.Reader.
func (w *world) State(context.Context, []*catalog.Table) (reconcile.State, error) {
	return reconcile.State{}, nil
}

type liveView struct {
	reconcile.ValueView
	pinned reconcile.Pinned
}

func (v *liveView) Pinned() reconcile.Pinned { return v.pinned }

func clock(lsn uint64) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(lsn) * time.Second)
}

// deliver delivers a change of s.m or s.c at a place of the log, as a sink does.
func (w *world) deliver(table string, operation cdc.Operation, lsn uint64, id int, text string) {
	w.t.Helper()
	s, err := sink.Open(w.t.Context(), w.p, w.store, sink.Options{Reject: func(_ sink.Offset, err *sink.RejectError) error { return err }})
	if err != nil {
		w.t.Fatal(err)
	}
	data := fmt.Sprintf(`"cdc_position":%q,"cdc_committed_at":%q`, cdc.ChangePosition(0, cdc.Body{Hi: lsn}, 1), clock(lsn).Format("2006-01-02T15:04:05.000000Z"))
	if table == "c" {
		data += fmt.Sprintf(`,"id":%d,"v":%q,"cdc_operation":%q,"cdc_old_key":null,"cdc_absent":null`, id, text, operation)
		operation = cdc.Insert
	} else {
		data += fmt.Sprintf(`,"part":"p,%d","id":%d,"secret":%q,"f":null,"d":0,"n":null,"b":null,"day":null,"at":null,"atz":null,"raw":null,"hidden":null`, id%2, id, text)
	}
	d := sink.Delivery{
		Offset: sink.Offset{Shard: "shard-0", Ordinal: max(w.next, s.Handled()["shard-0"])},
		Row:    &sink.Row{Database: "lake", Table: table, Operation: operation, Data: []byte("{" + data + "}")},
	}
	w.next = d.Offset.Ordinal + 1
	if err := errors.Join(s.Deliver(w.t.Context(), []sink.Delivery{d}), s.Close(w.t.Context())); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) reconcile(source reconcile.Reader) *reconcile.Report {
	w.t.Helper()
	report, err := reconcile.Run(w.t.Context(), w.p, source, lake.Open(w.store), reconcile.Options{Now: clockNow})
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

func clockNow() time.Time { return clock(1 << 20) }

func (w *world) plan(source reconcile.Reader) *repair.Plan {
	w.t.Helper()
	plan, err := repair.NewPlan(w.p, w.reconcile(source))
	if err != nil {
		w.t.Fatal(err)
	}
	return plan
}

func (w *world) run(source reconcile.Reader, plan *repair.Plan) *repair.Result {
	w.t.Helper()
	result, err := repair.Run(w.t.Context(), w.p, source, lake.Open(w.store), w.store, plan, repair.Options{
		Now: clockNow, Wait: func(context.Context, time.Duration) error { return nil },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

func (w *world) equal(source reconcile.Reader, when string) {
	w.t.Helper()
	report := w.reconcile(source)
	for _, t := range report.Tables {
		if t.Verdict != reconcile.Equal {
			w.t.Errorf("%s: %s is %s: %+v %s", when, t.Table, t.Verdict, t.Counts, t.Why)
		}
	}
}

// damage makes a source and a lake that differs from it in every way that a
// sink's lake can: rows that are missing, extra and other than they should be.
func (w *world) damage(random *rand.Rand) {
	for id := range 12 {
		version := random.IntN(5)
		w.m[fmt.Sprint(id)], w.c[fmt.Sprint(id)] = row(id, version), note(id, version)
		if random.IntN(3) > 0 {
			w.deliver("m", cdc.Insert, uint64(id+1), id, "wrong")
		}
		if random.IntN(3) > 0 {
			w.deliver("c", cdc.Insert, uint64(id+1), id, "wrong")
		}
	}
	for id := 100; id < 103; id++ {
		w.deliver("m", cdc.Insert, uint64(id), id, "extra")
		w.deliver("c", cdc.Insert, uint64(id), id, "extra")
	}
}

// After a repair the sides are equal: also when changes from before come again,
// and when rows of the source change while they are repaired. A change from
// after it wins.
func TestRun(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 7))
			w := newWorld(t)
			w.damage(random)
			plan := w.plan(w)
			changes := 0
			w.opened = func() {
				if changes < 3 { // the source goes on between the readings of it
					changes++
					w.lsn += 10
					w.m["0"], w.c["1"] = row(0, 50+changes), note(1, 50+changes)
					delete(w.m, fmt.Sprint(changes))
				}
			}
			result := w.run(w, plan)
			w.opened = nil
			if !result.Repaired() || len(result.Tables) != 2 || result.Tables[0].Upserted == 0 || result.Tables[0].Deleted < 3 || result.Tables[1].Deleted != 3 {
				t.Errorf("result %+v", result)
			}
			if rounds := result.Tables[0].Rounds; rounds < 2 {
				t.Errorf("rows changed while they were repaired, and were written in %d rounds", rounds)
			}
			w.deliver("m", cdc.Update, 5, 0, "late")
			w.deliver("m", cdc.Update, 999, 101, "late")
			w.deliver("c", cdc.Update, 999, 3, "late")
			w.equal(w, "after late changes")
			w.deliver("m", cdc.Update, w.lsn+100, 101, "new")
			report := w.reconcile(w)
			if report.Tables[0].Counts.Extra != 1 || report.Tables[0].Counts.Total() != 1 {
				t.Errorf("a change after the repair did not win: %+v", report.Tables[0].Counts)
			}
		})
	}
}

// A dump has no place in a log: rows win over everything that the lake holds,
// deletes included.
func TestRunDump(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.damage(rand.New(rand.NewPCG(9, 9)))
	w.deliver("m", cdc.Delete, 500, 4, "") // the newest change of the table, and wrong
	w.write()
	source, err := dump.Open(w.dir, dump.Options{Final: true})
	if err != nil {
		t.Fatal(err)
	}
	if result := w.run(source, w.plan(source)); !result.Repaired() {
		t.Errorf("result %+v", result)
	}
	w.equal(source, "after the repair")
}

// What cannot be repaired is told, with the reason, and the others are.
func TestRunLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.m["1"], w.m["2"], w.c["1"], w.heap = row(1, 1), row(2, 1), note(1, 1), []string{"x"}
	w.deliver("m", cdc.Insert, 5000, 1, "of another source")
	plan := w.plan(w)
	want := []repair.Left{{Table: "s.heap", Rows: 1, Why: "a table without a key cannot be repaired by key: load it anew (icehose resync, icehose load)"}}
	if diff := cmp.Diff(want, plan.Left); diff != "" {
		t.Errorf("left by the plan (-want +got):\n%s", diff)
	}
	result := w.run(w, plan)
	if m, c := result.Tables[0], result.Tables[1]; m.Left != 1 || c.Left != 0 || result.Repaired() || c.Upserted != 1 || !strings.Contains(m.Why, "at positions above that of the source") {
		t.Errorf("result %+v", result)
	}
	w.noLow = true
	w.c["2"] = note(2, 1)
	if c := w.run(w, w.plan(w)).Tables[1]; c.Left != 1 || !strings.Contains(c.Why, "place in its log is not known") {
		t.Errorf("result %+v", c)
	}
	w.copied = true
	if c := w.run(w, w.plan(w)).Tables[1]; c.Left != 1 || !strings.Contains(c.Why, "follows another server") {
		t.Errorf("result %+v", c)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stop"))
	if _, err := repair.Run(ctx, w.p, w, lake.Open(w.store), w.store, plan, repair.Options{Now: clockNow}); err == nil || !strings.Contains(err.Error(), "stop") {
		t.Errorf("interrupted: %v", err)
	}
}

// A key that never stands still is left after so many rounds.
func TestRunNeverSettles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.c["1"] = note(1, 0)
	w.deliver("c", cdc.Insert, 1, 1, "wrong")
	plan := w.plan(w)
	w.opened = func() { w.lsn++; w.c["1"] = note(1, int(w.lsn)) }
	got := w.run(w, plan).Tables
	want := []repair.TableResult{{Table: "s.c", Keys: 1, Upserted: 8, Rounds: 8, Left: 1, Why: "they keep changing faster than they are written: run it again"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

// A plan has the key of each finding and no other value.
func TestPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.m["1"] = row(1, 1)
	w.deliver("m", cdc.Insert, 2, 2, "secret value")
	var text bytes.Buffer
	if err := w.plan(w).Write(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	slices.Sort(lines)
	want := []string{
		`{"table":"s.m","kind":"extra","rows":1,"action":"delete","columns":["id","part"],"key":["2","p,0"]}`,
		`{"table":"s.m","kind":"missing","rows":1,"action":"upsert","columns":["id","part"],"key":["1","p,1"]}`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if _, err := repair.NewPlan(w.p, &reconcile.Report{Tables: []reconcile.TableReport{{Table: "s.none", Verdict: reconcile.Different}}}); err == nil {
		t.Error("a plan for a table that is not in the pipeline file")
	}
}

func TestStatements(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.m["1"] = row(1, 1)
	w.deliver("m", cdc.Insert, 2, 2, "wrong")
	plan := w.plan(w)
	plan.Steps = append(plan.Steps, repair.Step{Table: "s.m", Kind: reconcile.Duplicate, Rows: 1, Action: repair.Upsert, Columns: []string{"id", "part"}, Key: []string{"1", "p,1"}})
	for dialect, want := range map[artifact.Dialect][]string{
		artifact.Athena: {`DELETE FROM "lake"."m"`, `("part" = 'p,1' AND "id" = CAST('1' AS bigint))`, `MERGE INTO "lake"."m" AS t`, `from_hex('02')`, `CAST('NaN' AS double)`, `ON t."id" = s."id" AND t."part" = s."part"`},
		artifact.Spark:  {"DELETE FROM `lake`.`m`", "MERGE INTO `lake`.`m` AS t", "unhex('02')"},
	} {
		var out bytes.Buffer
		result, err := repair.Statements(t.Context(), w.p, w, lake.Open(w.store), plan, dialect, clockNow(), &out)
		if err != nil || result.Statements != 2 || result.Repaired() || result.Tables[0].Upserted != 1 || result.Tables[0].Deleted != 1 {
			t.Errorf("%s: %+v, %v", dialect, result, err)
		}
		// The position tells when the source was read: the history goes by it.
		for _, text := range append(want, fmt.Sprintf("< '0000.00000000000003e80000000000000000.0.%014x", clock(w.lsn).UnixMicro())) {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s: no %s in\n%s", dialect, text, out.String())
			}
		}
		if strings.Contains(out.String(), "hidden'") || strings.Contains(out.String(), "'secret 1'") {
			t.Errorf("%s: a masked value is in the statements", dialect)
		}
	}
}
