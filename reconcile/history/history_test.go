package history_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"icehose/reconcile"
	"icehose/reconcile/history"
	"icehose/sink/iceberg"
)

func report(began time.Time) *reconcile.Report {
	n, lag := uint64(7), 1.5
	return &reconcile.Report{
		Began: began, Ended: began.Add(time.Second),
		Tables: []reconcile.TableReport{
			{Table: "s.a", Target: "lake.a", Verdict: reconcile.Equal, Source: reconcile.Side{Rows: &n}, Lake: reconcile.Side{Rows: &n, Newest: &reconcile.NewestText{Position: "p"}}, CommitLag: &lag},
			{Table: "s.b", Verdict: reconcile.Different, Counts: reconcile.Counts{Missing: 1, Extra: 2, Differs: 3, Stale: 4, Duplicate: 5}, Seconds: 0.25},
			{Table: "s.c", Verdict: reconcile.Inconclusive, Why: "read source: gone", Sampled: 0.5},
		},
	}
}

func open(t *testing.T, dir string) *iceberg.Store {
	t.Helper()
	store, err := iceberg.Open(t.Context(), dir, iceberg.Options{Beside: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// What is appended is read back, the newest runs, the oldest of them first,
// also when runs are appended at the same time and a sink holds the lake.
func TestAppendRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sink, err := iceberg.Open(t.Context(), dir, iceberg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close() //nolint:errcheck // it wrote nothing
	store := open(t, dir)
	if runs, err := history.Read(t.Context(), store.Tables(), "lake", 10, time.Time{}); err != nil || len(runs) != 0 {
		t.Fatalf("a lake without history: %v, %v", runs, err)
	}
	began := time.Date(2026, 11, 1, 2, 3, 4, 5000, time.UTC)
	var group sync.WaitGroup
	for i := range 3 {
		own := open(t, dir)
		group.Go(func() {
			id, err := history.Append(t.Context(), own.Tables(), "lake", report(began.Add(time.Duration(i)*time.Hour)))
			if err != nil || id == "" {
				t.Errorf("append: %q, %v", id, err)
			}
		})
	}
	group.Wait()
	got, err := history.Read(t.Context(), store.Tables(), "lake", 2, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	want := []history.Run{history.Of(report(began.Add(time.Hour))), history.Of(report(began.Add(2 * time.Hour)))}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(history.Run{}, "ID")); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if got[0].ID == got[1].ID || want[0].Findings != 15 || want[0].Different != 1 || want[0].Inconclusive != 1 || !want[0].Partial || want[0].Verdict != reconcile.Different {
		t.Errorf("runs %+v", got)
	}
}

func TestAppendWithoutTimes(t *testing.T) {
	t.Parallel()
	if _, err := history.Append(t.Context(), open(t, t.TempDir()).Tables(), "lake", &reconcile.Report{}); err == nil {
		t.Error("a report without times was appended")
	}
}
