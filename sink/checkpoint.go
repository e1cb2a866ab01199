package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"icehose/catalog"
	"icehose/cdc"
)

// A Checkpoint says how far the tables of a pipeline are together. It is
// written after their commits, so that everything it speaks of is in the lake;
// the notes in the tables may be further.
type Checkpoint struct {
	Version int                  `json:"version"` // 1
	Shards  map[string]ShardMark `json:"shards"`
	Tables  map[string]string    `json:"tables"` // database.table -> its last commit id
}

// text is the checkpoint as it is stored.
func (c *Checkpoint) text() ([]byte, error) {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write checkpoint: %w", err)
	}
	return append(data, '\n'), nil
}

// A ShardMark is how far one shard is.
type ShardMark struct {
	// Records counts the records from the start of the shard on that every
	// table has noted, without a hole.
	Records  uint64 `json:"records"`
	Sequence string `json:"sequence,omitempty"` // of the last of them, if the stream tells
	// Position is the greatest position of a change among the records. Nothing
	// is said of tables whose positions are of another kind than the source's.
	Position cdc.Position `json:"position,omitempty"`
	// CommittedAt is the commit time of that change.
	CommittedAt *time.Time `json:"committed_at,omitempty"`
	// Finished says that the shard gets no more records (Sink.Finish): the
	// low watermark does not wait for it. One that comes all the same ends that.
	Finished bool `json:"finished,omitempty"`
	// Behind counts changes that came after one of the shard at a higher
	// position. If it is not zero, the shard is not in the order of positions,
	// and Position is no promise for what is still to come.
	Behind uint64 `json:"behind,omitempty"`
}

// Watermark is the low watermark: the position below which the changes of every
// shard of the stream are in the lake. ok is false when a shard has none yet, or
// does not deliver in order of positions, and when all are finished. A shard of
// which the sink has seen nothing is not known to it.
func (c *Checkpoint) Watermark() (low cdc.Position, ok bool) {
	for shard, m := range c.Shards {
		if m.Finished || !OfStream(shard) {
			continue
		}
		if m.Position == "" || m.Behind > 0 {
			return "", false
		}
		if low == "" || m.Position < low {
			low = m.Position
		}
	}
	return low, low != ""
}

const checkpointVersion = 1

// checkpointName is the name of the file for the tables of p.
func checkpointName(p *catalog.Pipeline) string {
	if p.Database == "" {
		return "icehose.checkpoint.json"
	}
	return p.Database + ".checkpoint.json"
}

// ReadCheckpoint reads the checkpoint of p's tables; nil if there is none.
func ReadCheckpoint(ctx context.Context, store Checkpointer, p *catalog.Pipeline) (*Checkpoint, error) {
	data, err := store.ReadCheckpoint(ctx, checkpointName(p))
	if err != nil || data == nil {
		return nil, err
	}
	c := new(Checkpoint)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("read checkpoint %s: %w", checkpointName(p), err)
	}
	if c.Version != checkpointVersion {
		return nil, fmt.Errorf("read checkpoint %s: version is %d, want %d", checkpointName(p), c.Version, checkpointVersion)
	}
	return c, nil
}

// A mark is the greatest position that was delivered of a shard.
type mark struct {
	reached   uint64 // 1 + the greatest ordinal delivered
	known     uint64 // records that the checkpoint once counted
	position  packed
	committed int64
	any       bool // whether there was a position
	finished  bool
	behind    uint64
}

// see notes a record, and the change in it if p is not nil.
func (m *mark) see(ordinal uint64, p *packed, committed int64) {
	m.reached = max(m.reached, ordinal+1)
	if p == nil || p.head[rankByte] == 0 {
		return // rows of a load are not in the order of changes
	}
	switch {
	case !m.any || p.compare(&m.position) > 0:
		m.position, m.committed, m.any = *p, committed, true
	case p.compare(&m.position) < 0:
		m.behind++
	}
}

// checkpoints writes the checkpoint of a Sink.
type checkpoints struct {
	store Checkpointer // nil if the store keeps none
	name  string
	kind  cdc.PositionKind
	last  Checkpoint
	stale bool // the file says other than last
	marks map[string]*mark
	shard string // of the mark used last
	mark  *mark
}

func openCheckpoints(ctx context.Context, p *catalog.Pipeline, store Store, log *slog.Logger) (*checkpoints, error) {
	c := &checkpoints{name: checkpointName(p), kind: p.Source.Position, marks: make(map[string]*mark)}
	var ok bool
	if c.store, ok = store.(Checkpointer); !ok {
		return c, nil
	}
	last, err := ReadCheckpoint(ctx, c.store, p)
	syntax, kind := (*json.SyntaxError)(nil), (*json.UnmarshalTypeError)(nil)
	switch {
	case errors.As(err, &syntax), errors.As(err, &kind):
		// The tables know better: it is written anew after the next commit.
		log.WarnContext(ctx, "checkpoint is damaged", slog.String("error", err.Error()))
	case err != nil:
		return nil, err
	case last != nil:
		c.last = *last
		for shard, m := range last.Shards {
			k := &mark{known: m.Records, behind: m.Behind, committed: noTime, finished: m.Finished}
			k.position, k.any = pack([]byte(m.Position))
			if m.CommittedAt != nil {
				k.committed = m.CommittedAt.UnixMicro()
			}
			c.marks[shard] = k
		}
	}
	return c, nil
}

// of returns the mark of a shard.
func (c *checkpoints) of(shard string) *mark {
	m := c.marks[shard]
	if m == nil {
		m = &mark{committed: noTime}
		c.marks[shard] = m
	}
	return m
}

// finish notes that shards get no more records.
func (c *checkpoints) finish(shards []string) {
	if c.store == nil {
		return
	}
	for _, shard := range shards {
		m := c.of(shard)
		m.finished, m.known = true, 0
	}
}

// see notes a delivered record, and the change in it if w has read one.
func (c *checkpoints) see(o *Offset, w *writer) {
	if c.store == nil || !OfStream(o.Shard) {
		return
	}
	if c.mark == nil || c.shard != o.Shard {
		c.shard, c.mark = o.Shard, c.of(o.Shard)
	}
	if c.mark.finished && o.Ordinal >= c.mark.known {
		c.mark.finished = false
	}
	if w == nil || !w.read || w.table.Position != c.kind {
		c.mark.see(o.Ordinal, nil, noTime)
		return
	}
	c.mark.see(o.Ordinal, &w.change.position, w.change.committed)
}

// write writes what the commits of s have made true.
func (c *checkpoints) write(ctx context.Context, s *Sink) error {
	if c.store == nil {
		return nil
	}
	now := Checkpoint{Version: checkpointVersion, Shards: make(map[string]ShardMark), Tables: make(map[string]string)}
	for shard, last := range s.Last() {
		if OfStream(shard) {
			now.Shards[shard] = c.shardMark(shard, last)
		}
	}
	for shard, m := range c.marks {
		if _, ok := now.Shards[shard]; !ok && m.known > 0 && OfStream(shard) {
			now.Shards[shard] = ShardMark{} // it is one of the stream's, and not all have it again
		}
	}
	for _, w := range s.opened() {
		now.Tables[w.name()] = w.commitID
	}
	data, err := now.text()
	if err != nil {
		return err
	}
	before, err := c.last.text()
	if err != nil || string(before) == string(data) && !c.stale {
		return err
	}
	if err := c.store.WriteCheckpoint(ctx, c.name, data); err != nil {
		return err
	}
	c.last, c.stale = now, false
	for shard, m := range now.Shards {
		k := c.of(shard)
		k.known = max(k.known, m.Records)
	}
	return nil
}

// shardMark is the mark of a shard whose records up to last every table holds.
// Its position moves only when that is every record delivered: with a hole the
// greatest position may be that of a record behind it.
func (c *checkpoints) shardMark(shard string, last Offset) ShardMark {
	out := ShardMark{Records: last.Ordinal + 1, Sequence: last.Sequence}
	before := c.last.Shards[shard]
	m := c.marks[shard]
	out.Finished = m != nil && m.finished && out.Records >= m.known
	if m == nil || !m.any || m.reached > out.Records {
		out.Position, out.CommittedAt, out.Behind = before.Position, before.CommittedAt, before.Behind
		return out
	}
	out.Position, out.Behind = m.position.text(), m.behind
	if m.committed != noTime {
		t := time.UnixMicro(m.committed).UTC()
		out.CommittedAt = &t
	}
	return out
}
