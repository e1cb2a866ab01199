package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"icehose/cdc"
	sinksource "icehose/sink/source"
)

// A sinkStatus is how far a run is, and how far behind.
type sinkStatus struct {
	records, applied, superseded, commits, failed int64
	files                                         int64               // of tables that have had a commit in this run
	commitTime                                    time.Duration       // of all commits together
	lag                                           time.Duration       // age of the newest change delivered; -1 when there is none
	position                                      cdc.Position        // greatest of the changes committed
	retrying                                      bool                // a commit that failed is tried again
	uncommitted                                   int64               // of records: what the lake lacks of those read
	source                                        sinksource.Progress // what is not read yet, in bytes
}

// clocksApart is how far the source's clock may be ahead of this machine's.
const clocksApart = time.Minute

func (r *sinkRun) status() sinkStatus {
	s := sinkStatus{records: r.records.Load(), failed: r.failed.Load(), lag: -1, uncommitted: r.undelivered.Load(), source: r.source.Progress()}
	var newest time.Time
	now := time.Now()
	for _, t := range r.sink.Stats() {
		s.applied += t.Applied
		s.superseded += t.Superseded + t.Collapsed
		s.commits += t.Commits
		s.commitTime += t.Committing
		s.files += max(0, t.DataFiles) + max(0, t.DeleteFiles)
		s.position = max(s.position, t.Position)
		s.retrying = s.retrying || t.Retrying
		// The counts are not read at one moment.
		s.uncommitted += max(0, t.Delivered-t.Applied-t.Collapsed-t.Superseded-t.Skipped-t.Rejected)
		// A change dated in the future says nothing of how late the others are.
		if t.Newest.After(newest) && t.Newest.Before(now.Add(clocksApart)) {
			newest = t.Newest
		}
	}
	if !newest.IsZero() {
		s.lag = max(0, now.Sub(newest))
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

// text is the status as a row of a terminal.
func (s *sinkStatus) text() string {
	unread := ""
	if s.source.Known {
		unread = inBytes(s.source.Left()) + " unread  "
	}
	retrying := ""
	if s.retrying {
		retrying = "a commit fails and is tried again  "
	}
	return fmt.Sprintf("%slag %s  %s uncommitted  %s%s records  %s rows  %s superseded  %s failed  %s commits in %.1fs  %s files  at %s", retrying, s.lagText(),
		thousands(s.uncommitted), unread, thousands(s.records), thousands(s.applied), thousands(s.superseded), thousands(s.failed),
		thousands(s.commits), s.commitTime.Seconds(), thousands(s.files), s.positionText())
}

// inBytes renders a size with the greatest unit that it has one of.
func inBytes(n int64) string {
	size, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size < 1024 {
			break
		}
		size, unit = size/1024, next
	}
	if unit == "B" {
		return fmt.Sprint(n, " B")
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}

// logStatus logs how far the run is.
func (r *sinkRun) logStatus(ctx context.Context, log *slog.Logger) {
	if !log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	r.source.Measure()
	s := r.status()
	attrs := []slog.Attr{
		slog.Int64("records", s.records), slog.Int64("applied", s.applied), slog.Int64("superseded", s.superseded), slog.Int64("commits", s.commits),
		slog.Int64("failed", s.failed),
	}
	if s.lag >= 0 { // else nobody knows
		attrs = append(attrs, slog.String("lag", s.lagText()), slog.Float64("lag_seconds", s.lag.Seconds()))
	}
	attrs = append(attrs, slog.Int64("uncommitted_records", s.uncommitted))
	if s.retrying {
		attrs = append(attrs, slog.Bool("retrying", true))
	}
	if s.source.Known {
		attrs = append(attrs, slog.Int64("unread_bytes", s.source.Left()))
	}
	attrs = append(attrs, slog.String("position", string(s.position)), slog.Float64("commit_seconds", s.commitTime.Seconds()), slog.Int64("files", s.files))
	log.LogAttrs(ctx, slog.LevelInfo, "sink status", attrs...)
}

// drawEvery is how often a terminal shows the status anew.
const drawEvery = 500 * time.Millisecond

// measureEvery is after how many of them files that grow are measured anew.
const measureEvery = 10

// A sinkShow shows how far a run is until it ends: to whoever sits before a
// terminal, or now and then in the log.
type sinkShow struct{ stop, stopped chan struct{} }

func (r *sinkRun) showStatus(ctx context.Context) *sinkShow {
	show := &sinkShow{stop: make(chan struct{}), stopped: make(chan struct{})}
	every, tell, done := r.cmd.StatusEvery, func() { r.logStatus(ctx, r.env.status) }, func() {}
	switch {
	case isTerminal(r.env.stderr):
		screen := newSinkScreen(r.env.stderr, r.source.Measure(), r.cmd.Follow)
		drawn := 0
		tell = func() {
			if drawn++; r.cmd.Follow && drawn%measureEvery == 0 {
				r.source.Measure()
			}
			s := r.status()
			screen.draw(&s)
		}
		// The last row is drawn too: a run may be over before the second, and what is
		// recorded of a terminal should show where it ended.
		every, done = drawEvery, func() { tell(); screen.clear() }
		tell()
	case every == 0 || r.env.log.Enabled(ctx, slog.LevelInfo): // with --verbose every flush logs it
		close(show.stopped)
		return show
	}
	go func() {
		defer close(show.stopped)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-show.stop:
				done()
				return
			case <-tick.C:
				tell()
			}
		}
	}()
	return show
}

// end takes what is shown away.
func (s *sinkShow) end() {
	close(s.stop)
	<-s.stopped
}

// A sinkScreen is the rows of a terminal that are written anew again and again:
// the status, and above it a bar where it is known how much there is to read.
type sinkScreen struct {
	out   io.Writer
	bar   *progressbar.ProgressBar // nil for none
	total int64                    // bytes
	rows  int                      // that were drawn
}

func newSinkScreen(out io.Writer, p sinksource.Progress, follow bool) *sinkScreen {
	s := &sinkScreen{out: out, total: p.Size}
	if p.Known && p.Size > 0 && !follow {
		s.bar = newBar(io.Discard, "sink", "bytes", p.Size)
	}
	return s
}

func (s *sinkScreen) draw(status *sinkStatus) {
	width := 0
	if f, ok := s.out.(*os.File); ok {
		width, _, _ = term.GetSize(int(f.Fd())) // of an error 0, which is unknown
	}
	var rows []string
	if s.bar != nil {
		// A bar that cannot be drawn must not stop the work it shows.
		_ = s.bar.Set64(min(status.source.Read, s.total))
		rows = append(rows, strings.TrimPrefix(s.bar.String(), "\r"))
	}
	s.write(append(rows, folded(status.text(), width)...), width)
}

func (s *sinkScreen) clear() { s.write(nil, 0) }

// write writes the rows, none wider than the terminal, and takes away what else
// was written before. The cursor goes back to the start of the first: a log line
// takes its place.
func (s *sinkScreen) write(rows []string, width int) {
	drawn := max(1, len(rows), s.rows)
	s.rows = len(rows)
	var b strings.Builder
	for i := range drawn {
		row := ""
		if i < len(rows) {
			row = rows[i]
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		if text := []rune(row); width > 0 && len(text) >= width {
			row = string(text[:width-1])
		}
		b.WriteString("\r\x1b[K" + row)
	}
	if drawn > 1 {
		fmt.Fprintf(&b, "\x1b[%dA", drawn-1)
	}
	b.WriteByte('\r')
	_, _ = io.WriteString(s.out, b.String())
}

// folded breaks a row of numbers, between two of them, into rows that a terminal
// has room for. A width of 0 is unknown.
func folded(text string, width int) (rows []string) {
	row := ""
	for number := range strings.SplitSeq(text, "  ") {
		if row != "" && width > 0 && len(row)+len("  ")+len(number) >= width {
			rows, row = append(rows, row), ""
		}
		if row != "" {
			row += "  "
		}
		row += number
	}
	return append(rows, row)
}
