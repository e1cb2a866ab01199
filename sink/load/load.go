// Package load brings a whole table into a lake at once, past the stream: from
// a live database or from a dump.
//
// In comes a Snapshot: the rows of one source table at one moment, in parts
// that are read side by side, and the position of that moment in the source's
// order, the floor. Out goes one commit of a Target: every row with the floor
// as its position, at rank 0, as a load record of the stream has it. So a
// change from that position on wins over its row, whenever it comes, and a
// change before it loses.
//
// A load happens whole or not at all: until its one commit nobody sees a row,
// and files of a load that failed are orphans. It does not resume: the moment
// of a snapshot is gone with its connections, so a load that was cut off starts
// anew, at a new floor.
//
// No key occurs twice: a mirror that has two rows of one key is wrong from then
// on, whatever changes come. So a load whose rows do not tell apart by the key of
// the pipeline file fails, be it that files overlap or that the key is not one of
// the source.
//
// Values go through package internal/canon as those of the transform do, masks
// and allowed losses included, and never through a float64. One that its column
// cannot hold fails the load, with the column and without the value. So does a null in a column that is
// not_null. The stream takes a null that a record shows for the source's; here it
// is told, because a whole table can be read again when the file is put right, and
// because files are written by many tools: an empty text is null in many a CSV.
//
// The readers of sources are in the folders below.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon"
	"icehose/sink"
)

// A Snapshot is one source table at one moment.
type Snapshot struct {
	// Floor is the position up to which the rows reflect every change: those
	// below it, and maybe some from it on, which come again and do no harm.
	Floor cdc.Body
	// Since is the source's time just before the moment.
	Since time.Time
	// Start is the floor in the source's own words: changes must be read from
	// there on, or from before it.
	Start    string
	Estimate int64      // rows, about; -1 if unknown
	Form     canon.Form // of the texts
	// Warnings say what may go wrong after the load.
	Warnings []string
	// Parts are the rows, each of them in exactly one part.
	Parts []Part
	// Names say what the parts are, such as files; nil if they have no names.
	Names []string
	// Close gives back what the snapshot holds.
	Close func() error
}

// A Part yields rows: one text for each column of Columns, nil for NULL, valid
// until the next row. Parts are read side by side.
type Part func(ctx context.Context) iter.Seq2[[][]byte, error]

// A Target is the lake table that a load fills.
type Target interface {
	// Write writes rows of the table's lake columns, canonical texts, nil for
	// null, valid until the next row. It is called by several goroutines.
	Write(ctx context.Context, rows iter.Seq2[[][]byte, error]) error
	// Commit makes everything written visible.
	Commit(ctx context.Context, note sink.LoadNote) error
	// Discard removes what was written.
	Discard(ctx context.Context) error
}

// Columns returns the columns that a source must yield, in this order: those of
// the table that the lake has.
func Columns(t *catalog.Table) []*catalog.Column {
	var columns []*catalog.Column
	for _, c := range t.Columns {
		if !c.Exclude {
			columns = append(columns, c)
		}
	}
	return columns
}

// Options say how fast a load goes.
type Options struct {
	Parallel int // parts read at a time; default 1
	// TrustKey leaves out the check that no key occurs twice. KeyMemory is of how
	// many rows the check keeps in memory, 32 bytes each; default 2 million. What
	// is beyond goes into KeyDir, 16 bytes a row; default: the system's folder for
	// temporary files.
	TrustKey  bool
	KeyMemory int
	KeyDir    string
	// Rate bounds the rows read in a second; 0 for as many as can be.
	Rate float64
	// Now is the clock of Rate and of nothing else.
	Now func() time.Time
	// Progress is told of rows that were read; by several goroutines.
	Progress func(rows int64)
}

// Run loads a snapshot of t. epoch is that of the floor. What was written is
// discarded when it fails.
func Run(ctx context.Context, t *catalog.Table, epoch uint16, s *Snapshot, target Target, o Options) (sink.LoadNote, error) {
	note, err := run(ctx, t, epoch, s, target, &o)
	if err != nil {
		// An interrupted load must be able to clean up.
		if dropped := target.Discard(context.WithoutCancel(ctx)); dropped != nil {
			err = fmt.Errorf("%w; and what was written is left over: %w", err, dropped)
		}
		return sink.LoadNote{}, fmt.Errorf("load table %s: %w", t.Source, err)
	}
	return note, nil
}

func run(ctx context.Context, t *catalog.Table, epoch uint16, s *Snapshot, target Target, o *Options) (_ sink.LoadNote, err error) {
	position, err := cdc.LoadPosition(epoch, s.Floor, s.Since, cdc.Origin{})
	if err != nil {
		return sink.LoadNote{}, err
	}
	l := &loader{table: t, snapshot: s, epoch: epoch, position: position, options: o, pace: newPacer(o.Rate, o.Now)}
	if len(t.Key) > 0 && !o.TrustKey {
		l.keys = &keyCheck{limit: cmp.Or(o.KeyMemory, defaultKeyMemory), dir: o.KeyDir}
		defer func() { err = errors.Join(err, l.keys.close()) }()
	}
	group, work := errgroup.WithContext(ctx)
	for range max(1, min(o.Parallel, len(s.Parts))) {
		group.Go(func() error {
			rows, err := l.rows(work)
			if err != nil {
				return err
			}
			return target.Write(work, rows)
		})
	}
	if err := group.Wait(); err != nil {
		return sink.LoadNote{}, err
	}
	if err := l.unique(ctx); err != nil {
		return sink.LoadNote{}, err
	}
	note := sink.LoadNote{Position: position, Since: s.Since, Rows: l.count.Load()}
	return note, target.Commit(ctx, note)
}

// A loader is one load.
type loader struct {
	table    *catalog.Table
	snapshot *Snapshot
	epoch    uint16
	position cdc.Position
	options  *Options
	pace     *pacer
	keys     *keyCheck    // nil for none
	next     atomic.Int64 // the part that nobody reads yet
	count    atomic.Int64
}

// unique fails if a key occurs twice in what was read.
func (l *loader) unique(ctx context.Context) error {
	if l.keys == nil {
		return nil
	}
	found, err := l.keys.find(ctx, l.options.Parallel)
	if err != nil {
		return err
	}
	return found.err(l.table, l.snapshot)
}

// countEvery is how many rows are counted, paced and told together.
const countEvery = 512

var errStopped = errors.New("stopped")

// rows yields the rows of one part after the other, while there are any.
func (l *loader) rows(ctx context.Context) (iter.Seq2[[][]byte, error], error) {
	c, err := newCoder(l.table, l.snapshot, l.epoch, l.position)
	if err != nil {
		return nil, err
	}
	return func(yield func([][]byte, error) bool) {
		for {
			part := l.next.Add(1) - 1
			if part >= int64(len(l.snapshot.Parts)) {
				return
			}
			if err := l.part(ctx, c, int(part), yield); err != nil {
				if !errors.Is(err, errStopped) {
					yield(nil, err)
				}
				return
			}
		}
	}, nil
}

func (l *loader) part(ctx context.Context, c *coder, part int, yield func([][]byte, error) bool) error {
	c.begin(part)
	n := int64(0)
	var marks []keyMark
	tell := func() error {
		l.count.Add(n)
		if l.options.Progress != nil {
			l.options.Progress(n)
		}
		err := l.pace.wait(ctx, n)
		if err == nil && l.keys != nil {
			if err = l.keys.add(marks); errors.Is(err, errTwins) {
				err = l.keys.early.err(l.table, l.snapshot)
			}
		}
		n, marks = 0, marks[:0]
		return err
	}
	for values, err := range l.snapshot.Parts[part](ctx) {
		if err != nil {
			return err
		}
		row, err := c.row(values)
		if err != nil {
			return l.at(part, c.number, err)
		}
		if l.keys != nil {
			marks = append(marks, newMark(c.key(), part))
		}
		if !yield(row, nil) {
			return errStopped
		}
		if n++; n == countEvery {
			if err := tell(); err != nil {
				return err
			}
		}
	}
	return tell()
}

// at says in which row of a part that has a name an error is, counted from one.
func (l *loader) at(part int, number uint64, err error) error {
	if l.snapshot.Names == nil {
		return err
	}
	return fmt.Errorf("%s: row %d: %w", l.snapshot.Names[part], number, err)
}
