// Command bench measures the transform: records a second of one core, from the
// JSON of a whole Firehose event to the JSON of the whole response.
//
// It compares it, in interleaved rounds of one run, with the Lambda that
// people usually write in Python (python/lambda_function.py), and with what any
// processor pays: decoding and encoding the records' base64 alone, by
// encoding/base64. Before it measures it compares all values that both sides
// deliver. The time is the processor time of the process, so that what else
// runs on the machine counts as little as can be.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status) //nolint:forbidigo // a program of its own
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rounds := flags.Int("rounds", 9, "how often each side is measured; the median counts")
	python := flags.String("python", "python3", "the Python interpreter")
	scripts := flags.String("scripts", "bench/python", "where the Python side is")
	if flags.Parse(args) != nil {
		return 2
	}
	runtime.GOMAXPROCS(1)
	if err := bench(ctx, *rounds, *python, *scripts, stdout, stderr); err != nil {
		// Where else could this error be told?
		_, _ = fmt.Fprintf(stderr, "bench: %v\n", err)
		return 2
	}
	return 0
}

// The sides, in the order of the table.
const (
	sidePython = iota
	sideBase64
	sideIcehose
	sideCount
)

// A measured is one workload and the times of each side, of all its records.
type measured struct {
	*workload
	times [sideCount][]time.Duration
}

func bench(ctx context.Context, rounds int, interpreter, scripts string, stdout, stderr io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "icehose-bench-")
	if err != nil {
		return fmt.Errorf("bench transform: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := startPython(ctx, interpreter, scripts, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	h, err := newHandler()
	if err != nil {
		return err
	}
	var all []*measured
	for _, w := range workloads() {
		if err := compare(ctx, w, h, p, dir, stderr); err != nil {
			return err
		}
		all = append(all, &measured{workload: w})
	}
	for round := range rounds {
		if _, err := fmt.Fprintf(stderr, "\rround %d of %d", round+1, rounds); err != nil {
			return err
		}
		for _, m := range all {
			if err := m.measure(ctx, h, p); err != nil {
				return err
			}
		}
	}
	version, err := p.version()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(stderr); err != nil {
		return err
	}
	return report(stdout, all, rounds, version)
}

// report prints the table.
func report(out io.Writer, all []*measured, rounds int, version string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, err := fmt.Fprintf(w, "4,000 records, mixed operations\tbytes each\tPython Lambda\tbase64 alone\ticehose\ticehose : Python\ticehose : base64\t\n")
	for _, m := range all {
		var speed [sideCount]float64
		for side, times := range m.times {
			slices.Sort(times)
			speed[side] = float64(len(m.records)) / times[len(times)/2].Seconds()
		}
		_, fault := fmt.Fprintf(w, "%s\t%d\t%.0f/s\t%.0f/s\t%.0f/s\t%.1f\t%.2f\t\n", m.name, m.bytes()/len(m.records), speed[sidePython],
			speed[sideBase64], speed[sideIcehose], speed[sideIcehose]/speed[sidePython], speed[sideIcehose]/speed[sideBase64])
		err = errors.Join(err, fault)
	}
	if err := errors.Join(err, w.Flush()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "records a second of one core; medians of %d rounds in one run; %s, Python %s, %s\n",
		rounds, runtime.Version(), version, processor())
	return err
}

// processor is the machine's model, as Linux names it.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// compare has both sides answer each event and compares the answers.
func compare(ctx context.Context, w *workload, h *handler, p *python, dir string, stderr io.Writer) error {
	var request pythonRequest
	for i, event := range w.events {
		place := filepath.Join(dir, fmt.Sprintf("%s-%d", strings.ReplaceAll(w.name, " ", "-"), i))
		if err := os.WriteFile(place+".event.json", event, 0o600); err != nil {
			return fmt.Errorf("compare answers: %w", err)
		}
		response, err := h.handle(ctx, event)
		if err != nil {
			return err
		}
		if err := os.WriteFile(place+".icehose.json", response, 0o600); err != nil {
			return fmt.Errorf("compare answers: %w", err)
		}
		request.Events = append(request.Events, place+".event.json")
		request.Responses = append(request.Responses, place+".python.json")
	}
	if _, err := p.ask(request); err != nil {
		return err
	}
	w.paths = request.Events
	for i, event := range request.Events {
		place := strings.TrimSuffix(event, ".event.json")
		cmd := exec.CommandContext(ctx, p.interpreter, filepath.Join(p.scripts, "compare.py"), event, request.Responses[i], place+".icehose.json")
		cmd.Stdout, cmd.Stderr = stderr, stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("compare answers: %w", err)
		}
	}
	return nil
}

// measure takes one time of each side. The two fast ones take turns after
// each batch: what else runs on the machine slows both.
func (m *measured) measure(ctx context.Context, h *handler, p *python) error {
	const times = 8 // of the fast sides, so that a time is not too short
	spent, err := p.ask(pythonRequest{Events: m.paths, Times: 1})
	if err != nil {
		return err
	}
	m.times[sidePython] = append(m.times[sidePython], time.Duration(spent.Nanoseconds))
	texts := encoded(m.workload)
	var scratch base64Scratch
	work := [sideCount]func() error{
		sideBase64: func() error { return scratch.roundTrip(texts) },
		sideIcehose: func() error {
			for _, event := range m.events {
				if _, err := h.handle(ctx, event); err != nil {
					return err
				}
			}
			return nil
		},
	}
	var total [sideCount]time.Duration
	for turn := range 1 + times {
		for _, side := range []int{sideBase64, sideIcehose} {
			start, err := processorTime()
			if err != nil {
				return err
			}
			if err := work[side](); err != nil {
				return err
			}
			end, err := processorTime()
			if err != nil {
				return err
			}
			if turn > 0 { // the first warms, as the Python side's memory is warm
				total[side] += end - start
			}
		}
	}
	for _, side := range []int{sideBase64, sideIcehose} {
		m.times[side] = append(m.times[side], total[side]/times)
	}
	return nil
}

// processorTime is what this process has used so far.
func processorTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
