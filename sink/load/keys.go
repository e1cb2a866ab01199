package load

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"icehose/catalog"
	"icehose/internal/canon"
)

// A keyCheck finds out whether a key occurs twice among all rows of a load, in
// whatever part. It keeps 16 bytes of each row: 96 bits of the hash of its key,
// by which two different keys are taken for one in fewer than one of a billion
// loads of a billion rows, and the part that the row is of. What memory does
// not take goes into a file without a name, in runs that are sorted by shard, so
// that at the end one shard after the other fits into memory again.
type keyCheck struct {
	limit int    // marks in memory
	dir   string // of the file; "" for the system's own

	mu    sync.Mutex
	marks []keyMark
	out   []byte // of the last run, in memory
	runs  []keyRun
	file  *os.File // nil while memory takes them all
	size  int64
	early *twins // that were found before the end
}

// A keyMark is the hash of a key, and in the lower half of lo the part of its row.
type keyMark struct{ hi, lo uint64 }

const (
	keyShards    = 1 << keyShardBits // by the first bits of a hash
	keyShardBits = 10
	markSize     = 16 // bytes of a mark in a file
	// defaultKeyMemory is how many marks memory takes: 32 MiB, and as much
	// again while they are written. A shard of a billion rows takes 16 MiB.
	defaultKeyMemory = 2 << 20
)

func newMark(key []byte, part int) keyMark {
	h := canon.HashRow(key)
	return keyMark{h.Hi, h.Lo&^(1<<32-1) | uint64(part)&(1<<32-1)} //nolint:gosec // parts are counted from zero
}

func (m keyMark) part() int { return int(m.lo & (1<<32 - 1)) } //nolint:gosec // 32 bits

func (m keyMark) shard() int { return int(m.hi >> (64 - keyShardBits)) } //nolint:gosec // ten bits

func (m keyMark) sameKey(other keyMark) bool { return m.hi == other.hi && m.lo>>32 == other.lo>>32 }

// A keyRun is marks that are sorted by shard: in memory, or in the file from
// offset on.
type keyRun struct {
	inMemory bool
	marks    []byte
	offset   int64
	ends     [keyShards]int // of each shard, in marks
}

func (r *keyRun) bounds(shard int) (from, to int) {
	if shard > 0 {
		from = r.ends[shard-1]
	}
	return from, r.ends[shard]
}

// add takes marks, which it copies. It is called by several goroutines.
func (k *keyCheck) add(marks []keyMark) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(marks) > 0 {
		n := min(len(marks), k.limit-len(k.marks))
		k.marks = append(k.marks, marks[:n]...)
		if marks = marks[n:]; len(k.marks) < k.limit {
			return nil
		}
		if err := k.spill(); errors.Is(err, errTwins) {
			return err
		} else if err != nil {
			return k.advise(err)
		}
	}
	return nil
}

func (k *keyCheck) advise(err error) error {
	dir := k.dir
	if dir == "" {
		dir = os.TempDir()
	}
	return fmt.Errorf("note keys in %s: %w: it needs %d bytes for each row, in another folder with TMPDIR; or do without the check (--trust-key)", dir, err, markSize)
}

// spill writes what memory has as a run.
func (k *keyCheck) spill() error {
	if k.file == nil {
		file, err := os.CreateTemp(k.dir, "icehose-keys-*")
		if err != nil {
			return err
		}
		_ = os.Remove(file.Name()) // where that is not possible, close does it
		k.file = file
	}
	run := k.sorted()
	if err := k.crowded(&run); err != nil {
		return err
	}
	n, err := k.file.WriteAt(run.marks, k.size)
	run.marks, run.offset = nil, k.size // the memory is used again
	k.size += int64(n)
	k.runs = append(k.runs, run)
	return err
}

// errTwins says that early was found.
var errTwins = errors.New("a key occurs twice")

// crowded looks at shards that have far more of a run than others: hashes of
// different keys do not crowd, so that such a key is a wrong one, of which a
// shard may not fit into memory at the end.
func (k *keyCheck) crowded(run *keyRun) error {
	most := 8*len(run.marks)/markSize/keyShards + 64
	for shard := range keyShards {
		from, to := run.bounds(shard)
		if to-from <= most {
			continue
		}
		if t := findTwins(appendMarks(nil, run.marks[from*markSize:to*markSize])); t.rows > 0 {
			t.more = true
			k.early = &t
			return errTwins
		}
	}
	return nil
}

// sorted empties the memory into a run.
func (k *keyCheck) sorted() keyRun {
	var run keyRun
	for _, m := range k.marks {
		run.ends[m.shard()]++
	}
	var next [keyShards]int
	total := 0
	for i, n := range run.ends {
		next[i] = total
		total += n
		run.ends[i] = total
	}
	k.out = slices.Grow(k.out[:0], total*markSize)[:total*markSize]
	run.marks = k.out
	for _, m := range k.marks {
		at := run.marks[next[m.shard()]*markSize:]
		binary.LittleEndian.PutUint64(at, m.hi)
		binary.LittleEndian.PutUint64(at[8:], m.lo)
		next[m.shard()]++
	}
	k.marks = k.marks[:0]
	return run
}

// twins says how many rows have the key of another row, beyond the first of
// each, and the parts of two rows of one key.
type twins struct {
	rows          int64
	first, second int
	more          bool // there may be, as not all was read
}

// find looks for keys that occur twice. No mark comes after it.
func (k *keyCheck) find(ctx context.Context, parallel int) (twins, error) {
	last := k.sorted()
	last.inMemory = true
	k.runs, k.marks = append(k.runs, last), nil
	group, work := errgroup.WithContext(ctx)
	var found twins
	shards := make(chan int, keyShards)
	for i := range keyShards {
		shards <- i
	}
	close(shards)
	for range max(1, parallel) {
		group.Go(func() error {
			var marks []keyMark
			var err error
			for shard := range shards {
				if err := work.Err(); err != nil {
					return err
				}
				if marks, err = k.read(marks[:0], shard); err != nil {
					return k.advise(err)
				}
				t := findTwins(marks)
				k.mu.Lock()
				if found.rows == 0 {
					found.first, found.second = t.first, t.second
				}
				found.rows += t.rows
				k.mu.Unlock()
			}
			return nil
		})
	}
	return found, group.Wait()
}

// read appends the marks of a shard.
func (k *keyCheck) read(marks []keyMark, shard int) ([]keyMark, error) {
	var raw []byte
	for i := range k.runs {
		run := &k.runs[i]
		from, to := run.bounds(shard)
		var text []byte
		if run.inMemory {
			text = run.marks[from*markSize : to*markSize]
		} else {
			raw = slices.Grow(raw[:0], (to-from)*markSize)[:(to-from)*markSize]
			if _, err := k.file.ReadAt(raw, run.offset+int64(from)*markSize); err != nil {
				return nil, err
			}
			text = raw
		}
		marks = appendMarks(marks, text)
	}
	return marks, nil
}

func appendMarks(marks []keyMark, text []byte) []keyMark {
	for ; len(text) > 0; text = text[markSize:] {
		marks = append(marks, keyMark{binary.LittleEndian.Uint64(text), binary.LittleEndian.Uint64(text[8:])})
	}
	return marks
}

// findTwins sorts the marks.
func findTwins(marks []keyMark) (t twins) {
	slices.SortFunc(marks, func(a, b keyMark) int {
		if a.hi != b.hi {
			return cmp.Compare(a.hi, b.hi)
		}
		return cmp.Compare(a.lo, b.lo)
	})
	for i := 1; i < len(marks); i++ {
		if !marks[i].sameKey(marks[i-1]) {
			continue
		}
		if t.rows++; t.rows == 1 {
			t.first, t.second = marks[i-1].part(), marks[i].part()
		}
	}
	return t
}

// close gives the file back. It may be called while it is nil.
func (k *keyCheck) close() error {
	if k == nil || k.file == nil {
		return nil
	}
	err := k.file.Close()
	if removed := os.Remove(k.file.Name()); !errors.Is(removed, os.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

// err says of which table, and where, rows have the key of another one.
func (t twins) err(table *catalog.Table, s *Snapshot) error {
	if t.rows == 0 {
		return nil
	}
	number := fmt.Sprint(t.rows)
	if t.more {
		number = "at least " + number
	}
	text := fmt.Sprintf("the key (%s) is not unique: rows with the key of an earlier one: %s", strings.Join(table.Key, ", "), number)
	const name = "name columns that tell rows apart under key: in the pipeline file"
	switch {
	case s.Names == nil:
		return fmt.Errorf("%s: %s", text, name)
	case t.first == t.second:
		return fmt.Errorf("%s, such as two of %s: give each row once, or %s", text, s.Names[t.first], name)
	}
	return fmt.Errorf("%s, such as one of %s and one of %s: give each row once, or %s", text, s.Names[t.first], s.Names[t.second], name)
}
