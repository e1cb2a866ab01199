package reconcile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/reconcile"
	"icehose/reconcile/reconciletest"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}

// sampleReport has every verdict, every kind and both sorts of keys.
func sampleReport(t *testing.T) *reconcile.Report {
	t.Helper()
	var source []reconciletest.Row
	for key := range 1000 {
		source = append(source, changesRow(key))
	}
	lake := append([]reconciletest.Row{}, source[2:]...)
	other := changesRow(500)
	other[1].Text = "other"
	lake[498] = other
	lake = append(lake, changesRow(7), changesRow(7), changesRow(1000))
	line := func(doc, line string) reconciletest.Row { return reconciletest.MakeRow("n", doc, line) }
	report, err := reconcile.Run(t.Context(), reconciletest.Pipeline(t),
		&reconciletest.Memory{Tables: reconciletest.Tables{
			reconciletest.Typed: nil, reconciletest.Changes: source,
			reconciletest.Lines:   {line("two words", "1"), line("", "2"), line(`quote " and = sign`, "3"), line("plain", "4"), line("here", "5")},
			reconciletest.History: {reconciletest.MakeRow("a", "1.00"), reconciletest.MakeRow("a", "1.00")},
		}},
		&reconciletest.Memory{Tables: reconciletest.Tables{
			reconciletest.Changes: lake,
			reconciletest.Lines:   {line("here", "5")},
			reconciletest.History: {reconciletest.MakeRow("a", "1.00"), reconciletest.MakeRow("a", "1.00")},
		}},
		reconcile.Options{MaxFindings: 4, ShowKeys: true})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestReportGolden(t *testing.T) {
	report := sampleReport(t)
	through := time.Date(2026, 11, 1, 2, 3, 4, 5000, time.UTC)
	report.Tables[1].Source.Through = &through
	for _, tt := range []struct {
		name string
		show bool
	}{{"report", false}, {"report_keys", true}} {
		report.ShowKeys = tt.show
		var text bytes.Buffer
		if err := report.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		golden(t, tt.name+".txt", text.Bytes())
		out, err := json.MarshalIndent(report, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, tt.name+".json", append(out, '\n'))
	}
}

// Keys are in what is written when asked for, and nowhere else.
func TestKeysOnlyWhenAsked(t *testing.T) {
	report := sampleReport(t)
	report.ShowKeys = false
	var text bytes.Buffer
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for what, value := range map[string]any{"report": report, "report by value": *report, "table": report.Tables[1], "finding": report.Tables[1].Findings} {
		out, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(out), "two words") {
			t.Errorf("JSON of a %s has a key", what)
		}
	}
	if strings.Contains(text.String(), "two words") {
		t.Error("text has a key")
	}
	report.ShowKeys = true
	out, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "two words") {
		t.Error("JSON has no key although it was asked for")
	}
}

func TestExitStatus(t *testing.T) {
	const eq, diff, inc = reconcile.Equal, reconcile.Different, reconcile.Inconclusive
	tests := []struct {
		verdicts []reconcile.Verdict
		want     int
	}{
		{nil, 0},
		{[]reconcile.Verdict{eq, eq}, 0},
		{[]reconcile.Verdict{eq, inc}, 2},
		{[]reconcile.Verdict{inc, diff, eq}, 1},
		{[]reconcile.Verdict{diff, inc}, 1},
		{[]reconcile.Verdict{eq, ""}, 2}, // not compared
	}
	for _, tt := range tests {
		var report reconcile.Report
		for _, v := range tt.verdicts {
			report.Tables = append(report.Tables, reconcile.TableReport{Verdict: v})
		}
		if got := report.ExitStatus(); got != tt.want {
			t.Errorf("%v: exit status %d, want %d", tt.verdicts, got, tt.want)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteTextReportsErrors(t *testing.T) {
	if err := sampleReport(t).WriteText(fullDisk{}); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("writing to a full disk: %v", err)
	}
}
