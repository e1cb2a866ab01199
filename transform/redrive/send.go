package redrive

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Stream takes records. Put returns the entries that it did not take and that
// may be tried again; an error is final. An error that wraps ErrRejected says
// that the call took nothing because of what some entry is.
type Stream interface {
	Put(ctx context.Context, entries []Entry) (refused []Refusal, err error)
}

// A Refusal is an entry of one call that the stream did not take.
type Refusal struct {
	Index int    // in the call
	Code  string // the stream's word for why
}

// ErrRejected is wrapped by the error of a Stream that will never take one of
// the entries: it is too large, or its partition key has a form it does not take.
var ErrRejected = errors.New("rejected")

// A State is what became of a record.
type State uint8

// The states.
const (
	Unsent   State = iota // nothing yet
	Taken                 // the stream has it
	Rejected              // the stream will not take it
)

// A Journal knows what became of each record.
type Journal interface {
	State(id string) State
	Note(ids []string, state State) error // durable when it returns
}

// The limits of one PutRecords call of Kinesis, with room to spare.
const (
	maxEntries = 500
	maxSize    = 4 << 20
	maxTries   = 8
	// A stream is blocked when it took nothing of so many batches in a row,
	// which held so many entries: neighbours may be refused for a reason of their own.
	maxBlocked        = 3
	maxBlockedEntries = 20
)

// A Sender sends entries in batches. It belongs to one goroutine.
type Sender struct {
	stream  Stream
	journal Journal
	rate    int
	wait    func(context.Context, time.Duration) error
	batch   []Entry
	size    int
	// Batches in a row of which the stream took nothing, and entries in them.
	blocked, blockedEntries int

	// Sent, Skipped and Rejected count entries: those taken by the stream,
	// those that the journal knew as taken, and those that the stream rejects,
	// now or by the journal.
	Sent, Skipped, Rejected int64
	// Examples are where the first rejected entries stand.
	Examples []string
	// Refused counts the entries that the stream did not take in 8 tries, by
	// the last code: they are set aside, not noted, and sent by the next run.
	Refused map[string]int64
}

// maxExamples is how many rejected entries are named.
const maxExamples = 10

// NewSender returns a Sender that sends at most rate entries a second. It
// calls wait to pause; wait returns early with an error when its context ends.
func NewSender(s Stream, j Journal, rate int, wait func(context.Context, time.Duration) error) (*Sender, error) {
	if rate < 1 {
		return nil, errors.New("make sender: want a rate of 1 record a second or more")
	}
	return &Sender{stream: s, journal: j, rate: rate, wait: wait, Refused: make(map[string]int64)}, nil
}

// Send sends an entry, now or with others later. Flush sends what is left.
func (s *Sender) Send(ctx context.Context, e Entry) error {
	switch s.journal.State(e.ID) {
	case Taken:
		s.Skipped++
		return nil
	case Rejected:
		s.reject(&e)
		return nil
	case Unsent:
	}
	size := len(e.Data) + len(e.PartitionKey)
	if len(s.batch) > 0 && (s.size+size > maxSize || len(s.batch) >= min(maxEntries, s.rate)) {
		if err := s.Flush(ctx); err != nil {
			return err
		}
	}
	s.batch = append(s.batch, e)
	s.size += size
	return nil
}

// Flush sends what Send has kept. What the stream took is noted even when the
// rest of the batch fails.
func (s *Sender) Flush(ctx context.Context) error {
	batch := s.batch
	s.batch, s.size = nil, 0
	return s.put(ctx, batch)
}

// put sends a batch. Where the stream rejects it, the halves are sent instead,
// down to the one entry that it does not take.
func (s *Sender) put(ctx context.Context, rest []Entry) error {
	pause, all := 100*time.Millisecond, len(rest)
	for try := 1; len(rest) > 0; try++ {
		refused, err := s.stream.Put(ctx, rest)
		if errors.Is(err, ErrRejected) {
			return s.divide(ctx, rest)
		}
		if err != nil {
			return fmt.Errorf("send records: %w", err)
		}
		again := make([]Entry, 0, len(refused))
		for _, r := range refused {
			again = append(again, rest[r.Index])
		}
		if err := s.note(rest, refused); err != nil {
			return err
		}
		// Pacing counts refused entries too: they used the stream's capacity.
		if err := s.wait(ctx, time.Duration(len(rest))*time.Second/time.Duration(s.rate)); err != nil {
			return fmt.Errorf("send records: %w", err)
		}
		rest = again
		if len(rest) == 0 {
			s.blocked, s.blockedEntries = 0, 0
			return nil
		}
		if try == maxTries {
			return s.setAside(refused, all)
		}
		if err := s.wait(ctx, pause); err != nil {
			return fmt.Errorf("send records: %w", err)
		}
		pause = min(2*pause, 5*time.Second)
	}
	return nil
}

// setAside counts what the stream refused to the last of a batch of so many
// entries. A stream that takes nothing at all is another matter.
func (s *Sender) setAside(refused []Refusal, all int) error {
	for _, r := range refused {
		s.Refused[r.Code]++
	}
	s.blocked++
	s.blockedEntries += len(refused)
	if len(refused) < all {
		s.blocked, s.blockedEntries = 0, 0
	}
	if s.blocked >= maxBlocked && s.blockedEntries >= maxBlockedEntries {
		return fmt.Errorf("send records: the stream took none of %d records in a row, each tried %d times: %s", s.blockedEntries, maxTries, refused[0].Code)
	}
	return nil
}

// divide sends the halves of a batch that was rejected. What is left of it
// when it is one entry is noted as rejected.
func (s *Sender) divide(ctx context.Context, batch []Entry) error {
	if err := s.wait(ctx, time.Second/time.Duration(s.rate)); err != nil {
		return fmt.Errorf("send records: %w", err)
	}
	if half := len(batch) / 2; half > 0 {
		if err := s.put(ctx, batch[:half]); err != nil {
			return err
		}
		return s.put(ctx, batch[half:])
	}
	s.reject(&batch[0])
	if err := s.journal.Note([]string{batch[0].ID}, Rejected); err != nil {
		return fmt.Errorf("send records: %w", err)
	}
	return nil
}

func (s *Sender) reject(e *Entry) {
	if s.Rejected++; len(s.Examples) < maxExamples {
		s.Examples = append(s.Examples, e.Where)
	}
}

// note writes down what of a batch was taken.
func (s *Sender) note(batch []Entry, refused []Refusal) error {
	left := make(map[int]bool, len(refused))
	for _, r := range refused {
		left[r.Index] = true
	}
	ids := make([]string, 0, len(batch))
	for i := range batch {
		if !left[i] {
			ids = append(ids, batch[i].ID)
		}
	}
	s.Sent += int64(len(ids))
	if err := s.journal.Note(ids, Taken); err != nil {
		return fmt.Errorf("send records: %w", err)
	}
	return nil
}
