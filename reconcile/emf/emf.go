// Package emf writes the outcome of a reconcile run as metrics: lines of
// CloudWatch's Embedded Metric Format.
//
// In comes a Report, out goes a line for each table, with the dimensions
// database and table: source_rows, lake_rows, missing, extra, differs, stale,
// duplicate, in_flight, unsettled and undecided as counts, commit_lag and
// duration in seconds, and of equal, different and inconclusive a one for what
// the verdict is and a zero for the others. All are kept by database too, so
// that one alarm watches every table. What is not known is left out. Of a table
// of which not all rows were compared, a sample or chosen keys, they have the
// dimension scope too, which is partial: they stand beside those of whole tables
// and do not mix with them. No line has a key or a value of a row.
package emf

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"icehose/internal/emf"
	"icehose/reconcile"
)

const (
	count   = "Count"
	seconds = "Seconds"
)

// Write writes the metrics of a report. at stamps the lines; database is the
// lake's.
func Write(w io.Writer, namespace, database string, at time.Time, r *reconcile.Report) error {
	var text []byte
	for i := range r.Tables {
		encoded, err := json.Marshal(line(namespace, database, at, &r.Tables[i]))
		if err != nil {
			return fmt.Errorf("write metrics: %w", err)
		}
		text = append(append(text, encoded...), '\n')
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

func line(namespace, database string, at time.Time, t *reconcile.TableReport) map[string]any {
	rule := emf.Rule{Namespace: namespace, Dimensions: [][]string{{"database", "table"}, {"database"}}}
	out := map[string]any{"database": database, "table": t.Table}
	if t.Partial() {
		out["scope"] = "partial"
		for i := range rule.Dimensions {
			rule.Dimensions[i] = append(rule.Dimensions[i], "scope")
		}
	}
	add := func(name, unit string, value any) {
		out[name] = value
		rule.Metrics = append(rule.Metrics, emf.Metric{Name: name, Unit: unit})
	}
	if t.Source.Rows != nil && t.Lake.Rows != nil {
		add("source_rows", count, *t.Source.Rows)
		add("lake_rows", count, *t.Lake.Rows)
		add("missing", count, t.Counts.Missing)
		add("extra", count, t.Counts.Extra)
		add("differs", count, t.Counts.Differs)
		add("stale", count, t.Counts.Stale)
		add("duplicate", count, t.Counts.Duplicate)
	}
	add("in_flight", count, t.InFlight)
	add("unsettled", count, t.Unsettled)
	add("undecided", count, t.Undecided)
	if t.CommitLag != nil {
		add("commit_lag", seconds, *t.CommitLag)
	}
	add("duration", seconds, t.Seconds)
	is := func(v bool) int {
		if v {
			return 1
		}
		return 0
	}
	equal, different := t.Verdict == reconcile.Equal, t.Verdict == reconcile.Different
	add(string(reconcile.Equal), count, is(equal))
	add(string(reconcile.Different), count, is(different))
	add(string(reconcile.Inconclusive), count, is(!equal && !different)) // also a table that was not compared
	out["_aws"] = emf.NewHeader(at, rule)
	return out
}
