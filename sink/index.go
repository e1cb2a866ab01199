package sink

import (
	"iter"

	"icehose/internal/canon"
)

// An index maps the hash of a key to the position of the last change that was
// applied to it, in memory. Entries stand in pages that hold no pointers and
// never move; a table of entry numbers finds them. So a key costs 48 bytes for
// its entry, 27 more if it is a load that was last applied to it, 16 more if it
// was deleted, and 5 to 10 for its place in the table: 53 to 85 bytes, whatever
// the key is.
//
// Keys are told apart by 128 bits of SHA-256. Two keys of a billion share them
// with a probability below 1 in 10^20.
type index struct {
	slots  []uint32 // entry number + 1, 0 for an empty slot; a power of two long
	pages  []*[pageSize]entry
	tails  []*[pageSize][tailSize]byte
	deaths []*[pageSize]death

	used, usedTails, usedDeaths uint32   // ever handed out
	free, freeTails, freeDeaths []uint32 // given back
	count                       int      // entries that hold a key
}

const pageSize = 4096

type entry struct {
	hash  canon.Hash
	head  [headSize]byte
	state uint8
	more  uint32 // the death of a deleted key, else the tail of a long position
}

// A death is what is known of a deleted key besides its position.
type death struct {
	committed int64 // Unix microseconds, noTime if unknown
	entry     uint32
	tail      uint32 // of a long position
}

// nobody is the entry of a death that was given back.
const nobody = ^uint32(0)

// known is what an index knows of a key.
type known struct {
	position  packed
	deleted   bool  // the key has a tombstone and no row
	committed int64 // when it was deleted, Unix microseconds, noTime if unknown
}

// Bits of entry.state.
const (
	isLong    = 1 << iota
	isDeleted // the key has a tombstone and no row
	isFree    // the entry was given back
)

func (x *index) entry(n uint32) *entry { return &x.pages[n/pageSize][n%pageSize] }

func (x *index) tail(n uint32) *[tailSize]byte { return &x.tails[n/pageSize][n%pageSize] }

func (x *index) death(n uint32) *death { return &x.deaths[n/pageSize][n%pageSize] }

// slot returns where the entry of h stands in slots, or where it would.
func (x *index) slot(h canon.Hash) uint32 {
	mask := uint32(len(x.slots) - 1)
	at := uint32(h.Lo) & mask
	for x.slots[at] != 0 && x.entry(x.slots[at]-1).hash != h {
		at = (at + 1) & mask
	}
	return at
}

// find returns the entry of h, nil if there is none.
func (x *index) find(h canon.Hash) *entry {
	if x.count == 0 {
		return nil
	}
	n := x.slots[x.slot(h)]
	if n == 0 {
		return nil
	}
	return x.entry(n - 1)
}

// position returns the position of e.
func (x *index) position(e *entry) (p packed) {
	p.head = e.head
	if e.state&isLong != 0 {
		p.long, p.tail = true, *x.tail(*x.tailOf(e))
	}
	return p
}

// known returns what is known of e.
func (x *index) known(e *entry) known {
	k := known{position: x.position(e), committed: noTime}
	if e.state&isDeleted != 0 {
		k.deleted, k.committed = true, x.death(e.more).committed
	}
	return k
}

// tailOf returns where e notes its tail.
func (x *index) tailOf(e *entry) *uint32 {
	if e.state&isDeleted != 0 {
		return &x.death(e.more).tail
	}
	return &e.more
}

// put sets the position of h, and of a deleted key when that was committed.
func (x *index) put(h canon.Hash, p *packed, deleted bool, committed int64) {
	if len(x.slots) == 0 || x.count >= len(x.slots)/5*4 {
		x.grow()
	}
	at := x.slot(h)
	if x.slots[at] == 0 {
		x.slots[at] = x.take() + 1
		*x.entry(x.slots[at] - 1) = entry{hash: h}
		x.count++
	}
	n := x.slots[at] - 1
	e := x.entry(n)
	x.release(e)
	e.head = p.head
	if deleted {
		e.state, e.more = isDeleted, x.takeDeath()
		*x.death(e.more) = death{committed: committed, entry: n}
	}
	if p.long {
		tail := x.takeTail()
		*x.tail(tail), *x.tailOf(e) = p.tail, tail
		e.state |= isLong
	}
}

// release gives back what e has beside itself.
func (x *index) release(e *entry) {
	if e.state&isLong != 0 {
		x.freeTails = append(x.freeTails, *x.tailOf(e))
	}
	if e.state&isDeleted != 0 {
		x.death(e.more).entry = nobody
		x.freeDeaths = append(x.freeDeaths, e.more)
	}
	e.state = 0
}

// remove forgets h, which must have an entry. Entries behind it move up, so
// that no search stops early.
func (x *index) remove(h canon.Hash) {
	mask := uint32(len(x.slots) - 1)
	hole := x.slot(h)
	n := x.slots[hole] - 1
	x.release(x.entry(n))
	x.entry(n).state = isFree
	x.free = append(x.free, n)
	x.count--
	for at := (hole + 1) & mask; x.slots[at] != 0; at = (at + 1) & mask {
		home := uint32(x.entry(x.slots[at]-1).hash.Lo) & mask
		if (at-home)&mask >= (at-hole)&mask {
			x.slots[hole], hole = x.slots[at], at
		}
	}
	x.slots[hole] = 0
}

func (x *index) take() uint32 { return handOut(&x.free, &x.used, &x.pages) }

func (x *index) takeTail() uint32 { return handOut(&x.freeTails, &x.usedTails, &x.tails) }

func (x *index) takeDeath() uint32 { return handOut(&x.freeDeaths, &x.usedDeaths, &x.deaths) }

// handOut returns the number of a place that was given back, or of a new one.
func handOut[T any](free *[]uint32, used *uint32, pages *[]*[pageSize]T) uint32 {
	if last := len(*free) - 1; last >= 0 {
		n := (*free)[last]
		*free = (*free)[:last]
		return n
	}
	if *used%pageSize == 0 {
		*pages = append(*pages, new([pageSize]T))
	}
	*used++
	return *used - 1
}

func (x *index) grow() {
	old := x.slots
	x.slots = make([]uint32, max(1024, 2*len(old)))
	for _, n := range old {
		if n != 0 {
			x.slots[x.slot(x.entry(n-1).hash)] = n
		}
	}
}

// dead returns the numbers of the entries of deleted keys. They may be removed
// while it runs.
func (x *index) dead() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for n := range x.usedDeaths {
			if e := x.death(n).entry; e != nobody && !yield(e) {
				return
			}
		}
	}
}

// What the parts of an index take.
const (
	entryBytes = 48
	deathBytes = 16
	slotBytes  = 4
)

// bytes returns what the index takes in memory.
func (x *index) bytes() int64 {
	return pageSize*int64(len(x.pages)*entryBytes+len(x.tails)*tailSize+len(x.deaths)*deathBytes) +
		slotBytes*int64(len(x.slots)+cap(x.free)+cap(x.freeTails)+cap(x.freeDeaths))
}

// growth returns, roughly, how much more it takes with n more keys.
func (x *index) growth(n int) int64 {
	more := int64(n) * entryBytes
	if slots := int64(len(x.slots)); slots > 0 && int64(x.count+n) >= slots/5*4 {
		more += slots * slotBytes
	}
	return more
}
