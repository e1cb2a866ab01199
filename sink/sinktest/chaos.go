package sinktest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"icehose/cdc"
	"icehose/sink"
)

const chaosTables = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- source: s.mirror
  mode: mirror
  key: [id]
  columns: [{name: id, type: long}, {name: v, type: string}, {name: big, type: string, may_be_unchanged: true}]
- source: s.changelog
  mode: changelog
  key: [id]
  columns: [{name: id, type: long}, {name: v, type: string}, {name: big, type: string, may_be_unchanged: true}]
- source: s.heap
  mode: mirror
  columns: [{name: v, type: string}]
- {source: s.idle, mode: mirror, key: [id], columns: [{name: id, type: long}]}
`

// Chaos is one run of the sink against a model.
type Chaos struct {
	Seed    uint64
	Changes int
	Crashes int
	// Open opens the lake, which keeps what was committed between calls, and
	// returns how to give it up again.
	Open func(t testing.TB) (store sink.Store, release func())
	// Disturb may make the lake fail while it is called with true; nil for never.
	Disturb func(on bool, r *rand.Rand)
}

// A Tally counts what struck in a run, so that a test can see that it did.
type Tally struct {
	Crashes, Errors, Duplicates, Inversions                         int
	Superseded, Collapsed, Skipped, Applied, Commits, Tombstones, N int64
}

// record is a record of the modelled stream.
type record struct {
	delivery sink.Delivery
	position cdc.Position
}

// world is the modelled source: its stream and the rows that it ends with.
type world struct {
	r       *rand.Rand
	stream  []record
	next    map[string]uint64
	current map[int][2]string // id -> v, big
	heap    map[string]bool
	body    uint64
}

const chaosKeys = 6

// Run makes a stream of changes and delivers it: shuffled, repeated, with
// holes, with commits in between, with crashes after which the source goes back
// to what the lake has noted. At the end the mirror, the folded changelog and
// the keyless table hold what the source does, and a second run over the
// stream changes nothing.
func (c *Chaos) Run(t testing.TB) Tally {
	t.Helper()
	w := &world{
		r: rand.New(rand.NewPCG(c.Seed, 1)), next: make(map[string]uint64),
		current: make(map[int][2]string), heap: make(map[string]bool),
	}
	w.load()
	for range c.Changes {
		w.change()
	}
	var tally Tally
	for range c.Crashes {
		// A part of the stream, which then ends in a crash.
		part := w.stream[:1+w.r.IntN(len(w.stream))]
		c.session(t, w, part, false, &tally)
		tally.Crashes++
	}
	c.session(t, w, w.stream, true, &tally)
	c.check(t, w)
	before := tally.Commits
	c.session(t, w, w.stream, true, &tally)
	if tally.Commits != before {
		t.Fatalf("seed %d: a second run over the stream made %d commits", c.Seed, tally.Commits-before)
	}
	c.check(t, w)
	return tally
}

// session delivers what the lake has not noted of part, in an order of its
// own. Unless finish is set it ends without Flush or Close.
func (c *Chaos) session(t testing.TB, w *world, part []record, finish bool, tally *Tally) {
	t.Helper()
	store, release := c.Open(t)
	defer release()
	options := sink.Options{
		FlushRows: 1 + w.r.IntN(20),
		Reject: func(o sink.Offset, err *sink.RejectError) {
			t.Errorf("seed %d: %s %d: %v", c.Seed, o.Shard, o.Ordinal, err)
		},
	}
	s, err := sink.Open(t.Context(), Pipeline(t, chaosTables), store, options)
	if err != nil {
		t.Fatalf("seed %d: %v", c.Seed, err)
	}
	handled := s.Handled()
	for _, batch := range w.shuffled(part, handled, tally) {
		if c.Disturb != nil {
			c.Disturb(true, w.r)
		}
		try := func(call func(context.Context) error) bool {
			err := call(t.Context())
			if err != nil {
				tally.Errors++
				if errors.Is(err, sink.ErrFenced) || errors.Is(err, sink.ErrOtherStream) {
					t.Fatalf("seed %d: %v", c.Seed, err)
				}
			}
			return err == nil
		}
		for tries := 1; !try(func(ctx context.Context) error { return s.Deliver(ctx, batch) }); tries++ {
			if tries == 500 {
				t.Fatalf("seed %d: delivery fails again and again", c.Seed)
			}
			if !finish && w.r.IntN(3) == 0 {
				break // crash in the middle
			}
		}
		if w.r.IntN(8) == 0 {
			try(s.Flush)
		}
		if c.Disturb != nil {
			c.Disturb(false, w.r)
		}
	}
	if finish {
		if err := s.Close(t.Context()); err != nil {
			t.Fatalf("seed %d: %v", c.Seed, err)
		}
	}
	for _, stats := range s.Stats() {
		c.balance(t, stats, finish)
		tally.Superseded += stats.Superseded
		tally.Collapsed += stats.Collapsed
		tally.Skipped += stats.Skipped
		tally.Applied += stats.Applied
		tally.Commits += stats.Commits
		tally.N += stats.Delivered
	}
}

func (c *Chaos) balance(t testing.TB, s sink.TableStats, finish bool) {
	t.Helper()
	done := s.Applied + s.Collapsed + s.Superseded + s.Skipped + s.Rejected
	if done > s.Delivered || finish && done != s.Delivered {
		t.Errorf("seed %d: counts of %s do not add up: %+v", c.Seed, s.Table, s)
	}
}

// shuffled returns part in batches: within windows any order, some records
// twice, some of long ago again.
func (w *world) shuffled(part []record, handled map[string]uint64, tally *Tally) [][]sink.Delivery {
	var todo []record
	rewind := w.r.IntN(3) == 0 // some sources start from the beginning instead
	for _, r := range part {
		if o := r.delivery.Offset; rewind || o.Ordinal >= handled[o.Shard] {
			todo = append(todo, r)
		}
	}
	window := 1 + w.r.IntN(len(part))
	for from := 0; from < len(todo); from += window {
		some := todo[from:min(from+window, len(todo))]
		w.r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	}
	var out []record
	for i, r := range todo {
		out = append(out, r)
		if w.r.IntN(6) == 0 {
			out = append(out, todo[w.r.IntN(i+1)])
			tally.Duplicates++
		}
		if i > 0 && r.position < todo[i-1].position {
			tally.Inversions++
		}
	}
	var batches [][]sink.Delivery
	for len(out) > 0 {
		n := 1 + w.r.IntN(min(len(out), 40))
		var batch []sink.Delivery
		for _, r := range out[:n] {
			batch = append(batch, r.delivery)
		}
		batches, out = append(batches, batch), out[n:]
	}
	return batches
}

// chaosTime is n seconds after the start of the modelled time.
func chaosTime(n uint64) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Second)
}

// load makes the rows of a first load, whose records may come after changes
// of the same rows.
func (w *world) load() {
	for id := range chaosKeys / 2 {
		row := [2]string{"loaded", w.word()}
		w.current[id] = row
		origin := cdc.Origin{Shard: shardOf(0), Sequence: strconv.Itoa(1000 + id)}
		p, err := cdc.LoadPosition(0, cdc.Body{}, chaosTime(0), origin)
		if err != nil {
			panic(err)
		}
		w.emit(change{id: id, row: row, operation: cdc.Load, position: p, oldID: -1})
	}
}

// A change is one change of the modelled table.
type change struct {
	id, oldID int // oldID is -1 unless the key changed
	row       [2]string
	operation cdc.Operation
	absent    bool // the changelog row does not carry big
	position  cdc.Position
}

func (w *world) word() string {
	const alphabet = `abc"\é,` + "\n"
	letters := []rune(alphabet)
	var b strings.Builder
	for range w.r.IntN(5) {
		b.WriteRune(letters[w.r.IntN(len(letters))])
	}
	return b.String()
}

// change changes the source and emits the records that tell of it.
func (w *world) change() {
	w.body++
	w.body += uint64(w.r.IntN(2))
	position := cdc.ChangePosition(0, cdc.Body{Hi: w.body, Lo: 7}, uint64(w.r.IntN(3)))
	id := w.r.IntN(chaosKeys)
	row, held := w.current[id]
	c := change{id: id, oldID: -1, position: position}
	switch dice := w.r.IntN(10); {
	case !held:
		c.operation, c.row = cdc.Insert, [2]string{w.word(), w.word()}
		w.current[id] = c.row
	case dice < 2:
		c.operation = cdc.Delete
		delete(w.current, id)
	case dice < 4:
		c.operation, c.row = cdc.Update, [2]string{w.word(), row[1]}
		c.absent = true
		if to := w.r.IntN(chaosKeys); to != id {
			if _, taken := w.current[to]; !taken {
				c.id, c.oldID = to, id
				delete(w.current, id)
			}
		}
		w.current[c.id] = c.row
	default:
		c.operation, c.row = cdc.Update, [2]string{w.word(), w.word()}
		w.current[id] = c.row
	}
	w.emit(c)
	if w.r.IntN(3) == 0 {
		text := strconv.FormatUint(w.body, 10)
		w.heap[text] = true
		w.deliver("heap", shardOf(w.r.IntN(3)), position, cdc.Insert, map[string]any{"v": text})
	}
	if w.r.IntN(5) == 0 {
		w.append(shardOf(w.r.IntN(3)), nil, position) // a record with nothing to write
	}
}

func shardOf(n int) string { return fmt.Sprintf("shardId-%012d", n) }

// emit writes a change to the streams of both tables, now and then twice, as a
// task that restarts does. Half of the time a key stays in its shard.
func (w *world) emit(c change) {
	for range 1 + w.r.IntN(5)/4 {
		shard := shardOf(c.id % 3)
		if w.r.IntN(2) == 0 {
			shard = shardOf(w.r.IntN(3))
		}
		w.mirror(shard, c)
		w.changelog(shard, c)
	}
}

// mirror tells of a key change as a delete and an upsert.
func (w *world) mirror(shard string, c change) {
	if c.oldID >= 0 {
		w.deliver("mirror", shard, c.position, cdc.Delete, map[string]any{"id": c.oldID, "v": nil, "big": nil})
	}
	if c.operation == cdc.Delete {
		w.deliver("mirror", shard, c.position, cdc.Delete, map[string]any{"id": c.id, "v": nil, "big": nil})
		return
	}
	w.deliver("mirror", shard, c.position, cdc.Update, map[string]any{"id": c.id, "v": c.row[0], "big": c.row[1]})
}

func (w *world) changelog(shard string, c change) {
	row := map[string]any{"id": c.id, "v": nil, "big": nil, "cdc_operation": c.operation.String(), "cdc_old_key": nil, "cdc_absent": nil}
	if c.operation != cdc.Delete {
		row["v"], row["big"] = c.row[0], c.row[1]
	}
	if c.absent {
		row["big"], row["cdc_absent"] = nil, "big"
	}
	if c.oldID >= 0 {
		row["cdc_old_key"] = fmt.Sprintf(`["%d"]`, c.oldID)
	}
	w.deliver("changelog", shard, c.position, cdc.Insert, row)
}

func (w *world) deliver(table, shard string, p cdc.Position, o cdc.Operation, row map[string]any) {
	row["cdc_position"] = p
	row["cdc_committed_at"] = chaosTime(w.body).Format("2006-01-02T15:04:05.000000Z")
	data, err := json.Marshal(row)
	if err != nil {
		panic(err)
	}
	w.append(shard, &sink.Row{Database: "lake", Table: table, Operation: o, Data: data}, p)
}

func (w *world) append(shard string, row *sink.Row, p cdc.Position) {
	n := w.next[shard]
	w.next[shard]++
	w.stream = append(w.stream, record{position: p, delivery: sink.Delivery{
		Offset: sink.Offset{Shard: shard, Sequence: strconv.FormatUint(4_000_000+7*n, 10), Ordinal: n}, Row: row,
	}})
}

// check compares the lake with the model.
func (c *Chaos) check(t testing.TB, w *world) {
	t.Helper()
	store, release := c.Open(t)
	defer release()
	p := Pipeline(t, chaosTables)
	contents := func(name string) [][]string {
		def := p.ByTarget("lake", name)
		table, err := store.OpenTable(t.Context(), def)
		if err != nil {
			t.Fatal(err)
		}
		return Contents(t.Context(), t, table, def)
	}
	var source [][]string
	for id, row := range w.current {
		source = append(source, []string{strconv.Itoa(id), row[0], row[1]})
	}
	compare(t, c.Seed, "mirror", source, first(contents("mirror"), 3))

	log := contents("changelog")
	written := 0
	for _, r := range w.stream {
		if row := r.delivery.Row; row != nil && row.Table == "changelog" {
			written++
		}
	}
	if len(log) != written {
		t.Fatalf("seed %d: changelog has %d rows of %d records", c.Seed, len(log), written)
	}
	compare(t, c.Seed, "changelog", source, fold(t, p, log))

	var heap [][]string
	for _, text := range slices.Sorted(maps.Keys(w.heap)) {
		heap = append(heap, []string{text})
	}
	compare(t, c.Seed, "heap", heap, first(contents("heap"), 1))
}

func first(rows [][]string, n int) [][]string {
	out := make([][]string, len(rows))
	for i := range rows {
		out[i] = rows[i][:n]
	}
	return out
}

func compare(t testing.TB, seed uint64, name string, want, got [][]string) {
	t.Helper()
	order := func(a, b []string) int { return cmp.Compare(strings.Join(a, "\x00"), strings.Join(b, "\x00")) }
	slices.SortFunc(want, order)
	slices.SortFunc(got, order)
	if diff := gocmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		t.Fatalf("seed %d: %s (-source +lake):\n%s", seed, name, diff)
	}
}
