package html_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/catalog"
	"icehose/reconcile"
	"icehose/reconcile/history"
	"icehose/reconcile/html"
)

var update = flag.Bool("update", false, "rewrite golden files")

var began = time.Date(2026, 11, 29, 4, 0, 0, 0, time.UTC)

func side(n uint64) reconcile.Side { return reconcile.Side{Moment: "final", Rows: &n} }

// sample has every verdict, every kind, losses, lag, and text that would be
// markup if it were not escaped.
func sample() *html.Page {
	lag, long := 2.5, 200_000.0
	committed := began.Add(-3 * time.Second)
	source, lake := side(1_234_567), side(1_234_560)
	source.Moment, source.Through = "log up to 0/16B3748", &committed
	lake.Moment, lake.Newest = "snapshot 42", &reconcile.NewestText{Position: "0000.00", Committed: &committed}
	r := &reconcile.Report{
		Began: began, Ended: began.Add(93 * time.Second), ShowKeys: true,
		Tables: []reconcile.TableReport{
			{Table: "sales.customer", Target: "lake.customer", Key: []string{"id"}, Verdict: reconcile.Equal, Source: side(0), Lake: side(0), CommitLag: &long},
			{
				Table: "sales.orders", Target: "lake.orders", Key: []string{"region", "id"}, Verdict: reconcile.Different, Source: source, Lake: lake, CommitLag: &lag,
				Counts: reconcile.Counts{Missing: 12, Extra: 3, Differs: 2, Stale: 1, Duplicate: 4}, InFlight: 31, DifferingBuckets: 9,
				Losses: map[string][]catalog.Loss{"price": {catalog.LossRound}, "note": {catalog.LossNull, catalog.LossInvalid}},
				Findings: []reconcile.Finding{
					{Kind: reconcile.Stale, Key: []string{"eu", "7"}, Rows: 1, Behind: &reconcile.Behind{Seconds: 61}},
					{Kind: reconcile.Missing, Key: []string{"<script>alert(1)</script>", "8"}, Rows: 1},
					{Kind: reconcile.Duplicate, Key: []string{"us", "9"}, Rows: 4},
				},
			},
			{Table: "sales.payments", Target: "lake.payments", DecidedAt: began.Add(-6 * time.Hour), Unfit: 3, Verdict: reconcile.Inconclusive, Why: `read source: permission denied for table "payments" <b>`},
			{
				Table: "sales.events", Target: "lake.events", Verdict: reconcile.Inconclusive, Scope: "3 keys", Source: side(5), Lake: side(5),
				Unsettled: 2, Undecided: 1, UnreadBuckets: 1, DifferingBuckets: 4,
			},
		},
	}
	p := &html.Page{Report: r, Name: "pipeline.yaml"}
	for i, findings := range []uint64{0, 0, 1, 1_000_000, 0, 22} {
		run := history.Run{Began: began.AddDate(0, 0, i-5), Verdict: reconcile.Equal, Findings: findings}
		if findings > 0 {
			run.Verdict = reconcile.Different
		}
		if i == 4 {
			run.Verdict = reconcile.Inconclusive
		}
		run.Partial = i == 1
		p.Runs = append(p.Runs, run)
	}
	return p
}

func render(t *testing.T, p *html.Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := html.Write(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	got := render(t, sample())
	path := filepath.Join("testdata", "report.html")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("page differs (-want +got):\n%s", diff)
	}
}

// Keys are on the page when asked for, escaped, and else nowhere.
func TestKeys(t *testing.T) {
	t.Parallel()
	p := sample()
	if got := render(t, p); strings.Contains(got, "<script") || !strings.Contains(got, "&lt;script&gt;") || strings.Contains(got, "<b>") {
		t.Error("a key or a reason is markup")
	}
	p.Report.ShowKeys = false
	if got := render(t, p); strings.Contains(got, "script") || strings.Contains(got, "region=") {
		t.Error("the page has a key that nobody asked for")
	}
}

// The page loads nothing, in any browser.
func TestSelfContained(t *testing.T) {
	t.Parallel()
	got := render(t, sample())
	for _, bad := range []string{`(?i)https?://`, `(?i)<(script|link|img|iframe|object|embed)\b`, `(?i)\bsrc=`, `(?i)url\(`, `(?i)@import`, `href="[^#]`} {
		if found := regexp.MustCompile(bad).FindString(got); found != "" {
			t.Errorf("the page has %q", found)
		}
	}
	for _, want := range []string{"prefers-color-scheme: dark", `name="viewport"`, "default-src 'none'"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// Every table of the report is on the page, and every number that it has.
func TestNumbers(t *testing.T) {
	t.Parallel()
	p := sample()
	p.Runs = nil
	got := render(t, p)
	for _, want := range []string{
		"4 tables: 1 different, 2 inconclusive, 1 equal", "1\u202f234\u202f567", "2.5 s", "2 days", "rows not named here: 16", "≥ 0", "1 of 4", "1m1s behind",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(got, "<svg") {
		t.Error("a chart of no runs")
	}
	p.Report.Sample, p.Report.Tables[0].Sampled = 0.25, 0.25
	if got := render(t, p); strings.Count(got, "sample of 25 %") != 2 {
		t.Error("the page does not say that it is about a sample")
	}
}

func TestNoTables(t *testing.T) {
	t.Parallel()
	if got := render(t, &html.Page{Report: &reconcile.Report{}, Name: "x"}); !strings.Contains(got, "no table was compared") {
		t.Error(got)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteFails(t *testing.T) {
	t.Parallel()
	if err := html.Write(fullDisk{}, sample()); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("writing to a full disk: %v", err)
	}
}
