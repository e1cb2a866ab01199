package repair_test

import (
	"slices"
	"testing"

	"icehose/cdc"
	"icehose/reconcile"
	"icehose/reconcile/repair"
)

// Rows that a lake has twice, as somebody else's
// program may have written them, become one each.
func TestRunDuplicates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.m["1"], w.m["2"] = row(1, 1), row(2, 1)
	w.deliver("m", cdc.Insert, 7, 1, "wrong")
	w.again("m")
	w.deliver("m", cdc.Insert, 8, 2, "wrong")
	plan := w.plan(w)
	if !slices.ContainsFunc(plan.Steps, func(s repair.Step) bool { return s.Kind == reconcile.Duplicate && s.Action == repair.Upsert }) {
		t.Fatalf("plan %+v", plan.Steps)
	}
	if result := w.run(w, plan); !result.Repaired() || result.Tables[0].Upserted != 2 || result.Tables[0].Keys != 2 {
		t.Errorf("result %+v", result)
	}
	report := w.reconcile(w)
	if m := report.Tables[0]; m.Verdict != reconcile.Equal || *m.Lake.Rows != 2 {
		t.Errorf("s.m is %s: %+v", m.Verdict, m.Counts)
	}
}

// again appends the rows of a lake table to it once more.
func (w *world) again(name string) {
	w.t.Helper()
	opened, err := w.store.Tables().Tables.LoadTable(w.t.Context(), []string{"lake", name})
	if err != nil {
		w.t.Fatal(err)
	}
	rows, err := opened.Scan().ToArrowTable(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Release()
	if _, err := opened.AppendTable(w.t.Context(), rows, 100, nil); err != nil {
		w.t.Fatal(err)
	}
}
