package sink

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync/atomic"

	"icehose/cdc"
	"icehose/internal/canon"
)

// A run is a file of an index: entries in pages (see diskPage), sorted by hash,
// each key once; then those of the deleted keys once more, sorted by commit
// time; then the fence, the filter and a runMeta. It never changes. In memory
// are the fence, 4 bytes a page, and the filter.
type run struct {
	runMeta
	name    string
	file    runFile
	fence   []uint32 // the upper 32 bits of the first hash of each page
	filter  filter
	highest packed
	// passed counts the pages of deaths that no sweep needs to look at again.
	passed        int64
	undatedPassed bool // those without a commit time too
	saved         bool // a note on disk names it
	damaged       atomic.Bool
}

// A runFile is what a run needs of its file.
type runFile interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

// A runMeta is the end of a file of an index.
type runMeta struct {
	ID         uint64       `json:"id"`
	Pages      int64        `json:"pages"`
	DeathPages int64        `json:"death_pages"`
	Entries    int64        `json:"entries"`
	Dead       int64        `json:"dead"` // entries of deleted keys
	Deaths     int64        `json:"deaths"`
	Undated    int64        `json:"undated"` // deaths without a commit time; they stand first
	Filter     int64        `json:"filter"`  // bytes
	Highest    cdc.Position `json:"highest"`
}

// The last bytes of a file: the length of its JSON, the CRC-32C of fence, filter
// and JSON, and the magic.
const (
	runMagic = "icehose index 1\n"
	runEnd   = 4 + 4 + len(runMagic)
)

// A runWriter writes a run.
type runWriter struct {
	run
	out   *bufio.Writer
	page  []byte
	count int // entries of page
}

const writeBuffer = 64 << 10

// newRun begins a file of at most n entries. limit bounds its filter.
func newRun(create func(name string) (runFile, error), n, limit int64) (*runWriter, error) {
	w := &runWriter{page: make([]byte, pageHeader, diskPage)}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	w.ID = binary.BigEndian.Uint64(id[:])
	w.name = fmt.Sprintf("%s%016x%s", indexPrefix, w.ID, runSuffix)
	var err error
	if w.file, err = create(w.name); err != nil {
		return nil, err
	}
	w.out, w.filter = bufio.NewWriterSize(w.file, writeBuffer), newFilter(n, limit)
	return w, nil
}

// add appends an entry; hashes rise.
func (w *runWriter) add(e *diskEntry) error {
	if len(w.page)+entryMost > diskPage {
		if err := w.endPage(); err != nil {
			return err
		}
	}
	if w.count == 0 {
		w.fence = append(w.fence, uint32(e.hash.Hi>>32))
		w.Pages++
	}
	w.count++
	w.page = appendEntry(w.page, e)
	w.filter.add(e.hash)
	if e.deleted {
		w.Dead++
	}
	if w.Entries++; w.Entries == 1 || e.position.compare(&w.highest) > 0 {
		w.highest = e.position
	}
	return nil
}

// addDeath appends an entry of a deleted key behind all others; commit times rise.
func (w *runWriter) addDeath(e *diskEntry) error {
	if w.Deaths == 0 || len(w.page)+entryMost > diskPage {
		if err := w.endPage(); err != nil {
			return err
		}
	}
	if w.count == 0 {
		w.DeathPages++
	}
	w.count++
	w.page = appendEntry(w.page, e)
	w.Deaths++
	if e.committed == noTime {
		w.Undated++
	}
	return nil
}

func (w *runWriter) endPage() error {
	if w.count == 0 {
		return nil
	}
	page := w.page[:diskPage]
	clear(page[len(w.page):])
	seal(page, w.ID, uint64(w.Pages+w.DeathPages-1), w.count)
	w.page, w.count = w.page[:pageHeader], 0
	_, err := w.out.Write(page)
	return err
}

// end completes the file.
func (w *runWriter) end() (*run, error) {
	if err := w.endPage(); err != nil {
		return nil, err
	}
	w.Filter, w.Highest = int64(8*len(w.filter)), w.highest.text()
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	both := io.MultiWriter(w.out, sum)
	if err := writeWords(both, w.fence, binary.BigEndian.AppendUint32); err != nil {
		return nil, err
	}
	if err := writeWords(both, w.filter, binary.BigEndian.AppendUint64); err != nil {
		return nil, err
	}
	meta, err := json.Marshal(&w.runMeta)
	if err == nil {
		_, err = both.Write(meta)
	}
	if err == nil {
		tail := binary.BigEndian.AppendUint32(nil, uint32(len(meta)))
		tail = append(binary.BigEndian.AppendUint32(tail, sum.Sum32()), runMagic...)
		_, err = w.out.Write(tail)
	}
	if err == nil {
		err = w.out.Flush()
	}
	return &w.run, err
}

// writeWords writes numbers, a few at a time.
func writeWords[T uint32 | uint64](w io.Writer, words []T, add func([]byte, T) []byte) error {
	buf := make([]byte, 0, 8*512)
	for len(words) > 0 {
		n := min(len(words), 512)
		buf = buf[:0]
		for _, word := range words[:n] {
			buf = add(buf, word)
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
		words = words[n:]
	}
	return nil
}

// openRun opens a file that end completed, whose number must be id. limit
// bounds its filter: a larger one is left out.
func openRun(path, name string, id uint64, limit int64) (r *run, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	r = &run{name: name, file: file}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	tail := make([]byte, runEnd)
	if _, err := file.ReadAt(tail, max(0, info.Size()-int64(runEnd))); err != nil || string(tail[8:]) != runMagic {
		return nil, errIndexDamaged
	}
	end := info.Size() - int64(runEnd)
	meta := make([]byte, min(int64(binary.BigEndian.Uint32(tail)), end))
	if _, err := file.ReadAt(meta, end-int64(len(meta))); err != nil || json.Unmarshal(meta, &r.runMeta) != nil {
		return nil, errIndexDamaged
	}
	start := (r.Pages + r.DeathPages) * diskPage
	fence, filter := r.Pages*4, r.Filter
	if r.ID != id || min(r.Pages, r.DeathPages, filter) < 0 || filter%(8*blockWords) != 0 || start+fence+filter+int64(len(meta)) != end {
		return nil, errIndexDamaged
	}
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	in := io.TeeReader(bufio.NewReaderSize(io.NewSectionReader(file, start, end-start), writeBuffer), sum)
	if r.fence, err = readWords(in, r.Pages, binary.BigEndian.Uint32); err != nil {
		return nil, err
	}
	if filter <= limit {
		r.filter, err = readWords(in, filter/8, binary.BigEndian.Uint64)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	if err != nil {
		return nil, err
	}
	var ok bool
	if r.highest, ok = pack([]byte(r.Highest)); !ok || sum.Sum32() != binary.BigEndian.Uint32(tail[4:]) {
		return nil, errIndexDamaged
	}
	return r, nil
}

func readWords[T uint32 | uint64](r io.Reader, n int64, read func([]byte) T) ([]T, error) {
	words := make([]T, n)
	width := binary.Size(T(0))
	buf := make([]byte, 512*width)
	for at := 0; at < len(words); {
		part := words[at:min(len(words), at+512)]
		if _, err := io.ReadFull(r, buf[:len(part)*width]); err != nil {
			return nil, err
		}
		for i := range part {
			part[i] = read(buf[i*width:])
		}
		at += len(part)
	}
	return words, nil
}

// bytes returns what the run takes in memory.
func (r *run) bytes() int64 { return int64(4*cap(r.fence) + 8*len(r.filter)) }

// size returns what it takes on disk.
func (r *run) size() int64 {
	return (r.Pages+r.DeathPages)*diskPage + 4*r.Pages + r.Filter + int64(runEnd) + 256
}

// page reads a page.
func (r *run) page(number int64, buf []byte) (entries []byte, count int, err error) {
	if _, err := r.file.ReadAt(buf[:diskPage], number*diskPage); err != nil {
		return nil, 0, fmt.Errorf("read index: %w", err)
	}
	if entries, count, err = openPage(buf[:diskPage], r.ID, uint64(number)); err != nil {
		return nil, 0, r.distrust(err)
	}
	return entries, count, nil
}

// distrust says which file is damaged. It must not be taken over again.
func (r *run) distrust(err error) error {
	r.damaged.Store(true)
	return fmt.Errorf("read index: %s: %w", r.name, err)
}

// find looks for h; buf is a page.
func (r *run) find(h canon.Hash, k *known, buf []byte) (found bool, err error) {
	if len(r.fence) == 0 || !r.filter.has(h) {
		return false, nil
	}
	top := uint32(h.Hi >> 32)
	for at := max(0, r.below(top)-1); at < len(r.fence) && (r.fence[at] <= top || at == 0); at++ {
		entries, count, err := r.page(int64(at), buf)
		if err != nil {
			return false, err
		}
		found, beyond, err := findIn(entries, count, h, k)
		if err != nil {
			return false, r.distrust(err)
		}
		if beyond {
			return found, nil
		}
	}
	return false, nil
}

// below returns how many pages begin below top. Hashes are spread evenly, so it
// looks where that page should be, and then around it in growing steps.
func (r *run) below(top uint32) int {
	n := len(r.fence)
	low := int(uint64(top) * uint64(n) >> 32)
	high := low
	for step := 1; low > 0 && r.fence[low-1] >= top; step *= 2 {
		high, low = low-1, max(0, low-step)
	}
	for step := 1; high < n && r.fence[high] < top; step *= 2 {
		low, high = high+1, min(n, high+step)
	}
	for low < high {
		if middle := low + (high-low)/2; r.fence[middle] < top {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// A runReader reads the entries of pages of a run, one after the other.
type runReader struct {
	run         *run
	next, end   int64 // pages
	buf         []byte
	bufAt, full int64 // pages of buf
	entries     []byte
	count       int
	diskEntry
}

const readPages = 16

func (r *run) read(from, to int64) *runReader {
	return &runReader{run: r, next: from, end: to, buf: make([]byte, diskPage*min(readPages, max(1, to-from)))}
}

// advance reads the next entry; ok is false behind the last.
func (r *runReader) advance(ctx context.Context) (ok bool, err error) {
	for r.count == 0 {
		if r.next == r.end {
			return false, nil
		}
		if r.bufAt == r.full {
			if err := context.Cause(ctx); err != nil {
				return false, err
			}
			r.bufAt, r.full = 0, min(int64(len(r.buf)/diskPage), r.end-r.next)
			if _, err := r.run.file.ReadAt(r.buf[:r.full*diskPage], r.next*diskPage); err != nil {
				return false, fmt.Errorf("read index: %w", err)
			}
		}
		r.entries, r.count, err = openPage(r.buf[r.bufAt*diskPage:][:diskPage], r.run.ID, uint64(r.next))
		if err != nil {
			return false, r.run.distrust(err)
		}
		r.next++
		r.bufAt++
	}
	size, err := readEntry(r.entries, &r.diskEntry)
	if err != nil {
		return false, r.run.distrust(err)
	}
	r.entries = r.entries[size:]
	r.count--
	return true, nil
}
