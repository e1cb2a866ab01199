package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/cdc/kinesis"
	"icehose/internal/canon"
	"icehose/internal/firehosesim"
	"icehose/transform"
)

// A stream is a recorded stream in memory, and what each record of it is.
type stream struct {
	names   []string               // shard ids, in order of appearance
	shards  [][]firehosesim.Record // by shard, in order
	changes [][]*change            // like shards; nil for what is not a row
	index   map[string]int         // shard id -> index
}

// A change is what the demo has to know of a record to measure its delivery
// and to choose faults. It is taken from the changelog row that the transform
// makes of the record alone.
type change struct {
	table     *catalog.Table
	key       string // unique for the row within its table; the position where the table has no key
	keyTexts  []string
	position  cdc.Position
	operation string
	values    canon.Hash // of the row's own columns, to tell whether two changes differ
}

func (s *stream) records() (n int) {
	for _, records := range s.shards {
		n += len(records)
	}
	return n
}

// readStream reads a recorded stream.
func readStream(ctx context.Context, path string, p *catalog.Pipeline, progress *stage) (*stream, error) {
	file, err := kinesis.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // opened for reading: what was read is already checked
	describe, err := newDescriber(p)
	if err != nil {
		return nil, err
	}
	s := &stream{index: make(map[string]int)}
	for record, err := range kinesis.Read(file) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		i, ok := s.index[record.ShardID]
		if !ok {
			i = len(s.names)
			s.index[record.ShardID] = i
			s.names = append(s.names, record.ShardID)
			s.shards, s.changes = append(s.shards, nil), append(s.changes, nil)
		}
		s.shards[i] = append(s.shards[i], firehosesim.Record{Record: record, Ordinal: uint64(len(s.shards[i]))})
		c, err := describe.change(record)
		if err != nil {
			return nil, err
		}
		s.changes[i] = append(s.changes[i], c)
		progress.add(1)
	}
	return s, nil
}

// recordedCount is how many records a fixture says that it has, for the bar;
// -1 when it does not say.
func recordedCount(fixture string) int64 {
	var manifest struct {
		Records *int64 `json:"records"`
	}
	text, err := os.ReadFile(filepath.Join(fixture, "manifest.json"))
	if err != nil || json.Unmarshal(text, &manifest) != nil || manifest.Records == nil {
		return -1
	}
	return *manifest.Records
}

// A describer makes a change of a record.
type describer struct{ transformer *transform.Transformer }

func newDescriber(p *catalog.Pipeline) (*describer, error) {
	t, err := transform.New(p, transform.Options{Mode: catalog.Changelog})
	return &describer{transformer: t}, err
}

func (d *describer) change(r kinesis.Record) (*change, error) {
	results := d.transformer.Batch([]transform.Record{{
		ID: r.SequenceNumber, Data: r.Data, Origin: cdc.Origin{Shard: r.ShardID, Sequence: r.SequenceNumber},
	}})
	if len(results) != 1 || results[0].Outcome != transform.Ok {
		return nil, nil //nolint:nilnil // what is not a row is not a change
	}
	table := results[0].Row.Table
	var row map[string]json.RawMessage
	if err := json.Unmarshal(results[0].Row.Data, &row); err != nil {
		return nil, fmt.Errorf("read row of table %s: %w", table.Source, err)
	}
	c := &change{table: table}
	var position string
	if err := json.Unmarshal(row[catalog.ColumnPosition], &position); err != nil {
		return nil, fmt.Errorf("read position of table %s: %w", table.Source, err)
	}
	if err := json.Unmarshal(row[catalog.ColumnOperation], &c.operation); err != nil {
		return nil, fmt.Errorf("read operation of table %s: %w", table.Source, err)
	}
	c.position = cdc.Position(position)
	c.key = position
	if len(table.Key) > 0 {
		c.keyTexts = make([]string, len(table.Key))
		for i, k := range table.Key {
			c.keyTexts[i] = string(row[k])
			if bytes.HasPrefix(row[k], []byte{'"'}) {
				if err := json.Unmarshal(row[k], &c.keyTexts[i]); err != nil {
					return nil, fmt.Errorf("read key of table %s: %w", table.Source, err)
				}
			}
		}
		c.key = fmt.Sprintf("%q", c.keyTexts)
	}
	columns, data := table.LakeColumns()
	var values []byte
	for _, col := range columns[:data] {
		values = canon.AppendField(values, row[col.Name])
	}
	c.values = canon.HashRow(values)
	return c, nil
}

// corrupt adds n damaged copies of records, cut off in the middle, behind the
// ends of the shards.
func (s *stream) corrupt(n int, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0xbad))
	for i := range n {
		shard := random.IntN(len(s.shards))
		records := s.shards[shard]
		victim := records[random.IntN(len(records))].Record
		victim.Data = slices.Clone(victim.Data[:len(victim.Data)/2])
		victim.SequenceNumber += fmt.Sprint(i)
		s.shards[shard] = append(records, firehosesim.Record{Record: victim, Ordinal: uint64(len(records))})
		s.changes[shard] = append(s.changes[shard], nil)
	}
}
