package sink_test

import (
	"fmt"
	"testing"

	"icehose/bench/sink/stream"
	"icehose/sink"
	"icehose/sink/sinktest"
)

// Tables that are filled one after the other, as a full load does, share their
// buffers: memory does not grow with their number.
func TestBuffersAreShared(t *testing.T) {
	t.Parallel()
	const count, rows, bound = 12, 3000, 256 << 10
	tables := make([]stream.Table, count)
	for i := range tables {
		tables[i] = stream.Table{Name: fmt.Sprint("t", i), Mode: "changelog"}
	}
	p, err := stream.Pipeline(tables...)
	if err != nil {
		t.Fatal(err)
	}
	for _, background := range []bool{false, true} {
		s, err := sink.Open(t.Context(), p, sinktest.NewLake(), sink.Options{FlushBytes: bound, Background: background})
		if err != nil {
			t.Fatal(err)
		}
		n := uint64(0)
		for _, table := range tables {
			if err := s.Deliver(t.Context(), table.Deliveries(n, rows, stream.NewKey)); err != nil {
				t.Fatal(err)
			}
			n += rows
		}
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		// One is filled while another is on its way; each may have grown twofold.
		if got := s.BufferCapacity(); got == 0 || got > 4*bound {
			t.Errorf("background %t: buffers of %d bytes, wanted %d at most", background, got, 4*bound)
		}
	}
}
