package reconcile

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"icehose/internal/canon"
)

// A Verdict is what Run says of a table.
type Verdict string

// The verdicts.
const (
	Equal        Verdict = "equal"
	Different    Verdict = "different"
	Inconclusive Verdict = "inconclusive" // not everything could be read
)

// A Kind is how a row of the lake fails its source.
type Kind string

// The kinds of findings.
const (
	Missing   Kind = "missing"   // the source has the row, the lake does not
	Extra     Kind = "extra"     // the lake has a key that the source does not have
	Differs   Kind = "differs"   // both have the key, with other values
	Duplicate Kind = "duplicate" // the lake has the key more often than the source
)

// A Finding is one key of which the sides differ. A key can have two: one
// row of it differs, another is a duplicate.
type Finding struct {
	Kind Kind `json:"kind"`
	// Key is the canonical text of each key column; of a table without a key
	// the row hash in hexadecimal. It is left out of JSON here: a Report
	// writes keys only when it was asked for them.
	Key  []string `json:"-"`
	Rows uint64   `json:"rows"`
}

// Counts are rows by kind of finding. Of a table compared in full,
// lake rows = source rows - Missing + Extra + Duplicate.
type Counts struct {
	Missing   uint64 `json:"missing"`
	Extra     uint64 `json:"extra"`
	Differs   uint64 `json:"differs"`
	Duplicate uint64 `json:"duplicate"`
}

func (c *Counts) add(kind Kind, rows uint64) error {
	switch kind {
	case Missing:
		c.Missing += rows
	case Extra:
		c.Extra += rows
	case Differs:
		c.Differs += rows
	case Duplicate:
		c.Duplicate += rows
	default:
		return fmt.Errorf("count finding: no kind %q", kind)
	}
	return nil
}

// A Side is what was read of a table on one side.
type Side struct {
	Moment string  `json:"moment,omitempty"` // the moment that the rows are of
	Rows   *uint64 `json:"rows"`             // nil: not read to the end
}

func (s *Side) count(digests []canon.Digest) {
	var rows uint64
	for _, d := range digests {
		rows += d.Count
	}
	s.Rows = &rows
}

func (s *Side) text() string {
	if s.Rows == nil {
		return "-"
	}
	return strconv.FormatUint(*s.Rows, 10)
}

// A TableReport is the verdict on one table, and what it stands on.
type TableReport struct {
	Table            string   `json:"table"` // schema.table of the source
	Target           string   `json:"target,omitempty"`
	Key              []string `json:"key,omitempty"` // names of the key columns; none: rows are told apart by their hash
	Verdict          Verdict  `json:"verdict"`
	Why              string   `json:"why,omitempty"` // what could not be read
	Source           Side     `json:"source"`
	Lake             Side     `json:"lake"`
	Buckets          int      `json:"buckets"`
	DifferingBuckets int      `json:"differing_buckets"`
	UnreadBuckets    int      `json:"unread_buckets"` // of those that differ; when not 0, Counts are lower bounds
	Counts           Counts   `json:"counts"`
	// Findings are the first that were found, in the order of canonical key
	// bytes among those of buckets that were compared together.
	Findings []Finding `json:"findings,omitempty"`
	Seconds  float64   `json:"seconds,omitempty"`
}

// A Report is the outcome of Run, its tables in the order of the pipeline file.
type Report struct {
	Tables []TableReport
	// ShowKeys makes the report name the keys of findings when it is written.
	ShowKeys bool
}

// Verdict is that of the whole: different if any table is, else inconclusive
// if any table is, else equal.
func (r Report) Verdict() Verdict {
	verdict := Equal
	for i := range r.Tables {
		switch r.Tables[i].Verdict {
		case Different:
			return Different
		case Equal:
		case Inconclusive:
			verdict = Inconclusive
		default: // a table without a verdict was not compared
			verdict = Inconclusive
		}
	}
	return verdict
}

// ExitStatus is that of diff(1): 0 if every table is equal, 1 if any is
// different, else 2.
func (r Report) ExitStatus() int {
	switch r.Verdict() {
	case Equal:
		return 0
	case Different:
		return 1
	case Inconclusive:
		return 2
	}
	return 2
}

// MarshalJSON implements json.Marshaler. Findings are written only with their
// keys, and those only with ShowKeys.
func (r Report) MarshalJSON() ([]byte, error) {
	type finding struct {
		Finding
		Key []string `json:"key"`
	}
	type table struct {
		TableReport
		Findings []finding `json:"findings,omitempty"`
	}
	out := struct {
		Verdict Verdict `json:"verdict"`
		Tables  []table `json:"tables"`
	}{r.Verdict(), make([]table, len(r.Tables))}
	for i, t := range r.Tables {
		out.Tables[i].TableReport = t
		if !r.ShowKeys {
			continue
		}
		for _, f := range t.Findings {
			out.Tables[i].Findings = append(out.Tables[i].Findings, finding{f, f.Key})
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("write report: %w", err)
	}
	return text, nil
}

// WriteText writes the report for a person: a line per table, why a table is
// inconclusive, and the keys of findings when ShowKeys is set.
func (r Report) WriteText(w io.Writer) error {
	rows := [][]string{{"table", "source", "lake", "missing", "extra", "differs", "duplicate", "verdict"}}
	for i := range r.Tables {
		rows = append(rows, r.Tables[i].cells())
	}
	var b strings.Builder
	writeAligned(&b, rows)
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

// cells are the table's line of the text report.
func (t *TableReport) cells() []string {
	cells := []string{t.Table, t.Source.text(), t.Lake.text()}
	for _, n := range []uint64{t.Counts.Missing, t.Counts.Extra, t.Counts.Differs, t.Counts.Duplicate} {
		cell := strconv.FormatUint(n, 10)
		switch {
		case t.Source.Rows == nil || t.Lake.Rows == nil:
			cell = "-"
		case t.UnreadBuckets > 0:
			cell = ">=" + cell
		}
		cells = append(cells, cell)
	}
	return append(cells, string(t.Verdict))
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
		fmt.Fprintf(b, "  %-9s  %s", f.Kind, keyText(t.Key, f.Key))
		if f.Rows > 1 {
			fmt.Fprintf(b, "  %d rows", f.Rows)
		}
		b.WriteByte('\n')
	}
	var named uint64
	for _, f := range t.Findings {
		named += f.Rows
	}
	total := t.Counts.Missing + t.Counts.Extra + t.Counts.Differs + t.Counts.Duplicate
	if total > named {
		fmt.Fprintf(b, "  rows not named: %d\n", total-named)
	}
	if t.UnreadBuckets > 0 {
		fmt.Fprintf(b, "  differing buckets not read: %d of %d\n", t.UnreadBuckets, t.DifferingBuckets)
	}
}

// keyText renders a key as column=value, a value quoted where it would be
// hard to tell where it ends.
func keyText(columns, values []string) string {
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
