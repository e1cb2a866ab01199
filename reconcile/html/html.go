// Package html writes the outcome of a reconcile run as one HTML page that
// needs nothing else: no script, no font, no network. It is for a person who
// was woken up, so the verdict stands first, it can be read on a phone, and no
// colour says what a word does not.
//
// In come a Report and past runs, out goes the page. Equal input gives equal
// bytes. Keys of findings are in it only with Report.ShowKeys; other values of
// rows never are.
package html

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"icehose/reconcile"
	"icehose/reconcile/history"
)

// A Page is what is shown.
type Page struct {
	Report *reconcile.Report
	// Name is what the page is about, such as the pipeline file's path.
	Name string
	// Runs are the past runs, the oldest first; the report's own is the last of
	// them if it is among them.
	Runs []history.Run
}

//go:embed page.gohtml
var source string

// Write writes the page.
func Write(w io.Writer, p *Page) error {
	page, err := template.New("page").Parse(source)
	if err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	if err := page.Execute(w, p.view()); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// A view is the page as the template has it.
type view struct {
	Name     string
	Verdict  verdict
	Headline string
	When     string
	Took     string
	Sample   string
	Stale    bool // some table has stale rows
	Tables   []table
	Trouble  []table // those that are not equal
	Losses   []loss
	Chart    *chart
	ShowKeys bool
}

// A verdict is a word, a sign beside it and the class of its colour.
type verdict struct{ Word, Sign string }

func verdictOf(v reconcile.Verdict) verdict {
	switch v {
	case reconcile.Equal:
		return verdict{string(v), "✓"}
	case reconcile.Different:
		return verdict{string(v), "≠"}
	case reconcile.Inconclusive:
	}
	return verdict{string(reconcile.Inconclusive), "?"} // also a table that was not compared
}

type table struct {
	Anchor         string
	Name, Target   string
	Verdict        verdict
	Source, Lake   string
	Missing, Extra string
	Differs, Stale string
	Duplicate      string
	Lag            string
	Scope          string
	Why            string
	Moments        []fact
	Notes          []fact
	Kinds          []fact
	Findings       []finding
	NotNamed       string
	Key            string
}

// A fact is a name and a value.
type fact struct{ Name, Value string }

type finding struct{ Kind, Key, Rows, Behind string }

type loss struct{ Table, Column, Losses string }

const microseconds = "2006-01-02 15:04:05.000000 UTC"

// maxShown bounds the keys of a table on the page; the JSON report has all.
const maxShown = 200

func (p *Page) view() *view {
	r := p.Report
	v := &view{Name: p.Name, Verdict: verdictOf(r.Verdict()), ShowKeys: r.ShowKeys, Chart: chartOf(p.Runs)}
	counts := map[reconcile.Verdict]int{}
	for i := range r.Tables {
		t := &r.Tables[i]
		counts[reconcile.Verdict(verdictOf(t.Verdict).Word)]++
		v.Stale = v.Stale || t.Counts.Stale > 0
		row := tableOf(r, t, i)
		v.Tables = append(v.Tables, row)
		if t.Verdict != reconcile.Equal {
			v.Trouble = append(v.Trouble, row)
		}
		v.Losses = append(v.Losses, lossesOf(t)...)
	}
	v.Headline = headline(counts, len(r.Tables))
	if !r.Began.IsZero() {
		v.When = r.Began.UTC().Format(minute)
		v.Took = r.Ended.Sub(r.Began).Round(time.Millisecond).String()
	}
	if r.Sample > 0 {
		v.Sample = percent(r.Sample)
	}
	return v
}

const minute = "2006-01-02 15:04:05 UTC"

func headline(counts map[reconcile.Verdict]int, tables int) string {
	var parts []string
	for _, v := range []reconcile.Verdict{reconcile.Different, reconcile.Inconclusive, reconcile.Equal} {
		if counts[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	if tables == 0 {
		return "no table was compared"
	}
	noun := "tables"
	if tables == 1 {
		noun = "table"
	}
	return fmt.Sprintf("%d %s: %s", tables, noun, strings.Join(parts, ", "))
}

func tableOf(r *reconcile.Report, t *reconcile.TableReport, i int) table {
	row := table{
		Anchor: "table-" + strconv.Itoa(i+1), Name: t.Table, Target: t.Target, Verdict: verdictOf(t.Verdict), Source: rows(&t.Source), Lake: rows(&t.Lake),
		Scope: t.Scope, Why: t.Why, Key: strings.Join(t.Key, ", "),
	}
	cells := []struct {
		name string
		n    uint64
		cell *string
	}{
		{"missing", t.Counts.Missing, &row.Missing},
		{"extra", t.Counts.Extra, &row.Extra},
		{"differs", t.Counts.Differs, &row.Differs},
		{"stale", t.Counts.Stale, &row.Stale},
		{"duplicate", t.Counts.Duplicate, &row.Duplicate},
	}
	for _, c := range cells {
		*c.cell = count(t, c.n)
		if c.n > 0 {
			row.Kinds = append(row.Kinds, fact{c.name, *c.cell + " · " + meanings[reconcile.Kind(c.name)]})
		}
	}
	if t.CommitLag != nil {
		row.Lag = lag(*t.CommitLag)
	}
	if t.Sampled > 0 {
		row.Scope = "sample of " + percent(t.Sampled)
	}
	row.addFacts(t, r.Began)
	if r.ShowKeys {
		row.addFindings(t)
	}
	return row
}

// meanings say in words what a kind of finding is.
var meanings = map[reconcile.Kind]string{ //nolint:gochecknoglobals // a constant, as far as Go has them for this
	reconcile.Missing: "the source has the row, the lake does not", reconcile.Extra: "the lake has a key that the source does not have",
	reconcile.Differs: "both have the key, with other values", reconcile.Stale: "the lake has an older version of the row",
	reconcile.Duplicate: "the lake has the key more often than the source",
}

func (row *table) addFacts(t *reconcile.TableReport, began time.Time) {
	add := func(to *[]fact, name, value string) {
		if value != "" {
			*to = append(*to, fact{name, value})
		}
	}
	if !t.DecidedAt.IsZero() && t.DecidedAt.Before(began) {
		add(&row.Moments, "decided by a run before, at", t.DecidedAt.UTC().Format(microseconds))
	}
	add(&row.Moments, "source", t.Source.Moment)
	if t.Source.Through != nil {
		add(&row.Moments, "it follows a server, up to", t.Source.Through.UTC().Format(microseconds))
	}
	add(&row.Moments, "lake", t.Lake.Moment)
	if n := t.Lake.Newest; n != nil {
		if n.Committed != nil {
			add(&row.Moments, "newest change in the lake", n.Committed.UTC().Format(microseconds))
		}
		add(&row.Moments, "cdc_position", n.Position)
	}
	for _, n := range []struct {
		name string
		n    int
	}{{"keys in flight that agree now", t.InFlight}, {"keys that kept changing", t.Unsettled}, {"keys whose changes may be on their way", t.Undecided}} {
		if n.n > 0 {
			add(&row.Notes, n.name, thousands(uint64(n.n)))
		}
	}
	if t.Unfit > 0 {
		add(&row.Notes, "rows of the source with values that the lake's type cannot hold", thousands(t.Unfit))
	}
	if t.UnfitKeys > 0 {
		add(&row.Notes, "of those, in a key column", thousands(t.UnfitKeys))
	}
	add(&row.Notes, "columns of the source that the pipeline file does not have, not compared", strings.Join(t.Unknown, ", "))
	if t.UnreadBuckets > 0 {
		add(&row.Notes, "differing buckets not read", fmt.Sprintf("%d of %d", t.UnreadBuckets, t.DifferingBuckets))
	}
}

func (row *table) addFindings(t *reconcile.TableReport) {
	var named uint64
	for i := range t.Findings[:min(len(t.Findings), maxShown)] {
		f := &t.Findings[i]
		named += f.Rows
		shown := finding{Kind: string(f.Kind), Key: reconcile.KeyText(t.Key, f.Key), Behind: strings.TrimSpace(f.Behind.Text())}
		if f.Rows > 1 {
			shown.Rows = thousands(f.Rows)
		}
		row.Findings = append(row.Findings, shown)
	}
	if total := t.Counts.Total(); total > named {
		row.NotNamed = thousands(total - named)
	}
}

func lossesOf(t *reconcile.TableReport) []loss {
	columns := make([]string, 0, len(t.Losses))
	for name := range t.Losses {
		columns = append(columns, name)
	}
	slices.Sort(columns)
	losses := make([]loss, len(columns))
	for i, name := range columns {
		words := make([]string, len(t.Losses[name]))
		for n, l := range t.Losses[name] {
			words[n] = string(l)
		}
		losses[i] = loss{Table: t.Table, Column: name, Losses: strings.Join(words, ", ")}
	}
	return losses
}

func rows(s *reconcile.Side) string {
	if s.Rows == nil {
		return "–"
	}
	return thousands(*s.Rows)
}

// count renders a count of findings: a lower bound where not all was read.
func count(t *reconcile.TableReport, n uint64) string {
	switch {
	case t.Source.Rows == nil || t.Lake.Rows == nil:
		return "–"
	case t.UnreadBuckets > 0:
		return "≥ " + thousands(n)
	}
	return thousands(n)
}

// thousands groups digits with a space that does not break.
func thousands(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

func percent(f float64) string { return strconv.FormatFloat(100*f, 'g', 3, 64) + " %" }

// lag renders seconds as a person says them.
func lag(seconds float64) string {
	if seconds < 60 {
		return strconv.FormatFloat(seconds, 'f', 1, 64) + " s"
	}
	if seconds > math.MaxInt32 {
		return "years"
	}
	d := time.Duration(seconds) * time.Second
	switch {
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// Cell is for the template.
func (*view) Cell(name, value string) fact { return fact{name, value} }
