package main

import (
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/repair"
)

// A repair is done when every table was decided wholly: one that is different and
// of which something was not read, or could not be told, is not, however well what
// was found of it was repaired.
func TestRepairStatus(t *testing.T) {
	p, err := catalog.Parse("pipeline.yaml", []byte("version: 1\ndatabase: lake\nsource: {engine: postgresql, position: postgres}\ntables:\n"+
		"- {source: s.a, mode: mirror, key: [id], columns: [{name: id, type: long}]}\n- {source: s.b, mode: mirror, key: [id], columns: [{name: id, type: long}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	found := func(edit func(*reconcile.TableReport)) reconcile.TableReport {
		r := reconcile.TableReport{
			Table: "s.a", Key: []string{"id"}, Verdict: reconcile.Different, Counts: reconcile.Counts{Missing: 1},
			Findings: []reconcile.Finding{{Kind: reconcile.Missing, Key: []string{"7"}, Rows: 1}},
		}
		edit(&r)
		return r
	}
	equal := reconcile.TableReport{Table: "s.b", Verdict: reconcile.Equal}
	for name, tt := range map[string]struct {
		how    string
		tables []reconcile.TableReport
		left   int // keys that the repair could not put right
		want   int
		line   string
	}{
		"all was decided and repaired": {repairSink, []reconcile.TableReport{found(func(*reconcile.TableReport) {}), equal}, 0, exitSame, ""},
		"nothing was found":            {repairSink, []reconcile.TableReport{equal}, 0, exitSame, ""},
		"time was up": {
			repairSink,
			[]reconcile.TableReport{found(func(r *reconcile.TableReport) { r.Why = "not finished in time" }), equal},
			0, exitTrouble,
			"repair: s.a: not all of it was decided, there may be more: compare it again: not finished in time\n",
		},
		"of changelogs too": {repairChangelog, []reconcile.TableReport{found(func(r *reconcile.TableReport) { r.Why = "read source: lost" })}, 0, exitTrouble, ": read source: lost\n"},
		"keys kept changing": {
			repairSink, []reconcile.TableReport{found(func(r *reconcile.TableReport) { r.Unsettled = 2 })}, 0, exitTrouble, "s.a: not all of it was decided, there may be more: compare it again: keys that could not be told: 2\n",
		},
		"keys could not be told": {repairSink, []reconcile.TableReport{found(func(r *reconcile.TableReport) { r.Undecided = 3 })}, 0, exitTrouble, "could not be told: 3\n"},
		"buckets were not read": {
			repairSink, []reconcile.TableReport{found(func(r *reconcile.TableReport) { r.UnreadBuckets = 4 })}, 0, exitDifferent, "differing buckets not read: 4\n",
		},
		"another table is inconclusive": {
			repairSink, []reconcile.TableReport{found(func(*reconcile.TableReport) {}), {Table: "s.b", Verdict: reconcile.Inconclusive, Why: "no file"}}, 0, exitTrouble, "repair: s.b: not all of it was decided, there may be more: compare it again: no file\n",
		},
		"a table has no verdict":             {repairSink, []reconcile.TableReport{{Table: "s.b"}}, 0, exitTrouble, "it has no verdict\n"},
		"what was found is left":             {repairSink, []reconcile.TableReport{found(func(*reconcile.TableReport) {}), equal}, 1, exitDifferent, ""},
		"what was found is left, and a part": {repairSink, []reconcile.TableReport{found(func(r *reconcile.TableReport) { r.Why = "lost" })}, 1, exitDifferent, ": lost\n"},
		"only planned":                       {repairPlan, []reconcile.TableReport{found(func(r *reconcile.TableReport) { r.Why = "lost" })}, 0, exitDifferent, ": lost\n"},
	} {
		t.Run(name, func(t *testing.T) {
			report := &reconcile.Report{Tables: tt.tables}
			plan, err := repair.NewPlan(p, report)
			if err != nil {
				t.Fatal(err)
			}
			o := &repairOutcome{How: tt.how, Undecided: plan.Undecided, Result: repair.Result{NotPlanned: plan.Left, Tables: []repair.TableResult{{Table: "s.a", Left: tt.left}}}}
			if got := o.status(report); got != tt.want {
				t.Errorf("status %d, want %d", got, tt.want)
			}
			var text strings.Builder
			if err := o.writeText(&text); err != nil || !strings.HasSuffix(text.String(), tt.line) || (tt.line == "") == strings.Contains(text.String(), "not all of it") {
				t.Errorf("%v, %q does not end with %q", err, &text, tt.line)
			}
		})
	}
}
