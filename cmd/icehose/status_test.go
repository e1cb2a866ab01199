package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"icehose/catalog/status"
)

// A large pipeline in trouble fits a terminal of 80 columns, and what is well of
// many tables takes one line.
func TestStatusScreen(t *testing.T) {
	t.Parallel()
	slot, lag := int64(30<<30), 2*time.Hour
	seen := &status.Observed{
		Source: &status.Source{Name: "shop-production-primary-instance", Slot: &slot},
		Task: &status.Task{
			Name: "shop-production-task", State: "stopped", StopReason: "Stop Reason FATAL_ERROR Error Level FATAL", Source: &lag,
			Suspended: []string{"public.a_table_with_a_long_name", "public.another_table_with_a_long_name", "public.a_third_table_with_a_long_name"},
		},
		Stream: &status.Stream{Name: "shop-production-changes", State: "ACTIVE", Retention: 3 * time.Hour, Age: &lag},
		Deliveries: []status.Delivery{{
			Name: "shop-production-changelog", State: "ACTIVE", Refused: 3, ErrorBucket: "shop-production-changelog-errors-123456789012-eu-central-1",
			Failures: []status.Failure{{Table: "public.a_table_with_a_long_name", Reason: "response_too_large", Records: 12}},
		}},
		Reconcile: &status.Reconcile{From: "s3://shop-production-reconcile-123456789012-eu-central-1/reports/20260102T030405Z.json", At: time.Unix(0, 0)},
		Unread:    []status.Unread{{Part: "delivery", Name: "shop-production-mirror", Err: errors.New("describe delivery stream: operation error Firehose: DescribeDeliveryStream, https response error StatusCode: 400")}},
	}
	for n := range 100 {
		seen.Tables = append(seen.Tables, status.Table{Name: fmt.Sprintf("lake.table_%d", n), Commit: time.Unix(1000, 0)})
		seen.Reconcile.Tables = append(seen.Reconcile.Tables, status.Verdict{Table: fmt.Sprintf("public.table_%d", n), Verdict: "equal"})
	}
	seen.Reconcile.Tables[7].Verdict, seen.Reconcile.Tables[7].Why = "different", "3 rows"
	var b strings.Builder
	if err := writeStatus(&b, status.Judge(seen, time.Unix(1e6, 0), status.DefaultLimits())); err != nil {
		t.Fatal(err)
	}
	screen := b.String()
	for line := range strings.Lines(screen) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) > screenWidth && strings.Contains(strings.TrimSpace(line), " ") {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	for _, want := range []string{
		"\ntask shop-production-task\n  RED  state: stopped: Stop Reason", "\n       -> mend what the stop reason says", "\ntable\n  ok   100 are well\n",
		"\nverdict\n  ok   99 are well\n  RED  public.table_7: different: 3 rows\n       -> ", "9 red, 1 not observed",
	} {
		if !strings.Contains(screen, want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() || strings.Count(screen, "\n") > 60 {
		t.Errorf("%d lines:\n%s", strings.Count(screen, "\n"), screen)
	}
}
