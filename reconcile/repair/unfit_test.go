package repair_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"icehose/cdc"
	"icehose/reconcile"
	"icehose/reconcile/repair"
)

// What the lake's type cannot hold is left to a person; the rest is repaired.
func TestPlanLeavesUnfitValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.m["1"] = row(1, 1)
	w.deliver("m", cdc.Insert, 2, 2, "a row too many")
	report := w.reconcile(w)
	at := slices.IndexFunc(report.Tables, func(r reconcile.TableReport) bool { return r.Table == "s.m" })
	if len(report.Tables[at].Findings) != 2 {
		t.Fatalf("findings %+v: %s", report.Tables[at].Findings, report.Tables[at].Why)
	}
	report.Tables[at].Findings[0].Unfit = true
	plan, err := repair.NewPlan(w.p, report)
	if err != nil {
		t.Fatal(err)
	}
	want := []repair.Left{{Table: "s.m", Rows: 1, Why: "the source has values that the lake's type cannot hold: give the column another type, or allow_lossy"}}
	if diff := cmp.Diff(want, plan.Left); diff != "" || len(plan.Steps) != 1 {
		t.Errorf("%d steps, left (-want +got):\n%s", len(plan.Steps), diff)
	}
	// A row that is extra is not deleted where the source has keys of which it may be the row.
	report.Tables[at].UnfitKeys = 1
	if plan, err = repair.NewPlan(w.p, report); err != nil {
		t.Fatal(err)
	}
	want = append(want, repair.Left{Table: "s.m", Rows: 1, Why: "the source has keys that the lake's type cannot hold, and rows of the lake that are extra may be theirs: give the key column another type"})
	if diff := cmp.Diff(want, plan.Left); diff != "" || len(plan.Steps) != 0 {
		t.Errorf("%d steps, left (-want +got):\n%s", len(plan.Steps), diff)
	}
}
