package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"icehose/catalog"
	"icehose/sink"
)

// A session is one process that writes the lake.
type session struct {
	*run
	lake      *openLake
	ctx       context.Context //nolint:containedctx // it is the process
	sink      *sink.Sink
	batches   [][]*record
	widened   bool // its pipeline file has the added column
	rejected  map[*record]bool
	cancel    context.CancelFunc
	gate      sync.RWMutex // held by what it does with the lake
	laid      sync.Mutex   // held while a fault is laid for a commit, and what is written ahead of the next must not meet it
	crashed   bool
	opening   bool     // and nobody has come first yet
	alone     bool     // it commits in its own calls or between them, and not beside them
	tasks     []func() // what runs beside its calls, and has not run yet
	calm      bool     // nothing fails
	zombified bool     // it was paused, and others took over
	struck    int      // faults so far
	excused   int      // of these: that were there when a call last failed
	landedAt  int      // commits of zombies when it began
	failed    error    // what is wrong with the sink
	scanned   bool     // its mirror was read
}

// An openLake is a lake that one or more sessions have open: a paused one holds
// the lake's lock, so that it shares the lake with its successor.
type openLake struct {
	store   sink.Store
	release func() error
	users   int
}

func (l *openLake) leave() error {
	if l.users--; l.users > 0 {
		return nil
	}
	return l.release()
}

// tries bounds how often something that fails is tried again; a run has far
// fewer faults in a row.
const tries = 40

// enter opens the lake, or joins the zombie that has it open.
func (r *run) enter(ctx context.Context) (*openLake, error) {
	if r.zombie != nil {
		r.zombie.lake.users++
		return r.zombie.lake, nil
	}
	store, release, err := r.chaos.Lake.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &openLake{store: store, release: release, users: 1}, nil
}

// open starts a process. Its context ends with it.
func (r *run) open(ctx context.Context, upto int, final bool) (*session, error) {
	for range tries {
		s := &session{run: r, rejected: make(map[*record]bool), widened: final || upto > r.world.widenedAt, landedAt: r.zombieCommits(), opening: true}
		process, cancel := context.WithCancel(ctx)
		s.ctx, s.cancel = process, cancel
		var err error
		if s.lake, err = r.enter(ctx); err != nil {
			return nil, err
		}
		flush := r.chaos.Lake.FlushRows
		options := sink.Options{
			FlushRows: flush[0] + r.r.IntN(flush[1]-flush[0]), FlushBytes: flush[1] * [...]int{0, 200, 400}[r.r.IntN(3)],
			Horizon: r.horizon, Reject: s.reject, Background: r.r.IntN(2) == 0, Beside: s.beside,
			RetryFor: time.Duration(r.r.IntN(2)) * time.Minute, Wait: func(context.Context, time.Duration) error { return nil },
		}
		r.placeIndex(&options)
		if r.chaos.parallel() {
			options.Beside = nil
		}
		s.alone = !options.Background || options.Beside != nil
		s.sink, err = sink.Open(process, r.pipeline(s.widened), &faultyStore{s}, options)
		s.opening = false
		if err == nil {
			r.trace("session opened, with the added column: %t, flush at %d rows, handled %v", s.widened, options.FlushRows, s.sink.Handled())
			s.sawIndex()
			return s, s.observeAll()
		}
		if err := s.leave(); err != nil {
			return nil, err
		}
		if s.struck == 0 {
			return nil, fmt.Errorf("open sink although nothing has struck: %w", err)
		}
	}
	return nil, errors.New("the sink does not open")
}

// leave is what the end of a process does.
func (s *session) leave() error {
	s.mu.Lock()
	s.crashed = true
	s.mu.Unlock()
	s.gate.Lock() // what it has begun ends first
	s.cancel()
	s.gate.Unlock()
	if err := s.leaveIndex(); err != nil {
		return errors.Join(err, s.lake.leave())
	}
	return s.lake.leave()
}

// reject is told of the rows that the sink does not write.
func (s *session) reject(o sink.Offset, e *sink.RejectError) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.world.shards[o.Shard][o.Ordinal]
	if err := s.world.mayReject(rec, e.Reason, s.delivered, int64(s.horizon/time.Second)); err != nil && s.failed == nil {
		s.failed = err
	}
	if e.Reason == sink.OlderThanHorizon {
		s.tally[RejectedTooOld]++
	}
	s.rejected[rec] = true
	return nil
}

// observeAll compares what a sink has found when it opened.
func (s *session) observeAll() error {
	for _, t := range s.pipeline(s.widened).Tables {
		if err := s.observe(s.ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// meddleEvery is after how many commits to a table somebody else maintains it.
const meddleEvery = 5

// meddle commits as somebody else.
func (s *session) meddle(ctx context.Context, def *catalog.Table) error {
	struck, err := s.chaos.Lake.Meddle(context.WithoutCancel(ctx), s.lake.store, def, s.luckOf(def.Name()).Rand)
	if err != nil {
		return fmt.Errorf("commit as somebody else: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.Add(struck)
	for what := range struck {
		s.trace("%s: %s", def.Name(), what)
	}
	return nil
}

// observe compares every new state of a table with the model, and lets somebody
// else maintain it now and then.
func (s *session) observe(ctx context.Context, def *catalog.Table) error {
	before := s.commitsOf(def)
	if err := s.compare(ctx, def); err != nil {
		return err
	}
	if s.commitsOf(def)/meddleEvery == before/meddleEvery {
		return nil
	}
	if err := s.meddle(ctx, def); err != nil {
		return err
	}
	return s.compare(ctx, def)
}

func (s *session) commitsOf(def *catalog.Table) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.models[def.Name()].commits
}

// compare compares every new state of a table with the model.
func (s *session) compare(ctx context.Context, def *catalog.Table) error {
	s.observing.Lock()
	defer s.observing.Unlock()
	states, err := s.chaos.Lake.Observe(context.WithoutCancel(ctx), s.lake.store, def)
	if err != nil {
		return fmt.Errorf("read lake: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.models[def.Name()]
	for i := range states {
		before, widened := m.commits, m.widened
		states[i].Name = fmt.Sprintf("%s at state %d of %d since commit %d", def.Name(), i+1, len(states), m.commits)
		maker := s.makers[states[i].Properties[sink.PropertyCommit]]
		if maker == nil {
			maker = s // nobody has committed yet
		}
		records, err := m.advance(s.world, &states[i], s.delivered, maker.rejected)
		if err != nil {
			return err
		}
		s.states++
		if m.widened && !widened && len(states[i].Rows) > 0 {
			s.tally[MovedByEvolution]++
		}
		if maker.zombified {
			s.landed += m.commits - before
		}
		if def.Name() == chaosChangelog && m.commits > before && m.commits%foldEvery == 0 {
			if err := s.compareFold(&states[i], records); err != nil {
				return err
			}
		}
	}
	return nil
}

// foldEvery says how often a changelog is folded on the way.
const foldEvery = 4

// compareFold folds the rows of a changelog as they are, holes and all.
func (r *run) compareFold(s *Snapshot, records []*record) error {
	widened := slices.Contains(s.Columns, "extra")
	got, err := fold(r.pipeline(widened).ByTarget("lake", chaosChangelog), s.Rows)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	records = slices.DeleteFunc(slices.Clone(records), func(r *record) bool { return r.table != chaosChangelog })
	if diff := difference(replay(records, widened), got); diff != "" {
		return fmt.Errorf("%s: fold (-replay of the same changes +fold):\n%s", s.Name, diff)
	}
	return nil
}

// How a session stands after a call.
var (
	errAgain = errors.New("the call may be made again")
	errEnded = errors.New("the process is gone")
)

// call calls a method of the sink. It returns nil, errAgain, errEnded, or what
// is wrong with the sink.
func (s *session) call(what string, method func(context.Context) error) error {
	err := method(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	excused := tellsNew(err) || s.struck > s.excused
	if err != nil {
		s.trace("%s: %v", what, err)
		s.excused = s.struck
	}
	switch {
	case s.failed != nil:
		return s.failed
	case s.crashed:
		return errEnded
	case err == nil:
		return nil
	case errors.Is(err, sink.ErrFenced):
		if s.landed > s.landedAt || s.zombified {
			return errEnded
		}
		return fmt.Errorf("%s: nobody else has written: %w", what, err)
	case !excused:
		return fmt.Errorf("%s fails although nothing has struck: %w", what, err)
	case !strings.Contains(err.Error(), ErrInjected.Error()):
		return fmt.Errorf("%s hides its cause: %w", what, err)
	}
	return errAgain
}

// deliver runs a session over the first records of the stream. done says that
// it has ended in peace.
func (r *run) deliver(ctx context.Context, upto int, final bool) (done bool, err error) {
	s, err := r.open(ctx, upto, final)
	if err != nil {
		return false, err
	}
	s.batches = r.arrange(r.todo(upto, s.sink.Handled()), upto)
	switch err = s.deliverAll(); {
	case err == nil && s.zombified:
		return false, nil
	case err == nil && (final || r.r.IntN(2) == 0):
		err = s.end()
		done = err == nil
	case err == nil:
		s.trace("crash between calls")
		r.counted(CrashBetween)
	}
	if errors.Is(err, errEnded) {
		err = nil
	}
	err = errors.Join(err, s.leave())
	s.count(done)
	return done, err
}

// deliverAll delivers the session's batches.
func (s *session) deliverAll() error {
	for failures := 0; len(s.batches) > 0; {
		s.step()
		err := s.deliverBatch()
		switch {
		case errors.Is(err, errAgain):
			if failures++; failures == tries {
				return errors.New("a delivery fails again and again")
			}
			s.rearrange()
			continue
		case err != nil:
			return err
		}
		failures = 0
		if s.batches = s.batches[1:]; s.r.IntN(10) == 0 {
			method, what := s.sink.Flush, "flush"
			if s.r.IntN(3) == 0 {
				method, what = s.sink.Checkpoint, "checkpoint"
			}
			if err := s.call(what, method); err != nil && !errors.Is(err, errAgain) {
				return err
			}
		}
		if s.r.IntN(6) == 0 {
			if err := s.wake(); err != nil {
				return err
			}
		}
		if s.zombie == nil && s.mayCrash() && s.r.IntN(40) == 0 {
			s.pause()
			return nil
		}
	}
	return nil
}

func (s *session) deliverBatch() error {
	deliveries := make([]sink.Delivery, len(s.batches[0]))
	s.mu.Lock()
	for i, rec := range s.batches[0] {
		s.note(rec)
		deliveries[i] = rec.delivery(s.widened)
	}
	s.mu.Unlock()
	return s.call(fmt.Sprintf("deliver %d records", len(deliveries)), func(ctx context.Context) error { return s.sink.Deliver(ctx, deliveries) })
}

// rearrange cuts up the batch that has failed, or merges it with the next, or
// lets others go first.
func (s *session) rearrange() {
	b := s.batches
	switch s.r.IntN(6) {
	case 0:
		if n := len(b[0]) / 2; n > 0 {
			s.batches = append([][]*record{b[0][:n], b[0][n:]}, b[1:]...)
			s.counted(BatchSplit)
		}
	case 1:
		if len(b) > 1 {
			s.batches = append([][]*record{slices.Concat(b[0], b[1])}, b[2:]...)
			s.counted(BatchMerged)
		}
	case 2:
		if len(b) > 1 {
			to := 1 + s.r.IntN(len(b)-1)
			s.batches = slices.Insert(slices.Clone(b[1:]), to, b[0])
			s.counted(BatchPostponed)
		}
	}
}

// end closes the sink.
func (s *session) end() error {
	for range tries {
		err := s.call("close", s.sink.Close)
		if !errors.Is(err, errAgain) {
			return err
		}
	}
	return errors.New("the sink does not close")
}

// count adds what the sink has counted, which must add up.
func (s *session) count(closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.sink.Stats() {
		done := t.Applied + t.Collapsed + t.Superseded + t.Skipped + t.Rejected
		if (done > t.Delivered || closed && done != t.Delivered) && s.failed == nil {
			s.failed = fmt.Errorf("counts of %s do not add up: %+v", t.Table, t)
		}
		s.tally[Superseded] += int(t.Superseded)
		s.tally[Collapsed] += int(t.Collapsed)
		s.tally[Skipped] += int(t.Skipped)
	}
}
