package reconciletest

import (
	"context"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/reconcile"
)

// TestFollower is the test of a source that follows another server, which it is
// behind in the given number of keys of the one table of p. lake has the other
// server's rows. come lets the source have everything, as far as it can tell.
func TestFollower(t *testing.T, p *catalog.Pipeline, source reconcile.Reader, lake []Row, behind int, come func()) {
	t.Helper()
	table := p.Tables[0]
	compare := func(wait func()) reconcile.TableReport {
		t.Helper()
		report, err := reconcile.Run(t.Context(), p, source, &lakeAhead{Memory{Tables: Tables{table.Source: lake}}}, reconcile.Options{
			Settle: time.Nanosecond, Retries: 6, Now: now, Wait: func(context.Context, time.Duration) error { wait(); return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		return report.Tables[0]
	}
	if got := compare(func() {}); got.Verdict != reconcile.Inconclusive || got.Undecided != behind {
		t.Errorf("while it is behind: %s %+v, %s", got.Verdict, got.Counts, got.Why)
	}
	if got := compare(come); got.Verdict != reconcile.Equal || got.InFlight != behind {
		t.Errorf("when it has come: %s %+v, %s", got.Verdict, got.Counts, got.Why)
	}
	lake = append(lake, lake[0])
	if got := compare(come); got.Verdict != reconcile.Different || got.Counts != (reconcile.Counts{Duplicate: 1}) {
		t.Errorf("a row that differs: %s %+v, %s", got.Verdict, got.Counts, got.Why)
	}
}

// A lakeAhead has every change that was committed by now. Of its rows none says
// so, as if the last change of all was that some were deleted.
type lakeAhead struct{ Memory }

// State implements reconcile.Reader.
func (l *lakeAhead) State(context.Context, []*catalog.Table) (reconcile.State, error) {
	at := now()
	return reconcile.State{Time: at, Mark: at.String()}, nil
}

func now() time.Time { return time.Now() } //nolint:forbidigo // the source is a server with a clock
