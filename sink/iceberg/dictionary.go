package iceberg

import (
	"hash/maphash"

	"github.com/apache/iceberg-go"

	"icehose/sink"
)

// dictionaryOf is the property that turns the dictionary of a column off.
const dictionaryOf = "write.parquet.dict-encoding-enabled.column."

const (
	// sampleRows is how many rows tell how many values a column has, and
	// sampledFrom of how many rows on it pays to ask.
	sampleRows  = 1024
	sampledFrom = 8 * sampleRows
)

// plainColumns returns the properties that leave columns without a dictionary
// where one would not pay: a column of mostly distinct values fills a
// dictionary that the writer gives up in the end, after hashing every value.
//
// Of n rows drawn from r with v values, about n²/2v have a value that was drawn
// before, and n²/2r are a row that was. Together they are more than 2n²/r, and a
// dictionary pays, from three rows a value on.
func plainColumns(rows sink.Rows, names []string) iceberg.Properties {
	if rows.Len() < sampledFrom {
		return nil
	}
	seed := maphash.MakeSeed()
	seen := make([]map[uint64]struct{}, len(names))
	for i := range seen {
		seen[i] = make(map[uint64]struct{}, sampleRows)
	}
	values := make([]int, len(names)) // of the sample, nulls aside
	for row := range rows.Sample(sampleRows) {
		for i, v := range row {
			if v != nil {
				values[i]++
				seen[i][maphash.Bytes(seed, v)] = struct{}{}
			}
		}
	}
	plain := make(iceberg.Properties)
	for i, name := range names {
		n, again := values[i], values[i]-len(seen[i])
		all := rows.Len() * n / sampleRows // rows with a value, about
		if n >= sampleRows/8 && again*all < 2*n*n {
			plain[dictionaryOf+name] = "false"
		}
	}
	return plain
}
