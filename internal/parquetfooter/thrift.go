package parquetfooter

import "encoding/binary"

// Types of Thrift's compact protocol.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
)

// A thrift reads Thrift's compact protocol.
type thrift struct {
	left   []byte
	broken bool // ended too early, or has a type that is none
}

// take returns the next n bytes, nil if there are fewer.
func (t *thrift) take(n uint64) []byte {
	if n > uint64(len(t.left)) {
		t.broken, t.left = true, nil
		return nil
	}
	taken := t.left[:n]
	t.left = t.left[n:]
	return taken
}

// next returns the next byte, in place.
func (t *thrift) next() *byte {
	if b := t.take(1); b != nil {
		return &b[0]
	}
	return new(byte)
}

func (t *thrift) uvarint() uint64 {
	v, n := binary.Uvarint(t.left)
	if n <= 0 {
		t.broken, t.left = true, nil
		return 0
	}
	t.left = t.left[n:]
	return v
}

func (t *thrift) binary() []byte { return t.take(t.uvarint()) }

// fields calls read with every field of a struct: its number, its type and its
// header. read reads the field's value.
func (t *thrift) fields(read func(id int, kind byte, header *byte)) {
	for id := 0; !t.broken; {
		header := t.next()
		if *header == 0 {
			return
		}
		if delta := int(*header >> 4); delta > 0 {
			id += delta
		} else {
			v := t.uvarint()
			id = int(v>>1) ^ -int(v&1) //nolint:gosec // a number of 16 bits
		}
		read(id, *header&0x0f, header)
	}
}

// field reads a struct: of its fields read reads the one of a number, the others
// are skipped.
func (t *thrift) field(number int, read func()) {
	t.fields(func(id int, kind byte, _ *byte) {
		if id == number {
			read()
		} else {
			t.skip(kind)
		}
	})
}

// structs is field where it is a list, of whose elements read reads each.
func (t *thrift) structs(number int, read func()) {
	t.field(number, func() { t.list(func(byte) { read() }) })
}

// list calls read for every element of a list.
func (t *thrift) list(read func(kind byte)) {
	header := *t.next()
	n := uint64(header >> 4)
	if n == 15 {
		n = t.uvarint()
	}
	for ; n > 0 && !t.broken; n-- {
		read(header & 0x0f)
	}
}

// skip skips the value of a field.
func (t *thrift) skip(kind byte) {
	switch kind {
	case thriftTrue, thriftFalse: // the type is the value
	case thriftByte:
		t.take(1)
	case thriftI16, thriftI32, thriftI64:
		t.uvarint()
	case thriftDouble:
		t.take(8)
	case thriftBinary:
		t.binary()
	case thriftList, thriftSet:
		t.list(t.skipElement)
	case thriftMap:
		t.skipMap()
	case thriftStruct:
		t.fields(func(_ int, kind byte, _ *byte) { t.skip(kind) })
	default:
		t.broken, t.left = true, nil
	}
}

// skipElement skips an element of a list, set or map, where a truth value has a
// byte of its own.
func (t *thrift) skipElement(kind byte) {
	if kind == thriftTrue || kind == thriftFalse {
		kind = thriftByte
	}
	t.skip(kind)
}

func (t *thrift) skipMap() {
	n := t.uvarint()
	if n == 0 {
		return
	}
	kinds := *t.next()
	for ; n > 0 && !t.broken; n-- {
		t.skipElement(kinds >> 4)
		t.skipElement(kinds & 0x0f)
	}
}
