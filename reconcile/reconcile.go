// Package reconcile proves that the lake equals the source, or finds what
// differs.
//
// In come a pipeline file and two Readers of its tables, one per side. Each
// side is summarised as one digest per bucket of hash(key). Equal digests are
// equal rows, up to a collision of 128-bit hashes; where digests differ, the
// keys and row hashes of the bucket are fetched from both sides and merged by
// key. Out goes a Report: per table a verdict, how many rows each side has,
// and findings by kind and key.
//
// A row is its canonical bytes (package internal/canon): every column that the
// lake holds and the source has, masked as the pipeline file masks it. The
// metadata columns are not compared. What cannot be read is never passed over:
// its table is inconclusive, with the reason.
//
// While changes flow, a key that differs is at first a suspect (Options.Settle):
// it is looked up again, the source first and then the newest snapshot of the
// lake, until it agrees once (in flight), or is proven to differ although its
// change must have arrived. What proves that is said at Options.Settle. A key
// that keeps changing is unsettled; its table is inconclusive, not different.
//
// The package reads and never writes. It imports no driver; the readers are in
// the folders below.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon"
)

// A Reader reads the tables of one side. It is used by several goroutines at once.
type Reader interface {
	// Open chooses the newest moment of t and returns its rows at that moment.
	// exact asks for all that Pinned can say of it: of a source a place in the
	// log that is known as exactly as can be had, which may cost a wait of some
	// seconds; of a lake its rows and the newest position, which costs a reading
	// of the positions.
	Open(ctx context.Context, t *catalog.Table, exact bool) (View, error)
	// State says how far the side has come, over the given tables together.
	State(ctx context.Context, tables []*catalog.Table) (State, error)
}

// A View is one table at one moment. Its methods may be called by several
// goroutines at once, Close by one when they have ended.
type View interface {
	Pinned() Pinned
	// Digests reads the rows of the part once and returns the digest of each of
	// its buckets; those of buckets that are not meant are zero.
	Digests(ctx context.Context, part Part) ([]canon.Digest, error)
	// Rows yields the rows of the part, in any order. A Row is valid until the
	// next one. The first error ends it.
	Rows(ctx context.Context, part Part) iter.Seq2[Row, error]
	Close() error
}

// Pinned says what a View reads.
type Pinned struct {
	// Moment names the moment in the words of its side: "final", "snapshot 42",
	// "log 0/16B3748".
	Moment string
	// Rows is about how many rows the table has; 0: not known. It decides how
	// many buckets there are and nothing else.
	Rows int64
	// Slice is how many rows a reading of the table may be about, for the memory
	// that it takes; 0: any number, since it takes none. A larger table is
	// compared in slices.
	Slice int64
	// Time is the moment by the source's clock; zero when the side has none.
	Time time.Time
	// Through is nil unless the source follows another server: then everything
	// that was committed there up to Through is in the rows, zero when the source
	// cannot tell.
	Through *time.Time
	// Doubt says why the source cannot tell, and what to do.
	Doubt string
	// Log says where the moment stands in the log that the stream is read from;
	// nil when the side has none.
	Log *LogRange
	// Newest is, of a lake, the newest change that it holds of the table.
	Newest Newest
	// Unknown are, of a source that has a schema, the columns that the pipeline
	// file does not have, as the source spells them (UnknownColumns).
	Unknown []string
}

// ErrMomentGone is wrapped by an error of a View when its moment can no longer
// be read, and a new one probably can: its table is then read anew.
var ErrMomentGone = errors.New("the moment can no longer be read")

// A LogRange bounds a moment in the source's log: every change below Low
// is in the rows of that moment, no change above High is. Low and High are
// equal when the place is known exactly.
type LogRange struct {
	Low  *cdc.Body `json:"-"` // nil: not known
	High cdc.Body  `json:"-"`
}

// passedBy reports whether a body is above everything that the moment can
// reflect. A place in PostgreSQL's log is the first half of a body alone.
func (l *LogRange) passedBy(at cdc.Body) bool {
	if l.High.Hi != 0 {
		return at.Hi > l.High.Hi
	}
	return at.Compare(l.High) > 0
}

// Newest is the newest change of a table that a lake holds.
type Newest struct {
	Position  cdc.Position // empty: not known
	Committed time.Time    // when the source committed it; zero: not known
}

// A State says how far a side has come.
type State struct {
	// Time is, of a source, its clock; of a lake, the newest commit time of
	// the source that any of the tables holds. Zero: not known.
	Time time.Time
	// Mark changes whenever rows of the tables do. Two equal marks are a side
	// that was idle between them, up to ten seconds. Empty: not known.
	Mark string
}

// A Row is what is compared of one row.
type Row struct {
	Bucket int
	// Key is the canonical bytes of the key columns, in key order; of a table
	// without a key the 16 bytes of Hash.
	Key     []byte
	Hash    canon.Hash // of the whole row
	Version []byte     // canonical text of the column Part.Version; nil: NULL, or not asked for
	// Stamp is, of a side that has such a thing, a text that changes with every
	// change of the row, also if its values are as before; else empty.
	Stamp []byte
	// Unfit says that the source's row has a value which the type in the lake
	// cannot hold: Hash is then none of the lake's, and may be another one than
	// that of a server which digests the row by itself.
	Unfit bool
}

// Options say what Run compares, and what it may use. The zero value compares
// every table once: what differs is a finding, for a source that does not
// change any more and a lake that has every change.
type Options struct {
	Tables []string // schema.table of the source; empty: all
	// Keys restricts tables, by source name, to these keys. A table that is
	// here with nil is compared whole. Nil: no restriction; else tables that
	// are not here are left out.
	Keys map[string]*Keys
	// Since restricts every table that has the column to rows that the source
	// changed since then. Extra rows of the lake are not seen.
	Since *Since
	// Sample compares about this fraction of the keys, chosen by their hash;
	// 0 and 1 are all of them.
	Sample float64
	// Version is the lake name of a column that grows with every change of a
	// row: a date, a timestamp or a number. A row that differs and is older in
	// the lake is stale. Tables without it are compared without it.
	Version string

	// Settle makes Run look again at keys that differ, and is how far the lake
	// must have come past the last change of a source row before a difference
	// counts: longer than shards are ever apart. A difference is a finding when
	// both sides' rows were the same in at least two later looks, and one of:
	// (a) Watermark.Position has passed all that the source could have had when
	// the row was first seen as it is; (b) where there is a Watermark.Time, it
	// has passed that moment, and Settle ago or earlier, and the table has been
	// committed anew since, or Idle ago; where there is none, (c) the lake holds
	// a change of the table that was committed Settle after that moment, or (d)
	// of another table, Idle after it, or (e) neither side has moved at all for
	// as long as Idle. Where changes of the table are seen to come later or
	// further apart, twice that replaces a smaller Settle or Idle. A source that
	// follows another server must also have everything that was committed there
	// by the time when the lake's rows had been read as they are
	// (Pinned.Through). 0: never look again.
	Settle time.Duration
	// Idle is by how much tables of the lake may be apart from each other, each
	// of them being committed by itself; default Settle, and no less.
	Idle time.Duration
	// Retries is how many times suspects are looked at, twice at least; default 20.
	Retries int
	// Watermark says what is certainly in the lake. Nil: nothing is known.
	Watermark func(context.Context) (Watermark, error)
	// Timeout ends the run: tables not decided by then are inconclusive. 0: none.
	Timeout time.Duration

	MaxFindings int // kept by key per table; default 1000
	// MaxRows bounds the rows of both sides together that are in memory while
	// a table's differing buckets are compared; default DefaultMaxRows. A bucket that
	// alone has more is still compared as a whole.
	MaxRows int
	// SliceRows bounds the rows of a table that are read at one moment:
	// a larger table is compared in slices, some buckets each, every slice at
	// its own moment. A Checkpoint knows finished slices. Each slice costs a
	// scan of the keys. 0: no bound.
	SliceRows   int64
	Concurrency int  // tables that are read at a time, whose keys are waited for or not; default 1
	ShowKeys    bool // name the keys of findings in what the Report writes
	// Checkpoint keeps what is decided, so that an interrupted run continues.
	Checkpoint Checkpoint
	// Recheck makes a run that continues look at the keys of findings again: one
	// that agrees meanwhile, of a repair say, is a finding no more. Without it
	// the run tells what the one before found.
	Recheck bool
	// Identity tells sources and lakes apart, and what Watermark reads: a
	// checkpoint is of the run with the same. It holds no secret.
	Identity string
	// Progress is told of every step, by one goroutine at a time.
	Progress func(Progress)
	// Now times each table; without it the report says no times. Settle needs it.
	Now func() time.Time
	// Wait waits between looks; default a timer.
	Wait func(context.Context, time.Duration) error
}

// A Watermark says up to where a lake has every change, of every shard. The
// zero value says nothing.
type Watermark struct {
	Time     time.Time    // everything committed before it, by the source's clock
	Position cdc.Position // everything below it, of tables with the pipeline's kind of position
}

// A Progress is one step of Run.
type Progress struct {
	Table  string // schema.table of the source
	Step   Step
	Done   int          // tables decided
	Tables int          // tables to decide
	Report *TableReport // of a Step Decided, else nil
	// Suspects are how many keys differ still, of a Step Settling.
	Suspects int
}

// A Step is what Run does with a table.
type Step string

// The steps of a table, in order; Comparing only when digests differ, Settling
// only with Options.Settle.
const (
	Digesting Step = "digesting"
	Comparing Step = "comparing"
	Settling  Step = "settling"
	Decided   Step = "decided"
)

const (
	defaultMaxFindings = 1000
	defaultRetries     = 20
	rowsPerBucket      = 256
)

// DefaultMaxRows is Options.MaxRows unless it is set.
const DefaultMaxRows = 1 << 20

// Run compares the tables of p. A table that cannot be read is reported, not
// returned as an error: the error is for options that make no sense, for a
// checkpoint that cannot be read, and for a cancelled context. When the
// checkpoint cannot be written, there is a report, and the error beside it.
func Run(ctx context.Context, p *catalog.Pipeline, source, lake Reader, o Options) (*Report, error) {
	tables, err := choose(p, &o)
	if err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	saved, err := loadCheckpoint(ctx, p, tables, &o)
	if err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	report := &Report{Tables: make([]TableReport, len(tables)), ShowKeys: o.ShowKeys, Sample: o.sampled(), Only: only(p, tables)}
	if o.Now != nil {
		report.Began = o.Now()
	}
	tell := teller(len(tables), o.Progress)
	work, cancel := ctx, context.CancelFunc(func() {})
	if o.Timeout > 0 {
		work, cancel = context.WithTimeoutCause(ctx, o.Timeout, errTimeout)
	}
	defer cancel()
	unsaved := make([]error, len(tables))
	g := gate{free: max(o.Concurrency, 1), room: waitingSuspects}
	g.each(len(tables), func(i int) bool { return saved.isRead(tables[i].Source) }, func(i int) {
		t := tables[i]
		c := comparison{pipeline: p, table: t, tables: tables, source: source, lake: lake, options: &o, tell: tell, saved: saved, gate: &g}
		report.Tables[i], unsaved[i] = c.run(work)
		tell(Progress{Table: t.Source, Step: Decided, Report: &report.Tables[i]})
	})
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	if o.Now != nil {
		report.Ended = o.Now()
	}
	if err := errors.Join(unsaved...); err != nil {
		return report, fmt.Errorf("reconcile: %w", err)
	}
	return report, nil
}

var errTimeout = errors.New("not finished in time")

// complete fills in defaults and refuses what makes no sense.
func (o *Options) complete() error {
	if o.MaxFindings <= 0 {
		o.MaxFindings = defaultMaxFindings
	}
	if o.MaxRows <= 0 {
		o.MaxRows = DefaultMaxRows
	}
	if o.Retries == 0 {
		o.Retries = defaultRetries
	}
	if o.Wait == nil {
		o.Wait = Wait
	}
	o.Idle = max(o.Idle, o.Settle)
	switch {
	case o.Settle > 0 && o.Now == nil:
		return errors.New("check options: Settle needs Now")
	case o.Settle > 0 && o.Retries < 2:
		return errors.New("check options: Settle needs two looks: want 2 Retries or more")
	case o.Sample < 0 || o.Sample > 1:
		return fmt.Errorf("check options: a sample of %v is no fraction", o.Sample)
	case o.sampled() != 0 && (o.Keys != nil || o.Since != nil):
		return errors.New("check options: a sample of chosen keys makes no sense")
	case o.Keys != nil && o.Since != nil:
		return errors.New("check options: keys are chosen by Keys or by Since, not both")
	}
	return nil
}

// sampled is the fraction that is compared, 0 when it is all.
func (o *Options) sampled() float64 {
	if o.Sample == 1 {
		return 0
	}
	return o.Sample
}

// teller counts decided tables and lets one goroutine at a time report.
func teller(tables int, progress func(Progress)) func(Progress) {
	var mu sync.Mutex
	done := 0
	return func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		if p.Step == Decided {
			done++
		}
		if progress != nil {
			p.Done, p.Tables = done, tables
			progress(p)
		}
	}
}
