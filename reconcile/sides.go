package reconcile

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"icehose/internal/canon"
)

// both asks the two sides at once. The first error stops the other side.
func both[S, T any](ctx context.Context, source, lake S, ask func(ctx context.Context, side S, isSource bool) (T, error)) (fromSource, fromLake T, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		var err error
		if fromSource, err = ask(ctx, source, true); err != nil {
			return fmt.Errorf("read source: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		var err error
		if fromLake, err = ask(ctx, lake, false); err != nil {
			return fmt.Errorf("read lake: %w", err)
		}
		return nil
	})
	err = group.Wait()
	return fromSource, fromLake, err
}

// fetch reads the rows of a part. With expected digests, by bucket, it checks
// that the rows are those that were digested; with rows that no lake can have,
// that there are as many.
func fetch(ctx context.Context, side View, part Part, expected []canon.Digest) (*rowSet, error) {
	set := &rowSet{}
	digests := make(map[int]*canon.Digest, len(part.Only))
	unfit := map[int]bool{}
	for _, b := range part.Only {
		digests[b] = &canon.Digest{}
	}
	for row, err := range side.Rows(ctx, part) {
		if err != nil {
			return nil, err
		}
		if expected != nil {
			d, ok := digests[row.Bucket]
			if !ok {
				return nil, fmt.Errorf("got a row of bucket %d, which was not asked for", row.Bucket)
			}
			d.Add(row.Hash)
			if row.Unfit {
				unfit[row.Bucket] = true
			}
			if d.Count > expected[row.Bucket].Count {
				return nil, errChanged // keeps memory within what the digests promised
			}
		}
		set.add(row)
	}
	if expected == nil {
		return set, nil
	}
	for b, d := range digests {
		if *d != expected[b] && (!unfit[b] || d.Count != expected[b].Count) {
			return nil, errChanged
		}
	}
	return set, nil
}

var errChanged = errors.New("the table changed between two readings")
