package transform_test

import (
	"strings"
	"testing"

	"icehose/transform"
)

// The moment an epoch or a load begins belongs to it; of several the last one
// that has begun counts.
func TestPositionAtItsBoundaries(t *testing.T) {
	text := strings.Replace(pipelineText, "tables:",
		"epochs: [{epoch: 3, since: 2026-01-02T03:04:04.000005Z}, {epoch: 4, since: 2026-01-02T03:04:04.000009Z}]\ntables:", 1)
	text = strings.Replace(text, `loads: [{floor: "00000000000000010000000000000001", since: 2026-02-01T00:00:00Z}]`,
		`loads: [{floor: "00000000000000010000000000000001", since: 2026-01-02T03:04:05.000003Z},`+
			` {floor: "00000000000000010000000000000002", since: 2026-01-02T03:04:05.000007Z}]`, 1)
	tests := []struct {
		name, operation, table string
		number                 int
		want                   string
	}{
		{"a change before the first epoch", "update", "orders", 4, "0000."},
		{"a change at its begin", "update", "orders", 5, "0003."},
		{"a change before the next", "update", "orders", 8, "0003."},
		{"a change of the last", "update", "orders", 9, "0004."},
		{"a load before the first announced", "load", "reloaded", 2, "0000.00000000000000000000000000000000.0."},
		{"a load at its begin", "load", "reloaded", 3, "0004.00000000000000010000000000000001.0."},
		{"a load before the next", "load", "reloaded", 6, "0004.00000000000000010000000000000001.0."},
		{"a load of the last", "load", "reloaded", 7, "0004.00000000000000010000000000000002.0."},
	}
	tr := newTransformer(t, text, transform.Options{})
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			r := tr.Batch(records(change(c.operation, c.table, row, c.number)))[0]
			if want := `"cdc_position":"` + c.want; !strings.Contains(string(r.Row.Data), want) {
				t.Errorf("row %s (%s) has no %s", r.Row.Data, r.Reason, want)
			}
		})
	}
}

// The epoch of a change is that of its commit, not of its message; that of an
// announced load is of the moment its floor was read, not of the record.
func TestPositionEpochIsOfTheSource(t *testing.T) {
	text := strings.Replace(pipelineText, "tables:", "epochs: [{epoch: 3, since: 2026-01-02T03:04:05Z}, {epoch: 4, since: 2026-02-01T12:00:00Z}]\ntables:", 1)
	late := strings.Replace(change("load", "reloaded", row, 1), "2026-01-02", "2026-02-02", 1)
	for _, c := range []struct{ name, record, want string }{
		{"change", change("update", "orders", row, 1), "0000."},
		{"load", late, "0003."},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newTransformer(t, text, transform.Options{}).Batch(records(c.record))[0]
			if want := `"cdc_position":"` + c.want; !strings.Contains(string(r.Row.Data), want) {
				t.Errorf("row %s (%s) has no %s", r.Row.Data, r.Reason, want)
			}
		})
	}
}
