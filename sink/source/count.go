package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"icehose/sink"
)

// count reads the files once before anything of them is yielded, as far as to
// the last record of every shard that some tables have and others have nothing
// of: it must be where it was, or the files do not begin with the stream. What
// can be read only once is not counted.
func (f *Files) count(ctx context.Context, l *listing, n *numbering) error {
	left := maps.Clone(n.uneven)
	maps.DeleteFunc(left, func(key string, _ sink.Uneven) bool { _, all := n.after[key]; return all })
	if len(left) == 0 || f.Continue || f.Redriven || slices.Contains(f.Names, "-") {
		return nil
	}
	places, err := f.list(l)
	if err != nil {
		return err
	}
	for _, at := range places {
		if info, err := os.Stat(at.path); err == nil && !info.Mode().IsRegular() {
			return nil
		}
	}
	own := f.newListing() // of this reading
	defer own.close()
	counted := &numbering{uneven: maps.Clone(left), shards: make(map[string]*shard)}
	for _, at := range places {
		err := f.readFile(ctx, own, &cursor{place: at}, counted, func(r Record, _ error) bool {
			if u, ok := left[r.Offset.Shard]; ok && !r.Damaged && r.Offset.Ordinal >= u.Last.Ordinal {
				delete(left, r.Offset.Shard)
			}
			return len(left) > 0
		})
		if errors.Is(err, errStop) && ctx.Err() == nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
	for key, u := range left {
		if s := counted.shards[key]; s != nil {
			return fmt.Errorf("shard %s has %d records, of which %d were handled before: %s: %s: %w", key, s.next, u.Last.Ordinal+1, u.Describe(), giveAll, ErrOtherStream)
		}
	}
	return nil
}
