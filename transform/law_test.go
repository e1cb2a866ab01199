package transform_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"icehose/cdc"
	"icehose/transform"
)

// drawRecords draws a batch of a few keys in a few tables: whole and partial
// rows, records that fail, and bytes that are no record.
func drawRecords(t *rapid.T) []transform.Record {
	var texts []string
	for range rapid.IntRange(0, 12).Draw(t, "records") {
		table := rapid.SampledFrom([]string{"orders", "inserted", "upserted", "history", "log", "nowhere"}).Draw(t, "table")
		operation := rapid.SampledFrom([]string{"load", "insert", "update", "delete"}).Draw(t, "operation")
		data := fmt.Sprintf(`{"id":%s,"note":%s,"total":%s}`,
			rapid.SampledFrom([]string{"1", "2", `"01"`, "null"}).Draw(t, "id"),
			rapid.SampledFrom([]string{`"a"`, "null", `"\ud800"`, `"\u0000\"é"`}).Draw(t, "note"),
			rapid.SampledFrom([]string{"1", `"2.5"`, "1.005"}).Draw(t, "total"))
		if rapid.IntRange(0, 9).Draw(t, "broken") == 0 {
			data = rapid.StringN(0, 20, -1).Draw(t, "data")
		}
		more := rapid.SampledFrom([]string{`"x":1`, `"before-image":{"id":9}`}).Draw(t, "before")
		texts = append(texts, change(operation, table, data, rapid.IntRange(1, 4).Draw(t, "number"), more))
	}
	if rapid.Bool().Draw(t, "noise") {
		texts = append(texts, string(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes")))
	}
	return records(texts...)
}

// Each record has one result, in order, under its id, whatever it is; the same
// batch gives the same bytes, also on a worker that has seen other batches.
func TestLawOneResultEachAndDeterministic(t *testing.T) {
	used := newTransformer(t, pipelineText, transform.Options{})
	rapid.Check(t, func(rt *rapid.T) {
		batch := drawRecords(rt)
		first := used.Batch(batch)
		used.Batch(drawRecords(rt))
		again, fresh := used.Batch(batch), newTransformer(t, pipelineText, transform.Options{}).Batch(batch)
		if len(first) != len(batch) {
			rt.Fatalf("%d results of %d records", len(first), len(batch))
		}
		for i := range first {
			if first[i].ID != batch[i].ID {
				rt.Errorf("result %d has id %s", i, first[i].ID)
			}
			checkResult(t, &first[i])
			for _, other := range []transform.Result{again[i], fresh[i]} {
				if got, want := render(&other), render(&first[i]); got != want {
					rt.Errorf("result %d differs: %s, then %s", i, want, got)
				}
			}
		}
	})
}

func render(r *transform.Result) string {
	return fmt.Sprintf("%s %s %v %v %s", summary(r), r.Table, r.OldKeyLeft, r.Change, r.Row.Data)
}

// position and key read back from a delivered row.
func rowOf(t *rapid.T, r *transform.Result) (key string, position cdc.Position) {
	var got struct {
		ID       json.RawMessage `json:"id"`
		Position cdc.Position    `json:"cdc_position"`
	}
	if err := json.Unmarshal(r.Row.Data, &got); err != nil {
		t.Fatalf("row of %s: %v", r.ID, err)
	}
	return r.Row.Table.Name() + " " + string(got.ID), got.Position
}

// The laws of collapse: of a mirror's key at most one row is delivered; it is
// the one with the greatest position of those that can be delivered alone, the
// last in the batch of equal ones; every other of those is superseded; and
// what fails alone fails for the same reason in the batch.
func TestLawCollapse(t *testing.T) {
	tr := newTransformer(t, pipelineText, transform.Options{})
	rapid.Check(t, func(rt *rapid.T) {
		batch := drawRecords(rt)
		results := tr.Batch(batch)
		type best struct {
			index    int
			position cdc.Position
			written  bool // some change of the key was not a plain insert
		}
		newest := make(map[string]best)
		alone := make([]transform.Result, len(batch))
		for i := range batch {
			alone[i] = tr.Batch(batch[i : i+1])[0]
			if alone[i].Outcome != transform.Ok || !collapses(&alone[i]) {
				continue
			}
			key, position := rowOf(rt, &alone[i])
			b, seen := newest[key]
			if !seen || position >= b.position {
				b.index, b.position = i, position
			}
			b.written = b.written || alone[i].Row.Operation != cdc.Insert
			newest[key] = b
		}
		for i := range results {
			want := alone[i]
			if want.Outcome == transform.Ok && collapses(&want) {
				key, _ := rowOf(rt, &want)
				if b := newest[key]; b.index != i {
					want.Outcome, want.Reason, want.Row = transform.Dropped, transform.Superseded, transform.Row{}
				} else if b.written && want.Row.Operation == cdc.Insert {
					want.Row.Operation = cdc.Update
				}
			}
			if diff := cmp.Diff(render(&want), render(&results[i])); diff != "" {
				rt.Errorf("result %d differs (-want +got):\n%s", i, diff)
			}
		}
	})
}

func collapses(r *transform.Result) bool {
	return r.Row.Table.Mode == "mirror" && len(r.Row.Table.Key) > 0
}

// Whatever the room, the answers fit in it, or are the echoes alone; and a row
// fails for size only if it did not fit at its turn.
func TestLawRoom(t *testing.T) {
	tr := newTransformer(t, pipelineText, transform.Options{})
	rapid.Check(t, func(rt *rapid.T) {
		batch := drawRecords(rt)
		room := fixedRoom{limit: rapid.IntRange(0, 200).Draw(rt, "limit"), echo: 10, row: rapid.IntRange(5, 30).Draw(rt, "row")}
		total, echoes := 0, 10*len(batch)
		for _, r := range tr.BatchWithin(batch, room) {
			if r.Outcome == transform.Ok {
				total += room.row
			} else {
				total += room.echo
			}
			if r.Reason == transform.ResponseTooLarge && (room.row <= room.echo || room.limit >= len(batch)*room.row) {
				rt.Errorf("%s failed for size in a room of %+v", r.ID, room)
			}
		}
		if total > max(room.limit, echoes) {
			rt.Errorf("answers take %d bytes in a room of %d, echoes alone %d", total, room.limit, echoes)
		}
	})
}

// Goroutines that share a Transformer get what each would get alone.
func TestSeveralGoroutines(t *testing.T) {
	tr := newTransformer(t, pipelineText, transform.Options{})
	var batches [8][]transform.Record
	var want [8]string
	for i := range batches {
		for n := range 50 {
			batches[i] = append(batches[i], records(change("update", "log", fmt.Sprintf(`{"id":%d,"note":"%d","total":%d}`, n, i, n), n+1))...)
		}
		want[i] = renderAll(tr.Batch(batches[i]))
	}
	var group sync.WaitGroup
	for i := range batches {
		group.Go(func() {
			for range 20 {
				if got := renderAll(tr.Batch(batches[i])); got != want[i] {
					t.Errorf("batch %d differs beside others", i)
				}
			}
		})
	}
	group.Wait()
}

func renderAll(results []transform.Result) string {
	var b strings.Builder
	for i := range results {
		b.WriteString(render(&results[i]) + "\n")
	}
	return b.String()
}

// A carrier hands over records in one buffer, which it scribbles over, and
// keeps a copy of each row.
type carrier struct {
	batch  []transform.Record
	buffer []byte
	rows   []string
}

func (c *carrier) Record(i int) transform.Record {
	for j := range c.buffer {
		c.buffer[j] = '#'
	}
	r := c.batch[i]
	c.buffer = append(c.buffer[:0], r.Data...)
	r.Data = c.buffer
	return r
}

func (c *carrier) Settled(i int, r *transform.Result) {
	if i != len(c.rows) {
		panic("out of order")
	}
	c.rows = append(c.rows, string(r.Row.Data))
}

// A batch that is carried has the results of one that is whole.
func TestLawCarry(t *testing.T) {
	tr := newTransformer(t, pipelineText, transform.Options{})
	rapid.Check(t, func(rt *rapid.T) {
		batch := drawRecords(rt)
		want := tr.Batch(batch)
		c := &carrier{batch: batch}
		calls := 0
		tr.Carry(len(batch), c, nil, func(results []transform.Result) {
			calls++
			if len(results) != len(want) {
				rt.Fatalf("%d results, want %d", len(results), len(want))
			}
			for i := range results {
				got := results[i]
				if got.Row.Data != nil {
					rt.Errorf("result %d still has its row", i)
				}
				if got.Outcome == transform.Ok {
					got.Row.Data = []byte(c.rows[i])
				}
				if render(&got) != render(&want[i]) {
					rt.Errorf("result %d: %s, want %s", i, render(&got), render(&want[i]))
				}
			}
		})
		if calls != 1 {
			rt.Errorf("done was called %d times", calls)
		}
	})
}
