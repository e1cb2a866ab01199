package iceberg_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"icehose/bench/sink/stream"
	"icehose/sink"
	"icehose/sink/iceberg"
)

const (
	commitRows    = 100_000 // in the table when the commits begin
	commitChanges = 1000    // in each: 80 % updates, 10 % inserts, 10 % deletes
	commitCount   = 1000
	unmaintained  = 300 // commits without maintenance: each costs more than the last
	commitWindow  = 100 // commits whose median is told
)

// commitBench is the table.
var commitBench = stream.Table{Name: "bench", Mode: "mirror", Reader: "icehose"}

// A commitCost is what one commit cost, and what the table was like after it.
type commitCost struct {
	commit, maintain, plan time.Duration
	layout                 iceberg.Layout
}

// BenchmarkCommits makes 1,000 commits in a row to a mirror with maintenance,
// fewer without, and compares the first hundred with the last hundred.
func BenchmarkCommits(b *testing.B) {
	for _, maintained := range []bool{true, false} {
		b.Run(fmt.Sprintf("maintained=%t", maintained), func(b *testing.B) {
			for range b.N {
				costs := commitMany(b, maintained)
				b.Log("\n" + commitTable(costs))
				first, last := costs[:commitWindow], costs[len(costs)-commitWindow:]
				b.ReportMetric(medianOf(last, commitOf)/medianOf(first, commitOf), "commit-last/first")
				b.ReportMetric(medianOf(last, planOf)/medianOf(first, planOf), "plan-last/first")
			}
		})
	}
}

func commitMany(b *testing.B, maintained bool) []commitCost {
	b.Helper()
	options := iceberg.Options{}
	if *noSync {
		options.Sync = func(*os.File) error { return nil }
	}
	store, err := iceberg.Open(b.Context(), b.TempDir(), options)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { closeStore(b, store) }()
	p, err := stream.Pipeline(commitBench)
	if err != nil {
		b.Fatal(err)
	}
	s, err := sink.Open(b.Context(), p, store, sink.Options{})
	if err != nil {
		b.Fatal(err)
	}
	keeper, err := store.NewMaintainer(p.Tables, iceberg.Maintenance{})
	if err != nil {
		b.Fatal(err)
	}
	w := commitWriter{b: b, sink: s, random: rand.New(rand.NewPCG(3, 5))}
	w.deliver(commitRows, stream.NewKey)
	var costs []commitCost
	count := commitCount
	if !maintained {
		count = unmaintained
	}
	for range count {
		var c commitCost
		c.commit = w.deliver(commitChanges, w.change)
		if maintained {
			started := clock()
			if err := keeper.Run(b.Context()); err != nil {
				b.Fatal(err)
			}
			c.maintain = clock().Sub(started)
		}
		started := clock()
		if _, err := store.PlanFiles(b.Context(), p.Tables[0]); err != nil {
			b.Fatal(err)
		}
		c.plan = clock().Sub(started)
		if c.layout, err = store.Layout(b.Context(), p.Tables[0]); err != nil {
			b.Fatal(err)
		}
		costs = append(costs, c)
	}
	return costs
}

type commitWriter struct {
	b      *testing.B
	sink   *sink.Sink
	random *rand.Rand
	n      uint64
}

func (w *commitWriter) change(n uint64) stream.Change {
	return stream.Mixed(w.random, commitRows, n)
}

// deliver hands rows to the sink and returns how long their commit took.
func (w *commitWriter) deliver(rows int, change func(n uint64) stream.Change) time.Duration {
	w.b.Helper()
	deliveries := commitBench.Deliveries(w.n, rows, change)
	w.n += uint64(rows)
	if err := w.sink.Deliver(w.b.Context(), deliveries); err != nil {
		w.b.Fatal(err)
	}
	started := clock()
	if err := w.sink.Flush(w.b.Context()); err != nil {
		w.b.Fatal(err)
	}
	return clock().Sub(started)
}

func clock() time.Time { return time.Now() } //nolint:forbidigo // what is measured is time; the age of files is

func commitOf(c commitCost) float64 { return float64(c.commit) / float64(time.Millisecond) }
func planOf(c commitCost) float64   { return float64(c.plan) / float64(time.Millisecond) }

func medianOf(costs []commitCost, of func(commitCost) float64) float64 {
	values := make([]float64, len(costs))
	for i, c := range costs {
		values[i] = of(c)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// commitTable compares the windows at the start, in the middle and at the end.
func commitTable(costs []commitCost) string {
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(format string, args ...any) {
		_, _ = fmt.Fprintf(out, format, args...) // into memory
	}
	line("commits\tcommit ms\tplan ms\tmaintenance ms a commit\tdata files\tdelete files\tmanifests\tsnapshots\t\n")
	for _, from := range []int{0, (len(costs) - commitWindow) / 2, len(costs) - commitWindow} {
		window := costs[from : from+commitWindow]
		var maintain time.Duration
		var most iceberg.Layout
		for _, c := range window {
			maintain += c.maintain
			most.DataFiles, most.DeleteFiles = max(most.DataFiles, c.layout.DataFiles), max(most.DeleteFiles, c.layout.DeleteFiles)
			most.Manifests, most.Snapshots = max(most.Manifests, c.layout.Manifests), max(most.Snapshots, c.layout.Snapshots)
		}
		line("%d to %d\t%.1f\t%.1f\t%.1f\t%d\t%d\t%d\t%d\t\n", from+1, from+commitWindow, medianOf(window, commitOf), medianOf(window, planOf),
			float64(maintain)/float64(time.Millisecond)/float64(len(window)), most.DataFiles, most.DeleteFiles, most.Manifests, most.Snapshots)
	}
	_ = out.Flush() // into memory
	return text.String()
}
