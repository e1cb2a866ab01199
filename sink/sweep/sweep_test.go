package sweep_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/sinktest"
	"icehose/sink/sweep"
)

const file = `version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - {source: s.mirror, mode: mirror, key: [id, part], columns: [{name: id, type: long}, {name: part, type: binary}, {name: v, type: string}]}
  - {source: s.log, mode: changelog, key: [id, part], columns: [{name: id, type: long}, {name: part, type: binary}, {name: v, type: string}]}
  - {source: s.bare, mode: changelog, columns: [{name: v, type: string}]}
  - {source: s.nokey, mode: mirror, columns: [{name: v, type: string}]}
`

func pipeline(t *testing.T) *catalog.Pipeline {
	t.Helper()
	p, err := catalog.Parse("pipeline.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// load is the reload of every test.
var load = catalog.LoadStart{Floor: cdc.Body{Hi: 100}, Since: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)}

func change(n uint64) string { return string(cdc.ChangePosition(0, cdc.Body{Hi: n}, 1)) }

func loaded(t *testing.T, after time.Duration) string {
	t.Helper()
	p, err := cdc.LoadPosition(0, load.Floor, load.Since.Add(after), cdc.Origin{Shard: "s-0", Sequence: "7"})
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

// A feed delivers rows to a table, as one stream over all its sinks.
type feed struct {
	store sink.Store
	p     *catalog.Pipeline
	next  uint64
}

func (f *feed) deliver(t *testing.T, table *catalog.Table, rows ...string) {
	t.Helper()
	s, err := sink.Open(t.Context(), f.p, f.store, sink.Options{Reject: func(_ sink.Offset, err *sink.RejectError) error { return err }})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range rows { // "operation id position"
		w := strings.Fields(text)
		op := map[string]cdc.Operation{"insert": cdc.Insert, "update": cdc.Update, "load": cdc.Update, "delete": cdc.Delete}[w[0]]
		data := fmt.Sprintf(`{"id":%s,"part":"0aff","v":%q,"cdc_position":%q,"cdc_committed_at":"2026-03-01T00:00:00.000000Z"`, w[1], w[0], w[2])
		if table.Mode == catalog.Changelog {
			data += fmt.Sprintf(`,"cdc_operation":%q,"cdc_old_key":null,"cdc_absent":null`, w[0])
			op = cdc.Insert
		}
		d := sink.Delivery{Offset: sink.Offset{Shard: "s-0", Ordinal: f.next}, Row: &sink.Row{Database: "lake", Table: table.Name(), Operation: op, Data: []byte(data + "}")}}
		f.next++
		if err := s.Deliver(t.Context(), []sink.Delivery{d}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// current returns the ids of the rows that count.
func current(t *testing.T, store sink.Store, table *catalog.Table) []string {
	t.Helper()
	opened, err := store.OpenTable(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	columns := []int{0, 3}
	if table.Mode == catalog.Changelog {
		columns = append(columns, 5)
	}
	best, dead := make(map[string]string), make(map[string]bool)
	for row, err := range opened.Scan(t.Context(), columns) {
		if err != nil {
			t.Fatal(err)
		}
		if id := string(row[0]); best[id] < string(row[1]) {
			best[id], dead[id] = string(row[1]), len(row) > 2 && string(row[2]) == "delete"
		}
	}
	var ids []string
	for id := range best {
		if !dead[id] {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func TestSweep(t *testing.T) {
	stores := map[string]func(*testing.T) sink.Store{
		"memory": func(*testing.T) sink.Store { return sinktest.NewLake() },
		"iceberg": func(t *testing.T) sink.Store {
			store, err := iceberg.Open(t.Context(), t.TempDir(), iceberg.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			return store
		},
	}
	p := pipeline(t)
	for name, open := range stores {
		for _, table := range p.Tables[:2] {
			t.Run(name+" "+string(table.Mode), func(t *testing.T) {
				f := &feed{store: open(t), p: p}
				run := func(o sweep.Options) (sweep.Result, error) {
					return sweep.Run(t.Context(), f.store, p, table, load, o)
				}
				f.deliver(t, table, "insert 1 "+change(10), "insert 2 "+change(20), "insert 3 "+change(30), "insert 4 "+change(40), "delete 4 "+change(50))
				if _, err := run(sweep.Options{}); !errors.Is(err, sweep.ErrNoLoad) {
					t.Errorf("before any row of the load came: %v", err)
				}
				// The load brings 1 again, 5 is new since, 2 and 3 were deleted unseen.
				f.deliver(t, table, "load 1 "+loaded(t, time.Minute), "insert 5 "+change(120))
				counted, err := run(sweep.Options{Count: true})
				if err != nil || counted.Ghosts != 2 || counted.Loaded != 1 {
					t.Errorf("counted %+v, %v", counted, err)
				}
				if diff := cmp.Diff([]string{"1", "2", "3", "5"}, current(t, f.store, table)); diff != "" {
					t.Errorf("after counting (-want +got):\n%s", diff)
				}
				if got, err := run(sweep.Options{}); err != nil || got != counted {
					t.Errorf("swept %+v, %v; counted %+v", got, err, counted)
				}
				if diff := cmp.Diff([]string{"1", "5"}, current(t, f.store, table)); diff != "" {
					t.Errorf("after the sweep (-want +got):\n%s", diff)
				}
				if got, err := run(sweep.Options{}); err != nil || got.Ghosts != 0 {
					t.Errorf("a second sweep: %+v, %v", got, err)
				}
				// A stale change does not bring a ghost back; a row of the load that
				// was late after all does, and so does a change after the load.
				f.deliver(t, table, "update 2 "+change(60), "load 3 "+loaded(t, 2*time.Minute))
				if diff := cmp.Diff([]string{"1", "3", "5"}, current(t, f.store, table)); diff != "" {
					t.Errorf("after late rows (-want +got):\n%s", diff)
				}
				f.deliver(t, table, "insert 2 "+change(130))
				if diff := cmp.Diff([]string{"1", "2", "3", "5"}, current(t, f.store, table)); diff != "" {
					t.Errorf("after a new insert (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A sweep that is cut off anywhere is finished by running it again.
func TestSweepCutOff(t *testing.T) {
	p := pipeline(t)
	for _, step := range []sinktest.Step{sinktest.BeforeCommit, sinktest.AfterCommit} {
		for cut := range 4 {
			lake := sinktest.NewLake()
			f := &feed{store: lake, p: p}
			f.deliver(t, p.Tables[0], "insert 1 "+change(10), "insert 2 "+change(20), "insert 3 "+change(30), "load 9 "+loaded(t, time.Minute))
			n := 0
			lake.Fault = func(at sinktest.Step, _ string) error {
				if at == step {
					if n++; n > cut {
						return errors.New("cut off")
					}
				}
				return nil
			}
			o := sweep.Options{Sink: sink.Options{FlushRows: 1}}
			_, err := sweep.Run(t.Context(), lake, p, p.Tables[0], load, o)
			lake.Fault = nil
			if step == sinktest.BeforeCommit && cut < 3 && err == nil {
				t.Errorf("%s %d: no error", step, cut)
			}
			if _, err := sweep.Run(t.Context(), lake, p, p.Tables[0], load, o); err != nil {
				t.Fatalf("%s %d: again: %v", step, cut, err)
			}
			if diff := cmp.Diff([]string{"9"}, current(t, lake, p.Tables[0])); diff != "" {
				t.Errorf("%s %d (-want +got):\n%s", step, cut, diff)
			}
		}
	}
}

func TestSweepRefuses(t *testing.T) {
	p := pipeline(t)
	if sweep.Needed(p.Tables[2]) {
		t.Error("a changelog without a key needs a sweep")
	}
	if got, err := sweep.Run(t.Context(), sinktest.NewLake(), p, p.Tables[2], load, sweep.Options{}); err != nil || got != (sweep.Result{}) {
		t.Errorf("a changelog without a key: %+v, %v", got, err)
	}
	if _, err := sweep.Run(t.Context(), sinktest.NewLake(), p, p.Tables[3], load, sweep.Options{}); !errors.Is(err, sweep.ErrNoKey) {
		t.Errorf("a mirror without a key: %v", err)
	}
	// An empty source is said to be one.
	lake := sinktest.NewLake()
	f := &feed{store: lake, p: p}
	f.deliver(t, p.Tables[0], "insert 1 "+change(10))
	if got, err := sweep.Run(t.Context(), lake, p, p.Tables[0], load, sweep.Options{Empty: true}); err != nil || got.Ghosts != 1 {
		t.Errorf("an empty source: %+v, %v", got, err)
	}
	if got := current(t, lake, p.Tables[0]); len(got) > 0 {
		t.Errorf("left %v", got)
	}
}
