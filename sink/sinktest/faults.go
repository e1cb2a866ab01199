package sinktest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"

	"icehose/catalog"
	"icehose/sink"
)

// ErrInjected is wrapped by every error that a chaos run has made up.
var ErrInjected = errors.New("injected error")

// errCrash is what a process that has crashed sees of everything.
var errCrash = fmt.Errorf("%w: crashed", ErrInjected)

// A faultyStore is the lake as one process sees it: every operation may fail,
// and every commit is compared with the model, whatever was said of it.
type faultyStore struct{ *session }

var _ sink.Store = (*faultyStore)(nil)

// OpenTable implements sink.Store.
func (s *faultyStore) OpenTable(ctx context.Context, def *catalog.Table) (sink.Table, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if err := s.read(s.luckOf("")); err != nil {
		return nil, err
	}
	inner, err := s.lake.store.OpenTable(ctx, def)
	if err != nil {
		return nil, err
	}
	return &faultyTable{faultyStore: s, inner: inner, definition: def, luck: s.luckOf(def.Name())}, nil
}

type faultyTable struct {
	*faultyStore
	inner      sink.Table
	definition *catalog.Table
	luck       *luck
}

// A luck decides about the faults of one table: a sink may commit several at a
// time, and a seed must do the same every time.
type luck struct {
	*rand.Rand
	streak int // faults since the last commit
}

// luckOf returns the luck of a table, or with "" of a store.
func (r *run) luckOf(table string) *luck {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lucks[table] == nil {
		h := fnv.New64a()
		_, _ = h.Write([]byte(table)) // never fails
		r.lucks[table] = &luck{Rand: rand.New(rand.NewPCG(r.chaos.Seed, h.Sum64()))}
	}
	return r.lucks[table]
}

var (
	_ sink.Table  = (*faultyTable)(nil)
	_ sink.Stager = (*faultyTable)(nil)
)

// read may fail or crash.
func (s *session) read(l *luck) error {
	switch {
	case s.isCrashed():
		return errCrash
	case !s.dice(l, 40):
		return nil
	case l.IntN(4) == 0 && s.mayCrash():
		return s.crash(l, CrashReading)
	}
	return s.strike(l, ReadError)
}

// Load implements sink.Table.
func (t *faultyTable) Load(ctx context.Context) (sink.State, error) {
	t.gate.RLock()
	defer t.gate.RUnlock()
	if err := t.read(t.luck); err != nil {
		return sink.State{}, err
	}
	return t.inner.Load(ctx)
}

// ReadFile implements sink.Table.
func (t *faultyTable) ReadFile(ctx context.Context, name string) ([]byte, error) {
	t.gate.RLock()
	defer t.gate.RUnlock()
	if err := t.read(t.luck); err != nil {
		return nil, err
	}
	t.overtake()
	return t.inner.ReadFile(ctx, name)
}

// overtake lets a paused writer go on while its successor reads the table, and
// has its notes already.
func (t *faultyTable) overtake() {
	if !t.opening || t.zombie == nil || t.luck.IntN(4) > 0 {
		return
	}
	before := t.zombieCommits()
	if err := t.zombie.rise(); err != nil {
		t.fail(err)
	}
	if t.zombieCommits() > before {
		t.counted(ZombieOvertook)
		t.opening = false // as a sink that opens a table gives up on one that always comes first
	}
}

// Scan implements sink.Table. It fails somewhere on its way.
func (t *faultyTable) Scan(ctx context.Context, columns []int) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		t.gate.RLock()
		defer t.gate.RUnlock()
		fail, after := t.read(t.luck), t.luck.IntN(10)
		t.scanned = t.scanned || t.definition.Name() == chaosMirror
		t.overtake()
		for row, err := range t.inner.Scan(ctx, columns) {
			if fail != nil && after == 0 {
				break
			}
			after--
			if !yield(row, err) {
				return
			}
		}
		if fail != nil {
			yield(nil, fail)
		}
	}
}

// Stage implements sink.Stager. Of what fails here the sink need not say anything.
func (t *faultyTable) Stage(ctx context.Context, b *sink.Batch) error {
	t.gate.RLock()
	defer t.gate.RUnlock()
	t.laid.Lock()
	defer t.laid.Unlock()
	inner, ok := t.inner.(sink.Stager)
	luck := t.luckOf(t.definition.Name() + " ahead") // its own: it is called beside commits
	switch {
	case t.isCrashed():
		return errCrash
	case !ok || t.calm || luck.IntN(8) == 0:
		t.counted(NotAhead)
		return fmt.Errorf("%w: nothing written ahead", ErrInjected)
	}
	if err := inner.Stage(ctx, b); err != nil {
		return err
	}
	if t.counted(Ahead); luck.IntN(8) == 0 {
		return fmt.Errorf("%w: written ahead all the same", ErrInjected)
	}
	return nil
}

// Commit implements sink.Table.
func (t *faultyTable) Commit(ctx context.Context, b *sink.Batch) error {
	t.gate.RLock()
	defer t.gate.RUnlock()
	if t.isCrashed() {
		return errCrash
	}
	t.mu.Lock()
	t.makers[b.ID] = t.session
	t.mu.Unlock()
	err := t.commit(ctx, b)
	if seen := t.observe(ctx, t.definition); seen != nil {
		t.fail(seen)
		return seen
	}
	return err
}

// commit commits, or does what a chaotic world makes of it.
func (t *faultyTable) commit(ctx context.Context, b *sink.Batch) error {
	if t.alone && t.zombie != nil && t.zombie != t.session && t.luck.IntN(4) > 0 {
		return t.betweenCommit(ctx, b)
	}
	if !t.dice(t.luck, 6) {
		return t.innerCommit(ctx, b)
	}
	switch fault := t.pickFault(); fault { //nolint:exhaustive // the faults of a commit
	case Conflict:
		return fmt.Errorf("%w: %w", sink.ErrConflict, t.strike(t.luck, fault))
	case CrashBefore:
		return t.crash(t.luck, fault)
	case AmbiguousHappened, CrashAfter:
		if err := t.innerCommit(ctx, b); err != nil {
			return err
		}
		if fault == CrashAfter {
			return t.crash(t.luck, fault)
		}
		return t.strike(t.luck, fault)
	case StorageByName, StorageAfterN, CrashMidway:
		return t.storageFault(ctx, b, fault)
	case RivalCommit:
		return t.rivalCommit(ctx, b)
	case Cancelled:
		err := t.crash(t.luck, fault)
		t.cancel()
		return errors.Join(err, t.innerCommit(ctx, b))
	default: // AmbiguousNot
		return t.strike(t.luck, fault)
	}
}

func (t *faultyTable) innerCommit(ctx context.Context, b *sink.Batch) error {
	err := t.inner.Commit(ctx, b)
	if err == nil {
		t.luck.streak = 0
	}
	return err
}

func (t *faultyTable) pickFault() Strike {
	faults := []Strike{Conflict, AmbiguousNot, AmbiguousHappened, StorageByName, StorageAfterN, RivalCommit}
	if crashes := []Strike{CrashBefore, CrashAfter, CrashMidway, Cancelled}; t.mayCrash() {
		faults = append(faults, crashes...)
	}
	return faults[t.luck.IntN(len(faults))]
}

// storageFault lets the storage fail while it commits. The commit may happen
// all the same, if the storage fails too late.
func (t *faultyTable) storageFault(ctx context.Context, b *sink.Batch, fault Strike) error {
	part, after := "", 0
	switch fault { //nolint:exhaustive // those of storage
	case CrashMidway:
		part = ".metadata.json" // what the catalog is to name, the last file of a commit
	case StorageByName:
		names := [...]string{".parquet", ".avro", ".metadata.json", "tombstones"}
		part = names[t.luck.IntN(len(names))]
	default:
		after = t.luck.IntN(8)
	}
	defer t.holdZombie()()
	t.laid.Lock()
	defer t.laid.Unlock()
	t.chaos.Lake.Disk.Arm(part, after)
	err := t.innerCommit(ctx, b)
	struck := t.chaos.Lake.Disk.Disarm()
	switch {
	case !struck:
		return err
	case fault == CrashMidway:
		return t.crash(t.luck, fault)
	}
	return errors.Join(err, t.strike(t.luck, fault))
}

// rivalCommit lets somebody else, who is no sink, commit in the middle.
func (t *faultyTable) rivalCommit(ctx context.Context, b *sink.Batch) error {
	var failed error
	defer t.holdZombie()()
	t.laid.Lock()
	defer t.laid.Unlock()
	part := [...]string{".parquet", ".avro"}[t.luck.IntN(2)] // the first file of rows, and what lists it
	t.chaos.Lake.Disk.Interrupt(part, func() { failed = t.meddle(ctx, t.definition) })
	err := t.innerCommit(ctx, b)
	if t.chaos.Lake.Disk.Disarm() {
		_ = t.strike(t.luck, RivalCommit) // what comes of it is for the lake to say
	}
	if failed != nil {
		t.fail(failed)
	}
	return err
}

// betweenCommit lets a paused writer go on when the table was read, and the first
// file of the commit is about to be written.
func (t *faultyTable) betweenCommit(ctx context.Context, b *sink.Batch) error {
	zombie := t.zombie
	zombie.gate.Lock()
	defer zombie.gate.Unlock()
	before := t.zombieCommits()
	var failed error
	t.chaos.Lake.Disk.Interrupt("", func() {
		zombie.gate.Unlock()
		defer zombie.gate.Lock()
		failed = zombie.rise()
	})
	err := t.innerCommit(ctx, b)
	t.chaos.Lake.Disk.Disarm()
	if failed != nil {
		t.fail(failed)
	}
	if t.zombieCommits() > before {
		t.counted(ZombieBetween)
	}
	return err
}

// dice falls right once in n times, and never after some faults in a row: a run
// must end.
func (s *session) dice(l *luck, n int) bool {
	return !s.calm && !s.quiet && l.streak < 4 && l.IntN(n*s.wildness) == 0
}

// strike counts a fault and returns its error.
func (s *session) strike(l *luck, fault Strike) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally[fault]++
	s.struck++
	l.streak++
	s.trace("fault: %s", fault)
	return &struckError{fault: fault}
}

// A struckError is what one fault says. It may be told of later than another
// that struck behind it: a call returns one error, and what failed beside it
// comes with the next.
type struckError struct {
	fault Strike
	told  bool // a call has failed with it
}

func (e *struckError) Error() string { return fmt.Sprintf("%v: %s", ErrInjected, e.fault) }
func (e *struckError) Unwrap() error { return ErrInjected }

// tellsNew reports whether faults are told of by an error that no call has
// failed with before, and notes them.
func tellsNew(err error) (found bool) {
	switch e := err.(type) { //nolint:errorlint // the whole tree is walked
	case *struckError:
		found, e.told = !e.told, true
	case interface{ Unwrap() error }:
		found = tellsNew(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, each := range e.Unwrap() {
			found = tellsNew(each) || found
		}
	}
	return found
}

// crash ends the process.
func (s *session) crash(l *luck, fault Strike) error {
	err := s.strike(l, fault)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crashes--
	s.crashed = true
	return err
}

func (s *session) mayCrash() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crashes > 0
}

func (s *session) isCrashed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crashed
}

// fail notes what is wrong with the sink.
func (s *session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
	}
}
