package source

import (
	"errors"
	"hash/maphash"
	"io"
	"os"
)

// tailSize is how much of what was read is looked at again before a file that
// has grown is read on.
const tailSize = 4 << 10

// errReplaced says that a followed file does not hold any more what was read of
// it: what it got in between may be elsewhere, and unread.
var errReplaced = errors.New("not the file any more that was followed: it was renamed, cut or written anew, and records that it had may be unread: " +
	"give the earlier file, under the name that it has now, before it; a followed file keeps its name, and only grows")

// A mark tells whether a file still begins with what was read of it.
type mark struct {
	whole maphash.Hash // of all that was read
	end   []byte       // the last of it, until settle
	tail  uint64       // hash of the last of it
	size  int          // bytes that tail is the hash of
}

// add notes a piece that was read.
func (m *mark) add(text []byte) {
	_, _ = m.whole.Write(text) // which never fails
	text = text[max(0, len(text)-tailSize):]
	if len(m.end)+len(text) > 8*tailSize {
		m.end = append(m.end[:0], m.end[len(m.end)-tailSize:]...)
	}
	m.end = append(m.end, text...)
}

// settle ends a reading.
func (m *mark) settle() {
	if end := m.end[max(0, len(m.end)-tailSize):]; len(end) > 0 {
		m.tail, m.size = maphash.Bytes(m.whole.Seed(), end), len(end)
	}
	m.end = nil
}

// holds reads the first n bytes of in, and says whether they are what was read.
func (m *mark) holds(in io.Reader, n int64) (bool, error) {
	var now maphash.Hash
	now.SetSeed(m.whole.Seed())
	if _, err := io.CopyN(&now, in, n); err != nil {
		return false, err
	}
	return now.Sum64() == m.whole.Sum64(), nil
}

// ends says whether the bytes of file before place n are the last that were read.
func (m *mark) ends(file *os.File, n int64) (bool, error) {
	tail := make([]byte, m.size)
	if _, err := file.ReadAt(tail, n-int64(m.size)); err != nil {
		return false, err
	}
	return m.size == 0 || maphash.Bytes(m.whole.Seed(), tail) == m.tail, nil
}
