package sink

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

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

func appendTombstones(dst []byte, tombs []tombstone) []byte {
	start := len(dst)
	dst = append(dst, tombstoneMagic...)
	for i := range tombs {
		t := &tombs[i]
		dst = binary.BigEndian.AppendUint64(dst, t.key.Hi)
		dst = binary.BigEndian.AppendUint64(dst, t.key.Lo)
		dst = binary.BigEndian.AppendUint64(dst, uint64(t.committed))
		size := byte(headSize)
		if t.position.long {
			size = longSize
		}
		dst = appendPacked(append(dst, size), &t.position)
	}
	return binary.BigEndian.AppendUint32(dst, checksum(dst[start:]))
}

func parseTombstones(data []byte) ([]tombstone, error) {
	end := len(data) - 4
	if end < len(tombstoneMagic) || !bytes.HasPrefix(data, []byte(tombstoneMagic)) ||
		binary.BigEndian.Uint32(data[end:]) != checksum(data[:end]) {
		return nil, errDamaged
	}
	var tombs []tombstone
	for rest := data[len(tombstoneMagic):end]; len(rest) > 0; {
		const fixed = 16 + 8 + 1
		if len(rest) < fixed || len(rest) < fixed+int(rest[fixed-1]) {
			return nil, errDamaged
		}
		size := int(rest[fixed-1])
		p, ok := unpack(rest[fixed : fixed+size])
		if !ok {
			return nil, errDamaged
		}
		tombs = append(tombs, tombstone{
			key:       canon.Hash{Hi: binary.BigEndian.Uint64(rest), Lo: binary.BigEndian.Uint64(rest[8:])},
			committed: int64(binary.BigEndian.Uint64(rest[16:])), position: p,
		})
		rest = rest[fixed+size:]
	}
	return tombs, nil
}

func checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

// readSegments reads the tombstones of a table into its guard. A file that is
// missing or damaged is an error: without it a deleted row could come back.
func readSegments(ctx context.Context, table Table, property string, g *guard) ([]segment, error) {
	if property == "" {
		return nil, nil
	}
	var segments []segment
	if err := json.Unmarshal([]byte(property), &segments); err != nil {
		return nil, fmt.Errorf("read table property %s: %w", PropertyTombstones, err)
	}
	for _, s := range segments {
		tombs, err := readSegment(ctx, table, s.File)
		if err != nil {
			return nil, err
		}
		for i := range tombs {
			g.restore(tombs[i].key, &tombs[i].position, true, tombs[i].committed)
		}
	}
	return segments, nil
}

func readSegment(ctx context.Context, table Table, name string) ([]tombstone, error) {
	data, err := table.ReadFile(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read tombstones: %w", err)
	}
	tombs, err := parseTombstones(data)
	if err != nil {
		return nil, fmt.Errorf("read tombstones %s: %w", name, err)
	}
	return tombs, nil
}

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
	for n := len(segments) - 1; n >= 0 && segments[n].Count < 2*len(tombs); n-- {
		earlier, err := readSegment(ctx, table, segments[n].File)
		if err != nil {
			return nil, nil, nil, err
		}
		for i := range earlier {
			if g.holds(earlier[i].key, &earlier[i].position) {
				tombs = append(tombs, earlier[i])
			}
		}
		drop = append(drop, segments[n].File)
		segments = segments[:n]
	}
	made := segment{File: name, Count: len(tombs), Newest: noTime}
	for i := range tombs {
		if tombs[i].committed == noTime {
			made.Newest = math.MaxInt64 // cannot tell when it is old enough
			break
		}
		made.Newest = max(made.Newest, tombs[i].committed)
	}
	return append(segments, made), &File{Name: name, Data: appendTombstones(nil, tombs)}, drop, nil
}
