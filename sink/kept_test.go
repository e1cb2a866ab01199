package sink_test

import (
	"errors"
	"testing"

	"icehose/cdc"
	"icehose/sink"
	"icehose/sink/sinktest"
)

// A commit says that the rejected records before it were handled, so whoever
// keeps them is asked first. If they are not safe nothing is committed, and they
// come again.
func TestKeptBeforeCommit(t *testing.T) {
	t.Parallel()
	for _, background := range []bool{false, true} {
		lake, p := sinktest.NewLake(), sinktest.Pipeline(t, tables)
		rejected, safe, full := 0, 0, errors.New("no room for what was rejected")
		broken := false
		lake.Fault = func(step sinktest.Step, table string) error {
			if step == sinktest.BeforeCommit && safe != rejected {
				t.Errorf("%s is committed with %d of %d rejected records safe", table, safe, rejected)
			}
			return nil
		}
		s, err := sink.Open(t.Context(), p, lake, sink.Options{
			Background: background,
			Reject:     func(sink.Offset, *sink.RejectError) error { rejected++; return nil },
			Kept: func() error {
				if broken {
					broken = false
					return full
				}
				safe = rejected
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		give := func(n uint64, data string) sink.Delivery {
			return sink.Delivery{Offset: offset(n), Row: &sink.Row{Database: "lake", Table: "item", Operation: cdc.Insert, Data: []byte(data)}}
		}
		deliver(t, s, give(0, itemJSON(`"x"`)), give(1, `{`), give(2, `{`))
		if err := s.Checkpoint(t.Context()); err != nil || rejected != 2 || safe != 2 {
			t.Fatalf("%v, %d rejected, %d safe", err, rejected, safe)
		}
		broken = true
		deliver(t, s, give(3, `{`))
		if err := s.Checkpoint(t.Context()); !errors.Is(err, full) {
			t.Errorf("committed with what was rejected at risk: %v", err)
		}
		if err := s.Checkpoint(t.Context()); !errors.Is(err, full) {
			t.Errorf("committed although what was rejected is lost: %v", err)
		}
		if err := s.Abandon(); err != nil {
			t.Fatal(err)
		}
		if s, err = sink.Open(t.Context(), p, lake, sink.Options{}); err != nil {
			t.Fatal(err)
		}
		if got := s.Last()[offset(0).Shard].Ordinal; got != 2 {
			t.Errorf("the record that was not kept does not come again: handled up to %d", got)
		}
	}
}
