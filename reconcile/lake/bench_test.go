package lake_test

import (
	"fmt"
	"testing"

	"icehose/catalog"
	"icehose/reconcile/lake"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// BenchmarkDigests reads rows of ten columns from Iceberg, of a mirror and of
// a changelog that has each row once.
func BenchmarkDigests(b *testing.B) {
	const rows = 200_000
	for _, mode := range []string{"mirror", "changelog"} {
		b.Run(mode, func(b *testing.B) {
			p, err := catalog.Parse("pipeline.yaml", []byte(`version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - source: public.t
    mode: `+mode+`
    key: [id]
    columns:
      - {name: id, type: long}
      - {name: customer, type: long}
      - {name: status, type: string}
      - {name: price, type: "decimal(12,2)"}
      - {name: tax, type: "decimal(12,4)"}
      - {name: created, type: timestamptz}
      - {name: updated, type: timestamp}
      - {name: note, type: string}
      - {name: paid, type: boolean}
      - {name: due, type: date}
`))
			if err != nil {
				b.Fatal(err)
			}
			table := p.Tables[0]
			store, err := iceberg.Open(b.Context(), b.TempDir(), iceberg.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close() //nolint:errcheck // the benchmark is over
			opened, err := store.OpenTable(b.Context(), table)
			if err != nil {
				b.Fatal(err)
			}
			var inserts [][][]byte
			for i := range rows {
				row := [][]byte{
					fmt.Appendf(nil, "%d", i), fmt.Appendf(nil, "%d", i%977), []byte("open"), fmt.Appendf(nil, "%d.50", i), []byte("0.1900"),
					fmt.Appendf(nil, "2026-10-05T01:02:03.%06dZ", i), []byte("2026-10-05T01:02:03.500000"), fmt.Appendf(nil, "some text of %d", i),
					[]byte("true"), []byte("2026-11-01"), []byte(position(i)), []byte("2026-10-05T01:02:03.000000Z"),
				}
				if table.Mode == catalog.Changelog {
					row = append(row, []byte("insert"), nil, nil)
				}
				inserts = append(inserts, row)
			}
			err = opened.Commit(b.Context(), &sink.Batch{
				ID: "first", Properties: map[string]string{sink.PropertyCommit: "first"}, Inserts: sink.NewRows(inserts...),
			})
			if err != nil {
				b.Fatal(err)
			}
			reader := lake.Open(store)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := view(b, reader, table).Digests(b.Context(), all(1024)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
