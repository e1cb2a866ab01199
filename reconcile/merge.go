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

// A rowSet holds the rows of some buckets of one side. Keys lie end to end in
// one slice, so that a row costs no allocation.
type rowSet struct {
	keys []byte
	rows []keptRow
}

type keptRow struct {
	from, to int // of the key, in keys
	hash     canon.Hash
}

func (s *rowSet) add(r Row) {
	from := len(s.keys)
	s.keys = append(s.keys, r.Key...)
	s.rows = append(s.rows, keptRow{from: from, to: len(s.keys), hash: r.Hash})
}

func (s *rowSet) key(i int) []byte { return s.keys[s.rows[i].from:s.rows[i].to] }

// sort orders the rows by key bytes, and those of one key by hash.
func (s *rowSet) sort() {
	slices.SortFunc(s.rows, func(a, b keptRow) int {
		if c := bytes.Compare(s.keys[a.from:a.to], s.keys[b.from:b.to]); c != 0 {
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

func compareHashes(a, b canon.Hash) int {
	return cmp.Or(cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.Lo, b.Lo))
}

// A difference is a Finding whose key is still canonical bytes, in a rowSet.
type difference struct {
	kind Kind
	rows uint64
	key  []byte
}

// merge yields what differs, in the order of key bytes.
func merge(source, lake *rowSet) iter.Seq[difference] {
	return func(yield func(difference) bool) {
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
			for _, d := range compareKey(source.rows[i:iEnd], lake.rows[j:jEnd]) {
				d.key = key
				if d.rows > 0 && !yield(d) {
					return
				}
			}
			i, j = iEnd, jEnd
		}
	}
}

// compareKey compares the rows of one key, sorted by hash. Rows that only one
// side has are paired off, each pair one row that differs; what is left over
// is missing rows, or rows too many: extra when the source does not have the
// key at all, else duplicate.
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

// keyTexts reads canonical key bytes back into texts, one per key column; of a
// table without a key the row hash in hexadecimal.
func keyTexts(key []byte, columns int) ([]string, error) {
	if columns == 0 {
		return []string{hex.EncodeToString(key)}, nil
	}
	texts := make([]string, 0, columns)
	for len(key) > 0 {
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
