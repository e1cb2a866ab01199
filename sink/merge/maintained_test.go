package merge_test

import (
	"context"
	"iter"
	"testing"

	"icehose/catalog"
	"icehose/sink"
	"icehose/sink/iceberg"
	"icehose/sink/merge"
	"icehose/sink/merge/mergetest"
)

// eager makes maintenance of small tables due, and keeps no snapshot but the newest.
var eager = iceberg.Maintenance{MinFiles: 2, DeleteFiles: 1, Retention: iceberg.Retention{KeepSnapshots: 1, SnapshotAge: -1}}

// A current table that is maintained between merges is still the fold: nothing is
// merged twice or not at all, and its files stay few.
func TestMaintainedCurrent(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"keyed", "unkeyed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pipeline(t, mergetest.Pipeline)
			def := p.ByTarget("d", name)
			store := open(t, t.TempDir())
			log := mergetest.UnkeyedLog(2)
			if name == "keyed" {
				log = nil
				for tenant := range 6 {
					for _, row := range mergetest.Log(2, tenant) {
						log = append(log, row.Lake())
					}
				}
			}
			rewrites, expired := 0, 0
			const steps = 6
			for n := range steps {
				to := len(log) * (n + 1) / steps
				appendRows(t, store, def, log[len(log)*n/steps:to]...)
				if result := run(t, store, def); result.Read != int64(to-len(log)*n/steps) {
					t.Errorf("step %d: %+v, want only what is new read", n, result)
				}
				tables, err := merge.WithCurrent(t.Context(), store.Tables().Tables, p.Tables)
				if err != nil || len(tables) != len(p.Tables)+1 {
					t.Fatalf("%d tables to maintain: %v", len(tables), err)
				}
				for _, kept := range tables {
					if kept.Name() != def.Current().Name() {
						continue // a changelog
					}
					report, err := store.Maintain(t.Context(), kept, eager)
					if err != nil {
						t.Fatal(err)
					}
					rewrites, expired = rewrites+len(report.Rewrites), expired+report.ExpiredSnapshots
					if report.After.DataFiles > 1 || report.After.DeleteFiles > 0 {
						t.Errorf("step %d: %+v", n, report.After)
					}
				}
				want, err := mergetest.Fold(def, log[:to])
				if err != nil {
					t.Fatal(err)
				}
				if diff := mergetest.Diff(want, current(t, store, def), true, names(def)); diff != "" {
					t.Fatalf("step %d:\n%s", n, diff)
				}
			}
			if rewrites < 3 || expired < steps {
				t.Errorf("%d rewrites, %d snapshots expired: the test shows little", rewrites, expired)
			}
			if again := run(t, store, def); again.Read+again.Changed+again.Deleted != 0 {
				t.Errorf("a run without anything new did %+v", again)
			}
		})
	}
}

// A beside is a lake whose current table is maintained when a merge has read it, once.
type beside struct {
	*iceberg.Store
	report *iceberg.MaintenanceReport
}

type besideTable struct {
	sink.Table
	store *beside
	def   *catalog.Table
}

func (b *beside) OpenTable(ctx context.Context, t *catalog.Table) (sink.Table, error) {
	table, err := b.Store.OpenTable(ctx, t)
	return &besideTable{table, b, t}, err
}

func (t *besideTable) Scan(ctx context.Context, columns []int) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		for row, err := range t.Table.Scan(ctx, columns) {
			if !yield(row, err) {
				return
			}
		}
		if t.store.report != nil {
			return
		}
		var err error
		if t.store.report, err = t.store.Maintain(ctx, t.def, eager); err != nil {
			yield(nil, err)
		}
	}
}

// A merge beside which its current table is maintained begins anew.
func TestMergeBesideMaintenance(t *testing.T) {
	t.Parallel()
	def := pipeline(t, mergetest.Pipeline).ByTarget("d", "plain")
	store := open(t, t.TempDir())
	log := trapRows()
	for _, row := range log[:6] {
		appendRows(t, store, def, row)
		run(t, store, def)
	}
	appendRows(t, store, def, log[6:]...)
	b := &beside{Store: store}
	if _, err := merge.Local(t.Context(), b, def, merge.Options{}); err != nil {
		t.Fatal(err)
	}
	want, err := mergetest.Fold(def, log)
	if err != nil {
		t.Fatal(err)
	}
	if diff := mergetest.Diff(want, current(t, store, def), true, names(def)); diff != "" || b.report == nil || len(b.report.Rewrites) == 0 {
		t.Errorf("maintained: %+v\n%s", b.report, diff)
	}
}
