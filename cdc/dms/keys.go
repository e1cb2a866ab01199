package dms

import (
	"bytes"
	"encoding/binary"

	"icehose/cdc"
)

// A key is how one key stood in a record: with the comma and space before it,
// and its colon and the space behind. Records of one table have the same keys
// one after another, so what followed a key the last time is tried first: when
// the same bytes stand there, they need no second reading.
type key struct {
	text []byte // as it stood, from the end of the value before it to its own value
	name []byte // unescaped
	// What followed the last time, and another time: records of several
	// operations take turns.
	next, other *key
	// field is its number among the metadata fields.
	field int
}

const (
	maxKeys     = 4096 // keys kept, so that hostile records cannot fill memory
	maxKeyBytes = 512  // of a key worth keeping
)

// keys are the keys that a decoder has seen. Each root's next is the first
// key of one of the objects of a record.
type keys struct {
	seen            map[string]*key
	top, image, own key // roots: of the record, of data and before-image, of metadata
}

// A member is a place in an object that is being read.
type member struct {
	keys  *keys
	key   *key // the one whose value is next, then the one before
	first bool
}

// object begins an object whose brace was read.
func (k *keys) object(root *key) member { return member{keys: k, key: root, first: true} }

// next steps to the next member: it reads what is up to its value. It returns
// false at the end of the object, and after a fault, which leaves a reason.
func (m *member) next(s *scanner) bool {
	b := s.b[s.i:]
	if len(b) > 0 && b[0] == '}' {
		s.i++
		return false
	}
	next := m.key.next
	if next == nil || !beginsWith(b, next.text) {
		if next = m.key.other; next == nil || !beginsWith(b, next.text) {
			return m.read(s)
		}
	}
	s.i += len(next.text) // with a comma unless key is a root, so what stands here is a member
	s.space()
	m.key, m.first = next, false
	return true
}

// beginsWith is bytes.HasPrefix for texts as long as keys are, where the call
// costs more than to compare eight bytes at a time.
func beginsWith(b, text []byte) bool {
	n := len(text)
	if len(b) < n || n < 8 {
		return bytes.HasPrefix(b, text)
	}
	b = b[:n]
	for i := 0; i+8 < n; i += 8 {
		if binary.LittleEndian.Uint64(b[i:]) != binary.LittleEndian.Uint64(text[i:]) {
			return false
		}
	}
	return binary.LittleEndian.Uint64(b[n-8:]) == binary.LittleEndian.Uint64(text[n-8:])
}

// read is next without a guess.
func (m *member) read(s *scanner) bool {
	start := s.i
	c := s.space()
	switch {
	case c == '}':
		s.i++
		return false
	case m.first:
	case c == ',':
		s.i++
		c = s.space()
	default:
		return s.unexpected(reasonComma)
	}
	m.first = false
	if c != '"' {
		return s.unexpected(reasonKey)
	}
	var name cdc.Value
	if !s.text(&name) || !s.colon() {
		return false
	}
	s.space()
	text := s.b[start:s.i]
	found := m.keys.seen[string(text)]
	if found == nil {
		found = &key{}
		found.name, _ = name.AppendText(nil)
		found.field = fieldOf(found.name)
		if len(m.keys.seen) >= maxKeys || len(text) > maxKeyBytes {
			m.key = found // and forget it with the record
			return true
		}
		found.text = bytes.Clone(text)
		m.keys.seen[string(text)] = found
	}
	m.key.next, m.key.other, m.key = found, m.key.next, found
	return true
}
