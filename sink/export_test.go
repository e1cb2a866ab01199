package sink

import (
	"encoding/binary"
	"encoding/json"
	"time"
	"unsafe"

	"icehose/cdc"
	"icehose/internal/canon"
)

// What the tests of the parts need to see of them.

// Packed is a position as the index keeps it.
type Packed = packed

// Pack reads a position.
func Pack(text string) (Packed, bool) { return pack([]byte(text)) }

// ComparePacked orders two positions.
func ComparePacked(a, b Packed) int { return a.compare(&b) }

// TextOf returns the text of a position.
func TextOf(p Packed) cdc.Position { return p.text() }

// Index is the index of keys.
type Index struct{ x index }

// Put sets the position of a key.
func (i *Index) Put(h canon.Hash, p Packed, deleted bool) { i.x.put(h, &p, deleted, noTime) }

// Get returns the position of a key.
func (i *Index) Get(h canon.Hash) (p Packed, deleted, ok bool) {
	e := i.x.find(h)
	if e == nil {
		return p, false, false
	}
	return i.x.position(e), e.state&isDeleted != 0, true
}

// Remove forgets a key that is there.
func (i *Index) Remove(h canon.Hash) { i.x.remove(h) }

// Len returns the number of keys.
func (i *Index) Len() int { return i.x.count }

// IsPlain is the scanner's look at eight bytes of a JSON string.
func IsPlain(eight [8]byte) bool { return isPlain(binary.LittleEndian.Uint64(eight[:])) }

// CommitTime reads the canonical text of a commit time, Unix microseconds.
func CommitTime(text []byte) int64 { return commitTime(text) }

// Tracker keeps the handled records of one shard.
type Tracker struct{ o offsets }

// NewTracker returns a tracker that has seen nothing.
func NewTracker() *Tracker { return &Tracker{o: make(offsets)} }

// Add notes a record.
func (t *Tracker) Add(o Offset) bool { return t.o.add(&o) }

// Prefix returns the contiguous prefix of a shard.
func (t *Tracker) Prefix(shard string) uint64 { return t.o[shard].prefix() }

// Spans returns the number of spans of a shard.
func (t *Tracker) Spans(shard string) int { return len(t.o[shard]) }

// Contains reports whether a record was noted.
func (t *Tracker) Contains(shard string, n uint64) bool { return t.o[shard].contains(n) }

// Contradicts reports whether a record cannot be of the stream seen.
func (t *Tracker) Contradicts(o Offset) bool { return t.o[o.Shard].contradicts(&o) }

// Union returns what either has seen.
func (t *Tracker) Union(u *Tracker) *Tracker { return &Tracker{o: t.o.union(u.o)} }

// Equal compares two trackers.
func (t *Tracker) Equal(u *Tracker) bool { return t.o.equal(u.o) }

// MarshalJSON renders the property.
func (t *Tracker) MarshalJSON() ([]byte, error) { return json.Marshal(t.o) }

// UnmarshalJSON reads the property.
func (t *Tracker) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &t.o) }

// Guard is the order guard of a table.
type Guard struct{ g *guard }

// NewGuard returns an empty guard.
func NewGuard(horizon time.Duration) Guard { return Guard{newGuard(horizon)} }

// Restore notes what was found in storage.
func (g Guard) Restore(h canon.Hash, p Packed, deleted bool) { g.g.restore(h, &p, deleted, noTime) }

// Check reports whether a change may be applied, and whether its key has a row.
func (g Guard) Check(h canon.Hash, p Packed, deletes bool) (applies, live bool) {
	v, live, err := g.g.check(h, &p, deletes)
	return v == apply && err == nil, live
}

// RoundTripTombstones writes and reads tombstones; n counts those that came back.
func RoundTripTombstones(keys []canon.Hash, positions []Packed) (n int, err error) {
	w := segmentWriter{data: []byte(tombstoneMagic)}
	var tombs []tombstone
	for i := range keys {
		tombs = append(tombs, tombstone{key: keys[i], position: positions[i], committed: int64(i) - 1})
		w.add(&tombs[i], appendTombstone(nil, &tombs[i]))
	}
	got, err := openTombstones(binary.BigEndian.AppendUint32(w.data, checksum(w.data)))
	i := 0
	for t := range got.all() {
		if *t == tombs[i] {
			n++
		}
		i++
	}
	return n, err
}

// ParseTombstones reads a file of tombstones.
func ParseTombstones(data []byte) (n int, err error) {
	tombs, err := openTombstones(data)
	for range tombs.all() {
		n++
	}
	return n, err
}

// BufferCapacity returns the bytes that buffers hold, in use or not.
func (s *Sink) BufferCapacity() (n int) {
	buffers, changes := s.spares.data, s.spares.changes
	for _, w := range s.writers {
		buffers, changes = append(buffers, w.data), append(changes, w.changes)
	}
	for i := range buffers {
		n += cap(buffers[i]) + cap(changes[i])*int(unsafe.Sizeof(change{}))
	}
	return n
}
