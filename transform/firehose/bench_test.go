package firehose_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"icehose/cdc/kinesis"
	"icehose/transform/firehose"
)

func films(n int) []kinesis.Record {
	data := make([]string, n)
	for i := range data {
		data[i] = strings.Replace(film(i, 40), `"released":null`, `"released":"2026-01-02"`, 1)
	}
	return stream(data...)
}

// BenchmarkHandle measures whole event in, whole response out.
func BenchmarkHandle(b *testing.B) {
	records := films(4000)
	event := firehose.AppendEvent(nil, firehose.EventInfo{}, records)
	h := firehose.New(newTransformer(b), firehose.Options{})
	b.SetBytes(int64(len(event)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Handle(b.Context(), event); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(records)*b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkBase64 measures what every Firehose Lambda pays: decoding the same
// records and encoding them again.
func BenchmarkBase64(b *testing.B) {
	records := films(4000)
	texts := make([]string, len(records))
	for i := range records {
		texts[i] = base64.StdEncoding.EncodeToString(records[i].Data)
	}
	var decoded, encoded []byte
	for b.Loop() {
		for _, text := range texts {
			var err error
			if decoded, err = base64.StdEncoding.AppendDecode(decoded[:0], []byte(text)); err != nil {
				b.Fatal(err)
			}
			encoded = base64.StdEncoding.AppendEncode(encoded[:0], decoded)
		}
	}
	b.ReportMetric(float64(len(records)*b.N)/b.Elapsed().Seconds(), "records/s")
	if len(encoded) == 0 {
		b.Fatal(fmt.Errorf("nothing encoded"))
	}
}
