package sink

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"slices"

	"icehose/internal/canon"
)

// A segment is a file of tombstones. The files of a table grow in length from
// the last to the first by at least a factor of two: a new one swallows those
// that are not, so a tombstone is written a logarithmic number of times.
type segment struct {
	File   string `json:"file"`
	Count  int    `json:"count"`
	Newest int64  `json:"newest"` // greatest commit time in it, Unix microseconds
}

// A tombstone says that a key was deleted.
type tombstone struct {
	key       canon.Hash
	position  packed
	committed int64 // Unix microseconds, noTime if unknown
}

// tombstoneMagic starts a file of tombstones. Then follow the tombstones: 16
// bytes of key hash, 8 bytes of commit time, one byte of position length, the
// position; last the CRC-32C of everything before it. Numbers are big-endian.
const tombstoneMagic = "icehose tombstones 1\n"

var errDamaged = errors.New("file is damaged")

func appendTombstone(dst []byte, t *tombstone) []byte {
	dst = binary.BigEndian.AppendUint64(dst, t.key.Hi)
	dst = binary.BigEndian.AppendUint64(dst, t.key.Lo)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.committed))
	size := byte(headSize)
	if t.position.long {
		size = longSize
	}
	return appendPacked(append(dst, size), &t.position)
}

// tombstones are those of a file, as they stand in it.
type tombstones []byte

// tombstoneFixed is the length of a tombstone without its position.
const tombstoneFixed = 16 + 8 + 1

// openTombstones checks a file.
func openTombstones(data []byte) (tombstones, error) {
	end := len(data) - 4
	if end < len(tombstoneMagic) || !bytes.HasPrefix(data, []byte(tombstoneMagic)) ||
		binary.BigEndian.Uint32(data[end:]) != checksum(data[:end]) {
		return nil, errDamaged
	}
	tombs := data[len(tombstoneMagic):end]
	for rest := tombs; len(rest) > 0; rest = rest[tombstoneFixed+int(rest[tombstoneFixed-1]):] {
		if len(rest) < tombstoneFixed {
			return nil, errDamaged
		}
		size := int(rest[tombstoneFixed-1])
		if size != headSize && size != longSize || len(rest) < tombstoneFixed+size {
			return nil, errDamaged
		}
	}
	return tombs, nil
}

// all yields the tombstones, each as it stands in the file too. They are good
// until the next one.
func (f tombstones) all() iter.Seq2[*tombstone, []byte] {
	return func(yield func(*tombstone, []byte) bool) {
		var t tombstone
		for rest := []byte(f); len(rest) > 0; {
			size := tombstoneFixed + int(rest[tombstoneFixed-1])
			t.key = hashAt(rest)
			t.committed = int64(binary.BigEndian.Uint64(rest[16:]))
			t.position, _ = unpack(rest[tombstoneFixed:size]) // of a length that openTombstones has checked
			if !yield(&t, rest[:size]) {
				return
			}
			rest = rest[size:]
		}
	}
}

func checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

// parseSegments reads PropertyTombstones.
func parseSegments(property string) (segments []segment, err error) {
	if property == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(property), &segments); err != nil {
		return nil, fmt.Errorf("read table property %s: %w", PropertyTombstones, err)
	}
	return segments, nil
}

// readSegments reads the tombstones of a table into its guard. A file that is
// missing or damaged is an error: without it a deleted row could come back. One at
// or below the floor may be of a key whose later delete was forgotten before it,
// because its commit time is earlier: the floor stands for both.
func readSegments(ctx context.Context, table Table, segments []segment, g *guard) error {
	for _, s := range segments {
		tombs, err := readSegment(ctx, table, s.File)
		if err != nil {
			return err
		}
		n := 0
		for t := range tombs.all() {
			n++
			if err := g.restoringRoom(ctx, n); err != nil {
				return err
			}
			if !g.floored(&t.position) {
				g.restore(t.key, &t.position, true, t.committed)
			}
		}
	}
	return nil
}

func readSegment(ctx context.Context, table Table, name string) (tombstones, error) {
	data, err := table.ReadFile(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read tombstones: %w", err)
	}
	tombs, err := openTombstones(data)
	if err != nil {
		return nil, fmt.Errorf("read tombstones %s: %w", name, err)
	}
	return tombs, nil
}

// segmentMost is how many tombstones a segment may have before it is left as it
// is, so that the memory which the next one takes is bounded: a file of twice as
// many has 55 MB, 83 MB where all of them are of loads.
const segmentMost = 1 << 19

// addSegment adds the tombstones of a commit to the segments of a table. It
// returns the segments as they then are, the file to write, if any, and the
// names of files that are no longer needed. What the guard has pruned or
// overwritten is left out: the floor that goes with the same commit stands for it.
func addSegment(ctx context.Context, table Table, g *guard, old []segment, tombs []tombstone, name string) (
	segments []segment, file *File, drop []string, err error,
) {
	for _, s := range old {
		if g.swept != noTime && s.Newest < g.swept-g.horizon.Microseconds() {
			drop = append(drop, s.File)
			continue
		}
		segments = append(segments, s)
	}
	if len(tombs) == 0 {
		return segments, nil, drop, nil
	}
	made := segmentWriter{segment: segment{File: name, Newest: noTime}, data: []byte(tombstoneMagic)}
	for i := range tombs {
		made.add(&tombs[i], appendTombstone(nil, &tombs[i]))
	}
	for n := len(segments) - 1; n >= 0 && segments[n].Count < min(2*made.Count, segmentMost); n-- {
		earlier, err := readSegment(ctx, table, segments[n].File)
		if err != nil {
			return nil, nil, nil, err
		}
		made.data = slices.Grow(made.data, len(earlier)+4)
		count, at := 0, 0
		for t, text := range earlier.all() {
			if count%aheadTombstones == 0 {
				g.fetchTombstones(earlier[at:])
			}
			count, at = count+1, at+len(text)
			held, err := g.holds(t.key, &t.position)
			if err != nil {
				return nil, nil, nil, err
			}
			if held {
				made.add(t, text)
			}
		}
		drop = append(drop, segments[n].File)
		segments = segments[:n]
	}
	return append(segments, made.segment), &File{Name: name, Data: binary.BigEndian.AppendUint32(made.data, checksum(made.data))}, drop, nil
}

// A segmentWriter builds a segment.
type segmentWriter struct {
	segment
	data []byte
}

// add appends a tombstone, whose text stands in the file.
func (w *segmentWriter) add(t *tombstone, text []byte) {
	w.data = append(w.data, text...)
	w.Count++
	if t.committed == noTime {
		w.Newest = math.MaxInt64 // cannot tell when it is old enough
	}
	w.Newest = max(w.Newest, t.committed)
}
