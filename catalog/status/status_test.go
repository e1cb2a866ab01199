package status_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog/status"
)

var now = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

// red returns the lines that are not well, as "part name what = value".
func red(r status.Report) []string {
	var out []string
	for _, l := range r.Lines {
		if l.Light != status.OK {
			out = append(out, string(l.Light)+" "+l.Part+" "+l.Name+": "+l.What+" = "+l.Value)
		}
	}
	return out
}

func well() *status.Observed {
	return &status.Observed{
		Source: &status.Source{Name: "db", Slot: new(int64(5 << 20))},
		Task:   &status.Task{Name: "task", State: "running", Source: new(time.Second), Target: new(2 * time.Second)},
		Stream: &status.Stream{Name: "s", State: "ACTIVE", Retention: 168 * time.Hour, Age: new(3 * time.Second)},
		Deliveries: []status.Delivery{
			{Name: "mirror", State: "ACTIVE", Fresh: new(5 * time.Minute)},
		},
		Shards:    []status.Shard{{Name: "shard-1", Records: 7}},
		Tables:    []status.Table{{Name: "shop.orders", Commit: now.Add(-time.Minute)}},
		Reconcile: &status.Reconcile{From: "report.json", At: now.Add(-time.Hour), Tables: []status.Verdict{{Table: "public.orders", Verdict: "equal"}}},
	}
}

// empty is a pipeline whose one table nothing was delivered for, with a report that
// is right about it but for an edit.
func empty(edit func(*status.Reconcile)) func(*status.Observed) {
	return func(o *status.Observed) {
		o.Tables[0].Commit = time.Time{}
		o.Reconcile.Tables[0] = status.Verdict{
			Table: "public.orders", Target: "shop.orders", Verdict: "equal", Source: status.Rows{Rows: new(uint64(0))}, Lake: status.Rows{Rows: new(uint64(0))},
		}
		edit(o.Reconcile)
	}
}

func TestJudge(t *testing.T) {
	tests := map[string]struct {
		edit  func(*status.Observed)
		light status.Light
		want  []string
		next  string // in the first line that is not well
	}{
		"all is well":           {func(*status.Observed) {}, status.OK, nil, ""},
		"no data is not red":    {func(o *status.Observed) { o.Task.Source, o.Stream.Age, o.Source.Slot = nil, nil, nil }, status.OK, nil, ""},
		"a slot keeps too much": {func(o *status.Observed) { o.Source.Slot = new(int64(21 << 30)) }, status.Red, []string{"red source db: log kept for slots = 21.0 GB"}, "drop it before the disk is full"},
		"a task has failed": {
			func(o *status.Observed) { o.Task.State, o.Task.StopReason = "failed", "FATAL_ERROR" }, status.Red,
			[]string{"red task task: state = failed: FATAL_ERROR"},
			"never restart",
		},
		"a task was never started": {func(o *status.Observed) { o.Task.State = "ready" }, status.Red, []string{"red task task: state = ready"}, "make start"},
		"a task of another state":  {func(o *status.Observed) { o.Task.State = "modifying" }, status.Red, []string{"red task task: state = modifying"}, "wait"},
		"a task is behind":         {func(o *status.Observed) { o.Task.Source = new(time.Hour) }, status.Red, []string{"red task task: behind the source = 1h0m0s"}, "long transaction"},
		"a table is suspended": {
			func(o *status.Observed) { o.Task.Suspended = []string{"public.a", "public.b"} }, status.Red,
			[]string{"red task task: suspended tables = public.a, public.b"},
			"describe-table-statistics",
		},
		"a reader is behind":     {func(o *status.Observed) { o.Stream.Age = new(time.Hour) }, status.Red, []string{"red stream s: slowest reader behind = 1h0m0s"}, "delivery streams below"},
		"records will be lost":   {func(o *status.Observed) { o.Stream.Age = new(100 * time.Hour) }, status.Red, []string{"red stream s: slowest reader behind = 100h0m0s"}, "raise the retention now"},
		"a stream is being made": {func(o *status.Observed) { o.Stream.State = "CREATING" }, status.Red, []string{"red stream s: state = CREATING"}, "nothing can be written"},
		"a delivery has failed":  {func(o *status.Observed) { o.Deliveries[0].State = "CREATING_FAILED" }, status.Red, []string{"red delivery mirror: state = CREATING_FAILED"}, "FailureDescription"},
		"commits are late":       {func(o *status.Observed) { o.Deliveries[0].Fresh = new(time.Hour) }, status.Red, []string{"red delivery mirror: oldest not committed = 1h0m0s"}, "throttles"},
		"Iceberg refuses rows":   {func(o *status.Observed) { o.Deliveries[0].Refused, o.Deliveries[0].ErrorBucket = 3, "errors" }, status.Red, []string{"red delivery mirror: rows refused by Iceberg = 3 in 1h"}, "s3://errors/iceberg-failed/"},
		"a table is not there":   {func(o *status.Observed) { o.Tables[0] = status.Table{Name: "shop.orders", Missing: true} }, status.Red, []string{"red table shop.orders: last commit = no such table"}, "catalog apply"},
		"a table has nothing":    {func(o *status.Observed) { o.Tables[0].Commit = time.Time{} }, status.Red, []string{"red table shop.orders: last commit = none"}, "nothing was ever delivered"},
		"a report is old":        {func(o *status.Observed) { o.Reconcile.At = now.Add(-25 * time.Hour) }, status.Red, []string{"red reconcile report.json: last report = 25h ago"}, "too old"},
		"a table differs":        {func(o *status.Observed) { o.Reconcile.Tables[0].Verdict = "different" }, status.Red, []string{"red verdict public.orders: verdict = different"}, "--show-keys"},
		"a table cannot be told": {func(o *status.Observed) {
			o.Reconcile.Tables[0] = status.Verdict{Table: "t", Verdict: "inconclusive", Why: "lagging"}
		}, status.Red, []string{"red verdict t: verdict = inconclusive: lagging"}, "when it has caught up"},
		"a verdict of another age": {func(o *status.Observed) { o.Reconcile.Tables[0].Verdict = "" }, status.Red, []string{"red verdict public.orders: verdict = "}, "nothing is known"},
		"keys alone are equal": {
			func(o *status.Observed) { o.Reconcile.Tables[0].Scope = "3 keys" }, status.Unknown,
			[]string{"unknown verdict public.orders: verdict = equal (3 keys)"},
			"only a part of the table was compared",
		},
		"a sample is equal": {
			func(o *status.Observed) { o.Reconcile.Tables[0].Sampled = 0.1 }, status.Unknown,
			[]string{"unknown verdict public.orders: verdict = equal (sample of 10%)"},
			"without --keys, --since and --sample",
		},
		"a sample differs": {
			func(o *status.Observed) {
				o.Reconcile.Tables[0].Sampled, o.Reconcile.Tables[0].Verdict = 0.1, "different"
			}, status.Red,
			[]string{"red verdict public.orders: verdict = different (sample of 10%)"},
			"--show-keys",
		},
		"a verdict is older than its report": {
			func(o *status.Observed) { o.Reconcile.Tables[0].DecidedAt = now.Add(-6 * 24 * time.Hour) }, status.Red,
			[]string{"red verdict public.orders: verdict = equal, decided 144h ago"},
			"too old to prove anything",
		},
		"a verdict is not too old": {
			func(o *status.Observed) { o.Reconcile.Tables[0].DecidedAt = now.Add(-23 * time.Hour) }, status.OK, nil, "",
		},
		"all is too old": {
			func(o *status.Observed) {
				o.Reconcile.At = now.Add(-25 * time.Hour)
				o.Reconcile.Tables[0].DecidedAt = now.Add(-26 * time.Hour)
			}, status.Red, []string{"red reconcile report.json: last report = 25h ago"}, "too old",
		},
		"a table is not in the report": {
			func(o *status.Observed) { o.Sources = []string{"public.orders", "public.log"} }, status.Unknown,
			[]string{"unknown verdict public.log: verdict = not in the report"},
			"nothing is known of the table",
		},
		"the report is of chosen tables": {
			func(o *status.Observed) {
				o.Sources, o.Reconcile.Only = []string{"public.orders", "public.log"}, []string{"public.orders"}
			}, status.Unknown,
			[]string{"unknown verdict public.log: verdict = not compared: the report is of chosen tables"},
			"without --tables and --keys",
		},
		"a run goes on": {
			func(o *status.Observed) {
				o.Sources, o.Reconcile.Later = []string{"public.orders", "public.log"}, []string{"public.log"}
			}, status.Unknown,
			[]string{"unknown verdict public.log: verdict = not decided yet"},
			"see the next report",
		},
		"a run goes on, without the pipeline file": {
			func(o *status.Observed) { o.Reconcile.Later = []string{"public.log"} }, status.Unknown,
			[]string{"unknown verdict public.log: verdict = not decided yet"},
			"see the next report",
		},
		"a table that is rightly empty": {empty(func(*status.Reconcile) {}), status.OK, nil, ""},
		"empty, and differs": {
			empty(func(r *status.Reconcile) { r.Tables[0].Verdict, r.Tables[0].Source.Rows = "different", new(uint64(1)) }), status.Red,
			[]string{"red table shop.orders: last commit = none", "red verdict public.orders: verdict = different"},
			"nothing was ever delivered",
		},
		"empty, as far as some keys tell": {
			empty(func(r *status.Reconcile) { r.Tables[0].Scope = "1 keys" }), status.Red,
			[]string{"red table shop.orders: last commit = none", "unknown verdict public.orders: verdict = equal (1 keys)"},
			"nothing was ever delivered",
		},
		"empty, long ago": {
			empty(func(r *status.Reconcile) { r.At = now.Add(-25 * time.Hour) }), status.Red,
			[]string{"red table shop.orders: last commit = none", "red reconcile report.json: last report = 25h ago"},
			"nothing was ever delivered",
		},
		"empty, decided long ago": {
			empty(func(r *status.Reconcile) { r.Tables[0].DecidedAt = now.Add(-25 * time.Hour) }), status.Red,
			[]string{"red table shop.orders: last commit = none", "red verdict public.orders: verdict = equal, decided 25h ago"},
			"nothing was ever delivered",
		},
		"empty, and another table is": {
			empty(func(r *status.Reconcile) { r.Tables[0].Target = "shop.log" }), status.Red,
			[]string{"red table shop.orders: last commit = none"},
			"a report of icehose reconcile says so",
		},
		"a part is not observed": {
			func(o *status.Observed) {
				o.Unread = []status.Unread{{Part: "stream", Name: "s", Err: errors.New("denied")}}
			}, status.Unknown,
			[]string{"unknown stream s: read = denied"},
			"permission",
		},
		"red wins over unknown": {
			func(o *status.Observed) {
				o.Unread = []status.Unread{{Part: "verdict", Name: "r", Err: errors.New("denied")}}
				o.Task.State = "stopped"
			}, status.Red, []string{"red task task: state = stopped", "unknown verdict r: read = denied"}, "resume it",
		},
		"failures, the most first": {
			func(o *status.Observed) {
				o.Deliveries[0].Failures = []status.Failure{{"public.a", "no_key", 1}, {"public.b", "damaged_number", 20}}
			}, status.Red,
			[]string{"red transform mirror: failed damaged_number of public.b = 20 in 1h", "red transform mirror: failed no_key of public.a = 1 in 1h"},
			"UseLargeIntegerValue",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := well()
			test.edit(o)
			r := status.Judge(o, now, status.DefaultLimits())
			if diff := cmp.Diff(test.want, red(r)); diff != "" {
				t.Errorf("lines that are not well differ (-want +got):\n%s", diff)
			}
			if r.Light != test.light {
				t.Errorf("light %s, want %s", r.Light, test.light)
			}
			first := true
			for _, l := range r.Lines {
				switch {
				case l.Light == status.OK && l.Next != "":
					t.Errorf("%s %s is well and has a next step", l.Part, l.Name)
				case l.Light != status.OK && l.Next == "":
					t.Errorf("%s %s is %s and has no next step", l.Part, l.Name, l.Light)
				case l.Light != status.OK && first:
					first = false
					if !strings.Contains(l.Next, test.next) {
						t.Errorf("next step %q, want %q in it", l.Next, test.next)
					}
				}
			}
		})
	}
}

// Whatever order the parts are observed in, they are told as changes flow.
func TestOrder(t *testing.T) {
	o := well()
	o.Unread = []status.Unread{{Part: "source", Name: "x", Err: errors.New("denied")}}
	var parts []string
	for _, l := range status.Judge(o, now, status.DefaultLimits()).Lines {
		if len(parts) == 0 || parts[len(parts)-1] != l.Part {
			parts = append(parts, l.Part)
		}
	}
	want := []string{"source", "task", "stream", "transform", "delivery", "sink", "table", "reconcile", "verdict"}
	if diff := cmp.Diff(want, parts); diff != "" {
		t.Errorf("parts differ (-want +got):\n%s", diff)
	}
}
