package sink

import "icehose/internal/canon"

// An index maps the hash of a key to the position of the last change that was
// applied to it. Entries stand in pages that hold no pointers and never move;
// a table of entry numbers finds them. So a key costs 48 bytes for its entry,
// 27 more if it is a load that was last applied to it, and 5 to 10 for its
// place in the table: 53 to 85 bytes, whatever the key is.
//
// Keys are told apart by 128 bits of SHA-256. Two keys of a billion share them
// with a probability below 1 in 10^20.
type index struct {
	slots     []uint32 // entry number + 1, 0 for an empty slot; a power of two long
	pages     []*[pageSize]entry
	tails     []*[pageSize][tailSize]byte
	used      uint32   // entries ever handed out
	free      []uint32 // entries given back
	usedTails uint32
	freeTails []uint32
	count     int // entries that hold a key
}

const pageSize = 4096

type entry struct {
	hash  canon.Hash
	head  [headSize]byte
	state uint8
	tail  uint32 // where the rest of a long position stands
}

// Bits of entry.state.
const (
	isLong    = 1 << iota
	isDeleted // the key has a tombstone and no row
)

func (x *index) entry(n uint32) *entry { return &x.pages[n/pageSize][n%pageSize] }

func (x *index) tail(n uint32) *[tailSize]byte { return &x.tails[n/pageSize][n%pageSize] }

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
		p.long, p.tail = true, *x.tail(e.tail)
	}
	return p
}

// put sets the position of h.
func (x *index) put(h canon.Hash, p *packed, deleted bool) {
	if len(x.slots) == 0 || x.count >= len(x.slots)/5*4 {
		x.grow()
	}
	at := x.slot(h)
	if x.slots[at] == 0 {
		x.slots[at] = x.take() + 1
		*x.entry(x.slots[at] - 1) = entry{hash: h}
		x.count++
	}
	e := x.entry(x.slots[at] - 1)
	switch {
	case p.long && e.state&isLong == 0:
		e.tail = x.takeTail()
	case !p.long && e.state&isLong != 0:
		x.freeTails = append(x.freeTails, e.tail)
	}
	e.head, e.state = p.head, 0
	if p.long {
		e.state = isLong
		*x.tail(e.tail) = p.tail
	}
	if deleted {
		e.state |= isDeleted
	}
}

// remove forgets h, which must have an entry. Entries behind it move up, so
// that no search stops early.
func (x *index) remove(h canon.Hash) {
	mask := uint32(len(x.slots) - 1)
	hole := x.slot(h)
	n := x.slots[hole] - 1
	if e := x.entry(n); e.state&isLong != 0 {
		x.freeTails = append(x.freeTails, e.tail)
	}
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

func (x *index) take() uint32 {
	if last := len(x.free) - 1; last >= 0 {
		n := x.free[last]
		x.free = x.free[:last]
		return n
	}
	if x.used%pageSize == 0 {
		x.pages = append(x.pages, new([pageSize]entry))
	}
	x.used++
	return x.used - 1
}

func (x *index) takeTail() uint32 {
	if last := len(x.freeTails) - 1; last >= 0 {
		n := x.freeTails[last]
		x.freeTails = x.freeTails[:last]
		return n
	}
	if x.usedTails%pageSize == 0 {
		x.tails = append(x.tails, new([pageSize][tailSize]byte))
	}
	x.usedTails++
	return x.usedTails - 1
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
