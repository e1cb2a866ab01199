package source

import (
	"io"
	"os"
	"slices"

	"icehose/cdc/capture"
)

// A holding is a followed file that is kept open: when its name is given to
// another file, or taken away, it tells whether it had more than was read.
type holding struct {
	path string
	file *os.File
	size int64 // before it was last read
	seen int64 // bytes that were read of it, unpacked
	gone int   // looks at which the name was not its own any more
}

const (
	// maxHeld bounds how many files are kept open: those that grew last.
	maxHeld = 512
	// goneLooks is for how many looks one is kept whose name is gone: as long as
	// its writer may need to leave it. It keeps its room on the disk that long.
	goneLooks = 10
)

// hold keeps open the file of a cursor, which was as c.file says before it was read.
func (l *listing) hold(c *cursor) {
	info := c.file
	i := slices.IndexFunc(l.held, func(h *holding) bool { return h.is(info) })
	var h *holding
	if i >= 0 {
		h = l.held[i]
		l.held = slices.Delete(l.held, i, i+1)
	} else {
		file, err := os.Open(c.place.path)
		if err != nil {
			return // it was read, and is looked at again as one that is not held
		}
		h = &holding{file: file}
		if !h.is(info) {
			_ = file.Close() // only looked at
			return
		}
	}
	h.path, h.size, h.seen, h.gone = c.place.path, info.Size(), c.seen, 0
	if l.held = append(l.held, h); len(l.held) > maxHeld {
		_ = l.held[0].file.Close() // only looked at
		l.held = slices.Delete(l.held, 0, 1)
	}
}

// is says that info is of the file that is held.
func (h *holding) is(info os.FileInfo) bool {
	own, err := h.file.Stat()
	return err == nil && os.SameFile(own, info)
}

// grew says that the file has got more than was read. While it is read it may
// grow beyond the size that it had before: what it holds is counted.
func (h *holding) grew() bool {
	own, err := h.file.Stat()
	if err != nil || own.Size() <= h.size {
		return err != nil
	}
	h.size = own.Size()
	if _, err := h.file.Seek(0, io.SeekStart); err != nil {
		return true
	}
	in, err := capture.Decompress(h.file)
	if err != nil {
		return true
	}
	defer in.Close() //nolint:errcheck // only counted
	n, err := io.Copy(io.Discard, in)
	return n > h.seen || err != nil && !isCut(err)
}

// lost returns the path of a file that has got more than was read of it, under a
// name that is not its own any more; empty for none.
func (l *listing) lost() string {
	for _, h := range l.held {
		info, err := os.Stat(h.path)
		if err == nil && h.is(info) {
			h.gone = 0
			continue
		}
		if h.grew() {
			return h.path
		}
		h.gone++
	}
	l.held = slices.DeleteFunc(l.held, func(h *holding) bool {
		done := h.gone > goneLooks && h.size > 0 // an empty one takes no room
		if done {
			_ = h.file.Close() // only looked at
		}
		return done
	})
	return ""
}

// wasEmpty says that a file that was followed is known to be empty still.
func (l *listing) wasEmpty(info os.FileInfo) bool {
	i := slices.IndexFunc(l.held, func(h *holding) bool { return h.is(info) })
	return i >= 0 && l.held[i].size == 0 && !l.held[i].grew()
}

func (l *listing) close() {
	for _, h := range l.held {
		_ = h.file.Close() // only looked at
	}
	l.held = nil
	if l.unpacker != nil {
		l.unpacker.Close()
		l.unpacker = nil
	}
}
