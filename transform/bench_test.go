package transform_test

import (
	"fmt"
	"testing"

	"icehose/transform"
)

const benchText = `version: 1
database: shop
source: {engine: postgresql, position: postgres, nulls: included}
tables:
  - source: public.order_line
    mode: %s
    key: [ol_w_id, ol_d_id, ol_o_id, ol_number]
    columns:
      - {name: ol_o_id, type: int}
      - {name: ol_d_id, type: int}
      - {name: ol_w_id, type: int}
      - {name: ol_number, type: int}
      - {name: ol_i_id, type: int}
      - {name: ol_supply_w_id, type: int}
      - {name: ol_delivery_d, type: timestamp}
      - {name: ol_quantity, type: int}
      - {name: ol_amount, type: "decimal(6,2)"}
      - {name: ol_dist_info, type: string, source_type: character(24)}
`

func orderLines(n int) []transform.Record {
	texts := make([]string, n)
	for i := range texts {
		data := fmt.Sprintf(`{"ol_o_id":%d,"ol_d_id":%d,"ol_w_id":1,"ol_number":%d,"ol_i_id":%d,"ol_supply_w_id":1,`+
			`"ol_delivery_d":"2026-01-02T03:04:05.%06dZ","ol_quantity":5,"ol_amount":"%d.%02d","ol_dist_info":"dist-info-%014d"}`,
			2101+i/10, 1+i%10, 1+i%15, 1+i*7%100000, i, i%9999, i%100, i)
		texts[i] = change([]string{"insert", "update", "load", "delete"}[i%16%5%4], "order_line", data, i+1)
	}
	return records(texts...)
}

func BenchmarkBatch(b *testing.B) {
	for _, mode := range []string{"mirror", "changelog"} {
		b.Run(mode, func(b *testing.B) {
			tr := newTransformer(b, fmt.Sprintf(benchText, mode), transform.Options{})
			batch := orderLines(4000)
			size := 0
			for i := range batch {
				size += len(batch[i].Data)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				for _, r := range tr.Batch(batch) {
					if r.Outcome == transform.ProcessingFailed {
						b.Fatalf("%s failed: %s %s", r.ID, r.Reason, r.Column)
					}
				}
			}
			b.ReportMetric(float64(len(batch)*b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
