package sink

import "slices"

// The spares are buffers of commits that have landed, for whichever table fills
// one next. Two are kept, as many as are in use while one is filled and one is on
// its way: with a pair for every table, memory would grow with the number of
// tables, and not be bounded by Options.FlushBytes.
type spares struct {
	data    [][]byte
	changes [][]change
}

const keptSpares = 2

func (s *spares) keep(data []byte, changes []change) {
	if len(s.data) < keptSpares {
		s.data, s.changes = append(s.data, data[:0]), append(s.changes, changes[:0])
	}
}

// take returns a buffer, nil if none is kept.
func (s *spares) take() (data []byte, changes []change) {
	last := len(s.data) - 1
	if last < 0 {
		return nil, nil
	}
	data, changes = s.data[last], s.changes[last]
	s.data, s.changes = s.data[:last], s.changes[:last]
	return data, changes
}

// makeRoom lets the buffer take one more change, and its row of n bytes.
func (w *writer) makeRoom(n int) {
	if w.changes == nil {
		w.data, w.changes = w.spares.take()
	}
	rows := w.options.FlushRows
	if len(w.changes) == cap(w.changes) {
		w.changes = slices.Grow(w.changes, more(len(w.changes), 1, rows))
	}
	if cap(w.data)-len(w.data) < n {
		all := len(w.data) / max(1, len(w.changes)) * rows // bytes, if the other rows are alike
		w.data = slices.Grow(w.data, more(len(w.data), n, all+all/16))
	}
}

// more says by how much to grow what has n elements and needs some more: twofold,
// but not beyond what it will probably have in the end. Append alone grows a large
// slice by a quarter, and so copies a buffer several times over while it fills.
func more(n, needed, end int) int {
	if end <= n {
		end = 2 * n
	}
	return max(needed, min(n, end-n))
}

// full returns the table to commit now that w has got a row, nil if none has to be.
func (s *Sink) full(w *writer) *writer {
	switch {
	case w == nil:
		return nil
	case len(w.changes) >= s.options.FlushRows:
		return w
	case s.buffered < s.options.FlushBytes:
		return nil
	}
	largest := w
	for _, other := range s.writers {
		if other.size() > largest.size() {
			largest = other
		}
	}
	return largest
}
