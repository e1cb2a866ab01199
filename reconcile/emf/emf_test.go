package emf_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"icehose/reconcile"
	"icehose/reconcile/emf"
)

func report() *reconcile.Report {
	n, lag := uint64(7), 1.5
	return &reconcile.Report{ShowKeys: true, Tables: []reconcile.TableReport{
		{
			Table: "s.a", Verdict: reconcile.Different, Source: reconcile.Side{Rows: &n}, Lake: reconcile.Side{Rows: &n}, CommitLag: &lag, InFlight: 9, Seconds: 0.25,
			Counts: reconcile.Counts{Missing: 1, Extra: 2, Differs: 3, Stale: 4, Duplicate: 5}, Findings: []reconcile.Finding{{Key: []string{"secret"}}},
		},
		{Table: "s.b"},
	}}
}

// Every metric that a line declares is there, a number, and nothing is there
// that is not declared; what is not known is neither.
func TestWrite(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := emf.Write(&out, "icehose", "lake", time.UnixMilli(1234), report()); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{
			"database": "lake", "table": "s.a", "source_rows": 7.0, "lake_rows": 7.0, "missing": 1.0, "extra": 2.0, "differs": 3.0, "stale": 4.0, "duplicate": 5.0,
			"in_flight": 9.0, "unsettled": 0.0, "undecided": 0.0, "commit_lag": 1.5, "duration": 0.25, "equal": 0.0, "different": 1.0, "inconclusive": 0.0,
		},
		{"database": "lake", "table": "s.b", "in_flight": 0.0, "unsettled": 0.0, "undecided": 0.0, "duration": 0.0, "equal": 0.0, "different": 0.0, "inconclusive": 1.0},
	}
	for i, text := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var line map[string]any
		var header struct {
			AWS struct {
				Timestamp         int64
				CloudWatchMetrics []struct {
					Namespace  string
					Dimensions [][]string
					Metrics    []struct{ Name, Unit string }
				}
			} `json:"_aws"`
		}
		if err := errors.Join(json.Unmarshal([]byte(text), &line), json.Unmarshal([]byte(text), &header)); err != nil {
			t.Fatal(err)
		}
		delete(line, "_aws")
		if diff := cmp.Diff(want[i], line); diff != "" {
			t.Errorf("line %d (-want +got):\n%s", i, diff)
		}
		rule := header.AWS.CloudWatchMetrics[0]
		if header.AWS.Timestamp != 1234 || rule.Namespace != "icehose" || !cmp.Equal(rule.Dimensions, [][]string{{"database", "table"}, {"database"}}) || len(rule.Metrics) != len(line)-2 {
			t.Errorf("line %d: header %+v for %d members", i, header, len(line))
		}
		for _, m := range rule.Metrics {
			if _, ok := line[m.Name].(float64); !ok {
				t.Errorf("line %d: metric %s is no number", i, m.Name)
			}
		}
	}
}

// What was compared in part is no measure of the whole.
func TestPartial(t *testing.T) {
	t.Parallel()
	for _, table := range []reconcile.TableReport{{Table: "s.a", Scope: "3 keys"}, {Table: "s.a", Sampled: 0.1}} {
		var out bytes.Buffer
		if err := emf.Write(&out, "icehose", "lake", time.UnixMilli(1234), &reconcile.Report{Tables: []reconcile.TableReport{table}}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"Dimensions":[["database","table","scope"],["database","scope"]]`, `"scope":"partial"`} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %s in %s", want, &out)
			}
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteFails(t *testing.T) {
	t.Parallel()
	if err := emf.Write(full{}, "icehose", "lake", time.Time{}, report()); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("writing to a full disk: %v", err)
	}
}
