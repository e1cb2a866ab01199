package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// A stage shows how far a long step is: a bar on a terminal, one line at its
// end elsewhere.
type stage struct {
	out   io.Writer
	name  string
	unit  string
	bar   *progressbar.ProgressBar
	count int64
	start time.Time
}

// newStage starts a step. A total of -1 is unknown.
func newStage(out io.Writer, name, unit string, total int64) *stage {
	s := &stage{out: out, name: name, unit: unit, start: time.Now()}
	if isTerminal(out) {
		s.bar = newBar(out, name, unit, total, progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	return s
}

// newBar makes a bar. One of "bytes" shows them with their unit.
func newBar(out io.Writer, name, unit string, total int64, more ...progressbar.Option) *progressbar.ProgressBar {
	options := []progressbar.Option{
		progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(fmt.Sprintf("%-10s", name)), progressbar.OptionShowCount(),
	}
	if unit == "bytes" {
		options = append(options, progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true))
	} else {
		options = append(options, progressbar.OptionShowIts(), progressbar.OptionSetItsString(unit))
	}
	return progressbar.NewOptions64(total, append(options, more...)...)
}

// add counts n units as done.
func (s *stage) add(n int64) {
	s.count += n
	if s.bar != nil {
		// A bar that cannot be drawn must not stop the work it shows.
		_ = s.bar.Add64(n)
	}
}

// done ends the step and says how much it was.
func (s *stage) done() {
	if s.bar != nil {
		_ = s.bar.Finish()
	}
	_, _ = fmt.Fprintf(s.out, "%-10s %s %s in %.1fs\n", s.name, thousands(s.count), s.unit, time.Since(s.start).Seconds())
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// thousands renders n with a comma between groups of three digits.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
