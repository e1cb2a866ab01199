package dmssim

import (
	"fmt"
	"math/big"
	"time"

	"icehose/cdc/kinesis"
)

// A sharder gives records their shard, sequence number and arrival time. All
// three are functions of the records alone.
type sharder struct {
	sequence []*big.Int
	arrived  []int64
	written  []int64
}

// newSharder starts the sequence numbers of a stream. They look like real
// ones: 56 digits and a stretch of numbers for each shard, with large steps; a
// stream that starts later has higher ones. Steps are round in decimal, which
// recorded files are the smaller for.
func newSharder(shards int, start time.Time) *sharder {
	s := &sharder{arrived: make([]int64, shards), written: make([]int64, shards)}
	base, _ := new(big.Int).SetString("49640000000000000000000000000000000000000000000000000002", 10)
	base.Add(base, new(big.Int).Mul(big.NewInt(start.UnixMilli()), power(31)))
	stretch := power(43)
	stretch.Mul(stretch, big.NewInt(2))
	for range shards {
		s.sequence = append(s.sequence, new(big.Int).Set(base))
		base.Add(base, stretch)
	}
	return s
}

// put makes the record of a message that was built at the given time. It
// arrives some milliseconds later, and no earlier than the one before it in
// its shard.
func (s *sharder) put(key string, built time.Time, data []byte) kinesis.Record {
	i := kinesis.ShardOf(key, len(s.sequence))
	s.written[i]++
	s.sequence[i].Add(s.sequence[i], power(24))
	s.arrived[i] = max(s.arrived[i], built.UnixMilli()+12+s.written[i]*7%41)
	return kinesis.Record{
		ShardID:        fmt.Sprintf("shardId-%012d", i),
		SequenceNumber: s.sequence[i].String(),
		PartitionKey:   key,
		ArrivedAt:      s.arrived[i],
		Data:           data,
	}
}

// power returns 10 to the n.
func power(n int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil) }
