package sink

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"icehose/internal/canon"
)

// A file of an index is made of pages: the CRC-32C of what follows, seeded with
// the file's own number and the page's, so that no page is taken for another;
// 2 bytes with the number of entries; the entries. An entry is 16 bytes of key
// hash, one byte of flags as in entry.state, the position of 27 or 54 bytes, and
// for a deleted key 8 bytes of commit time. Numbers are big-endian.
const (
	diskPage   = 4096
	pageHeader = 4 + 2
	entryFixed = 16 + 1 + headSize
	entryMost  = entryFixed + tailSize + 8
)

// A diskEntry is an entry of a page.
type diskEntry struct {
	hash canon.Hash
	known
}

var errIndexDamaged = errors.New("file of the index is damaged: it is built anew when the sink starts again")

// less orders hashes.
func less(a, b canon.Hash) bool { return a.Hi < b.Hi || a.Hi == b.Hi && a.Lo < b.Lo }

// appendEntry appends e to the entries of a page.
func appendEntry(dst []byte, e *diskEntry) []byte {
	dst = binary.BigEndian.AppendUint64(dst, e.hash.Hi)
	dst = binary.BigEndian.AppendUint64(dst, e.hash.Lo)
	var flags byte
	if e.position.long {
		flags |= isLong
	}
	if e.deleted {
		flags |= isDeleted
	}
	dst = appendPacked(append(dst, flags), &e.position)
	if e.deleted {
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.committed))
	}
	return dst
}

// entrySize returns the length of an entry with these flags, 0 if there is none.
func entrySize(flags byte) int {
	switch flags {
	case 0:
		return entryFixed
	case isLong:
		return entryFixed + tailSize
	case isDeleted:
		return entryFixed + 8
	case isLong | isDeleted:
		return entryMost
	}
	return 0
}

func hashAt(b []byte) canon.Hash {
	return canon.Hash{Hi: binary.BigEndian.Uint64(b), Lo: binary.BigEndian.Uint64(b[8:])}
}

// readEntry reads the entry at the start of b, whose length is size.
func readEntry(b []byte, e *diskEntry) (size int, err error) {
	if len(b) < entryFixed {
		return 0, errIndexDamaged
	}
	if size = entrySize(b[16]); size == 0 || len(b) < size {
		return 0, errIndexDamaged
	}
	e.hash = hashAt(b)
	e.position = packed{}
	copy(e.position.head[:], b[17:])
	end := 17 + headSize
	if b[16]&isLong != 0 {
		e.position.long = true
		end += copy(e.position.tail[:], b[end:end+tailSize])
	}
	e.deleted, e.committed = b[16]&isDeleted != 0, noTime
	if e.deleted {
		e.committed = int64(binary.BigEndian.Uint64(b[end:]))
	}
	return size, nil
}

// seal fills in the header of a page.
func seal(page []byte, file, number uint64, count int) {
	binary.BigEndian.PutUint16(page[4:], uint16(count))
	binary.BigEndian.PutUint32(page, pageSum(page, file, number))
}

func pageSum(page []byte, file, number uint64) uint32 {
	var seed [16]byte
	binary.BigEndian.PutUint64(seed[:], file)
	binary.BigEndian.PutUint64(seed[8:], number)
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(seed[:], table), table, page[4:])
}

// openPage returns the entries of a page, and how many they are.
func openPage(page []byte, file, number uint64) (entries []byte, count int, err error) {
	if len(page) != diskPage || binary.BigEndian.Uint32(page) != pageSum(page, file, number) {
		return nil, 0, errIndexDamaged
	}
	return page[pageHeader:], int(binary.BigEndian.Uint16(page[4:])), nil
}

// findIn looks for h among the sorted entries of a page. beyond says that h
// would stand before the page's end, so that no later page has it.
func findIn(entries []byte, count int, h canon.Hash, k *known) (found, beyond bool, err error) {
	for range count {
		if len(entries) < entryFixed {
			return false, false, errIndexDamaged
		}
		if hi := binary.BigEndian.Uint64(entries); hi >= h.Hi {
			if at := hashAt(entries); at == h {
				var e diskEntry
				_, err := readEntry(entries, &e)
				*k = e.known
				return true, true, err
			} else if less(h, at) {
				return false, true, nil
			}
		}
		size := entrySize(entries[16])
		if size == 0 || size > len(entries) {
			return false, false, errIndexDamaged
		}
		entries = entries[size:]
	}
	return false, false, nil
}
