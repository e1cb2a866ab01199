package repair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"icehose/catalog"
	"icehose/catalog/artifact"
	"icehose/cdc"
	"icehose/reconcile"
)

// Statements writes SQL that repairs the keys of a plan where the lake's tables
// are written by somebody else (artifact.Repair). It holds values of the
// source. Nothing is run: all keys count as left.
func Statements(ctx context.Context, p *catalog.Pipeline, source, lake reconcile.Reader, plan *Plan, dialect artifact.Dialect, now time.Time, w io.Writer) (*Result, error) {
	result := &Result{Tables: []TableResult{}, NotPlanned: plan.Left}
	for _, t := range p.Tables {
		keys, again := plan.keysOf(t.Source)
		if len(keys) == 0 {
			continue
		}
		r := TableResult{Table: t.Source, Keys: len(keys), Left: len(keys), Why: "the statements are to be run"}
		statements, err := statementsOf(ctx, p, source, lake, t, keys, again, dialect, now, &r)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("repair: %w", context.Cause(ctx))
		}
		if err != nil {
			r.Why = err.Error()
		}
		result.Tables = append(result.Tables, r)
		result.Statements += len(statements)
		for _, s := range statements {
			if _, err := io.WriteString(w, s+";\n\n"); err != nil {
				return nil, fmt.Errorf("write statements: %w", err)
			}
		}
	}
	return result, nil
}

func statementsOf(ctx context.Context, p *catalog.Pipeline, source, lake reconcile.Reader, t *catalog.Table, keys [][]string, again map[string]bool,
	dialect artifact.Dialect, now time.Time, result *TableResult,
) ([]string, error) {
	known := func(ctx context.Context) (cdc.Position, error) { return newest(ctx, lake, t) }
	columns, data := t.LakeColumns()
	at := keyPlaces(t)
	var rows []artifact.RepairRow
	var position cdc.Position
	err := read(ctx, p, source, t, keys, now, known, func(m moment, r row) error {
		position = m.position
		out := artifact.RepairRow{Values: make([][]byte, data), Gone: r.values == nil, Again: again[identify(r.key)]}
		for i, v := range r.values {
			out.Values[i] = bytes.Clone(v)
		}
		for n, i := range at {
			if i < 0 || i >= data {
				return fmt.Errorf("key column %s is not among the %d columns of the lake", t.Key[n], len(columns))
			}
			out.Values[i] = []byte(r.key[n])
		}
		if out.Gone {
			result.Deleted++
		} else {
			result.Upserted++
		}
		rows = append(rows, out)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if position == "" {
		return nil, errors.New("no key to repair")
	}
	return artifact.Repair(dialect, t, string(position), rows)
}
