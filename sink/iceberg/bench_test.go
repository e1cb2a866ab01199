package iceberg_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
)

const benchTables = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- source: s.bench
  mode: %s
  key: [id]
  columns:
  - {name: id, type: long}
  - {name: name, type: string}
  - {name: country, type: string}
  - {name: qty, type: int}
  - {name: ratio, type: double}
  - {name: amount, type: "decimal(18,2)"}
  - {name: active, type: boolean}
  - {name: day, type: date}
  - {name: at, type: timestamptz}
  - {name: note, type: string}
`

// benchRow appends a row of ten columns, as transform writes it.
func benchRow(dst []byte, id int, n uint64, isDelete bool) []byte {
	at := fmt.Sprintf("2026-01-%02dT%02d:%02d:%02d.000000Z", 1+n/86_400%28, n/3600%24, n/60%60, n%60)
	position := cdc.ChangePosition(0, cdc.Body{Lo: n}, 0)
	if isDelete {
		return fmt.Appendf(dst, `{"id":%d,"name":null,"country":null,"qty":null,"ratio":null,"amount":null,"active":null,"day":null,"at":null,"note":null,`+
			`"cdc_position":"%s","cdc_committed_at":"%s"}`, id, position, at)
	}
	h := uint64(id)*0x9E3779B97F4A7C15 ^ n
	return fmt.Appendf(dst, `{"id":%d,"name":"name-%d-v%d","country":"%s","qty":%d,"ratio":%d.%d,"amount":"%d.%02d","active":%t,"day":"2026-01-%02d","at":"%s",`+
		`"note":"%016x%016x","cdc_position":"%s","cdc_committed_at":"%s"}`,
		id, id, n, []string{"DE", "FR", "US", "CN"}[id%4], n%1000, h%100_000, h%9+1, h%1_000_000, h%100, id%2 == 0, 1+n%28, at, h, h*31, position, at)
}

// noSync tells what forcing files to the disk costs.
var noSync = flag.Bool("nosync", false, "benchmarks do not force files to the disk")

// oneByOne tells what commits beside deliveries gain.
var oneByOne = flag.Bool("onebyone", false, "benchmarks do not commit in the background")

// parquet tries other settings of the files.
var parquet = flag.String("parquet", "", "benchmarks write Parquet with these properties: NAME=VALUE,...")

// benchSink is a sink on real files with its source.
type benchSink struct {
	*sink.Sink
	b *testing.B
	n uint64
}

func newBenchSink(b *testing.B, mode, reader string) *benchSink {
	b.Helper()
	options := iceberg.Options{}
	if *parquet != "" {
		options.Parquet = make(map[string]string)
		for property := range strings.SplitSeq(*parquet, ",") {
			name, value, _ := strings.Cut(property, "=")
			options.Parquet[name] = value
		}
	}
	if *noSync {
		options.Sync = func(*os.File) error { return nil }
	}
	store, err := iceberg.Open(b.Context(), b.TempDir(), options)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { closeStore(b, store) })
	p, err := catalog.Parse("pipeline.yaml", []byte(strings.Replace(fmt.Sprintf(benchTables, mode), "key: [id]\n", "key: [id]\n  readers: ["+reader+"]\n", 1)))
	if err != nil {
		b.Fatal(err)
	}
	s, err := sink.Open(b.Context(), p, store, sink.Options{Background: !*oneByOne})
	if err != nil {
		b.Fatal(err)
	}
	return &benchSink{Sink: s, b: b}
}

// rows makes deliveries ahead of the measured part.
func (s *benchSink) rows(count int, row func(n uint64) (id int, o cdc.Operation), extra string) []sink.Delivery {
	out := make([]sink.Delivery, count)
	for i := range out {
		id, o := row(s.n)
		data := benchRow(nil, id, s.n+1, o == cdc.Delete)
		if extra != "" {
			data = append(data[:len(data)-1], extra...)
		}
		out[i] = sink.Delivery{
			Offset: sink.Offset{Shard: "shardId-000000000000", Sequence: strconv.FormatUint(s.n, 10), Ordinal: s.n},
			Row:    &sink.Row{Database: "lake", Table: "bench", Operation: o, Data: data},
		}
		s.n++
	}
	return out
}

func (s *benchSink) run(d []sink.Delivery) {
	s.b.Helper()
	for len(d) > 0 {
		part := d[:min(len(d), 500)]
		if err := s.Deliver(s.b.Context(), part); err != nil {
			s.b.Fatal(err)
		}
		d = d[len(part):]
	}
}

func (s *benchSink) flush() {
	s.b.Helper()
	if err := s.Flush(s.b.Context()); err != nil {
		s.b.Fatal(err)
	}
}

// benchStep is how many rows an operation delivers. What is in flight at its end
// is waited for, so that no work escapes the clock; ten commits hide that little.
const benchStep = 500_000

// BenchmarkAppend appends 500,000 rows an operation to a changelog.
func BenchmarkAppend(b *testing.B) {
	s := newBenchSink(b, "changelog", "icehose")
	b.ReportAllocs()
	var used time.Duration
	for range b.N {
		b.StopTimer()
		rows := s.rows(benchStep, func(n uint64) (int, cdc.Operation) { return int(n), cdc.Insert },
			`,"cdc_operation":"insert","cdc_old_key":null,"cdc_absent":null}`)
		began := cpu(b)
		b.StartTimer()
		s.run(rows)
		s.flush()
		used += cpu(b) - began
	}
	b.ReportMetric(float64(used.Microseconds())/benchStep/float64(b.N), "cpu-µs/row")
	b.ReportMetric(float64(benchStep)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkMirror applies 500,000 mixed changes an operation to a mirror of a
// million rows: 80 % updates, 10 % inserts, 10 % deletes.
func BenchmarkMirror(b *testing.B) {
	s := newBenchSink(b, "mirror", "icehose")
	const table = 1_000_000
	for range table / benchStep {
		s.run(s.rows(benchStep, func(n uint64) (int, cdc.Operation) { return int(n), cdc.Update }, ""))
	}
	s.flush()
	r := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	var used time.Duration
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		rows := s.rows(benchStep, func(n uint64) (int, cdc.Operation) {
			switch r.IntN(10) {
			case 0:
				return int(n), cdc.Update // a new key
			case 1:
				return r.IntN(table), cdc.Delete
			}
			return r.IntN(table), cdc.Update
		}, "")
		began := cpu(b)
		b.StartTimer()
		s.run(rows)
		s.flush()
		used += cpu(b) - began
	}
	b.ReportMetric(float64(used.Microseconds())/benchStep/float64(b.N), "cpu-µs/row")
	b.ReportMetric(float64(benchStep)*float64(b.N)/b.Elapsed().Seconds(), "changes/s")
}

// BenchmarkCommit commits 1,000 updates of a mirror of 10,000 rows an operation.
func BenchmarkCommit(b *testing.B) {
	s := newBenchSink(b, "mirror", "icehose")
	const table, step = 10_000, 1000
	s.run(s.rows(table, func(n uint64) (int, cdc.Operation) { return int(n), cdc.Update }, ""))
	if err := s.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		rows := s.rows(step, func(n uint64) (int, cdc.Operation) { return int(n % table), cdc.Update }, "")
		b.StartTimer()
		s.run(rows)
		if err := s.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCopyOnWrite commits 1,000 updates of a mirror of 500,000 rows in ten
// files an operation: of keys that lie together, as new ones do, so that the
// bounds of all files but one exclude them, and of keys all over the table.
func BenchmarkCopyOnWrite(b *testing.B) {
	const table, step = 500_000, 1000
	for name, key := range map[string]func(r *rand.Rand, start, i int) int{
		"together":  func(_ *rand.Rand, start, i int) int { return start + i },
		"scattered": func(r *rand.Rand, _, _ int) int { return r.IntN(table) },
	} {
		b.Run(name, func(b *testing.B) {
			s := newBenchSink(b, "mirror", "pyiceberg")
			s.run(s.rows(table, func(n uint64) (int, cdc.Operation) { return int(n), cdc.Update }, ""))
			s.flush()
			r := rand.New(rand.NewPCG(1, 1))
			b.ReportAllocs()
			b.ResetTimer()
			var used time.Duration
			for range b.N {
				b.StopTimer()
				start, at := r.IntN(table-step), 0
				rows := s.rows(step, func(uint64) (int, cdc.Operation) { at++; return key(r, start, at), cdc.Update }, "")
				began := cpu(b)
				b.StartTimer()
				s.run(rows)
				s.flush()
				used += cpu(b) - began
			}
			b.ReportMetric(used.Seconds()/float64(b.N), "cpu-s/commit")
		})
	}
}
