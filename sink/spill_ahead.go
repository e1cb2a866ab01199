package sink

import (
	"sync"
	"sync/atomic"

	"icehose/cdc"
	"icehose/internal/canon"
)

const (
	// aheadRows is how many deliveries are looked up together, aheadReaders how
	// many of their keys at a time: a disk, above all one behind a network, does
	// many reads at once as fast as one.
	aheadRows    = 256
	aheadReaders = 16
)

// A fetched key is what the disk has of it.
type fetched struct {
	known
	found bool
}

// ahead reads what tables whose index is on disk have of the keys of deliveries
// that come next. It decodes their rows, which Deliver then does once more: much
// less work than waiting for the disk key by key.
func (s *Sink) ahead(d []Delivery) {
	if !s.room.spilled() {
		return
	}
	wanted := make(map[*guard][]canon.Hash)
	for i := range d {
		w := s.writer(d[i].Row)
		if w == nil || w.refused || w.guard == nil || w.guard.disk == nil || w.offsets[d[i].Offset.Shard].contains(d[i].Offset.Ordinal) {
			continue
		}
		row, reason, _ := w.decoder.decode(d[i].Row.Data, d[i].Row.Operation == cdc.Delete)
		if reason != "" {
			continue
		}
		h := w.hash(row, w.key)
		if _, ok := w.latest[h]; !ok && w.guard.keys.find(h) == nil {
			wanted[w.guard] = append(wanted[w.guard], h)
		}
	}
	for g, hashes := range wanted {
		g.fetch(hashes)
	}
}

// aheadTombstones is how many tombstones of a file are looked up together.
const aheadTombstones = 4096

// fetchTombstones reads from the disk what it has of the keys of the next tombstones.
func (g *guard) fetchTombstones(tombs tombstones) {
	if g.disk == nil {
		return
	}
	var hashes []canon.Hash
	for t := range tombs.all() {
		if g.keys.find(t.key) == nil {
			hashes = append(hashes, t.key)
		}
		if len(hashes) == aheadTombstones {
			break
		}
	}
	g.fetch(hashes)
}

// spilled reports whether anything is on disk.
func (r *indexRoom) spilled() bool {
	for _, g := range r.guards {
		if g.disk != nil {
			return true
		}
	}
	return false
}

// fetch reads keys from the disk for find. What cannot be read is left out: find
// will say why.
func (g *guard) fetch(hashes []canon.Hash) {
	got := make([]fetched, len(hashes))
	read := make([]bool, len(hashes))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(aheadReaders, len(hashes)) {
		group.Go(func() {
			page := make([]byte, diskPage)
			for i := next.Add(1) - 1; i < int64(len(hashes)); i = next.Add(1) - 1 {
				var err error
				got[i].found, err = g.disk.find(hashes[i], &got[i].known, page)
				read[i] = err == nil
			}
		})
	}
	group.Wait()
	g.fetched = make(map[canon.Hash]fetched, len(hashes))
	for i, h := range hashes {
		if read[i] {
			g.fetched[h] = got[i]
		}
	}
}
