package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"icehose/catalog"
	"icehose/reconcile"
)

// A demoTable is one line of the result.
type demoTable struct {
	Table      string            `json:"table"`
	Mode       catalog.Mode      `json:"mode"`
	SourceRows *uint64           `json:"source_rows"`
	LakeRows   *uint64           `json:"lake_rows"`
	Changes    int64             `json:"changes"`    // distinct data records of the stream
	Dropped    int64             `json:"dropped"`    // deliveries with nothing to deliver: control records
	Superseded int64             `json:"superseded"` // deliveries that a newer change of their key had made useless
	Skipped    int64             `json:"skipped"`    // deliveries that an earlier run had committed
	Failed     int64             `json:"failed"`     // deliveries that failed alone
	Verdict    reconcile.Verdict `json:"verdict"`
	Findings   *reconcile.Counts `json:"findings,omitempty"`
	Seconds    float64           `json:"seconds"` // writing and reconciling
	disorder
}

// A demoResult is what the demo prints.
type demoResult struct {
	Seed     uint64   `json:"seed"`
	Fault    string   `json:"fault,omitempty"`
	Records  int      `json:"records"` // in the stream
	Seconds  float64  `json:"seconds"`
	Disorder disorder `json:"disorder"`
	// Continued counts deliveries that the lake held before this run.
	Continued int64       `json:"continued"`
	Tables    []demoTable `json:"tables"`
	// NoTable counts deliveries of records that belong to no table of the file.
	NoTable struct {
		Dropped int64 `json:"dropped"`
		Failed  int64 `json:"failed"`
	} `json:"no_table"`
	Reconcile *reconcile.Report `json:"reconcile"`
}

func (d *demo) result(report *reconcile.Report, took time.Duration) *demoResult {
	report.ShowKeys = d.cmd.ShowKeys || d.cmd.Fault.kind != faultNone
	r := &demoResult{
		Seed: d.cmd.Seed, Fault: d.cmd.Fault.String(), Records: d.records, Seconds: took.Seconds(),
		Disorder: d.meter.total(), Reconcile: report,
	}
	known := make(map[string]bool)
	for i, t := range d.pipeline.Tables {
		known[t.Source] = true
		count, verdict := d.tally(t.Source), report.Tables[i]
		line := demoTable{
			Table: t.Source, Mode: t.Mode, SourceRows: verdict.Source.Rows, LakeRows: verdict.Lake.Rows, Changes: count.changes,
			Dropped: count.dropped, Superseded: count.superseded, Failed: count.failed, Verdict: verdict.Verdict,
			Seconds: verdict.Seconds, disorder: *d.meter.table(t.Source),
		}
		if verdict.Counts != (reconcile.Counts{}) {
			line.Findings = &verdict.Counts
		}
		for _, s := range d.stats {
			if s.Database == t.Database() && s.Table == t.Name() {
				line.Superseded += s.Superseded + s.Collapsed
				line.Skipped += s.Skipped
				r.Continued += max(0, s.Skipped-line.Duplicates)
				line.Failed += s.Rejected
				line.Seconds += s.Busy.Seconds()
			}
		}
		r.Tables = append(r.Tables, line)
	}
	for source, count := range d.tables {
		if !known[source] {
			r.NoTable.Dropped += count.dropped
			r.NoTable.Failed += count.failed
		}
	}
	return r
}

func (r *demoResult) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

func (r *demoResult) writeText(w io.Writer) error {
	var b strings.Builder
	width := len("table")
	for _, t := range r.Tables {
		width = max(width, len(t.Table))
	}
	// tabwriter aligns all columns alike, and names belong to the left.
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(format string, args ...any) {
		_, _ = fmt.Fprintf(out, format, args...) // what fails is told by Flush
	}
	line("%-*s\tmode\tsource\tlake\tchanges\tdropped\tsuperseded\tskipped\tfailed\tinversions\tduplicates\tlate\tseconds\tverdict\t\n",
		width, "table")
	for _, t := range r.Tables {
		line("%-*s\t%s\t%s\t%s\t", width, t.Table, t.Mode, rowsText(t.SourceRows), rowsText(t.LakeRows))
		for _, n := range []int64{t.Changes, t.Dropped, t.Superseded, t.Skipped, t.Failed, t.Inversions, t.Duplicates, t.Late} {
			line("%s\t", thousands(n))
		}
		line("%.2f\t%s\t\n", t.Seconds, t.Verdict)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	if r.NoTable.Dropped+r.NoTable.Failed > 0 {
		fmt.Fprintf(&b, "\nrecords of no table: %s dropped (the task's own), %s failed\n", thousands(r.NoTable.Dropped), thousands(r.NoTable.Failed))
	}
	if r.Continued > 0 {
		fmt.Fprintf(&b, "\ncontinued: the lake held %s of these deliveries before; only what is new tests anything\n", thousands(r.Continued))
	}
	verdict := r.Reconcile.Verdict()
	if verdict != reconcile.Equal {
		b.WriteByte('\n')
		if err := r.Reconcile.WriteText(&b); err != nil {
			return err
		}
	}
	fmt.Fprintf(&b, "\n%s: %s records, %s inversions, %s duplicates, %s late; seed %d, %.1f s\n", verdict, thousands(int64(r.Records)),
		thousands(r.Disorder.Inversions), thousands(r.Disorder.Duplicates), thousands(r.Disorder.Late), r.Seed, r.Seconds)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

func rowsText(n *uint64) string {
	if n == nil {
		return "-"
	}
	return thousands(int64(*n)) //nolint:gosec // a row count fits
}
