package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/reconcile"
	"icehose/sink"
)

// A faultKind is a way in which a lake ends up wrong.
type faultKind string

// The faults that the demo can cause.
const (
	faultNone      faultKind = ""
	faultLose      faultKind = "lose"      // rows whose only change never arrives
	faultStale     faultKind = "stale"     // rows whose newest update never arrives
	faultExtra     faultKind = "extra"     // rows whose delete never arrives
	faultDuplicate faultKind = "duplicate" // rows that are written a second time behind the order guard
)

// A fault is a number of rows to get wrong on purpose.
type fault struct {
	kind faultKind
	rows int
}

// UnmarshalText reads "lose=3".
func (f *fault) UnmarshalText(text []byte) error {
	kind, number, ok := strings.Cut(string(text), "=")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 {
		return fmt.Errorf("want KIND=N with N at least 1, such as lose=3")
	}
	switch faultKind(kind) {
	case faultLose, faultStale, faultExtra, faultDuplicate:
	case faultNone:
		fallthrough
	default:
		return fmt.Errorf("want lose=N, stale=N, extra=N or duplicate=N")
	}
	*f = fault{kind: faultKind(kind), rows: n}
	return nil
}

// String renders the fault as the flag has it; empty for none.
func (f *fault) String() string {
	if f.kind == faultNone {
		return ""
	}
	return fmt.Sprintf("%s=%d", f.kind, f.rows)
}

// choose picks the changes that a fault strikes. For duplicate they are
// written twice; for the others they never arrive.
func (f *fault) choose(p *catalog.Pipeline, s *stream, seed uint64) (map[*change]bool, error) {
	var eligible []*change
	for _, history := range histories(s) {
		newest := history[len(history)-1]
		deleted := newest.operation == cdc.Delete.String()
		var ok bool
		switch f.kind {
		case faultNone:
		case faultLose:
			ok = len(history) == 1 && !deleted
		case faultStale:
			ok = len(history) > 1 && !deleted && history[len(history)-2].operation != cdc.Delete.String() &&
				newest.values != history[len(history)-2].values
		case faultExtra:
			ok = len(history) > 1 && deleted
		case faultDuplicate:
			// A changelog folds a second copy away: only a mirror shows it.
			ok = !deleted && newest.mirrored(p)
		}
		if ok {
			eligible = append(eligible, newest)
		}
	}
	if len(eligible) < f.rows {
		return nil, fmt.Errorf("cause fault %s: the recorded stream has only %d rows that it can strike", f, len(eligible))
	}
	random := rand.New(rand.NewPCG(seed, 0xfa017))
	random.Shuffle(len(eligible), func(i, j int) { eligible[i], eligible[j] = eligible[j], eligible[i] })
	chosen := make(map[*change]bool, f.rows)
	for _, c := range eligible[:f.rows] {
		chosen[c] = true
	}
	return chosen, nil
}

// checkFindings demands that the reconcile found exactly the struck rows: that
// a fault is found is the demo's claim, so it fails if it is not.
func checkFindings(struck map[*change]bool, report *reconcile.Report) error {
	want := make(map[string]bool)
	for c := range struck {
		want[c.table.Source+" "+c.key] = true
	}
	missed, others := len(want), 0
	for i := range report.Tables {
		for _, f := range report.Tables[i].Findings {
			if want[report.Tables[i].Table+" "+fmt.Sprintf("%q", f.Key)] {
				missed--
			} else {
				others++
			}
		}
	}
	if missed != 0 || others != 0 {
		return fmt.Errorf("prove the fault: %d of %d struck rows were not found, and %d others were", missed, len(want), others)
	}
	return nil
}

// histories groups the changes of keyed tables by row, oldest first, in an
// order that is always the same.
func histories(s *stream) [][]*change {
	byRow := make(map[string][]*change)
	for _, changes := range s.changes {
		for _, c := range changes {
			if c != nil && len(c.table.Key) > 0 {
				row := c.table.Source + " " + c.key
				byRow[row] = append(byRow[row], c)
			}
		}
	}
	var out [][]*change
	for _, row := range slices.Sorted(maps.Keys(byRow)) {
		history := byRow[row]
		slices.SortFunc(history, func(a, b *change) int { return cmp.Compare(a.position, b.position) })
		out = append(out, history)
	}
	return out
}

// writeTwice commits the struck rows once more, behind the order guard, as a
// writer without one does.
func (d *demo) writeTwice(ctx context.Context, store sink.Store) error {
	for _, t := range d.pipeline.Tables {
		keys := make(map[string]bool)
		for c := range d.struck {
			if c.table.Source == t.Source {
				keys[c.key] = true
			}
		}
		if len(keys) == 0 {
			continue
		}
		if err := writeKeysTwice(ctx, store, t, keys); err != nil {
			return fmt.Errorf("cause fault %s: %w", &d.cmd.Fault, err)
		}
	}
	return nil
}

func writeKeysTwice(ctx context.Context, store sink.Store, t *catalog.Table, keys map[string]bool) error {
	lake, err := store.OpenTable(ctx, t)
	if err != nil {
		return err
	}
	state, err := lake.Load(ctx)
	if err != nil {
		return err
	}
	columns, _ := t.LakeColumns()
	all, names := make([]int, len(columns)), make(map[string]int)
	for i, c := range columns {
		all[i], names[c.Name] = i, i
	}
	var copies [][][]byte
	for row, err := range lake.Scan(ctx, all) {
		if err != nil {
			return err
		}
		key := make([]string, len(t.Key))
		for i, k := range t.Key {
			key[i] = string(row[names[k]])
		}
		if keys[fmt.Sprintf("%q", key)] {
			twin := make([][]byte, len(row))
			for i, v := range row {
				twin[i] = slices.Clone(v)
			}
			copies = append(copies, twin)
		}
	}
	parent := state.Properties[sink.PropertyCommit]
	id := parent + "-again"
	return lake.Commit(ctx, &sink.Batch{
		Parent: parent, ID: id, Properties: map[string]string{sink.PropertyCommit: id}, Inserts: sink.NewRows(copies...),
	})
}

// mirrored reports whether the table of a change is a mirror in the pipeline.
func (c *change) mirrored(p *catalog.Pipeline) bool {
	for _, t := range p.Tables {
		if t.Source == c.table.Source {
			return t.Mode == catalog.Mirror
		}
	}
	return false
}
