package sink_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/sinktest"
)

// A source whose numbering restarts without an epoch is told loudly; changes
// that are only late, or close in time, are not.
func TestPositionRegressed(t *testing.T) {
	p, err := catalog.Parse("pipeline.yaml", []byte(`version: 1
database: shop
source: {engine: postgresql, position: postgres}
tables:
  - source: public.t
    mode: mirror
    key: [id]
    columns: [{name: id, type: int}]
`))
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name  string
		after time.Duration // of the second change's commit, at half the position
		want  int64
	}{
		{"late delivery", -time.Hour, 0},
		{"clock a little off", 10 * time.Minute, 0},
		{"numbering restarted", time.Hour, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			s, err := sink.Open(t.Context(), p, sinktest.NewLake(), sink.Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			for i, at := range []time.Time{noon, noon.Add(tt.after)} {
				row := fmt.Sprintf(`{"id":%d,"cdc_position":%q,"cdc_committed_at":%q}`, i,
					cdc.ChangePosition(0, cdc.Body{Hi: uint64(1000 / (i + 1))}, 1), at.Format("2006-01-02T15:04:05.000000Z"))
				if err := s.Deliver(t.Context(), []sink.Delivery{{
					Offset: sink.Offset{Shard: "s", Ordinal: uint64(i)},
					Row:    &sink.Row{Database: "shop", Table: "t", Operation: cdc.Update, Data: []byte(row)},
				}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := s.Stats()[0].Regressed; got != tt.want {
				t.Errorf("%d regressed, want %d", got, tt.want)
			}
			if got := strings.Contains(log.String(), "position_regressed"); got != (tt.want > 0) {
				t.Errorf("told: %v in %s", got, log.String())
			}
		})
	}
}
