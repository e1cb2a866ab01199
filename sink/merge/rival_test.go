package merge_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"

	"icehose/catalog"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/merge"
	"icehose/sink/merge/mergetest"
)

// Two runs at once end as one does.
func TestLocalTwiceAtOnce(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "keyed")
	store := open(t, t.TempDir())
	var log [][][]byte
	for n := range 6 {
		for _, row := range mergetest.Log(3, n) {
			log = append(log, row.Lake())
		}
		appendRows(t, store, def, log...)
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i := range errs {
			wg.Go(func() { _, errs[i] = merge.Local(t.Context(), store, def, merge.Options{}) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		want, err := mergetest.Fold(def, log)
		if err != nil {
			t.Fatal(err)
		}
		if diff := mergetest.Diff(want, current(t, store, def), true, names(def)); diff != "" {
			t.Fatalf("round %d:\n%s", n, diff)
		}
	}
}

// A rival is a lake whose current table another engine changes when it is read,
// once: such an engine leaves the commit id alone.
type rival struct {
	*iceberg.Store
	row [][]byte
}

type rivalTable struct {
	sink.Table
	rival *rival
}

func (r *rival) OpenTable(ctx context.Context, t *catalog.Table) (sink.Table, error) {
	table, err := r.Store.OpenTable(ctx, t)
	return &rivalTable{table, r}, err
}

func (t *rivalTable) Scan(ctx context.Context, columns []int) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		for row, err := range t.Table.Scan(ctx, columns) {
			if !yield(row, err) {
				return
			}
		}
		if t.rival.row == nil {
			return
		}
		state, err := t.Load(ctx)
		if err == nil {
			err = t.Commit(ctx, &sink.Batch{Parent: state.Properties[sink.PropertyCommit], Inserts: sink.NewRows(t.rival.row)})
		}
		t.rival.row = nil
		if err != nil {
			yield(nil, err)
		}
	}
}

// A run that another engine came before begins anew: no row is there twice.
func TestLocalBesideAnotherEngine(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	store := open(t, t.TempDir())
	row := mergetest.Traps()[0].Steps[0].Rows[0]
	log := [][][]byte{row.Lake()}
	row.ID = 2
	log = append(log, row.Lake())
	appendRows(t, store, def, log[0])
	run(t, store, def)
	appendRows(t, store, def, log[1])
	beside := &rival{store, currentRow("2")}
	if _, err := merge.Local(t.Context(), beside, def, merge.Options{}); err != nil {
		t.Fatal(err)
	}
	want, err := mergetest.Fold(def, log)
	if err != nil {
		t.Fatal(err)
	}
	if diff := mergetest.Diff(want, current(t, store, def), true, names(def)); diff != "" || beside.row != nil {
		t.Error(diff)
	}
}
