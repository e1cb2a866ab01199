package sinktest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"icehose/cdc"
)

// The tables of a chaos run. Mirror and changelog tell of the same source
// table, heap of one without key, and idle gets nothing but offsets.
const (
	chaosMirror    = "mirror"
	chaosChangelog = "changelog"
	chaosHeap      = "heap"
	chaosIdle      = "idle"
)

// A world is the modelled source: its table as it stands, and the stream of
// records that tells how it came to stand so.
type world struct {
	r       *rand.Rand
	tally   Tally
	keys    []sourceKey
	current map[sourceKey]sourceRow
	ended   map[sourceKey]bool // keys that had a row once
	heap    []string           // rows of the keyless table
	body    uint64             // of the last transaction
	tie     uint64             // of its last change
	commits bool               // the last transaction has ended
	loads   int                // records of loads so far
	running *loading           // that reads its rows while the source changes
	widened bool               // the source has its added column

	stream []*record            // in the order in which the records were made
	shards map[string][]*record // by ordinal
	// widenedAt is where in stream the first record with the added column may stand.
	widenedAt int
}

type sourceKey struct {
	id   int
	part string
}

// A sourceRow is what a key has beside its key; nil is null.
type sourceRow struct{ v, n, big, extra *string }

// A loading is a load that was announced at a floor and has not sent all its rows.
type loading struct {
	floor cdc.Body
	rows  map[sourceKey]sourceRow // as they were at the floor; nil if it reads them when it sends them
	left  []sourceKey
}

// A sourceChange is one change of the keyed table.
type sourceChange struct {
	key, oldKey sourceKey
	moved       bool // from oldKey
	row         sourceRow
	operation   cdc.Operation
	partial     bool // the changelog's row does not carry big
	position    cdc.Position
	committed   int64
}

const chaosShards = 3

func newWorld(seed uint64, changes int) *world {
	w := &world{
		r: rand.New(rand.NewPCG(seed, 1)), tally: make(Tally),
		current: make(map[sourceKey]sourceRow), ended: make(map[sourceKey]bool), shards: make(map[string][]*record),
	}
	// Few keys meet often, many fill the table.
	for n := range 4 + w.r.IntN(30) {
		w.keys = append(w.keys, sourceKey{n / 2, [...]string{"a", ""}[n%2]})
	}
	for _, k := range w.keys {
		if w.r.IntN(2) == 0 {
			w.current[k] = w.row()
		}
	}
	w.startLoad(cdc.Body{})
	widen, reloads := changes/3+w.r.IntN(changes/3), w.reloadsAt(changes)
	for n := range changes {
		if n == widen {
			w.widened, w.widenedAt = true, len(w.stream)
			w.tally[ColumnsAdded]++
		}
		if reloads[n] {
			w.finishLoad()
			// Of the next change, so that its body is often the floor itself.
			w.startLoad(cdc.Body{Hi: w.body + 1, Lo: 7})
			w.tally[Reloads]++
		}
		w.step()
		if w.running != nil && w.r.IntN(2) == 0 {
			w.sendLoad()
		}
	}
	w.finishLoad()
	return w
}

func (w *world) reloadsAt(changes int) map[int]bool {
	at := make(map[int]bool)
	for range w.r.IntN(3) {
		at[w.r.IntN(changes)] = true
	}
	return at
}

// startLoad announces a load. Half of them read one snapshot, the others read
// each row when they send it, as DMS does. The first load has the floor zero.
func (w *world) startLoad(floor cdc.Body) {
	l := &loading{floor: floor, left: slices.Clone(w.keys)}
	if floor == (cdc.Body{}) || w.r.IntN(2) == 0 {
		l.rows = maps.Clone(w.current)
	}
	w.r.Shuffle(len(l.left), func(i, j int) { l.left[i], l.left[j] = l.left[j], l.left[i] })
	w.running, w.commits = l, true
}

func (w *world) finishLoad() {
	for w.running != nil {
		w.sendLoad()
	}
}

// sendLoad sends the load's next row.
func (w *world) sendLoad() {
	l := w.running
	key := l.left[0]
	if l.left = l.left[1:]; len(l.left) == 0 {
		w.running = nil
	}
	rows := l.rows
	if rows == nil {
		rows = w.current
	}
	row, ok := rows[key]
	if !ok {
		return
	}
	w.loads++
	origin := cdc.Origin{Shard: shardOf(w.r.IntN(chaosShards)), Sequence: strconv.Itoa(1000 + w.loads)}
	position, err := cdc.LoadPosition(0, l.floor, chaosTime(int64(w.body)), origin)
	if err != nil {
		panic(err)
	}
	w.tally[Loads]++
	w.emit(&sourceChange{key: key, row: row, operation: cdc.Load, position: position, committed: -1})
}

// chaosTime is n seconds after the start of the modelled time.
func chaosTime(n int64) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Second)
}

func shardOf(n int) string { return fmt.Sprintf("shardId-%012d", n) }

// row makes a new row.
func (w *world) row() sourceRow {
	r := sourceRow{v: w.nullable(w.word()), n: w.nullable(fmt.Sprintf("%d.%02d", w.r.IntN(1000), w.r.IntN(100))), big: w.nullable(w.word())}
	if w.widened {
		r.extra = w.nullable(w.word())
	}
	return r
}

func (w *world) nullable(text string) *string {
	if w.r.IntN(5) == 0 {
		w.tally[Nulls]++
		return nil
	}
	return &text
}

func (w *world) word() string {
	letters := []rune(`abc"\é,` + "\n")
	var b strings.Builder
	for range w.r.IntN(5) {
		b.WriteRune(letters[w.r.IntN(len(letters))])
	}
	return b.String()
}

// step changes the source once and emits the records that tell of it.
func (w *world) step() {
	// A third of the changes are in the transaction of the one before.
	if w.tie++; w.r.IntN(3) > 0 || w.commits {
		w.commits = false
		w.body, w.tie = w.body+1+uint64(w.r.IntN(2)), uint64(w.r.IntN(3))
	}
	c := &sourceChange{
		key: w.keys[w.r.IntN(len(w.keys))], committed: int64(w.body),
		position: cdc.ChangePosition(0, cdc.Body{Hi: w.body, Lo: 7}, w.tie),
	}
	if w.r.IntN(50) == 0 {
		c.committed = -1
	}
	w.decide(c)
	w.emit(c)
	if w.r.IntN(3) == 0 {
		text := strconv.Itoa(len(w.heap))
		w.heap = append(w.heap, text)
		w.add(w.shard(0), &record{table: chaosHeap, position: c.position, committed: c.committed, fields: []field{{"v", &text}}})
	}
	if w.r.IntN(6) == 0 {
		w.add(w.shard(0), &record{})
	}
	if w.r.IntN(40) == 0 {
		w.addBad(c)
	}
	if w.r.IntN(25) == 0 {
		w.sendAgain()
	}
}

// decide chooses what the change does and does it.
func (w *world) decide(c *sourceChange) {
	row, held := w.current[c.key]
	switch dice := w.r.IntN(20); {
	case !held:
		c.operation, c.row = cdc.Insert, w.row()
		w.tally[Inserts]++
		if w.ended[c.key] {
			w.tally[Reinserts]++
		}
	case dice < 4:
		c.operation = cdc.Delete
		w.tally[Deletes]++
		delete(w.current, c.key)
		w.ended[c.key] = true
		return
	case dice < 7:
		c.operation, c.row = cdc.Update, w.row()
		w.tally[Updates]++
		w.move(c)
		w.leaveOut(c, row)
	case dice < 10:
		c.operation, c.row = cdc.Update, w.row()
		w.tally[Updates]++
		w.leaveOut(c, row)
	default:
		c.operation, c.row = cdc.Update, w.row()
		w.tally[Updates]++
	}
	w.current[c.key] = c.row
}

// move gives the row of a change another key, if that is free.
func (w *world) move(c *sourceChange) {
	to := w.keys[w.r.IntN(len(w.keys))]
	if _, taken := w.current[to]; taken {
		return
	}
	c.oldKey, c.key, c.moved = c.key, to, true
	delete(w.current, c.oldKey)
	w.ended[c.oldKey] = true
	w.tally[KeyChanges]++
}

// leaveOut makes a change one that did not touch big, which its record then
// does not carry. A changed key keeps it while a load reads its rows late: such
// a load may send, at its floor, the row of a later owner of the old key, and
// no fold can tell that this is not what the key change left.
func (w *world) leaveOut(c *sourceChange, old sourceRow) {
	if c.moved && w.running != nil && w.running.rows == nil {
		return
	}
	c.partial, c.row.big = true, old.big
	w.tally[PartialRows]++
}
