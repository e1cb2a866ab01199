package sink

import (
	"context"
	"encoding/json"
	"fmt"

	"icehose/catalog"
	"icehose/cdc"
)

// Highest returns the greatest position that the sink knows of a mirror: of a
// row, of a deleted key, or of one that was forgotten. It is empty when there
// is none, for a changelog, and for a table that was refused. It passes over
// every key.
func (s *Sink) Highest(database, table string) cdc.Position {
	w := s.byTarget[[2]string{database, table}]
	if w == nil || w.guard == nil {
		return ""
	}
	var highest packed
	known := false
	see := func(p packed) {
		if !known || p.compare(&highest) > 0 {
			highest, known = p, true
		}
	}
	if w.guard.hasFloor {
		see(w.guard.floor)
	}
	if w.guard.hasLoad {
		see(w.guard.load)
	}
	for e := range w.guard.keys.all() {
		see(w.guard.keys.position(e))
	}
	if w.guard.disk != nil {
		for _, r := range w.guard.disk.runs {
			see(r.highest) // what a newer entry hides is lower than that
		}
	}
	if !known {
		return ""
	}
	return highest.text()
}

// HighestIn returns the greatest position that a lake table has of a mirror: of
// a row, of a deleted key, of one that was forgotten, or of a bulk load; empty
// when there is none. It reads every row's position, and the tombstones.
func HighestIn(ctx context.Context, t *catalog.Table, table Table) (cdc.Position, error) {
	highest, err := highestIn(ctx, t, table)
	if err != nil {
		return "", fmt.Errorf("read positions of %s.%s: %w", t.Database(), t.Name(), err)
	}
	return highest, nil
}

func highestIn(ctx context.Context, t *catalog.Table, table Table) (highest cdc.Position, err error) {
	state, err := table.Load(ctx)
	if err != nil {
		return "", err
	}
	g := newGuard(0)
	if err := g.readHorizon(state.Properties[PropertyHorizon]); err != nil {
		return "", err
	}
	if g.hasFloor {
		highest = g.floor.text()
	}
	note, _, err := ParseLoadNote(state.Properties[PropertyLoad])
	if err != nil {
		return "", err
	}
	highest = max(highest, note.Position)
	if text := state.Properties[PropertyTombstones]; text != "" {
		var segments []segment
		if err := json.Unmarshal([]byte(text), &segments); err != nil {
			return "", fmt.Errorf("read table property %s: %w", PropertyTombstones, err)
		}
		for _, s := range segments {
			tombs, err := readSegment(ctx, table, s.File)
			if err != nil {
				return "", err
			}
			for t := range tombs.all() {
				highest = max(highest, t.position.text())
			}
		}
	}
	_, data := t.LakeColumns()
	for row, err := range table.Scan(ctx, []int{data}) {
		if err != nil {
			return "", err
		}
		if string(row[0]) > string(highest) { // a row that somebody else wrote has none
			highest = cdc.Position(row[0])
		}
	}
	return highest, nil
}
