//go:build interop

package interop_test

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"icehose/sink/merge"
)

var costRows = flag.Int("rows", 0, "rows of the current table whose merges TestMergeCost measures; 0 for no measurement")

// costPipeline is a changelog like many: a key and ten columns.
const costPipeline = `version: 1
database: cost
source: {engine: postgresql, position: postgres}
tables:
  - source: s.orders
    mode: changelog
    key: [id]
    columns:
      - {name: id, type: long}
      - {name: customer, type: long}
      - {name: state, type: string}
      - {name: note, type: string}
      - {name: address, type: string}
      - {name: total, type: "decimal(12,2)"}
      - {name: tax, type: "decimal(12,2)"}
      - {name: quantity, type: int}
      - {name: ordered, type: timestamptz}
      - {name: paid, type: boolean}
`

// costRowsOf selects rows of the changelog: every step-th key of count, changed at body.
func costRowsOf(count, step, body int, operation string) string {
	return fmt.Sprintf(`SELECT id, pmod(hash(id), 100000), concat('state', pmod(id, 7)), sha2(CAST(id + %[3]d AS STRING), 256), concat('street ', pmod(hash(id), 5000)),
  CAST(pmod(hash(id, %[3]d), 1000000) / 100 AS DECIMAL(12,2)), CAST(pmod(hash(id), 10000) / 100 AS DECIMAL(12,2)), CAST(pmod(id, 90) AS INT),
  timestamp_seconds(1700000000 + id), pmod(id, 2) = 0,
  concat('0000.', repeat(lpad(lower(hex(%[3]d)), 16, '0'), 2), '.1.', lpad(lower(hex(id)), 16, '0')), timestamp_seconds(1767225600 + %[3]d), '%[4]s', CAST(NULL AS STRING), CAST(NULL AS STRING)
FROM range(0, %[1]d, %[2]d)`, count, step, body, operation)
}

// TestMergeCost measures how long a merge on Spark takes, and computes what Athena
// would read. What Spark reads of files neither its stages tell, which count cached
// blocks, nor Hadoop's statistics, which leave vectored reads out.
func TestMergeCost(t *testing.T) {
	if *costRows == 0 {
		t.Skip("want -rows: run make bench-merge")
	}
	s := sharedLake(t)
	def := pipeline(t, costPipeline).ByTarget("cost", "orders")
	if _, err := s.store.OpenTable(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	// As one would run it, not as tests do.
	e, err := start(context.WithoutCancel(t.Context()), "spark", s.dir, "adaptive=true", "partitions=8", "java=", "memory=4g")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.stop)
	spec, err := merge.NewSparkSpec(def, "")
	if err != nil {
		t.Fatal(err)
	}
	size := func(table string) int64 {
		n, err := strconv.ParseInt(*e.sql(t, "SELECT CAST(sum(file_size_in_bytes) AS BIGINT) FROM "+table+".files")[0][0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\n| keys touched | rows read | changelog | current table | seconds | Athena would read |\n|---|---|---|---|---|---|\n")
	measure := func(name string) {
		scan, err := merge.AthenaScan(t.Context(), s.store.Tables().Tables, def)
		if err != nil {
			t.Fatal(err)
		}
		started := time.Now() //nolint:forbidigo // a measurement
		result, err := e.merge(spec, false)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(started).Seconds()
		fmt.Fprintf(&out, "| %s | %d | %.1f MB | %.1f MB | %.1f | %.1f MB |\n", name, result.Read, float64(size("cost.orders"))/1e6, float64(size("cost.orders_folded"))/1e6,
			took, float64(scan)/1e6)
	}
	e.sql(t, "INSERT INTO cost.orders "+costRowsOf(*costRows, 1, 1, "load"))
	measure("all, first merge")
	e.sql(t, "INSERT INTO cost.orders "+costRowsOf(*costRows, 100, 2, "update"))
	measure("1 %")
	e.sql(t, "INSERT INTO cost.orders "+costRowsOf(*costRows, 10, 3, "update"))
	measure("10 %")
	rows := *e.sql(t, "SELECT count(*) FROM cost.orders_folded")[0][0]
	if rows != fmt.Sprint(*costRows) {
		t.Errorf("the current table has %s rows, want %d", rows, *costRows)
	}
	t.Logf("a current table of %d rows:%s", *costRows, out.String())
}
