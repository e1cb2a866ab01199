package sink

import (
	"context"
	"maps"

	"icehose/catalog"
)

// RewindCheckpoint lets the checkpoint of p's tables promise nothing until a sink
// has run: for before one of the tables is loaded anew (Rewound).
func RewindCheckpoint(ctx context.Context, store Checkpointer, p *catalog.Pipeline) error {
	c, err := ReadCheckpoint(ctx, store, p)
	if err != nil || c == nil {
		return err
	}
	for shard, m := range c.Shards {
		m.Position, m.CommittedAt = "", nil
		c.Shards[shard] = m
	}
	data, err := c.text()
	if err != nil {
		return err
	}
	return store.WriteCheckpoint(ctx, checkpointName(p), data)
}

// rewind lets the checkpoint go back to what the tables have, where one has less
// than it says: because it was loaded anew, or is a new one that is to get all
// of the stream. What comes again is not behind.
func (s *Sink) rewind(ctx context.Context) error {
	if s.together.store == nil {
		return nil
	}
	handled, before := s.Handled(), s.together.last.Shards
	s.together.last.Shards = maps.Clone(before)
	for shard, m := range before {
		if handled[shard] >= m.Records || !OfStream(shard) {
			continue
		}
		s.together.last.Shards[shard] = ShardMark{Records: handled[shard]}
		s.together.marks[shard] = &mark{known: m.Records, finished: m.Finished, committed: noTime}
		s.together.stale = true
	}
	if !s.together.stale {
		return nil
	}
	return s.keep(ctx)
}
