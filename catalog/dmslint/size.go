package dmslint

import (
	"errors"
	"math"
	"time"
)

// The limits of a shard, and of a record.
const (
	shardBytes   = 1_000_000 // bytes a second that a shard takes; AWS says 1 MB
	shardRecords = 1000      // records a second that a shard takes
	recordBytes  = 1_048_576 // a record with its partition key
)

// A Load is what a source produces.
type Load struct {
	Rate     float64 // changes a second at the peak; 0 for none
	RowBytes int     // of a record: the row as JSON with its metadata, not the row in the database
	Rows     int64   // to be loaded; 0 for none
	Shards   int     // that the stream has; 0 for as many as Rate needs
}

// A Size says what a load needs.
type Size struct {
	// Shards is how many the peak of changes needs, if keys are spread evenly.
	Shards int `json:"shards"`
	// Limit is what is used up first: records or bytes.
	Limit string `json:"limit"`
	// LoadSeconds is how long the rows take with the shards that there are, and
	// OneShardSeconds how long in one, which a bad partition key makes of it.
	LoadSeconds     float64 `json:"load_seconds,omitempty"`
	OneShardSeconds float64 `json:"one_shard_seconds,omitempty"`
	// LoadShards is the number of shards that LoadSeconds stands for.
	LoadShards int `json:"load_shards"`
	// TooFew says that the stream has fewer shards than the peak needs.
	TooFew bool `json:"too_few,omitempty"`
}

// SizeOf sizes a stream.
func SizeOf(l Load) (Size, error) {
	switch {
	case l.RowBytes < 1:
		return Size{}, errors.New("size shards: want the bytes of a record")
	case l.RowBytes > recordBytes:
		return Size{}, errors.New("size shards: a record of more than 1 MB does not fit into Kinesis")
	case l.Rate < 0 || l.Rows < 0 || l.Shards < 0 || math.IsNaN(l.Rate) || math.IsInf(l.Rate, 0):
		return Size{}, errors.New("size shards: want numbers that are not negative")
	}
	byRecords, byBytes := math.Ceil(l.Rate/shardRecords), math.Ceil(l.Rate*float64(l.RowBytes)/shardBytes)
	perShard := min(shardRecords, float64(shardBytes)/float64(l.RowBytes))
	s := Size{Shards: int(max(1, byRecords, byBytes)), Limit: "records"}
	if perShard < shardRecords {
		s.Limit = "bytes"
	}
	s.LoadShards = s.Shards
	if l.Shards > 0 {
		s.LoadShards, s.TooFew = l.Shards, l.Shards < s.Shards
	}
	s.LoadSeconds = float64(l.Rows) / (perShard * float64(s.LoadShards))
	s.OneShardSeconds = float64(l.Rows) / perShard
	return s, nil
}

// Duration turns seconds into a duration of whole seconds.
func Duration(seconds float64) time.Duration {
	if seconds > math.MaxInt64/float64(time.Second)/2 {
		return math.MaxInt64
	}
	return time.Duration(math.Ceil(seconds)) * time.Second
}
