package iceberg_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"icehose/bench/sink/stream"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/iceberg"
)

// noSync tells what forcing files to the disk costs.
var noSync = flag.Bool("nosync", false, "benchmarks do not force files to the disk")

// oneByOne tells what commits beside deliveries gain.
var oneByOne = flag.Bool("onebyone", false, "benchmarks do not commit in the background")

// parquet tries other settings of the files.
var parquet = flag.String("parquet", "", "benchmarks write Parquet with these properties: NAME=VALUE,...")

// benchSink is a sink on real files with its source.
type benchSink struct {
	*sink.Sink
	b     *testing.B
	table stream.Table
	n     uint64
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
	t := stream.Table{Name: "bench", Mode: mode, Reader: reader}
	p, err := stream.Pipeline(t)
	if err != nil {
		b.Fatal(err)
	}
	s, err := sink.Open(b.Context(), p, store, sink.Options{Background: !*oneByOne})
	if err != nil {
		b.Fatal(err)
	}
	return &benchSink{Sink: s, b: b, table: t}
}

// rows makes deliveries ahead of the measured part.
func (s *benchSink) rows(count int, change func(n uint64) stream.Change) []sink.Delivery {
	rows := s.table.Deliveries(s.n, count, change)
	s.n += uint64(count)
	return rows
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
		rows := s.rows(benchStep, stream.NewKey)
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
		s.run(s.rows(benchStep, stream.NewKey))
	}
	s.flush()
	r := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	var used time.Duration
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		rows := s.rows(benchStep, func(n uint64) stream.Change { return stream.Mixed(r, table, n) })
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
	s.run(s.rows(table, stream.NewKey))
	if err := s.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		rows := s.rows(step, func(n uint64) stream.Change { return stream.Change{N: n, ID: int(n % table), Operation: cdc.Update} })
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
			s.run(s.rows(table, stream.NewKey))
			s.flush()
			r := rand.New(rand.NewPCG(1, 1))
			b.ReportAllocs()
			b.ResetTimer()
			var used time.Duration
			for range b.N {
				b.StopTimer()
				start, at := r.IntN(table-step), 0
				rows := s.rows(step, func(n uint64) stream.Change {
					at++
					return stream.Change{N: n, ID: key(r, start, at), Operation: cdc.Update}
				})
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
