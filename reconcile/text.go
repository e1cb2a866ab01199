package reconcile

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// WriteText writes the report for a person: a line per table, why a table is
// inconclusive, and the keys of findings when ShowKeys is set.
func (r Report) WriteText(w io.Writer) error {
	stale := slices.ContainsFunc(r.Tables, func(t TableReport) bool { return t.Counts.Stale > 0 })
	heads := []string{"table", "source", "lake", "missing", "extra", "differs", "duplicate", "verdict"}
	if stale {
		heads = slices.Insert(heads, staleCell, "stale")
	}
	rows := [][]string{heads}
	for i := range r.Tables {
		rows = append(rows, r.Tables[i].cells(stale))
	}
	var b strings.Builder
	writeAligned(&b, rows)
	var notes []string
	for i := range r.Tables {
		notes = append(notes, r.Tables[i].notes(r.Began)...)
	}
	if len(notes) > 0 {
		b.WriteString("\n" + strings.Join(notes, "\n") + "\n")
	}
	for i := range r.Tables {
		if t := &r.Tables[i]; t.Why != "" {
			fmt.Fprintf(&b, "\n%s is %s: %s\n", t.Table, t.Verdict, t.Why)
		}
	}
	for i := range r.Tables {
		r.writeFindings(&b, &r.Tables[i])
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// staleCell is where the column stale stands, if it does.
const staleCell = 6

func (s *Side) text() string {
	if s.Rows == nil {
		return "-"
	}
	return strconv.FormatUint(*s.Rows, 10)
}

// cells are the table's line of the text report.
func (t *TableReport) cells(stale bool) []string {
	cells := []string{t.Table, t.Source.text(), t.Lake.text()}
	counts := []uint64{t.Counts.Missing, t.Counts.Extra, t.Counts.Differs, t.Counts.Duplicate}
	if stale {
		counts = slices.Insert(counts, staleCell-len(cells), t.Counts.Stale)
	}
	for _, n := range counts {
		cell := strconv.FormatUint(n, 10)
		switch {
		case t.Source.Rows == nil || t.Lake.Rows == nil:
			cell = "-"
		case t.UnreadBuckets > 0:
			cell = ">=" + cell
		}
		cells = append(cells, cell)
	}
	verdict := string(t.Verdict)
	switch {
	case t.Sampled > 0:
		verdict += fmt.Sprintf(" (sample of %.3g%%)", 100*t.Sampled)
	case t.Scope != "":
		verdict += " (" + t.Scope + ")"
	}
	return append(cells, verdict)
}

// notes say how far the lake is, and what became of suspects.
func (t *TableReport) notes(began time.Time) []string {
	var notes []string
	if !t.DecidedAt.IsZero() && t.DecidedAt.Before(began) {
		notes = append(notes, fmt.Sprintf("%s: decided by a run before, at %s", t.Table, t.DecidedAt.UTC().Format("2006-01-02T15:04:05Z")))
	}
	if n := t.Lake.Newest; n != nil {
		note := t.Table + ": newest change in the lake"
		if n.Committed != nil {
			note += " committed " + n.Committed.UTC().Format("2006-01-02T15:04:05.000000Z")
		}
		if t.CommitLag != nil {
			note += fmt.Sprintf(", %.1f s before the source was read", *t.CommitLag)
		}
		if n.Position != "" {
			note += ", at " + n.Position
		}
		notes = append(notes, note)
	}
	if t.Source.Through != nil {
		notes = append(notes, fmt.Sprintf("%s: the source follows another server: it had what was committed there up to %s", t.Table, t.Source.Through.UTC().Format("2006-01-02T15:04:05.000000Z")))
	}
	if t.Source.Doubt != "" {
		notes = append(notes, t.Table+": the source: "+t.Source.Doubt)
	}
	if t.Unfit > 0 {
		notes = append(notes, fmt.Sprintf("%s: rows of the source with values that the lake's type cannot hold: %d (give the column another type, or allow_lossy)", t.Table, t.Unfit))
	}
	if t.UnfitKeys > 0 {
		notes = append(notes, fmt.Sprintf("%s: of those, rows with such a value in their key: %d (give the key column another type: rows of the lake that are extra may be theirs, and are not repaired)", t.Table, t.UnfitKeys))
	}
	if len(t.Unknown) > 0 {
		notes = append(notes, fmt.Sprintf("%s: not compared, since the pipeline file does not have them: columns of the source: %s", t.Table, strings.Join(t.Unknown, ", ")))
	}
	if t.InFlight > 0 {
		notes = append(notes, fmt.Sprintf("%s: keys that were in flight and agree now: %d", t.Table, t.InFlight))
	}
	return notes
}

// writeAligned writes columns two blanks apart: the first and the last to the
// left, numbers to the right.
func writeAligned(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			blanks := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch i {
			case 0:
				b.WriteString(cell + blanks)
			case len(row) - 1:
				b.WriteString("  " + cell + "\n")
			default:
				b.WriteString("  " + blanks + cell)
			}
		}
	}
}

func (r Report) writeFindings(b *strings.Builder, t *TableReport) {
	if len(t.Findings) == 0 || !r.ShowKeys {
		return
	}
	fmt.Fprintf(b, "\n%s\n", t.Table)
	for _, f := range t.Findings {
		fmt.Fprintf(b, "  %-9s  %s", f.Kind, KeyText(t.Key, f.Key))
		if f.Rows > 1 {
			fmt.Fprintf(b, "  %d rows", f.Rows)
		}
		b.WriteString(f.Behind.Text())
		b.WriteByte('\n')
	}
	var named uint64
	for _, f := range t.Findings {
		named += f.Rows
	}
	if total := t.Counts.Total(); total > named {
		fmt.Fprintf(b, "  rows not named: %d\n", total-named)
	}
	if t.UnreadBuckets > 0 {
		fmt.Fprintf(b, "  differing buckets not read: %d of %d\n", t.UnreadBuckets, t.DifferingBuckets)
	}
}

// KeyText renders a key as column=value, a value quoted where it would be
// hard to tell where it ends.
func KeyText(columns, values []string) string {
	if len(columns) == 0 {
		columns = []string{"row_hash"}
	}
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteByte(' ')
		}
		if strconv.Quote(v) != `"`+v+`"` || v == "" || strings.ContainsAny(v, " =") {
			v = strconv.Quote(v)
		}
		b.WriteString(columns[i] + "=" + v)
	}
	return b.String()
}

// Text says how far behind a row is, two blanks before it; nothing when that is not known.
func (b *Behind) Text() string {
	switch {
	case b == nil:
		return ""
	case b.Versions != "":
		return "  " + b.Versions + " behind"
	}
	return "  " + time.Duration(b.Seconds*float64(time.Second)).Round(time.Microsecond).String() + " behind"
}
