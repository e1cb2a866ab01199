package sink

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// An Offset names a record: where it stands in its shard.
type Offset struct {
	Shard    string
	Sequence string // the stream's own number of the record, decimal; may be empty
	// Ordinal is the 0-based number of the record in its shard, as the source
	// reads it, without gaps.
	Ordinal uint64
}

// Shards that are none of a stream: what a command makes up for rows of its own.
const (
	// RepairShard is that of rows that were repaired.
	RepairShard    = "icehose-repair"
	redrivenPrefix = "redriven "
	resyncPrefix   = "resync-"
)

// RedrivenShard is the shard of records that failed, in the file of that name,
// and are delivered again: they are not where they were in their own shard.
func RedrivenShard(file, shard string) string { return redrivenPrefix + file + " " + shard }

// ResyncShard is the shard of the deletes that end the load of a floor.
func ResyncShard(floor string) string { return resyncPrefix + floor }

// OfStream reports whether a shard is one of the stream, whose records come in
// the order of positions and go on. The others say nothing of how far the lake is.
func OfStream(shard string) bool {
	return shard != RepairShard && !strings.HasPrefix(shard, redrivenPrefix) && !strings.HasPrefix(shard, resyncPrefix)
}

// A span is a run of handled records, from up to but not including to.
type span struct {
	from, to uint64
	last     string // sequence number of record to-1, "" if unknown
}

// spans are the handled records of one shard: disjoint runs in order, never
// touching. Delivered in order, a shard has one; each hole adds one.
type spans []span

// at returns the index of the first span that ends above n.
func (s spans) at(n uint64) int { return sort.Search(len(s), func(i int) bool { return s[i].to > n }) }

func (s spans) contains(n uint64) bool {
	i := s.at(n)
	return i < len(s) && s[i].from <= n
}

// add adds the run r and returns the spans, which may share memory with s.
func (s spans) add(r span) spans {
	// i is the first span that r touches, j the first behind it that it does not.
	i := sort.Search(len(s), func(i int) bool { return s[i].to >= r.from })
	j := i
	for j < len(s) && s[j].from <= r.to {
		if s[j].to > r.to || s[j].to == r.to && r.last == "" {
			r.to, r.last = s[j].to, s[j].last
		}
		r.from = min(r.from, s[j].from)
		j++
	}
	if j == i+1 {
		s[i] = r
		return s
	}
	return slices.Replace(s, i, j, r)
}

// prefix returns how many records from the shard's start on are handled
// without a hole.
func (s spans) prefix() uint64 {
	if len(s) == 0 || s[0].from != 0 {
		return 0
	}
	return s[0].to
}

// prefixFrom is prefix for a table that the records before start are none of.
func (s spans) prefixFrom(start uint64) uint64 {
	if i := s.at(start); i < len(s) && s[i].from <= start {
		return s[i].to
	}
	return start
}

// endsAt returns the sequence number of record n-1 if a run ends with it.
func (s spans) endsAt(n uint64) (last string, ok bool) {
	i := sort.Search(len(s), func(i int) bool { return s[i].to >= n })
	if i < len(s) && s[i].to == n {
		return s[i].last, true
	}
	return "", false
}

// contradicts reports that the record o cannot be of the stream whose records
// s describes: it stands among the handled ones but has a sequence number
// that does not belong there.
func (s spans) contradicts(o *Offset) bool {
	i := s.at(o.Ordinal)
	if i == len(s) || s[i].from > o.Ordinal {
		return false
	}
	last, got := s[i].last, o.Sequence
	if !isDecimal(last) || !isDecimal(got) {
		return false
	}
	c := compareDecimal(got, last)
	return c > 0 || (c == 0) != (o.Ordinal == s[i].to-1)
}

func isDecimal(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// compareDecimal compares two decimal numbers of any length.
func compareDecimal(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// offsets are the handled records of a stream, by shard.
type offsets map[string]spans

// add notes a record; it reports false if it had been noted before.
func (o offsets) add(r *Offset) bool {
	s := o[r.Shard]
	if n := len(s); n > 0 && s[n-1].to == r.Ordinal { // the next one, as nearly always
		s[n-1].to, s[n-1].last = r.Ordinal+1, r.Sequence
		return true
	}
	if s.contains(r.Ordinal) {
		return false
	}
	o[r.Shard] = s.add(span{r.Ordinal, r.Ordinal + 1, r.Sequence})
	return true
}

// union returns everything in o or p; both stay as they are.
func (o offsets) union(p offsets) offsets {
	out := make(offsets, max(len(o), len(p)))
	for shard, s := range o {
		out[shard] = slices.Clone(s)
	}
	for shard, s := range p {
		sum := out[shard]
		for _, r := range s {
			sum = sum.add(r)
		}
		out[shard] = sum
	}
	return out
}

func (o offsets) equal(p offsets) bool {
	if len(o) != len(p) {
		return false
	}
	for shard, s := range o {
		if !slices.Equal(s, p[shard]) {
			return false
		}
	}
	return true
}

// MarshalJSON renders {"SHARD":[[from,to,"sequence"],...]}.
func (o offsets) MarshalJSON() ([]byte, error) {
	shards := make(map[string][][3]any, len(o))
	for shard, s := range o {
		for _, r := range s {
			shards[shard] = append(shards[shard], [3]any{r.from, r.to, r.last})
		}
	}
	return json.Marshal(shards)
}

// UnmarshalJSON reads what MarshalJSON wrote and checks it.
func (o *offsets) UnmarshalJSON(data []byte) error {
	var shards map[string][][]json.RawMessage
	if err := json.Unmarshal(data, &shards); err != nil {
		return err
	}
	out := make(offsets, len(shards))
	for shard, list := range shards {
		var s spans
		for i, parts := range list {
			if len(parts) != 3 {
				return fmt.Errorf("span %d has %d parts, want 3", i, len(parts))
			}
			var r span
			for j, to := range []any{&r.from, &r.to, &r.last} {
				if err := json.Unmarshal(bytes.TrimSpace(parts[j]), to); err != nil {
					return fmt.Errorf("span %d: %w", i, err)
				}
			}
			if r.from >= r.to || i > 0 && r.from <= s[i-1].to {
				return fmt.Errorf("span %d is empty or out of order", i)
			}
			s = append(s, r)
		}
		out[shard] = s
	}
	*o = out
	return nil
}
