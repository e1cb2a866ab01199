package iceberg

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"icehose/catalog"
	lake "icehose/catalog/iceberg"
	"icehose/sink"
)

// differs reports whether a table has to be evolved to take rows of its
// definition. One that cannot be evolved safely is refused.
func differs(ctx context.Context, t *catalog.Table, current *table.Table) (bool, error) {
	plan, err := compare(ctx, t, current)
	if err != nil {
		return false, err
	}
	return len(plan.Actions) > 0, nil
}

// compare says how a table differs from its definition. The error wraps
// sink.ErrRefused if that cannot be put right safely.
func compare(ctx context.Context, t *catalog.Table, current *table.Table) (*lake.TablePlan, error) {
	plan, err := lake.Compare(ctx, t, current)
	if err != nil {
		return nil, err
	}
	// Plan, apply and merge say those. A running pipeline must not stop for them.
	plan.Refusals = slices.DeleteFunc(plan.Refusals, func(r lake.Refusal) bool { return r.Folds })
	if column := widenedKey(t, current); column != "" {
		plan.Refusals = append(plan.Refusals, lake.Refusal{
			Column: column, Reason: "the key was an int once, and equality deletes of a long do not find rows that were written then. " +
				"List a reader that needs copy-on-write, or create the table anew",
		})
	}
	if len(plan.Refusals) == 0 {
		return plan, nil
	}
	first := plan.Refusals[0]
	if first.Column != "" {
		first.Reason = "column " + first.Column + ": " + first.Reason
	}
	if more := len(plan.Refusals) - 1; more > 0 {
		first.Reason = fmt.Sprintf("%s (and %d more: icehose catalog diff lists them)", first.Reason, more)
	}
	return nil, fmt.Errorf("%w: %s", sink.ErrRefused, first.Reason)
}

// widenedKey returns a key column of a mirror with equality deletes whose rows
// may have been written with another type, empty if there is none: iceberg-go
// 0.7 compares keys as they are stored. With copy-on-write they are read first.
func widenedKey(t *catalog.Table, current *table.Table) string {
	if t.Mode != catalog.Mirror || t.DeleteFormat() != catalog.EqualityDeletes || current.CurrentSnapshot() == nil {
		return ""
	}
	for _, name := range t.Key {
		now, ok := current.Schema().FindFieldByName(name)
		if !ok || !now.Type.Equals(iceberg.PrimitiveTypes.Int64) {
			continue
		}
		for _, schema := range current.Metadata().Schemas() {
			if before, ok := schema.FindFieldByID(now.ID); ok && !before.Type.Equals(now.Type) {
				return name
			}
		}
	}
	return ""
}

// evolved returns the table as the transaction will leave it. If it has not the
// columns of its definition, they are put right in the same transaction.
func (t *lakeTable) evolved(ctx context.Context, tx *table.Transaction, current *table.Table) (*table.Table, error) {
	if !t.pending.Load() {
		return current, nil
	}
	return stageEvolution(ctx, tx, t.definition, current)
}

func stageEvolution(ctx context.Context, tx *table.Transaction, t *catalog.Table, current *table.Table) (*table.Table, error) {
	plan, err := compare(ctx, t, current)
	if err != nil {
		return nil, fmt.Errorf("evolve table: %w", err)
	}
	if len(plan.Actions) == 0 {
		return current, nil
	}
	if err := lake.Stage(tx, t, current, plan.Actions); err != nil {
		return nil, fmt.Errorf("evolve table: %w", err)
	}
	staged, err := tx.StagedTable()
	if err != nil {
		return nil, fmt.Errorf("evolve table: %w", err)
	}
	return staged.Table, nil
}

// view returns a table as readers of its definition want to see it: with the
// columns that the next commit of rows will give it. Nothing is written.
func view(ctx context.Context, t *catalog.Table, current *table.Table) (*table.Table, error) {
	return stageEvolution(ctx, current.NewTransaction(), t, current)
}
