package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"icehose/transform/redrive"
)

// A fakeStream takes records, refusing some as it is told.
type fakeStream struct {
	calls  [][]string
	taken  []string
	refuse func(call, index int) bool
	fail   func(call int) error
}

func (s *fakeStream) Put(_ context.Context, entries []redrive.Entry) (refused []redrive.Refusal, err error) {
	call := len(s.calls)
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	s.calls = append(s.calls, ids)
	if s.fail != nil {
		if err := s.fail(call); err != nil {
			return nil, err
		}
	}
	for i := range entries {
		if s.refuse != nil && s.refuse(call, i) {
			refused = append(refused, redrive.Refusal{Index: i, Code: "InternalFailure"})
		} else {
			s.taken = append(s.taken, entries[i].ID)
		}
	}
	return refused, nil
}

// A waiter adds up what would have been waited.
type waiter struct{ total time.Duration }

func (w *waiter) wait(ctx context.Context, d time.Duration) error {
	w.total += d
	return ctx.Err()
}

func entries(n int) []redrive.Entry {
	out := make([]redrive.Entry, n)
	for i := range out {
		out[i] = redrive.Entry{ID: fmt.Sprintf("%04d", i), PartitionKey: "k", Data: []byte("d")}
	}
	return out
}

func journal(t interface {
	Fatal(...any)
	Cleanup(func())
}, path string,
) *redrive.File {
	j, err := redrive.OpenFile(path, "changes")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Fatal(err)
		}
	})
	return j
}

func sendAll(ctx context.Context, s *redrive.Sender, list []redrive.Entry) error {
	for _, e := range list {
		if err := s.Send(ctx, e); err != nil {
			return err
		}
	}
	return s.Flush(ctx)
}

func TestSendBatchesAndPaces(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rate, records int
		want          []int // sizes of calls
		wait          time.Duration
	}{
		{100, 250, []int{100, 100, 50}, 2500 * time.Millisecond},
		{1, 3, []int{1, 1, 1}, 3 * time.Second},
		{100000, 1100, []int{500, 500, 100}, 11 * time.Millisecond},
		{10, 0, nil, 0},
	} {
		stream, w := &fakeStream{}, &waiter{}
		s, err := redrive.NewSender(stream, journal(t, filepath.Join(t.TempDir(), "p")), test.rate, w.wait)
		if err != nil {
			t.Fatal(err)
		}
		if err := sendAll(t.Context(), s, entries(test.records)); err != nil {
			t.Fatal(err)
		}
		var sizes []int
		for _, c := range stream.calls {
			sizes = append(sizes, len(c))
		}
		if diff := cmp.Diff(test.want, sizes); diff != "" || w.total != test.wait || s.Sent != int64(test.records) {
			t.Errorf("rate %d: waited %s, sent %d, calls (-want +got):\n%s", test.rate, w.total, s.Sent, diff)
		}
	}
	if _, err := redrive.NewSender(nil, nil, 0, nil); err == nil {
		t.Error("a rate of 0 is accepted")
	}
}

func TestSendKeepsCallsSmall(t *testing.T) {
	t.Parallel()
	stream, w := &fakeStream{}, &waiter{}
	s, err := redrive.NewSender(stream, journal(t, filepath.Join(t.TempDir(), "p")), 1000, w.wait)
	if err != nil {
		t.Fatal(err)
	}
	list := entries(9)
	for i := range list {
		list[i].Data = make([]byte, 1<<20)
	}
	if err := sendAll(t.Context(), s, list); err != nil {
		t.Fatal(err)
	}
	if len(stream.calls) != 3 || len(stream.calls[0]) != 3 {
		t.Errorf("9 records of 1 MiB in %v", stream.calls)
	}
}

func TestSendTriesRefusedAgain(t *testing.T) {
	t.Parallel()
	stream, w := &fakeStream{refuse: func(call, index int) bool { return call < 2 && index%2 == 0 }}, &waiter{}
	s, err := redrive.NewSender(stream, journal(t, filepath.Join(t.TempDir(), "p")), 100, w.wait)
	if err != nil {
		t.Fatal(err)
	}
	if err := sendAll(t.Context(), s, entries(4)); err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"0000", "0001", "0002", "0003"}, {"0000", "0002"}, {"0000"}}
	if diff := cmp.Diff(want, stream.calls); diff != "" || s.Sent != 4 {
		t.Errorf("sent %d, calls (-want +got):\n%s", s.Sent, diff)
	}
	if want := (70 + 100 + 200) * time.Millisecond; w.total != want {
		t.Errorf("waited %s, want %s", w.total, want)
	}
}

// An entry that is refused again and again is set aside, also where it is the
// only one of its batch, and the others are sent. A stream that takes nothing
// ends the run.
func TestSendSetsAside(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		rate    int
		records int
		refuse  string // ids that hold it
		refused map[string]int64
		want    string // of the error
	}{
		{"one of a batch", 4, 5, "0000", map[string]int64{"InternalFailure": 1}, ""},
		{"all of one batch", 4, 6, "000", map[string]int64{"InternalFailure": 4}, ""},
		{"neighbours sent one by one", 1, 14, "000", map[string]int64{"InternalFailure": 10}, ""},
		{"everything", 4, 40, "", map[string]int64{"InternalFailure": 20}, "send records: the stream took none of 20 records in a row, each tried 8 times: InternalFailure"},
		{"everything in large batches", 100, 500, "", map[string]int64{"InternalFailure": 300}, "send records: the stream took none of 300 records in a row, each tried 8 times: InternalFailure"},
	} {
		j := journal(t, filepath.Join(t.TempDir(), "p"))
		list := entries(test.records)
		if test.name == "all of one batch" {
			for i := range list[4:] {
				list[4+i].ID = fmt.Sprint("later", i)
			}
		}
		s, err := redrive.NewSender(refusingStream(test.refuse), j, test.rate, (&waiter{}).wait)
		if err != nil {
			t.Fatal(err)
		}
		err = sendAll(t.Context(), s, list)
		if text := fmt.Sprint(err); err == nil && test.want != "" || err != nil && text != test.want {
			t.Errorf("%s: error %v", test.name, err)
		}
		if diff := cmp.Diff(test.refused, s.Refused); diff != "" {
			t.Errorf("%s: refused (-want +got):\n%s", test.name, diff)
		}
		for _, e := range list {
			want := redrive.Taken
			if strings.Contains(e.ID, test.refuse) {
				want = redrive.Unsent
			}
			if got := j.State(e.ID); got != want {
				t.Errorf("%s: record %s is %d, want %d", test.name, e.ID, got, want)
			}
		}
	}
}

// A refusingStream never takes an entry whose id holds its text.
type refusingStream string

func (s refusingStream) Put(_ context.Context, entries []redrive.Entry) (refused []redrive.Refusal, err error) {
	for i, e := range entries {
		if strings.Contains(e.ID, string(s)) {
			refused = append(refused, redrive.Refusal{Index: i, Code: "InternalFailure"})
		}
	}
	return refused, nil
}

// One record that the stream never takes costs itself only, in each run.
func TestSendGoesOnAfterRejected(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		list := entries(rapid.IntRange(1, 40).Draw(rt, "records"))
		bad := rapid.SliceOfNDistinct(rapid.IntRange(0, len(list)-1), 0, 3, rapid.ID).Draw(rt, "rejected")
		for i := range list {
			list[i].Where = list[i].ID
		}
		var want []string
		slices.Sort(bad)
		for _, i := range bad {
			list[i].PartitionKey = "rejected"
			want = append(want, list[i].ID)
		}
		path := filepath.Join(t.TempDir(), "p")
		for run := range 2 {
			stream := &fakeStream{}
			j := journal(t, path)
			s, err := redrive.NewSender(pickyStream{stream}, j, 16, (&waiter{}).wait)
			if err != nil {
				rt.Fatal(err)
			}
			if err := sendAll(t.Context(), s, list); err != nil {
				rt.Fatal(err)
			}
			if taken := int64(len(list) - len(bad)); run == 0 && s.Sent != taken || run == 1 && s.Skipped != taken || s.Rejected != int64(len(bad)) {
				rt.Errorf("run %d: sent %d, skipped %d, rejected %d of %d", run, s.Sent, s.Skipped, s.Rejected, len(list))
			}
			if run == 1 && len(stream.calls) != 0 {
				rt.Errorf("the second run called %d times", len(stream.calls))
			}
			if diff := cmp.Diff(want, s.Examples); diff != "" {
				rt.Errorf("run %d: examples (-want +got):\n%s", run, diff)
			}
			if err := j.Close(); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// A pickyStream takes no call with an entry of the partition key "rejected".
type pickyStream struct{ *fakeStream }

func (s pickyStream) Put(ctx context.Context, entries []redrive.Entry) ([]redrive.Refusal, error) {
	for _, e := range entries {
		if e.PartitionKey == "rejected" {
			s.calls = append(s.calls, nil)
			return nil, fmt.Errorf("put: %w", redrive.ErrRejected)
		}
	}
	return s.fakeStream.Put(ctx, entries)
}

func TestSendStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	stream := &fakeStream{}
	s, err := redrive.NewSender(stream, journal(t, filepath.Join(t.TempDir(), "p")), 1, func(ctx context.Context, _ time.Duration) error {
		cancel()
		return ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := sendAll(ctx, s, entries(3)); !errors.Is(err, context.Canceled) || len(stream.calls) != 1 || s.Sent != 1 {
		t.Errorf("%d calls, sent %d, %v", len(stream.calls), s.Sent, err)
	}
}

// However often a run is cut off, every record is taken, and one that was
// noted is not sent again.
func TestSendResumes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		path := filepath.Join(dir, fmt.Sprint(runs))
		list := entries(rapid.IntRange(1, 30).Draw(t, "records"))
		taken := make(map[string]int)
		broken := errors.New("network")
		for attempt := range 10 {
			last := attempt == 9
			failAt := rapid.IntRange(0, 3).Draw(t, "fail at call")
			stream := &fakeStream{fail: func(call int) error {
				if !last && call == failAt {
					return broken
				}
				return nil
			}}
			j, err := redrive.OpenFile(path, "changes")
			if err != nil {
				t.Fatal(err)
			}
			s, err := redrive.NewSender(stream, j, 7, (&waiter{}).wait)
			if err != nil {
				t.Fatal(err)
			}
			err = sendAll(context.Background(), s, list)
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			for _, id := range stream.taken {
				taken[id]++
			}
			if err == nil {
				break
			}
			if !errors.Is(err, broken) {
				t.Fatal(err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if taken[e.ID] != 1 {
				t.Errorf("record %s was taken %d times", e.ID, taken[e.ID])
			}
		}
	})
}

func TestJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "p")
	j := journal(t, path)
	if err := j.Note([]string{"a", "b"}, redrive.Taken); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	// A line that was cut off while it was written does not count.
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString("torn")
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	again := journal(t, path)
	if again.State("a") != redrive.Taken || again.State("b") != redrive.Taken || again.State("torn") != redrive.Unsent {
		t.Error("the file was not read as it was written")
	}
	if err := again.Note([]string{"c"}, redrive.Rejected); err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "icehose redrive progress 1 changes\na\nb\nrejected c\n" {
		t.Errorf("%q, %v", content, err)
	}
	if third := journal(t, path); third.State("c") != redrive.Rejected || third.State("rejected c") != redrive.Unsent {
		t.Error("a rejected record is not known again")
	}
	for name, content := range map[string]string{"stream": "icehose redrive progress 1 other\na\n", "file": "precious", "long file": "precious\nthings\n"} {
		other := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(other, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := redrive.OpenFile(other, "changes"); err == nil {
			t.Errorf("another %s is taken for a progress file", name)
		}
		if left, err := os.ReadFile(other); err != nil || string(left) != content {
			t.Errorf("another %s was changed: %q", name, left)
		}
	}
	// The head itself may be torn.
	if err := os.WriteFile(path, []byte("icehose red"), 0o600); err != nil {
		t.Fatal(err)
	}
	if torn := journal(t, path); torn.State("a") != redrive.Unsent {
		t.Error("a torn head has entries")
	}
	if _, err := redrive.OpenFile(filepath.Join(t.TempDir(), "no", "p"), "changes"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
