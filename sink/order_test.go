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
  - source: public.log
    mode: changelog
    key: [id]
    columns: [{name: id, type: int}]
`))
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name    string
		table   string
		after   time.Duration // of the second change's commit, at half the position
		between int           // restarts of the sink
		want    int64
	}{
		{"late delivery", "t", -time.Hour, 0, 0},
		{"clock a little off", "t", 10 * time.Minute, 0, 0},
		{"numbering restarted", "t", time.Hour, 0, 1},
		{"late delivery after a restart", "t", -time.Hour, 1, 0},
		{"numbering restarted while no sink ran", "t", time.Hour, 1, 1},
		{"numbering restarted before the second restart", "t", time.Hour, 2, 1},
		{"numbering of a changelog restarted while no sink ran", "log", time.Hour, 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			lake := sinktest.NewLake()
			open := func() *sink.Sink {
				t.Helper()
				s, err := sink.Open(t.Context(), p, lake, sink.Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := open()
			for i, at := range []time.Time{noon, noon.Add(tt.after)} {
				for range i * tt.between {
					if err := s.Close(t.Context()); err != nil {
						t.Fatal(err)
					}
					s = open()
				}
				row := fmt.Sprintf(`{"id":%d,"cdc_position":%q,"cdc_committed_at":%q`, i,
					cdc.ChangePosition(0, cdc.Body{Hi: uint64(1000 / (i + 1))}, 1), at.Format("2006-01-02T15:04:05.000000Z"))
				operation := cdc.Update
				if tt.table == "log" {
					row, operation = row+`,"cdc_operation":"update","cdc_old_key":null,"cdc_absent":null`, cdc.Insert
				}
				if err := s.Deliver(t.Context(), []sink.Delivery{{
					Offset: sink.Offset{Shard: "s", Ordinal: uint64(i)},
					Row:    &sink.Row{Database: "shop", Table: tt.table, Operation: operation, Data: []byte(row + "}")},
				}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if stats := s.Stats(); stats[0].Regressed+stats[1].Regressed != tt.want {
				got := stats[0].Regressed + stats[1].Regressed
				t.Errorf("%d regressed, want %d", got, tt.want)
			}
			if got := strings.Contains(log.String(), "position_regressed"); got != (tt.want > 0) {
				t.Errorf("told: %v in %s", got, log.String())
			}
		})
	}
}
