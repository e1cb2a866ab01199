package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"icehose/catalog"
	"icehose/cdc"
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
		Records: r.records.Load(), Before: r.before, Failed: r.failed.Load(), Damaged: r.damaged, OldKeys: r.oldKeys, Interrupted: interrupted, Seconds: took.Seconds(),
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

// A sinkStatus is how far a run is.
type sinkStatus struct {
	records, applied, superseded, commits, failed int64
	files                                         int64         // of tables that have had a commit in this run
	commitTime                                    time.Duration // of all commits together
	lag                                           time.Duration // age of the newest change delivered; -1 when there is none
	position                                      cdc.Position  // greatest of the changes committed
	retrying                                      bool          // a commit that failed is tried again
}

func (r *sinkRun) status() sinkStatus {
	s := sinkStatus{records: r.records.Load(), failed: r.failed.Load(), lag: -1}
	var newest time.Time
	for _, t := range r.sink.Stats() {
		s.applied += t.Applied
		s.superseded += t.Superseded + t.Collapsed
		s.commits += t.Commits
		s.commitTime += t.Committing
		s.files += max(0, t.DataFiles) + max(0, t.DeleteFiles)
		s.position = max(s.position, t.Position)
		s.retrying = s.retrying || t.Retrying
		if t.Newest.After(newest) {
			newest = t.Newest
		}
	}
	if !newest.IsZero() {
		s.lag = time.Since(newest)
	}
	return s
}

func (s *sinkStatus) lagText() string {
	switch {
	case s.lag < 0:
		return "-"
	case s.lag < time.Minute:
		return s.lag.Round(100 * time.Millisecond).String()
	}
	return s.lag.Round(time.Second).String()
}

// positionText is the part of the position that people know: its body, without
// the zeros before it.
func (s *sinkStatus) positionText() string {
	parts := strings.Split(string(s.position), ".")
	if len(parts) < 2 {
		return "-"
	}
	return cmp.Or(strings.TrimLeft(parts[1], "0"), "0")
}

// logStatus logs how far the run is.
func (r *sinkRun) logStatus(ctx context.Context) {
	s := r.status()
	r.env.log.InfoContext(ctx, "sink status", slog.Int64("records", s.records), slog.Int64("applied", s.applied),
		slog.Int64("superseded", s.superseded), slog.Int64("commits", s.commits), slog.Int64("failed", s.failed), slog.String("lag", s.lagText()), slog.Float64("lag_seconds", max(0, s.lag.Seconds())),
		slog.String("position", string(s.position)), slog.Float64("commit_seconds", s.commitTime.Seconds()), slog.Int64("files", s.files))
}

// A statusLine is a line on a terminal that is written anew again and again.
type statusLine struct{ stop, stopped chan struct{} }

// showStatus shows how far the run is, if anybody sees it.
func (r *sinkRun) showStatus() *statusLine {
	l := &statusLine{stop: make(chan struct{}), stopped: make(chan struct{})}
	if !isTerminal(r.env.stderr) {
		close(l.stopped)
		return l
	}
	go func() {
		defer close(l.stopped)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-l.stop:
				_, _ = fmt.Fprint(r.env.stderr, "\x1b[K")
				return
			case <-tick.C:
				s := r.status()
				at := s.positionText()
				if s.retrying {
					at += "  a commit fails and is tried again"
				}
				// The cursor goes back to the start: a log line takes the place of the status.
				_, _ = fmt.Fprintf(r.env.stderr, "\x1b[Klag %s  %s records  %s rows  %s superseded  %s failed  %s commits in %.1fs  %s files  at %s\r", s.lagText(),
					thousands(s.records), thousands(s.applied), thousands(s.superseded), thousands(s.failed), thousands(s.commits), s.commitTime.Seconds(),
					thousands(s.files), at)
			}
		}
	}()
	return l
}

// end takes the line away.
func (l *statusLine) end() {
	close(l.stop)
	<-l.stopped
}
