package source

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Progress is how far the files are read, in bytes as they stand there: of a
// compressed file in those of the file.
type Progress struct {
	Read, Size int64
	// Known says that every name is of files that have a size: of standard input
	// and of pipes nobody knows how much is still to come.
	Known bool
}

// Left is how many bytes are not read yet.
func (p Progress) Left() int64 { return p.Size - p.Read }

// progress is what is known of the sizes of files, by several goroutines.
type progress struct {
	mu    sync.Mutex
	sized bool               // as of the last Measure
	files map[string]*extent // by path, those that were there then or are read since
}

// An extent is how far a file is read.
type extent struct{ read, size atomic.Int64 }

// Measure looks at the sizes of the files that are there now. It may be called
// while they are read, by whoever wants to know what they have grown by.
func (f *Files) Measure() Progress {
	sizes, sized := make(map[string]int64), !slices.Contains(f.Names, "-")
	for _, name := range f.Names {
		paths, err := Expand(name)
		if err != nil {
			continue // the reading says so
		}
		for _, path := range paths {
			info, err := os.Stat(path)
			switch {
			case err != nil:
			case !info.Mode().IsRegular():
				sized = false
			default:
				sizes[cleaned(path)] = info.Size()
			}
		}
	}
	p := &f.progress
	p.mu.Lock()
	p.sized = sized
	maps.DeleteFunc(p.files, func(path string, _ *extent) bool { _, there := sizes[path]; return !there })
	for path, size := range sizes {
		p.extent(path).size.Store(size)
	}
	p.mu.Unlock()
	return f.Progress()
}

// Progress returns how far the files are read that were there at the last
// Measure, before which nothing is known. It may be called while they are read.
func (f *Files) Progress() Progress {
	p := &f.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	out := Progress{Known: p.sized}
	for _, e := range p.files {
		read := e.read.Load()
		out.Read += read
		out.Size += max(read, e.size.Load()) // it may have grown since
	}
	return out
}

// reading returns the extent of a file that is about to be read for its records.
func (p *progress) reading(path string) *extent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.extent(cleaned(path))
}

func (p *progress) extent(path string) *extent {
	e := p.files[path]
	if e == nil {
		e = &extent{}
		if p.files == nil {
			p.files = make(map[string]*extent)
		}
		p.files[path] = e
	}
	return e
}

// cleaned is one name for a file that is given under several, but not where a
// link may lead elsewhere.
func cleaned(path string) string {
	if strings.Contains(path, "..") {
		return path
	}
	return filepath.Clean(path)
}
