package reconcile

import (
	"context"
	"sync"
	"time"
)

// A gate lets so many tables be read at a time. A table that only waits gives
// its place to another.
type gate struct {
	mu     sync.Mutex
	free   int                // places
	room   int                // for suspects of tables that wait without a place
	queues [2][]chan struct{} // who wants a place, in this order
}

// The queues of a gate: a look is short, and a table that was read is told sooner.
const (
	looking = iota
	beginning
)

// ticket is closed when its holder has a place.
func (g *gate) ticket(queue int) <-chan struct{} {
	turn := make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queues[queue] = append(g.queues[queue], turn)
	g.admit()
	return turn
}

// leave gives a place back.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free++
	g.admit()
}

// admit gives free places to who wants one.
func (g *gate) admit() {
	for i := range g.queues {
		for g.free > 0 && len(g.queues[i]) > 0 {
			close(g.queues[i][0])
			g.queues[i] = g.queues[i][1:]
			g.free--
		}
	}
}

// step lets a table out that has so many suspects; it needs a place when it
// comes back. Of tables with too many suspects together only those that have a
// place may be in memory: then it keeps its own.
func (g *gate) step(suspects int) (back func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if suspects > g.room {
		return func() {}
	}
	g.room -= suspects
	g.free++
	g.admit()
	return func() {
		<-g.ticket(looking)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.room += suspects
	}
}

// waitingSuspects bounds the suspects of tables that wait without a place: some
// tens of megabytes.
const waitingSuspects = 1 << 16

// each does something with each table, those last that only wait, and returns
// when all is done.
func (g *gate) each(tables int, waits func(int) bool, do func(int)) {
	var order, last []int
	for i := range tables {
		if waits(i) {
			last = append(last, i)
		} else {
			order = append(order, i)
		}
	}
	var work sync.WaitGroup
	for _, i := range append(order, last...) {
		turn := g.ticket(beginning)
		work.Go(func() {
			<-turn
			defer g.leave()
			do(i)
		})
	}
	work.Wait()
}

// Patiently calls connect, and again for two seconds while tooMany says of its
// error that the server had no connection left to give: it counts one for a moment
// after it was closed.
func Patiently[T any](ctx context.Context, tooMany func(error) bool, connect func() (T, error)) (T, error) {
	got, err := connect()
	for tries := 0; tooMany(err) && tries < 20 && Wait(ctx, 100*time.Millisecond) == nil; tries++ {
		got, err = connect()
	}
	return got, err
}

// Wait waits with a timer, or until ctx is done; its cause is the error then. It is
// the default of Options.Wait.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
