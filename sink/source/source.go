// Package source is where the records of a sink come from.
//
// A Source yields the records of a stream with their offsets: shard, sequence
// number and ordinal, as package sink wants them. Files is the source of
// recorded streams (package cdc/kinesis), of standard input, and of files that
// still grow. A reader of a live stream implements the same interface.
//
// The package does not look into a record's data, and it remembers nothing
// between runs: what was handled is the sink's to know, and is handed in.
package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"icehose/cdc"
	"icehose/cdc/kinesis"
	"icehose/sink"
)

// A Source yields the records of a stream.
type Source interface {
	// Records yields the records of every shard that stand behind the last
	// handled one, which after names by shard. Those of a shard come in the
	// order in which the stream has them, on every reading the same, numbered
	// without gaps from 0 at the start of the shard. The first error ends it.
	// When ctx is done it ends without one.
	Records(ctx context.Context, after map[string]sink.Offset) iter.Seq2[Record, error]
}

// A Record is one record of a stream. It is the receiver's to keep.
type Record struct {
	Offset       sink.Offset
	Origin       cdc.Origin // as the stream has it, also where Offset has another shard
	PartitionKey string
	ArrivedAt    int64 // Unix milliseconds
	Data         []byte
	// Damaged says that Data is not a record's but what stood in place of one.
	// Nobody knows its shard, so it has no offset, and comes on every reading.
	Damaged bool
	// Unfinished says that a damaged one is the beginning of a record at the end
	// of its file: it may still be being written.
	Unfinished bool
	Fault      error  // why nothing could be read of a damaged one, without what stands there
	Place      string // where it stands, for people: FILE:LINE
}

// ErrOtherStream is wrapped by the error that says that the records cannot be
// those of which some were handled before.
var ErrOtherStream = errors.New("not the stream that the lake was filled from")

// ErrOrder is wrapped by the error that says that the records of a shard are
// not in the order of the stream, or are there twice. Those before it may have
// wrong numbers.
var ErrOrder = errors.New("sequence numbers of a shard must ascend")

// A numbering gives records their offsets.
type numbering struct {
	after    map[string]sink.Offset
	resumes  bool // the records begin somewhere, not at the start of the stream
	uneven   map[string]sink.Uneven
	shards   map[string]*shard
	redriven bool
}

type shard struct {
	name  string // in offsets
	next  uint64
	place place // of the last record

	sequence string // of the last record that was numbered and has a decimal one
	where    string // it stands, FILE:LINE
	in       place

	bare  bool // it has a record without a decimal sequence number
	jumps bool // it went on in a file that the alphabet has before its last one
}

// number returns the offset of a record, which stands in a file at FILE:LINE,
// or that it was handled before.
func (n *numbering) number(r *kinesis.Record, at place, where string) (o sink.Offset, handled bool, err error) {
	key := r.ShardID
	if n.redriven {
		// A rejected record is not where it was in its shard: the file is a stream of its own.
		key = sink.RedrivenShard(at.base(), r.ShardID)
	}
	s := n.shards[key]
	if s == nil {
		s = &shard{name: key}
		if last, ok := n.after[key]; ok && n.resumes {
			s.next = last.Ordinal + 1
		}
		n.shards[key] = s
		if err := n.reaches(key, r.SequenceNumber); err != nil {
			return o, false, err
		}
	} else if at.before(s.place) {
		return o, false, fmt.Errorf("file has a record of shard %s that came after a later file had begun it: their order would be another on the next reading, and with --continue it would be left out: fill a new lake from all files", r.ShardID)
	}
	s.jumps = s.jumps || at.jumps(s.place)
	s.place = at
	last, resumed := n.after[key]
	if resumed && n.resumes {
		c, err := compareSequences(r.SequenceNumber, last.Sequence)
		if err == nil {
			err = n.ascends(s, r, at, where) // or what an earlier run passed by would count as handled
		}
		if err != nil || c <= 0 {
			return o, true, err
		}
	} else if err := n.ascends(s, r, at, where); err != nil {
		return o, false, err
	}
	o = sink.Offset{Shard: s.name, Sequence: r.SequenceNumber, Ordinal: s.next}
	s.next++
	if u, ok := n.uneven[key]; ok && !agrees(&o, &u.Last) {
		return o, false, fmt.Errorf("shard %s record %d: %w: %s: %s", r.ShardID, o.Ordinal, ErrOtherStream, u.Describe(), giveAll)
	}
	if !resumed || o.Ordinal > last.Ordinal {
		return o, false, nil
	}
	if !precedes(&o, &last) {
		return o, false, fmt.Errorf("shard %s record %d: %w", r.ShardID, o.Ordinal, ErrOtherStream)
	}
	return o, true, nil
}

// ascends checks that a record that is about to be numbered comes after the one
// before it in its shard. A record that has the same number is refused too, as
// precedes does: nobody could tell on the next reading which of both was handled.
// One without a number is refused where files do not come by the alphabet: in a
// lake that was filled by it its place is another, and nothing else would tell.
func (n *numbering) ascends(s *shard, r *kinesis.Record, at place, where string) error {
	if n.redriven {
		return nil // in the order in which they failed, some of them twice
	}
	c, err := compareSequences(r.SequenceNumber, cmp.Or(s.sequence, "0"))
	s.bare = s.bare || err != nil
	switch {
	case s.bare && s.jumps:
		return fmt.Errorf("shard %s has records without a decimal sequence number, and files that do not come by the alphabet: nothing tells their order: give each file by its name", r.ShardID)
	case err != nil:
		return nil //nolint:nilerr // no decimal number: nothing to compare
	case s.sequence == "" || c > 0:
		s.sequence, s.where, s.in = r.SequenceNumber, where, at
		return nil
	case s.in == at:
		return fmt.Errorf("shard %s has sequence number %s behind %s of %s: %w: "+
			"the file has records twice, or not in the order of the stream: give each record once, in that order",
			r.ShardID, r.SequenceNumber, s.sequence, s.where, ErrOrder)
	}
	return fmt.Errorf("shard %s has sequence number %s behind %s of %s: %w: "+
		"the file probably has the same records under another name, or belongs before that one: give each file once, in the order of the stream; a lake that this run has committed records to has wrong numbers, fill a new one",
		r.ShardID, r.SequenceNumber, s.sequence, s.where, ErrOrder)
}

// reaches checks the first record of a shard, whose number is given, where not
// all tables have the same records: it must be one that every table has, since
// from a later one on nobody could tell how many are in between.
func (n *numbering) reaches(key, first string) error {
	u, ok := n.uneven[key]
	if !ok {
		return nil
	}
	last, all := n.after[key]
	if !n.resumes {
		if c, err := compareSequences(first, u.Last.Sequence); err == nil && c > 0 {
			return fmt.Errorf("shard %s begins in the middle: %s: %s", key, u.Describe(), giveAll)
		}
		return nil // what cannot be compared is counted
	}
	if !all {
		return fmt.Errorf("cannot tell where to continue shard %s: %s, and no record is in all of them: %s, without continuing", key, u.Describe(), giveAll)
	}
	c, err := compareSequences(first, last.Sequence)
	if err != nil || c <= 0 {
		return err
	}
	return fmt.Errorf("shard %s begins too late to continue: %s: give the files from sequence number %s on, that record included, or all of the stream without continuing",
		key, u.Describe(), last.Sequence)
}

// giveAll is what to do where nothing tells how many records a file leaves out.
const giveAll = "give all files from the start of the stream"

// agrees says that o is where last is in the shard if it is that record, and only then.
func agrees(o, last *sink.Offset) bool {
	return last.Sequence == "" || (o.Sequence == last.Sequence) == (o.Ordinal == last.Ordinal)
}

// precedes says that o, by its ordinal at or before last, can be of the same
// shard by its sequence number.
func precedes(o, last *sink.Offset) bool {
	if o.Ordinal == last.Ordinal {
		return last.Sequence == "" || o.Sequence == last.Sequence
	}
	c, err := compareSequences(o.Sequence, last.Sequence)
	return err != nil || c < 0
}

// end checks, when everything was read, that the shards were not shorter than
// what was handled of them: then it was another stream whose records were
// taken for handled ones.
func (n *numbering) end() error {
	if n.resumes {
		return nil
	}
	for key, s := range n.shards {
		if last, ok := n.after[key]; ok && s.next <= last.Ordinal {
			return fmt.Errorf("shard %s has %d records, of which %d were handled before: %w", key, s.next, last.Ordinal+1, ErrOtherStream)
		}
	}
	return nil
}

// compareSequences compares two sequence numbers, decimals of any length.
func compareSequences(a, b string) (int, error) {
	for _, s := range []string{a, b} {
		if s == "" || strings.Trim(s, "0123456789") != "" {
			return 0, errors.New("cannot tell where to continue: a sequence number is not a decimal number")
		}
	}
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b), nil
	}
	return strings.Compare(a, b), nil
}
