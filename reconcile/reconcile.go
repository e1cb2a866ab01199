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
// The package does not wait for a lake that lags behind: a Reader stands at
// one moment, and it is for the caller to have chosen two that belong
// together. It imports no driver; the readers are in the folders below.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"icehose/catalog"
	"icehose/internal/canon"
)

// A Reader reads the tables of one side. All calls for a table see the same
// rows: those of the moment that the first Pin chose. A Reader is used by
// several goroutines at once, for different tables or for the same.
type Reader interface {
	// Pin fixes the moment at which t is read.
	Pin(ctx context.Context, t *catalog.Table) (Pinned, error)
	// Digests reads every row of t once and returns the digest of each of the
	// given number of buckets.
	Digests(ctx context.Context, t *catalog.Table, buckets int) ([]canon.Digest, error)
	// Rows yields the rows of t whose bucket is wanted, in any order. A Row is
	// valid until the next one. The first error ends it.
	Rows(ctx context.Context, t *catalog.Table, buckets int, wanted func(bucket int) bool) iter.Seq2[Row, error]
}

// Pinned says what a Reader will read.
type Pinned struct {
	// Moment names the moment in the words of its side: "final", "snapshot 42".
	Moment string
	// Rows is about how many rows the table has. It decides how many buckets
	// there are and nothing else.
	Rows int64
}

// A Row is what is compared of one row.
type Row struct {
	Bucket int
	// Key is the canonical bytes of the key columns, in key order; of a table
	// without a key the 16 bytes of Hash.
	Key  []byte
	Hash canon.Hash // of the whole row
}

// Options say what Run compares, and what it may use. The zero value compares
// every table.
type Options struct {
	Tables      []string // schema.table of the source; empty: all
	MaxFindings int      // kept by key per table; default 1000
	// MaxRows bounds the rows of both sides together that are in memory while
	// a table's differing buckets are compared; default 1<<20. A bucket that
	// alone has more is still compared as a whole.
	MaxRows     int
	Concurrency int  // tables at a time; default 1
	ShowKeys    bool // name the keys of findings in what the Report writes
	// Progress is told of every step, by one goroutine at a time.
	Progress func(Progress)
	// Now times each table; without it the report says no times.
	Now func() time.Time
}

// A Progress is one step of Run.
type Progress struct {
	Table  string // schema.table of the source
	Step   Step
	Done   int          // tables decided
	Tables int          // tables to decide
	Report *TableReport // of a Step Decided, else nil
}

// A Step is what Run does with a table.
type Step string

// The steps of a table, in order; Comparing only when digests differ.
const (
	Digesting Step = "digesting"
	Comparing Step = "comparing"
	Decided   Step = "decided"
)

const (
	defaultMaxFindings = 1000
	defaultMaxRows     = 1 << 20
	rowsPerBucket      = 256
	maxBuckets         = 1 << 20 // 32 bytes each, on both sides
)

// Run compares the tables of p. A table that cannot be read is reported, not
// returned as an error: the error is for a table name that p does not have and
// for a cancelled context.
func Run(ctx context.Context, p *catalog.Pipeline, source, lake Reader, o Options) (*Report, error) {
	tables, err := choose(p, o.Tables)
	if err != nil {
		return nil, err
	}
	if o.MaxFindings <= 0 {
		o.MaxFindings = defaultMaxFindings
	}
	if o.MaxRows <= 0 {
		o.MaxRows = defaultMaxRows
	}
	report := &Report{Tables: make([]TableReport, len(tables)), ShowKeys: o.ShowKeys}
	tell := teller(len(tables), o.Progress)
	var group errgroup.Group
	group.SetLimit(max(o.Concurrency, 1))
	for i, t := range tables {
		group.Go(func() error {
			c := comparison{table: t, source: source, lake: lake, options: o, tell: tell}
			report.Tables[i] = c.run(ctx)
			tell(Progress{Table: t.Source, Step: Decided, Report: &report.Tables[i]})
			return nil
		})
	}
	if err := errors.Join(group.Wait(), ctx.Err()); err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	return report, nil
}

func choose(p *catalog.Pipeline, names []string) ([]*catalog.Table, error) {
	if len(names) == 0 {
		return p.Tables, nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(p.Tables, func(t *catalog.Table) bool { return t.Source == name }) {
			return nil, fmt.Errorf("reconcile: the pipeline file has no table %q", name)
		}
	}
	var tables []*catalog.Table
	for _, t := range p.Tables {
		if slices.Contains(names, t.Source) {
			tables = append(tables, t)
		}
	}
	return tables, nil
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

// bucketCount is a power of two, so that an engine finds a row's bucket with a
// mask, of at most rowsPerBucket rows each.
func bucketCount(rows int64) int {
	n := 1
	for n < maxBuckets && int64(n)*rowsPerBucket < rows {
		n <<= 1
	}
	return n
}
