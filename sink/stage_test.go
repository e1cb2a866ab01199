package sink_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"icehose/catalog"
	"icehose/sink"
	"icehose/sink/sinktest"
)

// A stagedLake is a lake whose commits wait until the files of the next batch
// are written, and whose files of some batches cannot be.
type stagedLake struct {
	*sinktest.Lake
	wait   bool
	staged chan string // ids of batches
	calls  atomic.Int64
	refuse func(call int64) error // nil for never
}

type stagedTable struct {
	sink.Table
	lake *stagedLake
}

func (l *stagedLake) OpenTable(ctx context.Context, def *catalog.Table) (sink.Table, error) {
	inner, err := l.Lake.OpenTable(ctx, def)
	return &stagedTable{Table: inner, lake: l}, err
}

// errAlone is what a commit says that waits in vain.
var errAlone = errors.New("nothing is written beside the commit")

func (t *stagedTable) Commit(ctx context.Context, b *sink.Batch) error {
	if t.lake.wait && b.Inserts.Len() > 0 {
		select {
		case <-t.lake.staged:
		case <-time.After(time.Minute):
			return errAlone
		}
	}
	return t.Table.Commit(ctx, b)
}

func (t *stagedTable) Stage(ctx context.Context, b *sink.Batch) error {
	call := t.lake.calls.Add(1)
	if t.lake.refuse != nil {
		if err := t.lake.refuse(call); err != nil {
			return err
		}
	}
	stager, ok := t.Table.(sink.Stager)
	if !ok {
		return errors.New("the lake cannot write ahead")
	}
	err := stager.Stage(ctx, b)
	if t.lake.wait {
		t.lake.staged <- b.ID
	}
	return err
}

// wantCalls waits until that many batches were begun ahead of their commits, which
// a call that fails does not wait for.
func (l *stagedLake) wantCalls(t *testing.T, n int64) {
	t.Helper()
	for range 60_000 {
		if l.calls.Load() >= n {
			break
		}
		<-time.After(time.Millisecond)
	}
	if got := l.calls.Load(); got != n {
		t.Fatalf("%d batches written ahead, want %d", got, n)
	}
}

func openStaged(t *testing.T, lake *stagedLake) *sink.Sink {
	t.Helper()
	s, err := sink.Open(t.Context(), pipeline(t), lake, sink.Options{Background: true, FlushRows: 3})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Files of the next commit are written while one is on its way: here none goes on
// before.
func TestFilesAreWrittenBesideACommit(t *testing.T) {
	t.Parallel()
	lake := &stagedLake{Lake: sinktest.NewLake(), wait: true, staged: make(chan string, 1)}
	s := openStaged(t, lake)
	var src source
	const commits = 4
	for n := range 3 * commits {
		if n == 3*commits-1 {
			lake.staged <- "none" // for the last one
		}
		if err := s.Deliver(t.Context(), []sink.Delivery{src.upsert(uint64(n)+1, n%5, fmt.Sprint(n))}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := lake.calls.Load(); got != commits-1 {
		t.Errorf("%d batches written beside a commit, want %d", got, commits-1)
	}
	if got := s.Stats()[0]; got.Commits != commits || got.Rows != 5 {
		t.Errorf("stats: %+v", got)
	}
}

// Files that cannot be written beside a commit are written by their own.
func TestFilesThatAreNotWrittenBesideACommit(t *testing.T) {
	t.Parallel()
	lake := &stagedLake{Lake: sinktest.NewLake(), refuse: func(call int64) error {
		if call%2 == 1 {
			return errInjected
		}
		return nil
	}}
	s := openStaged(t, lake)
	var src source
	for n := range 30 {
		if err := s.Deliver(t.Context(), []sink.Delivery{src.upsert(uint64(n)+1, n%7, fmt.Sprint(n))}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats()[0]; got.Rows != 7 || got.Commits != 10 || lake.calls.Load() != 9 {
		t.Errorf("stats: %+v, %d calls", got, lake.calls.Load())
	}
}

// A commit that fails leaves the rows of the next one in the buffer, and what was
// written of them is theirs when it is their turn.
func TestFilesWrittenBesideACommitThatFails(t *testing.T) {
	t.Parallel()
	lake := &stagedLake{Lake: sinktest.NewLake()}
	s := openStaged(t, lake)
	var src source
	var stream []sink.Delivery
	for n := range 8 {
		stream = append(stream, src.upsert(uint64(n)+1, n, fmt.Sprint(n)))
	}
	var failing atomic.Bool
	failing.Store(true)
	lake.Fault = func(step sinktest.Step, _ string) error {
		if step == sinktest.BeforeCommit && failing.Load() {
			return errInjected
		}
		return nil
	}
	failed := 0
	for n := range stream {
		if err := s.Deliver(t.Context(), stream[n:n+1]); errors.Is(err, errInjected) {
			failed++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	failing.Store(false)
	lake.wantCalls(t, 1)
	if failed == 0 {
		t.Fatal("no call failed")
	}
	if err := s.Deliver(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats()[0]; got.Rows != 8 || got.Commits != 3 {
		t.Errorf("stats: %+v", got)
	}
}

// refusedLake returns a lake and a stream, of which fail delivers two commits: the
// second cannot be prepared, after its files were begun. left is what comes next.
func refusedLake(t *testing.T) (lake *stagedLake, s *sink.Sink, stream, left []sink.Delivery) {
	t.Helper()
	lake = &stagedLake{Lake: sinktest.NewLake()}
	s = openStaged(t, lake)
	var src source
	for n := range uint64(7) {
		if n%3 == 2 {
			stream = append(stream, src.remove(n+1, 100)) // its tombstone is put together with the one before
		} else {
			stream = append(stream, src.upsert(n+1, int(n), "")) //nolint:gosec // a few
		}
	}
	return lake, s, stream, stream[6:]
}

// fail makes it so.
func (l *stagedLake) fail(t *testing.T, s *sink.Sink, stream []sink.Delivery) {
	t.Helper()
	if err := s.Deliver(t.Context(), stream[:3]); err != nil {
		t.Fatal(err)
	}
	l.Fault = func(step sinktest.Step, _ string) error {
		if step == sinktest.Reading {
			return errInjected
		}
		return nil
	}
	if err := s.Deliver(t.Context(), stream[3:6]); !errors.Is(err, errInjected) {
		t.Fatalf("a commit that reads tombstones: %v", err)
	}
	l.wantCalls(t, 1)
	l.Fault = nil
}

// wantFive closes the sink, whose table has five rows then.
func (l *stagedLake) wantFive(t *testing.T, s *sink.Sink) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	def := pipeline(t).ByTarget("lake", "item")
	if got := sinktest.Contents(t.Context(), t, l.Table("lake", "item"), def); len(got) != 5 {
		t.Errorf("rows: %v", got)
	}
}

// A commit that cannot be prepared leaves its rows in the buffer, which grows
// before it is tried again: what was written of it by then lacks a row.
func TestBufferGrowsAfterItsFilesWereWritten(t *testing.T) {
	t.Parallel()
	lake, s, stream, left := refusedLake(t)
	lake.fail(t, s, stream)
	for _, part := range [][]sink.Delivery{left, stream} {
		if err := s.Deliver(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	lake.wantFive(t, s)
}

// Nobody gets a buffer that is still being read for files which have become
// useless.
func TestBufferIsKeptWhileItsFilesAreWritten(t *testing.T) {
	t.Parallel()
	lake, s, stream, left := refusedLake(t)
	blocked := make(chan struct{})
	lake.refuse = func(call int64) error {
		if call == 1 {
			<-blocked
		}
		return nil
	}
	lake.fail(t, s, stream)
	done := make(chan error)
	go func() { done <- s.Deliver(context.WithoutCancel(t.Context()), left) }()
	var err error
	select {
	case err = <-done:
		t.Error("the buffer was committed while files of it were written")
		close(blocked)
	case <-time.After(50 * time.Millisecond):
		close(blocked)
		err = <-done
	}
	if err != nil {
		t.Fatal(err)
	}
	lake.wantFive(t, s)
}
