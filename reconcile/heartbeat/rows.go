package heartbeat

import (
	"fmt"
	"math"
	"strconv"

	"icehose/cdc/kinesis"
)

// MaxRows and MaxShards bound what is asked for.
const (
	MaxRows   = 100_000
	MaxShards = 4096
)

// Enough is the chance that some shard gets no row, below which rows are enough.
const Enough = 1e-6

// Unreached bounds the chance that one of a number of shards gets none of the
// rows, whose partition keys are hashed to shards of equal size: each shard is
// missed by a row with the chance 1-1/shards, by all of them with that to the
// power of rows, and there are as many that may be.
func Unreached(shards, rows int) float64 {
	if rows < 1 {
		return 1
	}
	s := float64(shards)
	return min(1, s*math.Pow(1-1/s, float64(rows)))
}

// RowsFor returns the fewest rows that are enough for a number of shards. Ten
// for each shard miss one with a chance of about shards/22,000.
func RowsFor(shards int) int {
	if shards <= 1 {
		return 1
	}
	s := float64(shards)
	rows := max(1, int(math.Log(Enough/s)/math.Log1p(-1/s)))
	for Unreached(shards, rows) >= Enough {
		rows++
	}
	return rows
}

// Coverage says whether rows reach all shards.
type Coverage struct {
	Shards int `json:"shards"`
	Rows   int `json:"rows"`
	// Unreached bounds the chance that a shard gets no row.
	Unreached float64 `json:"unreached"`
	// Reached counts the shards that get a row if two things are so: the partition
	// key of a record is schema.table.id, as it was seen of DMS for a key of one
	// column, with the partition key type primary-key and PartitionIncludeSchemaTable,
	// and the shards share the hash keys evenly.
	Reached int `json:"reached"`

	table string
}

// Cover returns the coverage of rows 1 to n of the table.
func (s *Source) Cover(shards, rows int) *Coverage {
	reached := map[int]bool{}
	for id := 1; id <= rows && len(reached) < shards; id++ {
		reached[kinesis.ShardOf(s.Name()+"."+strconv.Itoa(id), shards)] = true
	}
	return &Coverage{Shards: shards, Rows: rows, Unreached: Unreached(shards, rows), Reached: len(reached), table: s.Name()}
}

// Enough reports whether nothing speaks against the rows.
func (c *Coverage) Enough() bool { return c.Unreached < Enough && c.Reached == c.Shards }

// String says it in two lines.
func (c *Coverage) String() string {
	return fmt.Sprintf("%d rows for %d shards of equal size: the chance that one gets none is %.1e at most\n"+
		"if partition keys are %s.1 to %[4]s.%[1]d (primary-key, PartitionIncludeSchemaTable): %[5]d of %[2]d get one\n",
		c.Rows, c.Shards, c.Unreached, c.table, c.Reached)
}
