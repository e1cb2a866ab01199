package dms_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"icehose/cdc"
	"icehose/cdc/dms"
)

// TestDecodeDoesNotAllocate decodes records whose stream positions and
// partition keys all differ, as a stream's do.
func TestDecodeDoesNotAllocate(t *testing.T) {
	records := [][]byte{[]byte(full)}
	for _, name := range []string{"postgres-load-pretty", "postgres-update-key", "postgres-values", "mysql-update", "oracle-insert"} {
		record, err := os.ReadFile(filepath.Join(shapes, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, record)
	}
	d := dms.New(dms.Settings{BeforePrefix: "BI_"})
	var c cdc.Change
	fault := error(nil)
	for _, record := range records {
		run := func() {
			if err := d.Decode(record, &c); err != nil {
				fault = err
			}
		}
		run()
		// The average is rounded down: a block of text every some hundred
		// records disappears in it, an allocation per record does not.
		if n := testing.AllocsPerRun(2000, run); n != 0 || fault != nil {
			t.Errorf("%.60s...: %v allocations, %v", record, n, fault)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 5000 {
			run()
		}
		runtime.ReadMemStats(&after)
		// No more than the texts that no two records share, 8 for the block begun.
		own := uint64(len(c.StreamPosition) + len(c.PartitionKeyValue))
		if n := (after.TotalAlloc - before.TotalAlloc) / 5000; n > own+8 {
			t.Errorf("%.60s...: %d bytes a record, %d are its own", record, n, own)
		}
	}
}

// TestDecoderForgets: a stream of ever new names and positions does not stay
// in the decoder.
func TestDecoderForgets(t *testing.T) {
	d := dms.New(dms.Settings{})
	var c cdc.Change
	run := func() {
		for i := range 50000 {
			long := strings.Repeat("n", 200) + strconv.Itoa(i)
			record := `{"data":{},"metadata":{"operation":"load","table-name":"` + long + `","stream-position":"` + long + `"}}`
			if err := d.Decode([]byte(record), &c); err != nil || c.Table != long || c.StreamPosition != long {
				t.Fatalf("record %d: %v", i, err)
			}
		}
	}
	before := heap()
	run()
	if after := heap(); after > before+6<<20 {
		t.Errorf("the decoder holds %d bytes", after-before)
	}
	runtime.KeepAlive(d)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkDecode decodes order lines as they come from PostgreSQL, wide rows
// of text, and the same in the pretty-printed form.
func BenchmarkDecode(b *testing.B) {
	tail := `"metadata":{"timestamp":"2026-02-11T08:20:11.093377Z","record-type":"data","operation":"update","partition-key-type":"primary-key",` +
		`"partition-key-value":"public.order_line.1.2.3001.7","schema-name":"public","table-name":"order_line","transaction-id":20821,` +
		`"transaction-record-id":2,"prev-transaction-id":20821,"prev-transaction-record-id":1,"commit-timestamp":"2026-02-11T08:20:10.990004Z",` +
		`"stream-position":"00000005/1A003018.3.00000005/1A003018"}}`
	line := `{"data":{"ol_o_id":3001,"ol_d_id":2,"ol_w_id":1,"ol_number":7,"ol_i_id":84021,"ol_supply_w_id":1,"ol_delivery_d":"2026-02-11T08:20:10.990004Z",` +
		`"ol_quantity":5,"ol_amount":"231.45","ol_dist_info":"qwertyuiopasdfghjklzxcvb"},"before-image":{},` + tail
	var columns []string
	for i := range 40 {
		columns = append(columns, fmt.Sprintf(`"column_%d":"%s"`, i, strings.Repeat("some text without end, ", 4+i%7)))
	}
	wide := `{"data":{` + strings.Join(columns, ",") + `},` + tail
	for _, bench := range []struct{ name, record string }{
		{"line", line},
		{"line-pretty", strings.NewReplacer(`":`, "\":\t", `,"`, ",\n\t\t\"", `{`, "{\n\t").Replace(line)},
		{"wide", wide},
		{"wide-cyrillic", strings.ReplaceAll(wide, "some text", "соль и ветер")},
		{"control", `{"control":{"table-def":{"columns":{"a":{"type":"INT64","nullable":false}}}},` + strings.Replace(tail, `"data"`, `"control"`, 1)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			record := []byte(bench.record)
			d := dms.New(dms.Settings{})
			var c cdc.Change
			b.SetBytes(int64(len(record)))
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Decode(record, &c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
