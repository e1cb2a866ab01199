// Package sweep removes the ghosts of a reload: rows that the source deleted
// while nobody saw it, which are still below the floor of a load after all of
// the load's rows have come.
//
// In come a store, a table and the load that is over; out goes, through the
// sink, a delete of each ghost at the load's own position. So the deletes are
// remembered as any others are, a row of the load that comes after all still
// wins over them, and a sweep that was cut off is done by running it again.
//
// It does not know whether the load is over: a row that has not come yet is
// taken for a ghost. It only refuses a load of which no row has come.
package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/internal/canon"
	"icehose/sink"
)

// ErrNoLoad says that the lake has no row of the load.
var ErrNoLoad = errors.New("no row of the load is in the lake")

// ErrNoKey says that a mirror has no key by which the sink could delete.
var ErrNoKey = errors.New("a mirror without a key cannot be swept by the sink")

// Options are the settings of Run.
type Options struct {
	Sink sink.Options
	// Empty says that the source has no rows: that none of the load came is right.
	Empty bool
	// Count counts the ghosts and leaves them.
	Count bool
}

// A Result counts rows and keys.
type Result struct {
	Rows   int64 `json:"rows"`   // of the table, before
	Loaded int64 `json:"loaded"` // of them, brought by the load
	Ghosts int64 `json:"ghosts"` // keys that were deleted
}

// Floor returns the lowest position that a row of the load has, and what the
// positions of all its rows begin with: whatever is below that came before.
func Floor(p *catalog.Pipeline, load catalog.LoadStart) (lowest cdc.Position, floor string, err error) {
	lowest, err = cdc.LoadPosition(p.EpochAt(load.Since), load.Floor, load.Since, cdc.Origin{})
	if err != nil {
		return "", "", fmt.Errorf("position of the load: %w", err)
	}
	tie := strings.LastIndexByte(string(lowest), '.')
	if tie < 0 {
		return "", "", errors.New("position of the load has no tie")
	}
	return lowest, string(lowest[:tie]), nil
}

// Needed reports whether a table can have ghosts: in a changelog without a key
// the reader counts only the newest load and what came after it.
func Needed(t *catalog.Table) bool { return t.Mode == catalog.Mirror || len(t.Key) > 0 }

// Run removes the ghosts of a load from a table of the pipeline. It holds the
// keys of all ghosts in memory, and of a changelog a hash of 16 bytes for every
// key that is none.
func Run(ctx context.Context, store sink.Store, p *catalog.Pipeline, t *catalog.Table, load catalog.LoadStart, o Options) (Result, error) {
	s := &sweeper{pipeline: p, table: t, load: load}
	if !Needed(t) {
		return s.result, nil
	}
	if t.Mode == catalog.Mirror && len(t.Key) == 0 {
		return s.result, ErrNoKey
	}
	var err error
	if s.lowest, s.floor, err = Floor(p, load); err != nil {
		return s.result, err
	}
	opened, err := store.OpenTable(ctx, t)
	if err != nil {
		return s.result, fmt.Errorf("open table: %w", err)
	}
	if err := s.find(ctx, opened); err != nil {
		return s.result, fmt.Errorf("read keys: %w", err)
	}
	if s.result.Loaded == 0 && !o.Empty {
		return s.result, ErrNoLoad
	}
	if o.Count || len(s.ghosts) == 0 {
		return s.result, nil
	}
	return s.result, s.remove(ctx, store, o.Sink)
}

// A sweeper sweeps one table.
type sweeper struct {
	pipeline *catalog.Pipeline
	table    *catalog.Table
	load     catalog.LoadStart
	lowest   cdc.Position
	floor    string
	ghosts   []sink.Row
	result   Result
}

// columnsOf returns the indexes of lake columns by name.
func (s *sweeper) columnsOf(names ...string) []int {
	columns, _ := s.table.LakeColumns()
	at := make([]int, len(names))
	for i, name := range names {
		at[i] = slices.IndexFunc(columns, func(c catalog.Column) bool { return c.Name == name })
	}
	return at
}

// below reports whether a position, nil for none, came before the load. A row
// without a position was written by somebody else; the load would have replaced it.
func (s *sweeper) below(position []byte) bool { return position == nil || string(position) < s.floor }

// see counts a row.
func (s *sweeper) see(position []byte) {
	s.result.Rows++
	if strings.HasPrefix(string(position), s.floor) {
		s.result.Loaded++
	}
}

func (s *sweeper) find(ctx context.Context, t sink.Table) error {
	if s.table.Mode == catalog.Changelog {
		return s.findInChangelog(ctx, t)
	}
	keys := len(s.table.Key)
	for row, err := range t.Scan(ctx, s.columnsOf(append(slices.Clone(s.table.Key), catalog.ColumnPosition)...)) {
		if err != nil {
			return err
		}
		s.see(row[keys])
		if !s.below(row[keys]) {
			continue
		}
		if err := s.add(row[:keys]); err != nil {
			return err
		}
	}
	return nil
}

// findInChangelog finds the keys all of whose rows are below the floor, and of
// which the last is not a delete. The rows are read twice, so that only keys
// below the floor are kept.
func (s *sweeper) findInChangelog(ctx context.Context, t sink.Table) error {
	keys := len(s.table.Key)
	columns := s.columnsOf(append(slices.Clone(s.table.Key), catalog.ColumnPosition, catalog.ColumnOperation)...)
	above := make(map[canon.Hash]struct{})
	var text []byte
	hash := func(row [][]byte) canon.Hash {
		text = text[:0]
		for _, v := range row {
			text = canon.AppendField(text, v)
		}
		return canon.HashRow(text)
	}
	for row, err := range t.Scan(ctx, columns) {
		if err != nil {
			return err
		}
		if s.see(row[keys]); !s.below(row[keys]) {
			above[hash(row[:keys])] = struct{}{}
		}
	}
	type last struct {
		position string
		deleted  bool
		key      [][]byte
	}
	ends := make(map[canon.Hash]last)
	for row, err := range t.Scan(ctx, columns) {
		if err != nil {
			return err
		}
		h := hash(row[:keys])
		if _, ok := above[h]; ok {
			continue
		}
		if have, ok := ends[h]; !ok || have.position < string(row[keys]) {
			ends[h] = last{string(row[keys]), string(row[keys+1]) == cdc.Delete.String(), clone(row[:keys])}
		}
	}
	for _, end := range ends {
		if end.deleted {
			continue
		}
		if err := s.add(end.key); err != nil {
			return err
		}
	}
	return nil
}

func clone(row [][]byte) [][]byte {
	out := make([][]byte, len(row))
	for i, v := range row {
		out[i] = slices.Clone(v)
	}
	return out
}

// add makes the delete of a key's row.
func (s *sweeper) add(key [][]byte) error {
	row := sink.Row{Database: s.table.Database(), Table: s.table.Name(), Operation: cdc.Delete}
	values := map[string]any{
		catalog.ColumnPosition:    string(s.lowest),
		catalog.ColumnCommittedAt: s.load.Since.UTC().Format("2006-01-02T15:04:05.000000Z"),
	}
	if s.table.Mode == catalog.Changelog {
		row.Operation = cdc.Insert // the row that tells of the delete
		columns, _ := s.table.LakeColumns()
		for _, c := range columns {
			if _, ok := values[c.Name]; !ok {
				values[c.Name] = nil
			}
		}
		values[catalog.ColumnOperation] = cdc.Delete.String()
	}
	for i, name := range s.table.Key {
		values[name] = string(key[i])
	}
	data, err := json.Marshal(values)
	if err != nil {
		return fmt.Errorf("write row: %w", err)
	}
	row.Data = data
	s.ghosts = append(s.ghosts, row)
	s.result.Ghosts++
	return nil
}

// alone is a store without checkpoints: those speak of a stream.
type alone struct{ sink.Store }

// remove delivers the deletes as the records of a shard of their own, which go
// on from where an earlier sweep of the same load came to.
func (s *sweeper) remove(ctx context.Context, store sink.Store, o sink.Options) (err error) {
	one := *s.pipeline
	one.Tables = []*catalog.Table{s.table}
	var rejected error
	o.Reject = func(_ sink.Offset, err *sink.RejectError) error {
		rejected = errors.Join(rejected, err)
		return nil
	}
	writer, err := sink.Open(ctx, &one, alone{store}, o)
	if err != nil {
		return fmt.Errorf("open sink: %w", err)
	}
	defer func() { err = errors.Join(err, writer.Abandon()) }()
	shard := sink.ResyncShard(s.load.Floor.String())
	next := writer.Handled()[shard]
	for i := range s.ghosts {
		d := sink.Delivery{Offset: sink.Offset{Shard: shard, Ordinal: next + uint64(i)}, Row: &s.ghosts[i]}
		if err := writer.Deliver(ctx, []sink.Delivery{d}); err != nil {
			return fmt.Errorf("delete ghosts: %w", err)
		}
	}
	if err := errors.Join(writer.Close(ctx), rejected); err != nil {
		return fmt.Errorf("delete ghosts: %w", err)
	}
	return nil
}
