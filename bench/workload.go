package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"icehose/catalog"
	"icehose/cdc/kinesis"
	"icehose/transform"
	"icehose/transform/firehose"
)

const (
	recordCount = 4000
	// maxBuffer is the most that Firehose hands to a processor at once, before base64.
	maxBuffer = 3 << 20
	controls  = 500 // one record in so many is no row
)

//go:embed pipeline.yaml
var pipelineText []byte

// A workload is 4,000 records in as few events as Firehose would make of them.
type workload struct {
	name    string
	records []kinesis.Record
	events  [][]byte
	paths   []string // of files with the events
}

// bytes is the size of the records.
func (w *workload) bytes() (n int) {
	for i := range w.records {
		n += len(w.records[i].Data)
	}
	return n
}

// workloads returns the same records at each call.
func workloads() []*workload {
	random := rand.New(rand.NewPCG(1, 2))
	out := []*workload{{name: "order lines"}, {name: "wide text rows"}}
	for i := range recordCount {
		out[0].add(i, "order_line", orderLine(random, i))
		out[1].add(i, "article", article(random, i))
	}
	for _, w := range out {
		from, size := 0, 0
		for i := range w.records {
			if size += len(w.records[i].Data); size > maxBuffer {
				w.cut(from, i)
				from, size = i, len(w.records[i].Data)
			}
		}
		w.cut(from, len(w.records))
	}
	return out
}

func (w *workload) cut(from, to int) {
	w.events = append(w.events, firehose.AppendEvent(nil, firehose.EventInfo{
		InvocationID: fmt.Sprintf("00000000-0000-4000-8000-%012d", from), Region: "eu-west-1",
		DeliveryStreamARN: "arn:aws:firehose:eu-west-1:000000000000:deliverystream/shop",
		SourceStreamARN:   "arn:aws:kinesis:eu-west-1:000000000000:stream/changes",
	}, w.records[from:to]))
}

// add appends a record: a quarter loads, 30 % inserts, 35 % updates, 10 %
// deletes, and a control record here and there.
func (w *workload) add(i int, table, data string) {
	operation, before := "insert", ""
	switch i % 20 {
	case 0, 4, 8, 12, 16:
		operation = "load"
	case 1, 3, 5, 7, 9, 11, 13:
		operation, before = "update", `"before-image":{},`
	case 15, 19:
		operation = "delete"
	}
	var b strings.Builder
	number := i + 1
	fmt.Fprintf(&b, `{"data":%s,%s"metadata":{"timestamp":"2026-02-11T08:20:%02d.%06dZ","record-type":"data","operation":%q,"partition-key-type":"primary-key",`+
		`"partition-key-value":"public.%s.%d","schema-name":"public","table-name":%q`, data, before, i/100%60, i*7919%1000000, operation, table, number, table)
	if operation != "load" {
		fmt.Fprintf(&b, `,"transaction-id":%d,"transaction-record-id":%d,"prev-transaction-id":%d,"prev-transaction-record-id":%d,`+
			`"commit-timestamp":"2026-02-11T08:20:%02d.%06dZ","stream-position":"0000000A/%08X.3.0000000A/%08X"`,
			20000+i/10, 1+i%10, 20000+i/10-1, 1+i%10, i/100%60, i*7907%1000000, 0x1A000000+i*64, 0x1A000000+i*64+40)
	}
	b.WriteString("}}")
	text := b.String()
	if i%controls == controls-1 {
		text = fmt.Sprintf(`{"metadata":{"timestamp":"2026-02-11T08:20:%02d.000000Z","record-type":"control","operation":"create-table",`+
			`"partition-key-type":"task-id","schema-name":"","table-name":"awsdms_apply_exceptions"}}`, i/100%60)
	}
	w.records = append(w.records, kinesis.Record{
		ShardID: fmt.Sprintf("shardId-%012d", i%4), SequenceNumber: fmt.Sprintf("496286547652356634034469029552243627%020d", i),
		PartitionKey: fmt.Sprintf("public.%s.%d", table, number), ArrivedAt: 1770798000000 + int64(i), Data: []byte(text),
	})
}

func orderLine(random *rand.Rand, i int) string {
	delivered := fmt.Sprintf(`"2026-02-%02dT08:%02d:%02d.%06dZ"`, 1+random.IntN(28), random.IntN(60), random.IntN(60), random.IntN(1000000))
	if random.IntN(4) == 0 {
		delivered = "null"
	}
	return fmt.Sprintf(`{"ol_o_id":%d,"ol_d_id":%d,"ol_w_id":%d,"ol_number":%d,"ol_i_id":%d,"ol_supply_w_id":%d,"ol_delivery_d":%s,"ol_quantity":%d,`+
		`"ol_amount":"%d.%02d","ol_dist_info":%q}`, 2101+i/150, 1+i/15%10, 1+random.IntN(4), 1+i%15, 1+random.IntN(100000), 1+random.IntN(4), delivered,
		1+random.IntN(10), random.IntN(9999), random.IntN(100), letters(random, 24))
}

func article(random *rand.Rand, i int) string {
	title := words(random, 8)
	var b strings.Builder
	fmt.Fprintf(&b, `{"id":%d,"title":"%s","slug":"%s","summary":"%s","body":"%s",`, 9007199254740993+i, title, strings.ReplaceAll(title, " ", "-"),
		words(random, 40), words(random, 130))
	fmt.Fprintf(&b, `"body_html":"<p class=\"lead\">%s<\/p>\n<p>%s<\/p>",`, words(random, 50), words(random, 60))
	fmt.Fprintf(&b, `"author":"%s Núñez","editor":"%s","language":"en   ","tags":"[\"%s\", \"%s\"]",`, letters(random, 9), letters(random, 12), letters(random, 5), letters(random, 7))
	fmt.Fprintf(&b, `"url":"https://shop.example/%s","image":"https://shop.example/%s.jpg",`, letters(random, 40), letters(random, 40))
	fmt.Fprintf(&b, `"price":"%d.%02d","weight":%d.%010d,"rating":%d.%d,"views":%d,"section":%d,"position":%d,"published":%t,"featured":%t,`,
		random.IntN(100000), random.IntN(100), random.IntN(1000), random.IntN(1000000000), random.IntN(5), random.IntN(10), random.Int64N(1<<50),
		random.IntN(40), random.IntN(1000), random.IntN(2) == 0, random.IntN(9) == 0)
	fmt.Fprintf(&b, `"published_on":"2026-02-%02d","created_at":"2026-02-01T08:00:%02d.%06dZ","updated_at":"2026-02-11T08:20:%02d.%06dZ","deleted_at":null,`,
		1+random.IntN(28), random.IntN(60), random.IntN(1000000), random.IntN(60), random.IntN(1000000))
	fmt.Fprintf(&b, `"uid":"%08x-%04x-4%03x-8%03x-%012x","checksum":"%016x%016x","notes":"%s \u2014 see below\t%s",`,
		random.Uint32(), random.IntN(1<<16), random.IntN(1<<12), random.IntN(1<<12), random.Int64N(1<<48), random.Uint64(), random.Uint64(),
		words(random, 30), words(random, 20))
	fmt.Fprintf(&b, `"source":"import","licence":"CC-BY-4.0","revision":%d}`, random.IntN(50))
	return b.String()
}

func letters(random *rand.Rand, n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte('a' + random.IntN(26))
	}
	return string(out)
}

func words(random *rand.Rand, n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = letters(random, 2+random.IntN(8))
	}
	return strings.Join(out, " ")
}

// A handler is what is measured: as the Lambda calls it, with the memory of the
// response before.
type handler struct {
	*firehose.Handler
	response []byte
}

func (h *handler) handle(ctx context.Context, event []byte) (response []byte, err error) {
	h.response, err = h.HandleInto(ctx, h.response, event)
	return h.response, err
}

// newHandler returns the handler as the Lambda has it. Its metrics are written
// and thrown away; it has nothing to log.
func newHandler() (*handler, error) {
	p, err := catalog.Parse("pipeline.yaml", pipelineText)
	if err != nil {
		return nil, err
	}
	t, err := transform.New(p, transform.Options{})
	if err != nil {
		return nil, err
	}
	metrics := firehose.NewEMF(io.Discard, "bench", time.Now) //nolint:forbidigo // the Lambda's clock
	return &handler{Handler: firehose.New(t, firehose.Options{Metrics: metrics.Write})}, nil
}
