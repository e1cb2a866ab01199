package reconcile

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"icehose/internal/canon"
)

// DigestPieces digests a part of a table in pieces, all at once, and adds
// their digests up: Digests of a View with several connections. The pieces are
// disjoint and the whole table together. The first error ends the others.
func DigestPieces(ctx context.Context, part Part, pieces int, digest func(ctx context.Context, piece int) ([]canon.Digest, error)) ([]canon.Digest, error) {
	var mu sync.Mutex
	digests := make([]canon.Digest, part.Buckets)
	group, ctx := errgroup.WithContext(ctx)
	for piece := range pieces {
		group.Go(func() error {
			some, err := digest(ctx, piece)
			mu.Lock()
			defer mu.Unlock()
			for b := range some {
				digests[b].Merge(some[b])
			}
			return err
		})
	}
	err := group.Wait()
	return digests, err
}
