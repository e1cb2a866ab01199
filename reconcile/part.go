package reconcile

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"icehose/catalog"
	"icehose/internal/canon"
)

// A Part says which rows of a table are meant. With only Buckets set: all.
type Part struct {
	// Buckets is how many buckets the rows are divided into by hash(key): a
	// power of two, at most MaxBuckets.
	Buckets int
	// Only lists the buckets that are meant, ascending; nil: all of them.
	Only []int
	// Keys are the keys that are meant; nil: all of them.
	Keys *Keys
	// Since is for sources: rows whose column is not before a time; nil: all.
	Since *Since
	// Version is the lake name of a column whose value Row.Version shall have.
	Version string
}

// Span returns the buckets that are meant, as first and one past the last; ok
// only if they follow each other.
func (p *Part) Span() (first, last int, ok bool) {
	if p.Only == nil {
		return 0, p.Buckets, true
	}
	if n := len(p.Only); n > 0 {
		return p.Only[0], p.Only[n-1] + 1, p.Only[n-1]-p.Only[0] == n-1
	}
	return 0, 0, true
}

// Exclusive yields what rows gives, and holds mu from the first row to the last.
// An error is yielded as failed makes it.
func Exclusive[T any](mu sync.Locker, failed func(error) error, rows func() iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		mu.Lock()
		defer mu.Unlock()
		for row, err := range rows() {
			if err != nil {
				yield(row, failed(err))
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// MaxBuckets bounds Part.Buckets. The bucket of a row is the last bits of the
// first 16 bytes of the SHA-256 of its key's canonical bytes; of a table
// without a key, of its row's.
const MaxBuckets = 1 << 20

// Since selects rows by a date or timestamp column.
type Since struct {
	Column string // lake name
	From   time.Time
	// Text is the duration before the present by which From was given; empty: it
	// was given as it is. A run that continues from a checkpoint has the From of
	// the one that began, if the texts are the same.
	Text string
}

// zoneless is by how much the times of a clock may be behind UTC at most, and more:
// no zone is further from it.
const zoneless = 14 * time.Hour

// For returns the time from which on rows are meant by a column of the lake. Nobody
// knows by which clock the times of a column without a time zone were written: where
// From is so long before the present, rows are meant from 14 hours earlier on.
func (s *Since) For(c *catalog.Column) time.Time {
	if s.Text != "" && (c.Type.Kind == catalog.Date || c.Type.Kind == catalog.Timestamp) {
		return s.From.Add(-zoneless)
	}
	return s.From
}

// text is For as the column's canonical text; canonical texts of one of these
// types compare as times do.
func (s *Since) text(t *catalog.Table) (at int, text string, err error) {
	at = slices.IndexFunc(comparedColumns(t), func(c *catalog.Column) bool { return c.Name == s.Column })
	if at < 0 {
		return 0, "", fmt.Errorf("select rows of %s: no column %s", t.Source, s.Column)
	}
	c := comparedColumns(t)[at]
	from := s.For(c).UTC()
	switch {
	case c.Mask != "":
		return 0, "", fmt.Errorf("select rows of %s: column %s is masked", t.Source, s.Column)
	case c.Type.Kind == catalog.Date:
		return at, from.Format("2006-01-02"), nil
	case c.Type.Kind == catalog.Timestamp:
		return at, from.Format("2006-01-02T15:04:05.000000"), nil
	case c.Type.Kind == catalog.TimestampTZ:
		return at, from.Format("2006-01-02T15:04:05.000000Z"), nil
	default:
		return 0, "", fmt.Errorf("select rows of %s: column %s is %s, want a date or a timestamp", t.Source, s.Column, c.Type)
	}
}

// Keys is a set of keys of one table.
type Keys struct {
	texts [][]string
	bytes []string            // canonical ones of each of texts
	set   map[string]struct{} // canonical bytes
}

// NewKeys makes a set of keys, each a canonical text per key column of t, in
// key order. A text that is not canonical yet is made so, if it can.
func NewKeys(t *catalog.Table, texts [][]string) (*Keys, error) {
	if len(t.Key) == 0 && len(texts) > 0 {
		return nil, fmt.Errorf("make keys: table %s has no key", t.Source)
	}
	columns := comparedColumns(t)
	k := &Keys{set: make(map[string]struct{}, len(texts))}
	var bytes, text []byte
	for n, key := range texts {
		if len(key) != len(t.Key) {
			return nil, fmt.Errorf("make keys: key %d of %s: %d texts for %d key columns", n+1, t.Source, len(key), len(t.Key))
		}
		bytes = bytes[:0]
		clean := make([]string, len(key))
		for i, name := range t.Key {
			at := slices.IndexFunc(columns, func(c *catalog.Column) bool { return c.Name == name })
			if at < 0 {
				return nil, fmt.Errorf("make keys: key column %s of %s is not in the lake", name, t.Source)
			}
			c := columns[at]
			text = append(text[:0], key[i]...)
			if c.Mask == "" {
				var err error
				if text, err = canon.Append(text[:0], c, canon.Delivered, []byte(key[i])); err != nil {
					return nil, fmt.Errorf("make keys: key %d of %s: %w", n+1, t.Source, err)
				}
			}
			clean[i] = string(text)
			var err error
			if bytes, err = canon.AppendTyped(bytes, comparedKind(c), text); err != nil {
				return nil, fmt.Errorf("make keys: key %d of %s: %w", n+1, t.Source, err)
			}
		}
		k.add(bytes, clean)
	}
	return k, nil
}

func (k *Keys) add(key []byte, texts []string) {
	if _, ok := k.set[string(key)]; ok {
		return
	}
	own := string(key)
	k.set[own] = struct{}{}
	if texts != nil {
		k.texts, k.bytes = append(k.texts, texts), append(k.bytes, own)
	}
}

// Chunks yields the keys of Texts in sets of at most n. A source that is asked
// for one set after the other must take of each answer the rows that have a key of
// that set (Encoder.HasKeyOf): two keys may be equal to the server, and its rows
// of both then come with each of them.
func (k *Keys) Chunks(n int) iter.Seq[*Keys] {
	return func(yield func(*Keys) bool) {
		for from := 0; from < len(k.texts); from += n {
			to := min(from+n, len(k.texts))
			chunk := &Keys{texts: k.texts[from:to:to], bytes: k.bytes[from:to:to], set: make(map[string]struct{}, to-from)}
			for _, own := range chunk.bytes {
				chunk.set[own] = struct{}{}
			}
			if !yield(chunk) {
				return
			}
		}
	}
}

// Askable reports whether Texts has all of the keys: of a key with a value that the
// type in the lake cannot hold there is no text to ask for. A source then has to
// read all rows to find those of the keys.
func (k *Keys) Askable() bool { return len(k.texts) == len(k.set) }

// Len returns the number of keys.
func (k *Keys) Len() int { return len(k.set) }

// Has reports whether a key is in the set, given its canonical bytes (Row.Key).
func (k *Keys) Has(key []byte) bool {
	_, ok := k.set[string(key)]
	return ok
}

// Texts returns the keys: a canonical text per key column. It is nil for no set,
// and for a table without a key, whose keys are row hashes. It must not be changed.
func (k *Keys) Texts() [][]string {
	if k == nil {
		return nil
	}
	return k.texts
}

// keysOf makes a set of canonical key bytes.
func keysOf(t *catalog.Table, keys [][]byte) (*Keys, error) {
	k := &Keys{set: make(map[string]struct{}, len(keys))}
	for _, key := range keys {
		var texts []string
		if len(t.Key) > 0 && !isUnfitKey(key, len(t.Key)) {
			var err error
			if texts, err = keyTexts(key, len(t.Key)); err != nil {
				return nil, err
			}
		}
		k.add(key, texts)
	}
	return k, nil
}

// KeySelector returns a function that reports whether the rows of a key, a
// canonical text per key column in key order, may be of the part. It is nil when
// all may be, and for a table without a key. The function is for one goroutine.
func (p Part) KeySelector(t *catalog.Table) (func(key [][]byte) bool, error) {
	s, err := p.selector(t)
	if err != nil || len(t.Key) == 0 || s.wanted == nil && p.Keys == nil {
		return nil, err
	}
	columns := comparedColumns(t)
	kinds := make([]catalog.TypeKind, len(t.Key))
	for n, name := range t.Key {
		i := slices.IndexFunc(columns, func(c *catalog.Column) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("select keys of %s: key column %s is not a column of the lake", t.Source, name)
		}
		kinds[n] = comparedKind(columns[i])
	}
	var text []byte
	return func(key [][]byte) bool {
		text = text[:0]
		for n, part := range key {
			if part == nil {
				return true // whoever reads the row says what is wrong with it
			}
			var err error
			if text, err = canon.AppendTyped(text, kinds[n], part); err != nil {
				return true
			}
		}
		if p.Keys != nil && !p.Keys.Has(text) {
			return false
		}
		return s.wanted == nil || s.wanted[bucketOf(canon.HashRow(text), p.Buckets)]
	}, nil
}

// A selector is a Part made ready to judge rows.
type selector struct {
	part   Part
	wanted []bool // by bucket; nil: all
	since  []byte
	at     int // of the Since column
}

var errBuckets = errors.New("select rows: the number of buckets is not a power of two up to 2^20")

func (p Part) selector(t *catalog.Table) (*selector, error) {
	if p.Buckets < 1 || p.Buckets > MaxBuckets || p.Buckets&(p.Buckets-1) != 0 {
		return nil, errBuckets
	}
	s := &selector{part: p}
	if p.Only != nil {
		s.wanted = make([]bool, p.Buckets)
		for _, b := range p.Only {
			if b < 0 || b >= p.Buckets {
				return nil, fmt.Errorf("select rows: no bucket %d of %d", b, p.Buckets)
			}
			s.wanted[b] = true
		}
	}
	if p.Since != nil {
		at, text, err := p.Since.text(t)
		if err != nil {
			return nil, err
		}
		s.at, s.since = at, []byte(text)
	}
	return s, nil
}

// has judges a placed row, of which e still has the values.
func (s *selector) has(e *Encoder, r *Row) bool {
	if s.wanted != nil && !s.wanted[r.Bucket] {
		return false
	}
	if s.part.Keys != nil && !s.part.Keys.Has(r.Key) {
		return false
	}
	if s.since != nil {
		if isUnfitField(e.field(s.at)) {
			return true // nobody can say when that was
		}
		text, null := e.value(s.at)
		return !null && bytes.Compare(text, s.since) >= 0
	}
	return true
}

// comparedColumns are the columns whose values make a row: those of the source
// that are not excluded.
func comparedColumns(t *catalog.Table) []*catalog.Column {
	var columns []*catalog.Column
	for _, c := range t.Columns {
		if !c.Exclude {
			columns = append(columns, c)
		}
	}
	return columns
}

// comparedKind is the type that a column has in the lake.
func comparedKind(c *catalog.Column) catalog.TypeKind {
	if c.Mask == catalog.MaskSHA256 {
		return catalog.String
	}
	return c.Type.Kind
}
