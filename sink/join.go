package sink

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"icehose/catalog"
)

// A beginning is where in a shard a table began that joined others: behind record
// Records-1, whose sequence number it keeps, since the others may be further when
// it has none of its own yet.
type beginning struct {
	Records  uint64 `json:"records"`
	Sequence string `json:"sequence,omitempty"`
}

// prefix returns how many records from the shard's start on, or from where the
// table began, are handled without a hole.
func (w *writer) prefix(shard string) uint64 {
	if w.options.Continue {
		return w.offsets[shard].prefixFrom(w.starts[shard].Records)
	}
	return w.offsets[shard].prefix()
}

// shards returns the shards that any table knows.
func (s *Sink) shards() map[string]bool {
	known := make(map[string]bool)
	for _, w := range s.opened() {
		for shard := range w.offsets {
			known[shard] = true
		}
		for shard := range w.starts {
			known[shard] = true
		}
	}
	return known
}

// least returns the least prefix of a shard.
func (*Sink) least(shard string, writers []*writer) uint64 {
	if len(writers) == 0 {
		return 0
	}
	least := writers[0].prefix(shard)
	for _, w := range writers[1:] {
		least = min(least, w.prefix(shard))
	}
	return least
}

// before returns record n-1 of a shard.
func (s *Sink) before(shard string, n uint64) Offset {
	o := Offset{Shard: shard, Ordinal: n - 1}
	for _, w := range s.opened() {
		if last, ok := w.offsets[shard].endsAt(n); ok && last != "" {
			o.Sequence = last
			break
		}
		if b := w.starts[shard]; b.Records == n && b.Sequence != "" {
			o.Sequence = b.Sequence
			break
		}
	}
	return o
}

// join lets tables that have noted nothing begin where the others are.
func (s *Sink) join(ctx context.Context) error {
	if !s.options.Continue {
		return nil
	}
	others := slices.DeleteFunc(s.opened(), func(w *writer) bool { return w.fresh })
	for _, w := range s.opened() {
		if !w.fresh || len(others) == 0 {
			continue
		}
		starts := make(map[string]beginning)
		for shard := range s.shards() {
			if n := s.least(shard, others); n > 0 && OfStream(shard) {
				starts[shard] = beginning{n, s.before(shard, n).Sequence}
				s.options.Log.WarnContext(ctx, "table begins in the middle of the stream", slog.String("table", w.name()),
					slog.String("shard", shard), slog.Uint64("record", n))
			}
		}
		if len(starts) == 0 {
			continue
		}
		// Noted before anything else is: when others are further after a crash,
		// the records in between are still its own.
		w.starts = starts
		if err := s.commit(ctx, w, true); err != nil {
			return err
		}
		if _, err := s.wait(); err != nil {
			return err
		}
	}
	return nil
}

// An Uneven shard is one of which not all tables have the same records.
type Uneven struct {
	Last   Offset         // of the table that has most
	Behind *catalog.Table // the one that has least
}

// Uneven returns the shards of which not all tables have the same records, each
// without a hole. A source that continues must go back to what the last one
// has, since only from there on it can number the records.
func (s *Sink) Uneven() map[string]Uneven {
	uneven := make(map[string]Uneven)
	for shard := range s.shards() {
		var most, least *writer
		for _, w := range s.opened() {
			if most == nil || w.prefix(shard) > most.prefix(shard) {
				most = w
			}
			if least == nil || w.prefix(shard) < least.prefix(shard) {
				least = w
			}
		}
		if most.prefix(shard) > least.prefix(shard) && OfStream(shard) {
			uneven[shard] = Uneven{s.before(shard, most.prefix(shard)), least.table}
		}
	}
	return uneven
}

// Describe says what the last table has, for people.
func (u *Uneven) Describe() string {
	return fmt.Sprintf("table %s.%s has less of it than others, which have it up to sequence number %s", u.Behind.Database(), u.Behind.Name(), u.Last.Sequence)
}
