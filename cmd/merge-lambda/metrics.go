package main

import (
	"encoding/json"
	"fmt"
	"time"

	"icehose/catalog"
	"icehose/internal/emf"
	"icehose/sink/merge"
)

// A report is what became of one table.
type report struct {
	table   *catalog.Table
	result  *merge.Result // nil if it was not merged
	putOff  bool
	seconds float64
}

// metrics writes a line of CloudWatch's Embedded Metric Format, with the dimensions
// database and table, kept by database too: merge_failed and merge_put_off, a one
// or a zero; of a table that was begun merge_duration in seconds; of one that was
// merged merge_read, merge_changed, merge_deleted, merge_late and merge_regressed
// in rows, and merge_scanned in bytes.
func (f *function) metrics(r report) error {
	if f.settings.namespace == "" {
		return nil
	}
	const count = "Count"
	rule := emf.Rule{Namespace: f.settings.namespace, Dimensions: [][]string{{"database", "table"}, {"database"}}}
	line := map[string]any{"database": r.table.Database(), "table": r.table.Source}
	add := func(name, unit string, value any) {
		line[name] = value
		rule.Metrics = append(rule.Metrics, emf.Metric{Name: name, Unit: unit})
	}
	is := map[bool]int{true: 1}
	add("merge_failed", count, is[r.result == nil && !r.putOff])
	add("merge_put_off", count, is[r.putOff])
	if !r.putOff {
		add("merge_duration", "Seconds", r.seconds)
	}
	if r.result != nil {
		add("merge_read", count, r.result.Read)
		add("merge_changed", count, r.result.Changed)
		add("merge_deleted", count, r.result.Deleted)
		add("merge_late", count, r.result.Late)
		add("merge_regressed", count, r.result.Regressed)
		add("merge_scanned", "Bytes", r.result.Scanned)
	}
	line["_aws"] = emf.NewHeader(time.Now(), rule)
	text, err := json.Marshal(line)
	if err == nil {
		_, err = f.stdout.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}
