package sink_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/cdc"
	"icehose/sink"
)

// pass makes changes of row 3 until the horizon's clock says that n seconds
// have passed since the start.
func (s *source) pass(n uint64) []sink.Delivery {
	changes := make([]sink.Delivery, 0, 31)
	for i := range uint64(cap(changes)) {
		changes = append(changes, s.next("item", cdc.Update, map[string]any{
			"id": 3, "v": "at " + strconv.FormatUint(n, 10), "cdc_position": change(1000*n + i), "cdc_committed_at": when(n),
		}))
	}
	return changes
}

func TestHorizon(t *testing.T) {
	t.Parallel()
	const horizon = 100 // seconds
	r := newRig(t, sink.Options{Horizon: horizon * time.Second})
	var s source
	r.flush(s.upsert(1, 1, "a"), s.upsert(2, 2, "b"))
	r.flush(s.remove(10, 1))
	// Within the horizon a late change loses against the tombstone.
	r.flush(s.pass(10 + horizon)...)
	r.flush(s.upsert(5, 1, "late"))
	r.want("item", "2 b", "3 at 110")
	if len(r.rejected) > 0 {
		t.Fatalf("rejected within the horizon: %v", r.rejected)
	}
	// Beyond it nobody remembers, so it must be kept out.
	r.flush(s.pass(20 + horizon)...)
	r.flush(s.upsert(5, 1, "late"))
	r.reopen()
	r.flush(s.upsert(6, 1, "late"), s.upsert(10, 4, "older than the forgotten delete"), s.remove(7, 1))
	r.want("item", "2 b", "3 at 120")
	if diff := gocmp.Diff([]sink.Reason{sink.OlderThanHorizon, sink.OlderThanHorizon, sink.OlderThanHorizon}, r.rejected); diff != "" {
		t.Fatalf("rejected (-want +got):\n%s", diff)
	}
	// A key that the table holds, and changes above the floor, are not affected.
	r.flush(s.upsert(9, 2, "e"), s.upsert(11, 5, "f"))
	r.want("item", "2 e", "3 at 120", "5 f")
}

// TestHorizonOutlivesWrongTimes: commit times in the far future, as many as a
// window tells from the rest, forget no tombstone, in whatever commits they come
// and across restarts.
func TestHorizonOutlivesWrongTimes(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		r := newRig(t, sink.Options{Horizon: 100 * time.Second})
		var s source
		wrong := func(n uint64) sink.Delivery {
			return s.next("item", cdc.Update, map[string]any{
				"id": 4, "v": "x", "cdc_position": change(1_000_000 + n), "cdc_committed_at": "2199-01-01T00:00:00.000000Z",
			})
		}
		if first {
			r.flush(wrong(0), s.upsert(1, 1, "a"), s.upsert(2, 2, "b"))
		}
		r.flush(s.upsert(3, 1, "c"), s.remove(10, 1))
		r.flush(s.pass(12)...)
		for i := range uint64(15) {
			r.flush(wrong(1 + i))
			r.reopen()
		}
		r.flush(s.upsert(5, 1, "late"))
		if len(r.rejected) > 0 {
			t.Errorf("first %t: a tombstone was forgotten: %v", first, r.rejected)
		}
		// One more, and most of the last changes say that it is the year 2199.
		r.flush(wrong(100))
		r.flush(s.upsert(6, 1, "late"))
		if !slices.Equal(r.rejected, []sink.Reason{sink.OlderThanHorizon}) {
			t.Errorf("first %t: the clock stands still: %v", first, r.rejected)
		}
	}
}

// TestHorizonSurvivesACrashBeforeItIsNoted: a restart reads the tombstones
// again and comes to the same floor.
func TestHorizonSurvivesACrashBeforeItIsNoted(t *testing.T) {
	t.Parallel()
	r := newRig(t, sink.Options{Horizon: 100 * time.Second})
	var s source
	r.flush(s.upsert(1, 1, "a"))
	r.flush(s.remove(10, 1))
	r.flush(s.pass(500)...)
	r.reopen()
	r.flush(s.upsert(5, 1, "late"))
	r.want("item", "3 at 500")
	if !slices.Equal(r.rejected, []sink.Reason{sink.OlderThanHorizon}) {
		t.Fatalf("rejected %v", r.rejected)
	}
	// The next commits drop the file whose tombstones are all forgotten.
	r.flush(s.upsert(501, 2, "c"))
	if files := r.lake.Table("lake", "item").Files(); len(files) > 0 {
		t.Fatalf("files of forgotten tombstones stay: %v", files)
	}
	r.reopen()
	r.flush(s.upsert(5, 1, "late"))
	r.want("item", "2 c", "3 at 500")
}

// TestTombstoneFilesStayFew: many commits with deletes leave a logarithmic
// number of files, and all tombstones still count.
func TestTombstoneFilesStayFew(t *testing.T) {
	t.Parallel()
	r := newRig(t, sink.Options{})
	var s source
	const n = 200
	for i := range n {
		r.flush(s.remove(uint64(1000+i), i))
	}
	if files := r.lake.Table("lake", "item").Files(); len(files) > 9 {
		t.Fatalf("%d files of tombstones", len(files))
	}
	r.reopen()
	for i := range n {
		r.deliver(s.upsert(uint64(i+1), i, "late"))
	}
	r.flush()
	r.want("item")
	if got := r.stats("item").Superseded; got != n {
		t.Fatalf("%d late changes are superseded, want %d", got, n)
	}
}

func TestLostTombstonesAreNoticed(t *testing.T) {
	t.Parallel()
	r := newRig(t, sink.Options{})
	var s source
	r.flush(s.remove(1, 1))
	table := r.lake.Table("lake", "item")
	table.RemoveFile(table.Files()[0])
	if _, err := sink.Open(t.Context(), pipeline(t), r.lake, sink.Options{}); err == nil || !strings.Contains(err.Error(), "read tombstones") {
		t.Fatalf("open without tombstones: %v", err)
	}
}

// TestHorizonIsNoted: the horizon that was asked for once stays with the table.
// A command that opens a sink without asking, to repair a row, forgets nothing;
// one that asks for another gets it.
func TestHorizonIsNoted(t *testing.T) {
	t.Parallel()
	const month = 30 * 24 * time.Hour
	for _, test := range []struct {
		name string
		next time.Duration // horizon of the run in between
		want []sink.Reason // of a change that is older than the delete
	}{
		{"not asked for", 0, nil},
		{"asked for less", time.Hour, []sink.Reason{sink.OlderThanHorizon}},
		{"asked for more", 2 * month, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, sink.Options{Horizon: month})
			var s source
			r.flush(s.upsert(1, 1, "a"), s.upsert(2, 2, "b"))
			r.flush(s.remove(10, 1))
			r.flush(s.pass(10 * 24 * 3600)...) // ten days
			r.options.Horizon = test.next
			r.reopen()
			r.flush(s.upsert(1_000_000_000, 2, "repaired"))
			r.options.Horizon = 0
			r.reopen()
			r.flush(s.upsert(5, 1, "late"))
			r.want("item", "2 repaired", "3 at 864000")
			if !slices.Equal(r.rejected, test.want) {
				t.Errorf("rejected %v, want %v", r.rejected, test.want)
			}
		})
	}
}

// A delete that is forgotten before an older one of its key, since its commit time
// is, leaves the older one in a file that stays. Who reads that file must not take
// it for the last that is known of the key.
func TestForgottenDeleteHidesOlderOnes(t *testing.T) {
	t.Parallel()
	r := newRig(t, sink.Options{Horizon: 100 * time.Second})
	var s source
	change := func(o cdc.Operation, n uint64, id int, at uint64) sink.Delivery {
		return s.next("item", o, map[string]any{"id": id, "v": "x", "cdc_position": change(n), "cdc_committed_at": when(at)})
	}
	r.flush(change(cdc.Update, 1, 1, 1), change(cdc.Update, 2, 5, 1), change(cdc.Update, 3, 6, 1), change(cdc.Update, 4, 7, 1))
	r.flush(s.pass(300)...)
	r.flush(change(cdc.Delete, 11, 1, 290), change(cdc.Delete, 12, 5, 290), change(cdc.Delete, 13, 6, 290), change(cdc.Delete, 14, 7, 290))
	r.flush(change(cdc.Update, 15, 1, 291))
	r.flush(change(cdc.Delete, 20, 1, 1))
	r.flush(change(cdc.Update, 30, 4, 300)) // from here on the floor stands for the delete
	late := change(cdc.Update, 18, 1, 18)
	r.reopen()
	r.flush(late)
	r.want("item", "3 at 300", "4 x")
	if diff := gocmp.Diff([]sink.Reason{sink.OlderThanHorizon}, r.rejected); diff != "" {
		t.Errorf("rejected (-want +got):\n%s", diff)
	}
	// What is above the floor is as ever.
	r.flush(change(cdc.Update, 21, 1, 302), change(cdc.Update, 22, 5, 302))
	r.want("item", "1 x", "3 at 300", "4 x", "5 x")
}
