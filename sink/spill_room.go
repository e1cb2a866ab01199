package sink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// An indexRoom is the memory that the indexes of a sink may take together, and
// the folder on this machine that takes the rest.
type indexRoom struct {
	limit   int64
	folder  string
	named   bool // by somebody: else no file outlives the process, however that ends
	guards  []*guard
	merging *merging                           // the last merge begun: one runs at a time
	open    func(path string) (runFile, error) // creates a file
}

const (
	// defaultIndexMemory is Options.IndexMemory.
	defaultIndexMemory = 1 << 30
	// spilledPart is the part of the limit at which the memory of an index that
	// has spilled before is spilled again, so that this does not take long.
	spilledPart = 4
	// filterPart is the part of the limit that the filter of one file may take,
	// and filtersPart that of everything that files need in memory.
	filterPart, filtersPart = 8, 2

	indexPrefix = "index-"
	runSuffix   = ".run"
	noteSuffix  = ".json"
	newSuffix   = ".new" // of a note that is being written
)

func newIndexRoom(o *Options) *indexRoom {
	return &indexRoom{limit: o.IndexMemory, folder: o.IndexDir, named: o.IndexDir != "", open: createFile}
}

func createFile(path string) (runFile, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the folder is the sink's own
}

// guard returns an empty guard whose index is in r.
func (r *indexRoom) guard(horizon time.Duration) *guard {
	g := newGuard(horizon)
	g.room = r
	r.guards = append(r.guards, g)
	return g
}

func (r *indexRoom) filterLimit() int64 { return r.limit / filterPart }

// ready makes the folder, or finds the system's own for temporary files.
func (r *indexRoom) ready() error {
	if !r.named {
		r.folder = os.TempDir()
		return nil
	}
	return os.MkdirAll(r.folder, 0o700)
}

// create creates a file in the folder. Where nobody has named one it has no name
// from then on: the system removes it when the process ends.
func (r *indexRoom) create(name string) (runFile, error) {
	path := filepath.Join(r.folder, name)
	file, err := r.open(path)
	if err == nil && !r.named {
		_ = os.Remove(path) // where that is not possible, discard does it
	}
	return file, err
}

// discard closes a file and removes it.
func (r *indexRoom) discard(file *run) error {
	return errors.Join(file.file.Close(), r.remove(file.name))
}

// make makes room in memory for n more keys of g: while there is too little,
// what takes the most of it is spilled.
func (r *indexRoom) make(ctx context.Context, g *guard, n int) error {
	limit := r.limit
	if r.spilled() {
		limit -= r.filterLimit() // of the file that a merge is writing
	}
	for {
		total, largest := g.keys.growth(n), g
		var files int64
		for _, other := range r.guards {
			total += other.keys.bytes()
			if other.keys.bytes() > largest.keys.bytes() {
				largest = other
			}
			if other.disk != nil {
				files += other.disk.bytes()
			}
		}
		fits := total+files <= limit
		switch {
		case fits && (g.disk == nil || g.keys.bytes() <= r.limit/spilledPart):
			return nil
		case fits:
			largest = g
		case files > r.limit/filtersPart && r.forgetFilter():
			continue
		}
		if largest.keys.count == 0 {
			return nil // the least that it takes
		}
		if err := largest.spillKeys(ctx); err != nil {
			return fmt.Errorf("spill index into %s: %w: give it a folder with room, or more memory", r.folder, err)
		}
	}
}

// forgetFilter gives up the largest filter.
func (r *indexRoom) forgetFilter() bool {
	var largest *run
	for _, g := range r.guards {
		if g.disk == nil {
			continue
		}
		for _, file := range g.disk.runs {
			if len(file.filter) > 0 && (largest == nil || len(file.filter) > len(largest.filter)) {
				largest = file
			}
		}
	}
	if largest == nil {
		return false
	}
	largest.filter = nil
	return true
}

// abandon gives up what the guards have on disk. Files that a note names stay:
// as long as nothing was committed they are still good.
func (r *indexRoom) abandon() (err error) {
	for _, g := range r.guards {
		err = errors.Join(err, g.discard())
	}
	return err
}

// isIndexFile tells the files of indexes that end so from others that may be in
// the folder, by their exact names.
func isIndexFile(name, suffix string) bool {
	rest, begins := strings.CutPrefix(name, indexPrefix)
	number, ends := strings.CutSuffix(rest, suffix)
	return begins && ends && len(number) == 16 && strings.Trim(number, "0123456789abcdef") == ""
}
