package sinktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"icehose/catalog"
	"icehose/sink"
)

// A ChaosLake is the lake of one run. It outlives the sinks that write it.
type ChaosLake struct {
	// Open opens the lake, as a process does that starts, and returns how the
	// process gives it up.
	Open func(ctx context.Context) (store sink.Store, release func() error, err error)
	// Observe returns every state that a table has been in since the last
	// call, the last one being the present; at least that one.
	Observe func(ctx context.Context, store sink.Store, def *catalog.Table) ([]Snapshot, error)
	// Meddle commits to a table as somebody else who leaves its rows and notes
	// alone, such as maintenance, and tells what of that counts as a strike. What
	// it does it draws from r.
	Meddle func(ctx context.Context, store sink.Store, def *catalog.Table, r *rand.Rand) (Tally, error)
	// Strikes are those of Meddle, which must happen too.
	Strikes []Strike
	// Disk is asked before each file of a commit is written.
	Disk *Disk
	// FlushRows bounds how many rows a sink commits at a time, from and below;
	// each session draws one.
	FlushRows [2]int
	// Remove removes the lake after the run; nil if there is nothing to do.
	Remove func() error
	// Layouts are what tables may say in the pipeline file about how they are
	// stored; each run draws one for each of its tables. Empty for the default.
	Mirrors, Changelogs []string
}

// Chaos is one run of a sink against a model. What it does depends on nothing
// but Seed and Changes, except in each fourth seed: there commits run beside
// deliveries as they do outside of tests, and come when they come.
type Chaos struct {
	Seed    uint64
	Changes int // of the source
	Lake    ChaosLake
}

// parallel says that commits run in goroutines of their own.
func (c *Chaos) parallel() bool { return c.Seed%4 == 0 }

// A Result is what a run did.
type Result struct {
	Tally   Tally
	Changes int            // of the source
	Records int            // that tell of them
	Commits map[string]int // by table
	States  int            // of tables that were compared with the model
	Strikes []Strike       // that must happen in some run
}

const chaosPipeline = `
version: 1
database: lake
source: {engine: postgresql, position: postgres}
tables:
- source: s.mirror
  mode: mirror
  key: [id, part]
  columns: [{name: id, type: long}, {name: part, type: string}, {name: v, type: string}, {name: n, type: "decimal(12,2)"}, {name: big, type: string, may_be_unchanged: true}EXTRA]
  MIRROR
- source: s.changelog
  mode: changelog
  key: [id, part]
  columns: [{name: id, type: long}, {name: part, type: string}, {name: v, type: string}, {name: n, type: "decimal(12,2)"}, {name: big, type: string, may_be_unchanged: true}EXTRA]
  CHANGELOG
- source: s.heap
  mode: mirror
  columns: [{name: v, type: string}]
- {source: s.idle, mode: mirror, key: [id], columns: [{name: id, type: long}]}
`

// A run is a Chaos that runs.
type run struct {
	mu        sync.Mutex // a sink may commit beside a call
	logging   sync.Mutex
	observing sync.Mutex // states are compared in the order in which they came
	chaos     *Chaos
	r         *rand.Rand // of the delivery
	lucks     map[string]*luck
	world     *world
	pipelines [2]*catalog.Pipeline // without and with the added column
	models    map[string]*tableModel
	delivered map[*record]bool
	horizon   time.Duration
	wildness  int  // one fault in this many chances, roughly
	quiet     bool // no faults any more
	crashes   int  // that may still happen
	states    int
	tally     Tally
	log       []string
	zombie    *session
	makers    map[string]*session // by commit id
	landed    int                 // commits that a zombie has made
	held      map[*record]bool
	indexDir  string // of all sessions of the lake
}

// Run makes a source and its stream, and delivers that: shuffled, repeated,
// with holes, cut up and merged, in several sessions, each of which starts from
// what the lake has noted and most of which end in a crash. All along the lake
// fails. At every committed state of every table its rows are those of the
// model at the offsets recorded in that state. At the end the mirror, the
// folded changelog and the keyless table hold what the source does, and a
// second run over the stream changes nothing.
//
// An error says what differs, and what happened last.
func (c *Chaos) Run(ctx context.Context) (*Result, error) {
	r, err := c.start()
	if err == nil {
		err = r.run(ctx)
		r.removeIndex()
	}
	if err != nil {
		return nil, fmt.Errorf("seed %d: %w\nbefore that:\n  %s", c.Seed, err, strings.Join(r.log, "\n  "))
	}
	result := &Result{Strikes: slices.Concat(Strikes(), c.Lake.Strikes), Tally: r.tally, Changes: c.Changes, Records: len(r.world.stream), Commits: make(map[string]int), States: r.states}
	result.Tally.Add(r.world.tally)
	for name, m := range r.models {
		result.Commits[name] = m.commits
	}
	return result, nil
}

func (c *Chaos) start() (*run, error) {
	r := &run{
		chaos: c, r: rand.New(rand.NewPCG(c.Seed, 2)), lucks: make(map[string]*luck), world: newWorld(c.Seed, c.Changes),
		models: make(map[string]*tableModel), delivered: make(map[*record]bool), tally: make(Tally), horizon: 1000 * time.Hour,
		held: make(map[*record]bool), makers: make(map[string]*session),
	}
	r.wildness, r.crashes = 1+r.r.IntN(3), 2+r.r.IntN(6)
	if r.r.IntN(2) == 0 {
		r.horizon = time.Duration(5+r.r.IntN(100)) * time.Second
	}
	draw := func(layouts []string) string {
		if len(layouts) == 0 {
			return ""
		}
		return layouts[r.r.IntN(len(layouts))]
	}
	mirror, changelog := draw(c.Lake.Mirrors), draw(c.Lake.Changelogs)
	for n, extra := range []string{"", ", {name: extra, type: string}"} {
		var err error
		text := strings.NewReplacer("EXTRA", extra, "MIRROR", mirror, "CHANGELOG", changelog).Replace(chaosPipeline)
		if r.pipelines[n], err = catalog.Parse("pipeline.yaml", []byte(text)); err != nil {
			return r, err
		}
	}
	for _, t := range r.pipelines[0].Tables {
		r.models[t.Name()] = newTableModel(t.Name())
	}
	for _, rec := range r.world.stream {
		if rec.heldBack {
			r.held[rec] = true
		}
	}
	r.trace("mirror %q, changelog %q, horizon %s, one fault in %d", mirror, changelog, r.horizon, r.wildness)
	return r, nil
}

// pipeline is the pipeline file, with the added column or without.
func (r *run) pipeline(widened bool) *catalog.Pipeline { return r.pipelines[version(widened)] }

// trace notes what happened; the last events go with an error.
func (r *run) trace(format string, args ...any) {
	r.logging.Lock()
	defer r.logging.Unlock()
	const kept = 40
	if len(r.log) >= 2*kept {
		r.log = append(r.log[:0], r.log[len(r.log)-kept:]...)
	}
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// counted counts something special.
func (r *run) counted(what Strike) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally[what]++
}

// run delivers growing parts of the stream, then all of it until that succeeds.
func (r *run) run(ctx context.Context) error {
	stream := r.world.stream
	sessions := 3 + r.r.IntN(4)
	for n := 1; n < sessions; n++ {
		upto := min(len(stream), len(stream)*n/sessions+r.r.IntN(len(stream)/sessions))
		if _, err := r.deliver(ctx, upto, false); err != nil {
			return err
		}
	}
	clear(r.held)
	for done := false; !done; {
		var err error
		if done, err = r.deliver(ctx, len(stream), true); err != nil {
			return err
		}
		// A zombie that comes first once more takes something away from the others.
		before := r.zombieCommits()
		if err := r.endZombie(); err != nil {
			return err
		}
		done = done && r.zombieCommits() == before
	}
	return r.finish(ctx)
}

// finish compares the lake with the source, and runs a second time.
func (r *run) finish(ctx context.Context) error {
	if err := r.check(ctx); err != nil {
		return err
	}
	before := make(map[string]int)
	for name, m := range r.models {
		before[name] = m.commits
	}
	r.quiet = true
	s, err := r.open(ctx, len(r.world.stream), true)
	if err != nil {
		return err
	}
	for _, rec := range r.world.stream {
		if err := s.sink.Deliver(ctx, []sink.Delivery{rec.delivery(true)}); err != nil {
			return errors.Join(fmt.Errorf("second run: %w", err), s.leave())
		}
	}
	if err := errors.Join(s.sink.Close(ctx), s.leave()); err != nil {
		return fmt.Errorf("second run: %w", err)
	}
	for name, m := range r.models {
		if m.commits != before[name] {
			return fmt.Errorf("a second run over the stream made %d commits to %s", m.commits-before[name], name)
		}
	}
	return r.check(ctx)
}

// check compares the lake with the source.
func (r *run) check(ctx context.Context) (err error) {
	store, release, err := r.chaos.Lake.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	contents := make(map[string][][]string)
	for _, t := range r.pipelines[1].Tables {
		table, err := store.OpenTable(ctx, t)
		if err != nil {
			return err
		}
		if contents[t.Name()], err = contentsOf(ctx, table, t); err != nil {
			return err
		}
	}
	keyed, heap := r.world.now(true)
	folded, err := fold(r.pipelines[1].ByTarget("lake", chaosChangelog), contents[chaosChangelog])
	if err != nil {
		return err
	}
	for i, row := range folded {
		folded[i] = row[:len(row)-1]
	}
	if diff := difference(keyed, folded); diff != "" {
		return fmt.Errorf("folded changelog (-source +lake):\n%s", diff)
	}
	unsure := make(map[string]bool) // keys of changes that came too late to tell
	for rec := range r.models[chaosMirror].rejected {
		unsure[rec.key] = true
	}
	sure := func(rows [][]string) [][]string {
		return slices.DeleteFunc(rows, func(row []string) bool { return unsure[row[0]+"\x00"+row[1]] })
	}
	if diff := difference(sure(keyed), sure(first(contents[chaosMirror], 6))); diff != "" {
		return fmt.Errorf("mirror (-source +lake):\n%s", diff)
	}
	if diff := difference(heap, first(contents[chaosHeap], 1)); diff != "" {
		return fmt.Errorf("heap (-source +lake):\n%s", diff)
	}
	return nil
}

// first returns the first texts of rows.
func first(rows [][]string, n int) [][]string {
	out := make([][]string, len(rows))
	for i := range rows {
		out[i] = rows[i][:n]
	}
	return out
}

// todo returns what a session delivers: the records of a part of the stream
// from where the lake says it stands, or from an earlier place.
func (r *run) todo(upto int, handled map[string]uint64) []*record {
	back := 0
	switch r.r.IntN(4) {
	case 0:
		back = len(r.world.stream)
		r.counted(Rewinds)
	case 1:
		back = r.r.IntN(100)
	}
	var todo []*record
	for _, rec := range r.world.stream[:upto] {
		if r.held[rec] && r.r.IntN(6) == 0 {
			delete(r.held, rec) // somebody has mended it
		}
		if rec.offset.Ordinal+uint64(back) >= handled[rec.offset.Shard] && !r.held[rec] {
			todo = append(todo, rec)
		}
	}
	return todo
}

// arrange returns records in batches: within windows in any order, some twice,
// some of long ago again.
func (r *run) arrange(todo []*record, upto int) [][]*record {
	if len(todo) == 0 {
		return nil
	}
	window := 1 + r.r.IntN(max(1, min(len(todo), 200)))
	for some := range slices.Chunk(todo, window) {
		r.r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	}
	var out []*record
	for i, rec := range todo {
		out = append(out, rec)
		if r.r.IntN(8) == 0 {
			out = append(out, todo[r.r.IntN(i+1)])
		}
		if r.r.IntN(12) == 0 {
			if old := r.world.stream[r.r.IntN(upto)]; !r.held[old] {
				out = append(out, old)
			}
		}
		if i > 0 && rec.position != "" && rec.position < todo[i-1].position {
			r.counted(OutOfOrder)
		}
	}
	var batches [][]*record
	for len(out) > 0 {
		n := 1 + r.r.IntN(min(len(out), 40))
		batches, out = append(batches, out[:n:n]), out[n:]
	}
	return batches
}

// note counts what is special about a record that is about to be delivered.
func (r *run) note(rec *record) {
	again := r.delivered[rec]
	r.delivered[rec] = true
	if again {
		r.tally[Redelivered]++
	} else if rec.heldBack {
		r.tally[HeldBack]++
	}
	m := r.models[rec.table]
	if m == nil || rec.bad {
		return
	}
	if m.holds(rec) {
		r.tally[StaleRedelivery]++
		return
	}
	if newest := m.newest[rec.key]; rec.table == chaosMirror && newest != nil && newest.position > rec.position {
		r.tally[LateChange]++
		if newest.deletes {
			r.tally[LateAfterDelete]++
		}
	}
}
