package firehose

import (
	"bytes"

	"icehose/cdc"
)

// A form is what the records of an event have in common: all but their values.
// Where the bytes between the values are those of a record that was read key
// by key, they mean the same. Slices alias the event.
type form struct {
	leaves []leaf
	tail   []byte // behind the last value
	kafka  bool
	learnt int
}

// A leaf is a string or number of a record, at whatever depth.
type leaf struct {
	before []byte // up to the value, a string's quote included; from the closing quote of the one before
	number bool
	role   role
}

// A role says what a leaf is for.
type role uint8

// The roles.
const (
	roleNone role = iota
	roleID
	rolePayload
	roleShard
	roleSequence
)

// maxForms is how many forms are learnt of one event, so that one of hostile
// variety is not read twice.
const maxForms = 16

// learn takes the form of the record at b[from:to], which was read.
func (f *form) learn(b []byte, from, to int, r *eventRecord) {
	if f.learnt++; f.learnt > maxForms {
		return
	}
	f.leaves = f.leaves[:0]
	literal := from
	for i := from; i < to; {
		start := i
		switch c := b[i]; {
		case c == '"':
			s := scanner{b: b, i: i}
			if i == r.at.payload {
				s.i += len(r.payload) + 2 // what is in it was not read yet
			} else {
				_, _, _ = s.text() // it was read before
			}
			if i = s.i; s.peek() == ':' {
				continue // a key
			}
			f.leaves = append(f.leaves, leaf{before: b[literal : start+1], role: r.at.role(start)})
			literal = i - 1
		case c == '-' || c >= '0' && c <= '9':
			s := scanner{b: b, i: i}
			_ = s.number() // it was read before
			i = s.i
			f.leaves = append(f.leaves, leaf{before: b[literal:start], number: true, role: r.at.role(start)})
			literal = i
		default:
			i++
		}
	}
	f.tail, f.kafka = b[literal:to], r.kafka
}

// role returns what the value at i is for.
func (p *places) role(i int) role {
	switch i {
	case p.id:
		return roleID
	case p.payload:
		return rolePayload
	case p.shard:
		return roleShard
	case p.sequence:
		return roleSequence
	}
	return roleNone
}

// like reads a record of the form that was learnt last. It returns false, and
// has read nothing, for any other record, and for values that need more than a
// look: escapes, text that is not ASCII, numbers that are not plain.
func (e *event) like(s *scanner) bool {
	if len(e.form.leaves) == 0 {
		return false
	}
	b, i, noted := s.b, s.i, len(e.build)
	var r eventRecord
	for k := range e.form.leaves {
		l := &e.form.leaves[k]
		if !bytes.HasPrefix(b[i:], l.before) {
			e.build = e.build[:noted]
			return false
		}
		i += len(l.before)
		end := l.end(b, i)
		if end < 0 {
			e.build = e.build[:noted]
			return false
		}
		e.fill(&r, l, b, i, end)
		i = end
	}
	if !bytes.HasPrefix(b[i:], e.form.tail) {
		e.build = e.build[:noted]
		return false
	}
	s.i = i + len(e.form.tail)
	r.missing, r.kafka = r.at.payload == 0, e.form.kafka
	e.records = append(e.records, r)
	return true
}

// fill takes the value b[from:to] of a record.
func (e *event) fill(r *eventRecord, l *leaf, b []byte, from, to int) {
	switch l.role {
	case roleNone:
	case roleID:
		r.rawID = b[from-1 : to+1]
	case rolePayload:
		r.payload, r.at.payload = b[from:to], from-1
	case roleShard:
		r.shard = e.shardOf(b[from:to])
	case roleSequence:
		r.sequence = e.note(b[from:to])
	}
}

// end returns where the value at i ends, -1 when it is not a plain one.
func (l *leaf) end(b []byte, i int) int {
	switch {
	case l.number:
		from := i
		i = cdc.SkipDigits(b, i)
		if i == from || b[from] == '0' && i-from > 1 {
			return -1
		}
		return i
	case l.role == rolePayload:
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 || n > 0 && b[i+n-1] == '\\' {
			return -1
		}
		return i + n
	}
	if i = cdc.SkipPlain(b, i); i >= len(b) || b[i] != '"' {
		return -1
	}
	return i
}
