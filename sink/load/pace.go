package load

import (
	"context"
	"sync"
	"time"
)

// A pacer bounds how many rows several readers read in a second together.
type pacer struct {
	rate float64 // rows a second, 0 for any number
	now  func() time.Time

	mu   sync.Mutex
	free time.Time // when the rows that were let through are used up
}

func newPacer(rate float64, now func() time.Time) *pacer { return &pacer{rate: rate, now: now} }

// wait waits until n rows more may have been read. Time in which nothing was
// read is not saved up.
func (p *pacer) wait(ctx context.Context, n int64) error {
	if p.rate <= 0 || n == 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := p.now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	until := p.free.Sub(now)
	p.mu.Unlock()
	timer := time.NewTimer(until)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
