package reconcile

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"icehose/catalog"
	"icehose/internal/canon"
)

// A comparison decides one table.
type comparison struct {
	table        *catalog.Table
	source, lake Reader
	options      Options
	tell         func(Progress)
}

// run fills the report of the table. Every error ends up in its Why.
func (c *comparison) run(ctx context.Context) (r TableReport) {
	r = TableReport{Table: c.table.Source, Target: target(c.table), Key: c.table.Key}
	if c.options.Now != nil {
		began := c.options.Now()
		defer func() { r.Seconds = c.options.Now().Sub(began).Seconds() }()
	}
	err := c.compare(ctx, &r)
	switch {
	case r.Counts != (Counts{}):
		r.Verdict = Different
	case err != nil:
		r.Verdict = Inconclusive
	default:
		r.Verdict = Equal
	}
	if err != nil {
		r.Why = err.Error()
	}
	return r
}

func target(t *catalog.Table) string {
	if t.Name() == "" {
		return t.Target
	}
	return t.Database() + "." + t.Name()
}

func (c *comparison) compare(ctx context.Context, r *TableReport) error {
	c.tell(Progress{Table: c.table.Source, Step: Digesting})
	source, lake, err := both(ctx, c, func(ctx context.Context, side Reader, _ bool) (Pinned, error) {
		return side.Pin(ctx, c.table)
	})
	if err != nil {
		return err
	}
	r.Source.Moment, r.Lake.Moment = source.Moment, lake.Moment
	r.Buckets = bucketCount(max(source.Rows, lake.Rows))
	want, got, err := both(ctx, c, func(ctx context.Context, side Reader, _ bool) ([]canon.Digest, error) {
		digests, err := side.Digests(ctx, c.table, r.Buckets)
		if err == nil && len(digests) != r.Buckets {
			err = fmt.Errorf("asked for %d digests, got %d", r.Buckets, len(digests))
		}
		return digests, err
	})
	if err != nil {
		return err
	}
	r.Source.count(want)
	r.Lake.count(got)
	differing := make([]int, 0)
	for b := range want {
		if want[b] != got[b] {
			differing = append(differing, b)
		}
	}
	r.DifferingBuckets = len(differing)
	if len(differing) == 0 {
		return nil
	}
	c.tell(Progress{Table: c.table.Source, Step: Comparing})
	for len(differing) > 0 && len(r.Findings) < c.options.MaxFindings {
		n := wave(differing, want, got, c.options.MaxRows)
		if err := c.compareBuckets(ctx, r, differing[:n], want, got); err != nil {
			r.UnreadBuckets = len(differing)
			return err
		}
		differing = differing[n:]
	}
	r.UnreadBuckets = len(differing)
	return nil
}

// wave returns how many of the buckets, one at least, fit in memory together.
func wave(buckets []int, want, got []canon.Digest, maxRows int) int {
	var rows uint64
	for i, b := range buckets {
		rows += want[b].Count + got[b].Count
		if rows > uint64(maxRows) && i > 0 {
			return i
		}
	}
	return len(buckets)
}

// compareBuckets fetches the rows of some buckets from both sides and adds
// what differs to the report. Rows that do not add up to the digest of the
// first reading are not compared: something else was read than was judged.
func (c *comparison) compareBuckets(ctx context.Context, r *TableReport, buckets []int, want, got []canon.Digest) error {
	index := make(map[int]int, len(buckets)) // bucket -> its place in buckets
	wantHere, gotHere := make([]canon.Digest, len(buckets)), make([]canon.Digest, len(buckets))
	for i, b := range buckets {
		index[b] = i
		wantHere[i], gotHere[i] = want[b], got[b]
	}
	source, lake, err := both(ctx, c, func(ctx context.Context, side Reader, isLake bool) (*rowSet, error) {
		expected := wantHere
		if isLake {
			expected = gotHere
		}
		return fetch(ctx, side, c.table, r.Buckets, index, expected)
	})
	if err != nil {
		return err
	}
	before := r.Counts
	for d := range merge(source, lake) {
		if err := r.Counts.add(d.kind, d.rows); err != nil {
			return err
		}
		if len(r.Findings) < c.options.MaxFindings {
			key, err := keyTexts(d.key, len(c.table.Key))
			if err != nil {
				return err
			}
			r.Findings = append(r.Findings, Finding{Kind: d.kind, Key: key, Rows: d.rows})
		}
	}
	if r.Counts == before {
		return errors.New("compare rows: digests differ and rows do not")
	}
	return nil
}

// both asks the two sides at once. The first error stops the other side.
func both[T any](ctx context.Context, c *comparison, ask func(ctx context.Context, side Reader, isLake bool) (T, error)) (source, lake T, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		var err error
		if source, err = ask(ctx, c.source, false); err != nil {
			return fmt.Errorf("read source: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		var err error
		if lake, err = ask(ctx, c.lake, true); err != nil {
			return fmt.Errorf("read lake: %w", err)
		}
		return nil
	})
	err = group.Wait()
	return source, lake, err
}

// fetch reads the rows of the buckets in index, and checks that they are those
// that were digested.
func fetch(ctx context.Context, side Reader, t *catalog.Table, buckets int, index map[int]int, expected []canon.Digest) (*rowSet, error) {
	set := &rowSet{}
	digests := make([]canon.Digest, len(expected))
	wanted := func(b int) bool { _, ok := index[b]; return ok }
	for row, err := range side.Rows(ctx, t, buckets, wanted) {
		if err != nil {
			return nil, err
		}
		i, ok := index[row.Bucket]
		if !ok {
			return nil, fmt.Errorf("got a row of bucket %d, which was not asked for", row.Bucket)
		}
		digests[i].Add(row.Hash)
		if digests[i].Count > expected[i].Count {
			break // keeps memory within what the digests promised
		}
		set.add(row)
	}
	for i := range digests {
		if digests[i] != expected[i] {
			return nil, errors.New("the table changed between two readings")
		}
	}
	return set, nil
}
