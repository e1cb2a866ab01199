package transform

import (
	"bytes"
	"hash/maphash"

	"icehose/catalog"
	"icehose/cdc"
)

// settle decides about a row that is ready: delivered, superseded by a newer
// change of its key earlier in the batch, or too large for what room is left.
// Only a row that is delivered supersedes another, so a record that fails
// never costs the change before it. Of equal positions the later in the batch
// is taken for newer.
func (w *worker) settle(i int, room Room) {
	results := w.results
	r, s := &results[i], &w.settled[i]
	rival := -1
	var chain *int32
	collapses := r.Row.Table.Mode == catalog.Mirror && len(r.Row.Table.Key) > 0
	if collapses {
		s.keyFrom = len(w.arena)
		w.arena = append(append(w.arena, byte(s.plan), byte(s.plan>>8), byte(s.plan>>16)), w.key...)
		s.keyTo = len(w.arena)
		w.arena = append(w.arena, w.position...)
		s.positionTo = len(w.arena)
		hash := maphash.Bytes(w.seed, w.arena[s.keyFrom:s.keyTo])
		chain = &w.newest[hash&uint64(len(w.newest)-1)]
		rival = w.rival(*chain, s)
	}
	if rival >= 0 && bytes.Compare(w.positionOf(rival), w.position) > 0 {
		w.supersede(r, &results[rival])
		w.rows = w.rows[:s.from]
		return
	}
	if !w.fits(i, rival, r, room) {
		r.Outcome, r.Reason, r.Row = ProcessingFailed, ResponseTooLarge, Row{}
		w.rows = w.rows[:s.from]
		return
	}
	r.Outcome = Ok
	if rival >= 0 {
		w.supersede(&results[rival], r)
		w.replace(chain, rival, i)
		return
	}
	if collapses {
		s.next, *chain = *chain, int32(i+1)
	}
}

// positionOf returns the position of a row of a mirror. Positions compare byte
// by byte.
func (w *worker) positionOf(i int) []byte { return w.arena[w.settled[i].keyTo:w.settled[i].positionTo] }

// rival finds the row that is delivered so far for the same table and key, in
// a chain; -1 when there is none.
func (w *worker) rival(at int32, s *settled) int {
	for at > 0 {
		o := &w.settled[at-1]
		if bytes.Equal(w.arena[o.keyFrom:o.keyTo], w.arena[s.keyFrom:s.keyTo]) {
			return int(at - 1)
		}
		at = o.next
	}
	return -1
}

// replace puts result i where rival stood in its chain.
func (w *worker) replace(chain *int32, rival, i int) {
	w.settled[i].next = w.settled[rival].next
	for *chain != int32(rival+1) {
		chain = &w.settled[*chain-1].next
	}
	*chain = int32(i + 1)
}

// supersede drops the older of two changes of one key. If the newer is a plain
// insert, it becomes an upsert unless the older was one too: the older change
// says that the lake may hold a row of this key, which it would have replaced
// or removed.
func (w *worker) supersede(older, newer *Result) {
	if newer.Row.Operation == cdc.Insert && older.Row.Operation != cdc.Insert {
		newer.Row.Operation = cdc.Update
	}
	older.Outcome, older.Reason, older.Row = Dropped, Superseded, Row{}
}

// fits accounts for the answer that delivers row i instead of its rival. The
// echoes of records still to come are in the total already, so an answer that
// is not longer than its echo always fits.
func (w *worker) fits(i, rival int, r *Result, room Room) bool {
	if room == nil {
		return true
	}
	s := &w.settled[i]
	s.cost = room.Row(i, &r.Row)
	more := s.cost - room.Echo(i)
	if rival >= 0 {
		more += room.Echo(rival) - w.settled[rival].cost
	}
	if more > 0 && w.total+more > room.Limit() {
		return false
	}
	w.total += more
	return true
}
