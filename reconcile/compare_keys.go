package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"icehose/catalog"
)

// compareSince compares the rows that Options.Since means, and says when there are
// none: nothing was compared then.
func (c *comparison) compareSince(ctx context.Context, r *TableReport, since *Since) error {
	column := comparedColumns(c.table)[slices.IndexFunc(comparedColumns(c.table), func(col *catalog.Column) bool { return col.Name == since.Column })]
	from := since.For(column)
	r.Scope = "rows of the source with " + since.Column + " from " + from.UTC().Format(time.RFC3339) + " on"
	if early := since.From.Sub(from); early > 0 {
		r.Scope += fmt.Sprintf(", %.0f h earlier than asked: its times have no zone", early.Hours())
	}
	err := c.compareKeys(ctx, r, c.keysSince)
	if err == nil && r.Source.Rows != nil && *r.Source.Rows == 0 {
		r.Scope += ": no row was compared"
	}
	return err
}

// keysSince lists the keys of the rows that Options.Since means.
func (c *comparison) keysSince(ctx context.Context, source View) (*Keys, error) {
	k := &Keys{set: map[string]struct{}{}}
	for row, err := range source.Rows(ctx, Part{Buckets: 1, Since: c.options.Since}) {
		if err != nil {
			return nil, fmt.Errorf("read source: %w", err)
		}
		if k.Len() >= c.options.MaxRows {
			return nil, fmt.Errorf("more than %d rows since then: choose a later time", c.options.MaxRows)
		}
		if k.Has(row.Key) {
			continue
		}
		var texts []string
		if len(c.table.Key) > 0 && !isUnfitKey(row.Key, len(c.table.Key)) {
			if texts, err = keyTexts(row.Key, len(c.table.Key)); err != nil {
				return nil, err
			}
		}
		k.add(row.Key, texts)
	}
	return k, nil
}

// compareKeys compares the rows of chosen keys, without digests. Keys that are
// too many to be looked at again at once are compared once more, as buckets of
// a table are.
func (c *comparison) compareKeys(ctx context.Context, r *TableReport, choose func(context.Context, View) (*Keys, error)) error {
	c.tell(Progress{Table: c.table.Source, Step: Comparing})
	var unread []int
	for round := 0; ; round++ {
		suspects, err := c.atMoment(ctx, r, &views{}, func(v *views) (suspects []*suspect, err error) {
			keys, err := choose(ctx, v.source)
			if err != nil {
				return nil, err
			}
			if round == 0 {
				r.Buckets = bucketCount(int64(keys.Len()))
			}
			suspects, unread, err = c.compareChosen(ctx, r, v, Part{Buckets: r.Buckets, Only: unread, Keys: keys, Version: c.version})
			return suspects, err
		})
		if err == nil {
			err = c.settle(ctx, r, suspects, c.options.Retries)
		}
		if err != nil || len(unread) == 0 || r.Counts != (Counts{}) || round == againRounds {
			return err
		}
	}
}

func (c *comparison) compareChosen(ctx context.Context, r *TableReport, v *views, part Part) (suspects []*suspect, left []int, err error) {
	source, lake, err := both(ctx, v.source, v.lake, func(ctx context.Context, side View, _ bool) (*rowSet, error) {
		return fetch(ctx, side, part, nil)
	})
	if err != nil {
		return nil, part.Only, err
	}
	suspects, left, err = c.judge(r, source, lake, v, c.room(nil))
	if part.Only == nil {
		r.Source.add(uint64(len(source.rows)))
		r.Lake.add(uint64(len(lake.rows)))
		r.DifferingBuckets = len(left)
		seen := map[int]bool{}
		for _, s := range suspects {
			if !seen[s.bucket] {
				seen[s.bucket] = true
				r.DifferingBuckets++
			}
		}
	}
	r.UnreadBuckets = len(left)
	return suspects, left, err
}
