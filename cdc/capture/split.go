package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// maxObject is how large one object may be. A Firehose event has at most 6 MB,
// the answer of get-records 10 MB before base64.
const maxObject = 64 << 20

// An Object is one JSON object of a text, or what stands where one should be.
type Object struct {
	Text   []byte // the caller's
	Line   int    // where it begins, from 1
	Broken bool   // it does not end, or is no object
	Format Format // what it was captured as, by Objects; Auto when that is not known
}

// A ReadError says why a text could not be read to its end: it was cut off or
// damaged where it is compressed, or the device failed. What came before is good.
type ReadError struct{ Err error }

// Error implements error.
func (e *ReadError) Error() string { return "read records: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ReadError) Unwrap() error { return e.Err }

// Split yields the objects that follow each other in r. Commas and brackets
// around them are skipped, so a JSON array of objects is a sequence of them.
// It counts braces and knows strings; the grammar inside is not checked.
//
// An object that does not end is told by a line break inside a string, by a
// line that begins with an object where none may stand, or by the end of r. It
// is broken up to its first line that begins with an object, where reading
// goes on. Where r ends inside an object or a list of them, r was cut off, which
// is an error; an object that has the last line to itself, its line break
// included, is broken only. A byte order mark is skipped where r begins.
//
// An error is a *ReadError and comes after the objects that were whole before it.
func Split(r io.Reader) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		s := splitter{in: r, line: 1, start: -1}
		for {
			p, ok, err := s.next()
			if err != nil {
				yield(Object{}, &ReadError{err})
				return
			}
			if !ok || !yield(p, nil) {
				return
			}
		}
	}
}

// A splitter is where Split stands in its text.
type splitter struct {
	in    io.Reader
	begun bool  // the byte order mark was looked for
	eof   bool  // nothing more comes
	err   error // of reading, instead of the end
	buf   []byte
	at    int // the next byte of buf to look at
	start int // where the object begins; -1 between objects
	line  int // of the byte at at
	first int // line of start

	lists  int // brackets that are open around the objects
	opened int // line of the outermost

	object  bool // of the brace kind; else junk up to the end of the line
	depth   int
	quoted  bool
	escaped bool
	last    byte // the last byte outside of strings and space
	column0 bool // nothing but the line break is before at
}

// next returns the next object; ok is false at the end.
func (s *splitter) next() (p Object, ok bool, err error) {
	s.skipMark()
	for {
		for s.at < len(s.buf) {
			if p, ok = s.step(s.buf[s.at]); ok {
				return p, true, nil
			}
		}
		if s.err != nil {
			return p, false, s.err
		}
		switch {
		case s.start >= 0 && len(s.buf)-s.start > maxObject:
			if p, ok = s.giveUp(); ok {
				return p, true, nil
			}
			return p, false, errors.New("one object of more than 64 MiB without a line break")
		case s.eof && s.start >= 0:
			whole := s.object
			if p = s.breakOff(len(s.buf)); whole && s.at == len(s.buf) && !isLine(p.Text) {
				return Object{}, false, fmt.Errorf("line %d: cut off: the object that begins there does not end", p.Line)
			}
			return p, true, nil
		case s.eof && s.lists > 0:
			return Object{}, false, fmt.Errorf("line %d: cut off: the list that begins there does not end", s.opened)
		case s.eof:
			return Object{}, false, nil
		}
		s.fill()
	}
}

// isLine reports whether a text is one line with its line break.
func isLine(text []byte) bool {
	line := bytes.TrimRight(text, " \t\r\n")
	return bytes.IndexByte(line, '\n') < 0 && bytes.IndexByte(text[len(line):], '\n') >= 0
}

// skipMark skips the byte order mark at the beginning.
func (s *splitter) skipMark() {
	mark := []byte("\ufeff")
	for !s.begun {
		if len(s.buf) < len(mark) && !s.eof && s.err == nil {
			s.fill()
			continue
		}
		s.begun = true
		if bytes.HasPrefix(s.buf, mark) {
			s.at = len(mark)
		}
	}
}

// fill reads more, forgetting what was cut. An error is kept until what came
// before it was looked at.
func (s *splitter) fill() {
	from := s.at
	if s.start >= 0 {
		from = s.start
		s.start = 0
	}
	s.buf = append(s.buf[:0], s.buf[from:]...)
	s.at -= from
	free := len(s.buf)
	s.buf = append(s.buf, make([]byte, max(1<<16, free))...)
	n, err := s.in.Read(s.buf[free:])
	s.buf = s.buf[:free+n]
	if errors.Is(err, io.EOF) {
		s.eof, err = true, nil
	}
	s.err = err
}

// step looks at one byte. ok is true when it ended an object.
func (s *splitter) step(c byte) (p Object, ok bool) {
	column0 := s.column0
	s.column0 = c == '\n'
	switch {
	case s.start < 0:
		s.begin(c)
	case c == '\n' && (s.quoted || !s.object):
		return s.breakOff(s.at), true
	case !s.object:
	case s.quoted:
		switch {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.quoted, s.last = false, c
		}
	case c == '{' && column0 && !s.mayNest():
		return s.breakOff(s.at), true
	default:
		if s.structure(c) {
			p, ok = s.cut(s.at+1), true
		}
	}
	if c == '\n' {
		s.line++
	}
	s.at++
	return p, ok
}

// begin looks at a byte between objects.
func (s *splitter) begin(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n', ',':
		return
	case '[':
		if s.lists++; s.lists == 1 {
			s.opened = s.line
		}
		return
	case ']':
		s.lists = max(s.lists-1, 0)
		return
	}
	s.start, s.first, s.object = s.at, s.line, c == '{'
	s.depth, s.quoted, s.escaped, s.last = 1, false, false, c
}

// structure looks at a byte of an object outside of strings and reports
// whether it ends the object.
func (s *splitter) structure(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n':
		return false
	case '"':
		s.quoted = true
	case '{', '[':
		s.depth++
	case '}', ']':
		s.depth--
	}
	s.last = c
	return s.depth == 0
}

// mayNest reports whether an object may stand here, in an array at least.
func (s *splitter) mayNest() bool {
	return s.last == ':' || s.last == '[' || s.last == ','
}

// cut ends the object before the byte at end.
func (s *splitter) cut(end int) Object {
	p := Object{Text: bytes.Clone(s.buf[s.start:end]), Line: s.first}
	s.start = -1
	return p
}

// breakOff ends a broken object before the byte at end, or before the first
// line in it that begins with an object. Reading goes on there.
func (s *splitter) breakOff(end int) Object {
	if at := bytes.Index(s.buf[s.start:min(end+1, len(s.buf))], []byte("\n{")); at >= 0 {
		end = s.start + at
	}
	s.line = s.first + bytes.Count(s.buf[s.start:end], []byte{'\n'})
	s.at, s.column0 = end, false
	p := s.cut(end)
	p.Broken = true
	s.lists = 0 // it may hold their ends
	return p
}

// giveUp breaks off an object that is too long; ok is false when it holds no
// line break.
func (s *splitter) giveUp() (p Object, ok bool) {
	end := bytes.IndexByte(s.buf[s.start:], '\n')
	if end < 0 {
		return p, false
	}
	return s.breakOff(s.start + end), true
}
