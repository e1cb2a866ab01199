package job_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"icehose/catalog"
	"icehose/internal/canon"
	"icehose/reconcile"
	"icehose/reconcile/job"
	"icehose/reconcile/reconciletest"
)

// emptyLake has tables without rows.
type emptyLake struct{}

func (emptyLake) Snapshot(context.Context, *catalog.Table) (id int64, ok bool, err error) {
	return 0, false, nil
}

func (emptyLake) Scan(context.Context, *catalog.Table, int64, []string) iter.Seq2[arrow.RecordBatch, error] {
	return func(func(arrow.RecordBatch, error) bool) {}
}

// A hurried source has statements that may read so many rows.
type hurried struct {
	reconcile.Reader
	most uint64
}

func (h *hurried) Open(ctx context.Context, t *catalog.Table, exact bool) (reconcile.View, error) {
	v, err := h.Reader.Open(ctx, t, exact)
	return hurriedView{v, h}, err
}

type hurriedView struct {
	reconcile.View
	*hurried
}

var errLate = errors.New("canceling statement due to statement timeout")

func (v hurriedView) Digests(ctx context.Context, part reconcile.Part) ([]canon.Digest, error) {
	digests, err := v.View.Digests(ctx, part)
	var rows uint64
	for _, d := range digests {
		rows += d.Count
	}
	if rows > v.most {
		return nil, errLate
	}
	return digests, err
}

func (v hurriedView) Rows(ctx context.Context, part reconcile.Part) iter.Seq2[reconcile.Row, error] {
	return func(yield func(reconcile.Row, error) bool) {
		n := uint64(0)
		for row, err := range v.View.Rows(ctx, part) {
			if n++; n > v.most {
				yield(reconcile.Row{}, errLate)
				return
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// A rate and a timeout go together: a table that takes longer is read in slices.
func TestStatementRows(t *testing.T) {
	var rows []reconciletest.Row
	for id := range 20_000 {
		rows = append(rows, reconciletest.MakeRow(fmt.Sprint(id), "n", "1.00"))
	}
	flags := job.SourceFlags{MaxConnections: 1, RowsPerSecond: 100, StatementTimeout: time.Minute}
	if err := flags.CheckSource(); err != nil || flags.StatementRows() != 3000 {
		t.Fatalf("%d rows: %v", flags.StatementRows(), err)
	}
	source := job.Reader{
		Reader: &hurried{&reconciletest.Memory{Tables: reconciletest.Tables{reconciletest.Changes: rows}}, 6000},
		Closer: io.NopCloser(nil), Rows: flags.StatementRows(),
	}
	for name, slice := range map[string]int64{"as flags have it": 50_000_000, "without slices": 0} {
		s := job.Settings{MaxFindings: 100_000, Concurrency: 2, SliceRows: slice}
		report, err := s.Run(t.Context(), reconciletest.Pipeline(t), source, emptyLake{}, reconcile.Options{Tables: []string{reconciletest.Changes}})
		if err != nil {
			t.Fatal(err)
		}
		if got := report.Tables[0]; got.Verdict != reconcile.Different || got.Counts.Missing != 20_000 || got.Why != "" {
			t.Errorf("%s: %s %+v: %s", name, got.Verdict, got.Counts, got.Why)
		}
	}
	for _, refused := range []job.SourceFlags{
		{MaxConnections: 1, RowsPerSecond: 1, StatementTimeout: time.Minute},
		{MaxConnections: 1, RowsPerSecond: 100, StatementTimeout: time.Second},
	} {
		if err := refused.CheckSource(); err == nil || !strings.Contains(err.Error(), "--rows-per-second: a statement reads") {
			t.Errorf("%+v: %v", refused, err)
		}
	}
	for _, free := range []job.SourceFlags{{MaxConnections: 1, RowsPerSecond: 1}, {MaxConnections: 1, StatementTimeout: time.Minute}} {
		if err := free.CheckSource(); err != nil || free.StatementRows() != 0 {
			t.Errorf("%+v: %d rows, %v", free, free.StatementRows(), err)
		}
	}
}
