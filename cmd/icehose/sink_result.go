package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"icehose/catalog"
	"icehose/sink"
)

// A sinkTable is what became of the records of one table.
type sinkTable struct {
	Table      string       `json:"table"`  // schema.table of the source
	Target     string       `json:"target"` // database.table of the lake
	Mode       catalog.Mode `json:"mode"`
	Rows       *int64       `json:"rows"` // in the table; null when not known without reading it
	Changes    int64        `json:"changes"`
	Applied    int64        `json:"applied"`
	Superseded int64        `json:"superseded"` // older than another change of the key, wherever that was noticed
	Skipped    int64        `json:"skipped"`    // the table held them already
	Dropped    int64        `json:"dropped"`
	Failed     int64        `json:"failed"`
	Commits    int64        `json:"commits"`
	Seconds    float64      `json:"seconds"`
	// CommitSeconds is the part of Seconds that went into commits.
	CommitSeconds float64 `json:"commit_seconds"`
	DataFiles     *int64  `json:"data_files"` // after the last commit of the run; null without one
	DeleteFiles   *int64  `json:"delete_files"`
	Position      string  `json:"position,omitempty"` // greatest of the changes committed
	Refused       string  `json:"refused,omitempty"`  // why the table takes no rows
	// Regressed counts changes that were committed later than others at higher
	// positions: they lose to those, unless an epoch says that numbering restarted.
	Regressed int64 `json:"position_regressed,omitempty"`
}

// A sinkResult is what the command prints.
type sinkResult struct {
	regressed int64 // of all tables
	bare      int64 // of Damaged: records of DMS without their envelope

	Records     int64       `json:"records"`
	Before      uint64      `json:"handled_before"` // read past: every table held them already
	Failed      int64       `json:"failed"`
	Damaged     int64       `json:"damaged_lines"` // of Failed: lines that hold no record
	OldKeys     int64       `json:"old_keys_left"`
	Interrupted bool        `json:"interrupted"`
	Stopped     bool        `json:"stopped"` // by an error
	Seconds     float64     `json:"seconds"`
	Tables      []sinkTable `json:"tables"`
	NoTable     struct {
		Dropped int64 `json:"dropped"`
		Failed  int64 `json:"failed"`
	} `json:"no_table"`
}

func (r *sinkRun) result(interrupted bool, took time.Duration) *sinkResult {
	out := &sinkResult{
		Records: r.records.Load(), Before: r.before, Failed: r.failed.Load(), Damaged: r.damaged, bare: r.bare, OldKeys: r.oldKeys, Interrupted: interrupted, Seconds: took.Seconds(),
	}
	var stats []sink.TableStats
	if r.sink != nil {
		stats = r.sink.Stats() // in the order of the pipeline file
	}
	for i, t := range r.pipeline.Tables {
		count := r.tables[t.Source]
		line := sinkTable{
			Table: t.Source, Target: t.Database() + "." + t.Name(), Mode: t.Mode, Changes: count.changes, Superseded: count.superseded,
			Dropped: count.dropped, Failed: count.failed,
		}
		if stats != nil {
			s := &stats[i]
			line.Applied, line.Skipped, line.Commits, line.Seconds = s.Applied, s.Skipped, s.Commits, s.Busy.Seconds()
			line.CommitSeconds, line.Position, line.Refused = s.Committing.Seconds(), string(s.Position), r.refused[line.Target]
			line.DataFiles, line.DeleteFiles = known(s.DataFiles), known(s.DeleteFiles)
			line.Regressed = s.Regressed
			line.Superseded += s.Superseded + s.Collapsed
			line.Failed += s.Rejected
			line.Rows = known(s.Rows)
		}
		out.Tables = append(out.Tables, line)
	}
	for i := range out.Tables {
		out.regressed += out.Tables[i].Regressed
	}
	out.NoTable.Dropped, out.NoTable.Failed = r.noTable.dropped, r.noTable.failed
	return out
}

// known returns nil for a number that is -1.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

func (r *sinkResult) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

func (r *sinkResult) writeText(w io.Writer) error {
	var b strings.Builder
	if err := r.writeTables(&b); err != nil {
		return err
	}
	b.WriteByte('\n')
	for _, t := range r.Tables {
		if t.Refused != "" {
			fmt.Fprintf(&b, "%s takes no rows: %s\n", t.Target, t.Refused)
		}
		if t.Regressed > 0 {
			changes := thousands(t.Regressed) + " changes at positions below earlier ones"
			if t.Regressed == 1 {
				changes = "1 change at a position below an earlier one"
			}
			fmt.Fprintf(&b, "%s: %s: the source's numbering has restarted, and such changes lose: add an epoch to the pipeline file, and read them again\n", t.Table, changes)
		}
	}
	if n := r.NoTable; n.Dropped+n.Failed > 0 {
		fmt.Fprintf(&b, "records of no table: %s dropped, %s failed\n", thousands(n.Dropped), thousands(n.Failed))
	}
	if r.Damaged > 0 {
		fmt.Fprintf(&b, "lines that hold no record: %s\n", thousands(r.Damaged))
	}
	if r.bare > 0 {
		fmt.Fprintf(&b, "of them %s are records of AWS DMS without the envelope of their stream: %s\n", thousands(r.bare), envelopeHint)
	}
	if r.OldKeys > 0 {
		fmt.Fprintf(&b, "rows left under a former key: %s (reconcile names them)\n", thousands(r.OldKeys))
	}
	records := thousands(r.Records)
	if r.Before > 0 {
		records = fmt.Sprintf("%s handled before, %s", thousands(int64(r.Before)), records) //nolint:gosec // a record count fits
	}
	done := "done"
	switch {
	case r.Stopped:
		done = "stopped"
	case r.Interrupted:
		done = "interrupted, everything delivered is committed"
	}
	fmt.Fprintf(&b, "%s: %s records, %s failed, %.1f s\n", done, records, thousands(r.Failed), r.Seconds)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// writeTables writes a line of counts for each table.
func (r *sinkResult) writeTables(w io.Writer) error {
	width := len("table")
	for _, t := range r.Tables {
		width = max(width, len(t.Table))
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(format string, args ...any) {
		_, _ = fmt.Fprintf(out, format, args...) // what fails is told by Flush
	}
	line("%-*s\tmode\trows\tchanges\tapplied\tsuperseded\tskipped\tdropped\tfailed\tcommits\tseconds\t\n", width, "table")
	for _, t := range r.Tables {
		rows := "-"
		if t.Rows != nil {
			rows = thousands(*t.Rows)
		}
		line("%-*s\t%s\t%s\t", width, t.Table, t.Mode, rows)
		for _, n := range []int64{t.Changes, t.Applied, t.Superseded, t.Skipped, t.Dropped, t.Failed, t.Commits} {
			line("%s\t", thousands(n))
		}
		line("%.2f\t\n", t.Seconds)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
