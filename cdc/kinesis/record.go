// Package kinesis reads and writes records of a Kinesis data stream as files:
// one JSON object a line, in the order of arrival within each shard.
//
//	{"shardId":"shardId-000000000000","sequenceNumber":"4958...","partitionKey":"public.t.1",
//	 "approximateArrivalTimestamp":1767225600123,"data":"{\"data\":...}"}
//
// data is the record's text. Bytes that are not UTF-8 go into dataBase64
// instead. Files that end in .zst or .gz are compressed. The package does not
// look into data: package cdc/dms does.
package kinesis

import (
	"crypto/md5"
	"encoding/binary"
	"math/bits"
)

// A Record is one record of a stream. Times are Unix milliseconds.
type Record struct {
	ShardID        string `json:"shardId"`
	SequenceNumber string `json:"sequenceNumber"`
	PartitionKey   string `json:"partitionKey"`
	ArrivedAt      int64  `json:"approximateArrivalTimestamp"`
	Data           []byte `json:"-"`
}

// ShardOf returns the shard, 0 to shards-1, that Kinesis gives a partition key
// when the hash key space is split evenly over one shard or more: by the MD5
// of the key, read as a 128-bit number.
func ShardOf(partitionKey string, shards int) int {
	sum := md5.Sum([]byte(partitionKey))
	high, low := bits.Mul64(binary.BigEndian.Uint64(sum[:8]), uint64(shards))
	below, _ := bits.Mul64(binary.BigEndian.Uint64(sum[8:]), uint64(shards))
	_, carry := bits.Add64(low, below, 0)
	return int(high + carry)
}
