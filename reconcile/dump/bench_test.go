package dump_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"icehose/catalog"
	"icehose/reconcile/dump"
)

// BenchmarkDigests reads rows of ten columns from a plain NDJSON file.
func BenchmarkDigests(b *testing.B) {
	p, err := catalog.Parse("pipeline.yaml", []byte(`version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
  - source: public.t
    mode: mirror
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
	const rows = 100_000
	var text strings.Builder
	for i := range rows {
		fmt.Fprintf(&text, `{"id":"%d","customer":"%d","status":"open","price":"%d.50","tax":"0.1900","created":"2026-10-05 01:02:03.%06d+00",`+
			`"updated":"2026-10-05 01:02:03.5","note":"some text of %d","paid":"t","due":"2026-11-01"}`+"\n", i, i%977, i, i, i)
	}
	dir := b.TempDir()
	writeFile(b, filepath.Join(dir, "public.t.ndjson"), text.String())
	r, err := dump.Open(dir, dump.Options{Final: true})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := view(b, r, p.Tables[0]).Digests(b.Context(), all(512)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
}
