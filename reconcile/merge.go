package reconcile

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"iter"
	"slices"
	"strconv"

	"icehose/internal/canon"
)

// A rowSet holds some rows of one side. What they hold of variable length lies
// end to end in one slice, so that a row costs no allocation.
type rowSet struct {
	data []byte
	rows []keptRow
}

// A keptRow is a row whose key, version and stamp follow each other in data.
type keptRow struct {
	from, key, version, stamp int // where it begins, and where each part ends
	hash                      canon.Hash
	bucket                    int
	unfit                     bool
}

func (s *rowSet) add(r Row) {
	k := keptRow{from: len(s.data), hash: r.Hash, bucket: r.Bucket, unfit: r.Unfit}
	s.data = append(s.data, r.Key...)
	k.key = len(s.data)
	s.data = append(s.data, r.Version...)
	k.version = len(s.data)
	s.data = append(s.data, r.Stamp...)
	k.stamp = len(s.data)
	s.rows = append(s.rows, k)
}

func (s *rowSet) key(i int) []byte { return s.data[s.rows[i].from:s.rows[i].key] }

// sort orders the rows by key bytes, and those of one key by hash.
func (s *rowSet) sort() {
	slices.SortFunc(s.rows, func(a, b keptRow) int {
		if c := bytes.Compare(s.data[a.from:a.key], s.data[b.from:b.key]); c != 0 {
			return c
		}
		return compareHashes(a.hash, b.hash)
	})
}

// group returns the end of the rows that share the key of row i.
func (s *rowSet) group(i int) int {
	end := i + 1
	for end < len(s.rows) && bytes.Equal(s.key(end), s.key(i)) {
		end++
	}
	return end
}

// version returns the greatest version of some rows, nil for none.
func (s *rowSet) version(rows []keptRow, compare func(a, b []byte) int) []byte {
	var newest []byte
	for _, r := range rows {
		if v := s.data[r.key:r.version]; len(v) > 0 && (newest == nil || compare(v, newest) > 0) {
			newest = v
		}
	}
	return newest
}

// state is a text that is the same for two readings of a key's rows only if
// nothing has changed.
func (s *rowSet) state(rows []keptRow) string {
	var b []byte
	for _, r := range rows {
		b = strconv.AppendUint(b, r.hash.Hi, 16)
		b = append(b, '.')
		b = strconv.AppendUint(b, r.hash.Lo, 16)
		b = append(b, '.')
		b = append(b, s.data[r.version:r.stamp]...)
		b = append(b, '/')
	}
	return string(b)
}

func compareHashes(a, b canon.Hash) int {
	return cmp.Or(cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.Lo, b.Lo))
}

// A pair is the rows of one key on both sides.
type pair struct {
	key          []byte // canonical bytes, in a rowSet
	source, lake []keptRow
}

// unfit counts rows of the source that no lake can have.
func (p *pair) unfit() (n uint64) {
	for i := range p.source {
		if p.source[i].unfit {
			n++
		}
	}
	return n
}

// bucket is that of the key.
func (p *pair) bucket() int {
	if len(p.source) > 0 {
		return p.source[0].bucket
	}
	return p.lake[0].bucket
}

// pairs yields every key of either side, in the order of key bytes.
func pairs(source, lake *rowSet) iter.Seq[pair] {
	return func(yield func(pair) bool) {
		source.sort()
		lake.sort()
		for i, j := 0, 0; i < len(source.rows) || j < len(lake.rows); {
			order := 0
			switch {
			case i == len(source.rows):
				order = 1
			case j == len(lake.rows):
				order = -1
			default:
				order = bytes.Compare(source.key(i), lake.key(j))
			}
			iEnd, jEnd := i, j
			var key []byte
			if order <= 0 {
				key, iEnd = source.key(i), source.group(i)
			}
			if order >= 0 {
				key, jEnd = lake.key(j), lake.group(j)
			}
			if !yield(pair{key: key, source: source.rows[i:iEnd], lake: lake.rows[j:jEnd]}) {
				return
			}
			i, j = iEnd, jEnd
		}
	}
}

// A difference is how the rows of one key differ.
type difference struct {
	kind Kind
	rows uint64
}

// compareKey compares the rows of one key, sorted by hash. Rows that only one
// side has are paired off, each pair one row that differs; what is left over
// is missing rows, or rows too many: extra when the source does not have the
// key at all, else duplicate. Kinds without rows are among the result.
func compareKey(source, lake []keptRow) [3]difference {
	onlySource, onlyLake := len(source), len(lake)
	for i, j := 0, 0; i < len(source) && j < len(lake); {
		switch c := compareHashes(source[i].hash, lake[j].hash); {
		case c < 0:
			i++
		case c > 0:
			j++
		default:
			i, j, onlySource, onlyLake = i+1, j+1, onlySource-1, onlyLake-1
		}
	}
	tooMany := Duplicate
	if len(source) == 0 {
		tooMany = Extra
	}
	differs := min(onlySource, onlyLake)
	return [3]difference{
		{kind: Differs, rows: uint64(differs)},
		{kind: Missing, rows: uint64(onlySource - differs)},
		{kind: tooMany, rows: uint64(onlyLake - differs)},
	}
}

// agree reports whether the rows of one key, sorted by hash, are the same.
func agree(source, lake []keptRow) bool {
	return slices.EqualFunc(source, lake, func(a, b keptRow) bool { return a.hash == b.hash })
}

// keyTexts reads canonical key bytes back into texts, one per key column; of a
// table without a key the row hash in hexadecimal.
func keyTexts(key []byte, columns int) ([]string, error) {
	if columns == 0 {
		return []string{hex.EncodeToString(key)}, nil
	}
	texts := make([]string, 0, columns)
	for len(key) > 0 {
		if isUnfitField(key) {
			key = key[1:]
		}
		digits, rest, ok := bytes.Cut(key, []byte{':'})
		n, err := strconv.Atoi(string(digits))
		if !ok || err != nil || n < 0 || n > len(rest) {
			return nil, errors.New("read key: not canonical bytes")
		}
		texts = append(texts, string(rest[:n]))
		key = rest[n:]
	}
	if len(texts) != columns {
		return nil, errors.New("read key: not as many fields as key columns")
	}
	return texts, nil
}
