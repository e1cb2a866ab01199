package sink

import "icehose/cdc"

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
	for _, n := range w.guard.keys.slots {
		if n != 0 {
			see(w.guard.keys.position(w.guard.keys.entry(n - 1)))
		}
	}
	if !known {
		return ""
	}
	return highest.text()
}
