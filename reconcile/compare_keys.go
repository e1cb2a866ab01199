package reconcile

import (
	"context"
	"fmt"
)

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
		if len(c.table.Key) > 0 {
			if texts, err = keyTexts(row.Key, len(c.table.Key)); err != nil {
				return nil, err
			}
		}
		k.add(row.Key, texts)
	}
	return k, nil
}

// compareKeys compares the rows of chosen keys, without digests.
func (c *comparison) compareKeys(ctx context.Context, r *TableReport, choose func(context.Context, View) (*Keys, error)) error {
	c.tell(Progress{Table: c.table.Source, Step: Comparing})
	suspects, err := c.atMoment(ctx, r, &views{}, func(v *views) ([]*suspect, error) {
		keys, err := choose(ctx, v.source)
		if err != nil {
			return nil, err
		}
		part := Part{Buckets: 1, Keys: keys, Version: c.version}
		source, lake, err := both(ctx, v.source, v.lake, func(ctx context.Context, side View, _ bool) (*rowSet, error) {
			return fetch(ctx, side, part, nil)
		})
		if err != nil {
			return nil, err
		}
		r.Source.add(uint64(len(source.rows)))
		r.Lake.add(uint64(len(lake.rows)))
		suspects, _, err := c.judge(r, source, lake, v)
		return suspects, err
	})
	if err != nil {
		return err
	}
	return c.settle(ctx, r, suspects)
}
